//! Short forms of names, counts and durations.

use std::time::Duration;

pub use berth_console::names::{abbreviated, counted, grouped};

/// `23 ms`, `1.4 s`.
pub fn elapsed(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_are_in_seconds() {
        assert_eq!([23, 1_449].map(|ms| elapsed(Duration::from_millis(ms))), ["23 ms", "1.4 s"]);
    }
}
