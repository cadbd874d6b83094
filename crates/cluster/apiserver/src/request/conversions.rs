//! Counts conversions of objects in tests: each takes time and memory in proportion to the object.

#[cfg(test)]
thread_local! {
    /// How often this thread has read an object from a body or into a type, or has written the text of a pod.
    pub static CONVERSIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

pub fn note_conversion() {
    #[cfg(test)]
    CONVERSIONS.set(CONVERSIONS.get() + 1);
}
