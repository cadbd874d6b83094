//! The text of an object. Parts that many objects have in common are kept once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BufMut;

/// Shorter parts are not worth the reference.
const SHORTEST: usize = 64;
/// Parts that no object has any more are removed when there are this many, at first.
const SWEEP_AT: usize = 1024;

/// Parts that objects have in common.
#[derive(Debug, Default)]
pub struct SharedParts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    parts: HashSet<Arc<[u8]>>,
    sweep_at: usize,
}

impl SharedParts {
    fn get(&self, bytes: &[u8]) -> Arc<[u8]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = known.parts.get(bytes) {
            return part.clone();
        }
        if known.parts.len() >= known.sweep_at {
            known.parts.retain(|part| Arc::strong_count(part) > 1);
            known.sweep_at = SWEEP_AT.max(2 * known.parts.len());
        }
        let part: Arc<[u8]> = bytes.into();
        known.parts.insert(part.clone());
        part
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).parts.len()
    }
}

/// A text of own and shared parts.
#[derive(Clone, Debug, Default)]
pub struct Text {
    own: Box<[u8]>,
    /// Each with the length of the own text before it.
    shared: Box<[(u32, Arc<[u8]>)]>,
    len: u32,
}

impl Text {
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Its parts, one after the other.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.shared.iter().map(|(at, _)| *at as usize));
        let ends = self.shared.iter().map(|(at, _)| *at as usize).chain([self.own.len()]);
        let own = starts.zip(ends).map(|(start, end)| &self.own[start..end]);
        let shared = self.shared.iter().map(|(_, part)| &**part).chain([&[][..]]);
        own.zip(shared).flat_map(|(own, shared)| [own, shared]).filter(|part| !part.is_empty())
    }

    pub fn write(&self, out: &mut impl BufMut) {
        self.parts().for_each(|part| out.put_slice(part));
    }

    /// Appends the bytes between two places.
    pub fn write_range(&self, out: &mut impl BufMut, start: usize, end: usize) {
        let mut at = 0;
        for part in self.parts() {
            let within = |place: usize| place.clamp(at, at + part.len()) - at;
            out.put_slice(&part[within(start)..within(end)]);
            at += part.len();
        }
    }

    /// All bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.write(&mut bytes);
        bytes
    }

    /// What it shares with no other text.
    pub fn own_part(&self) -> &[u8] {
        &self.own
    }

    /// With bytes inserted at a place of its own part.
    pub fn insert(self, at: u32, bytes: &[u8]) -> Text {
        let (before, after) = self.own.split_at(at as usize);
        let mut shared = self.shared;
        let n_inserted = bytes.len() as u32;
        // A shared part at this very place is before it.
        shared.iter_mut().filter(|(place, _)| *place > at).for_each(|(place, _)| *place += n_inserted);
        Text { own: [before, bytes, after].concat().into(), shared, len: self.len + n_inserted }
    }

    /// The memory that only this text takes, in bytes.
    #[cfg(test)]
    pub fn own_size(&self) -> usize {
        self.own.len() + size_of_val(&*self.shared)
    }
}

/// A text that is being written.
pub struct TextWriter<'p> {
    parts: Option<&'p SharedParts>,
    written: Vec<u8>,
    /// Where shared parts begin and end.
    shared: Vec<(usize, usize)>,
}

impl<'p> TextWriter<'p> {
    /// Without `parts`, the text is not shared.
    pub fn new(parts: Option<&'p SharedParts>) -> TextWriter<'p> {
        TextWriter { parts, written: Vec::with_capacity(2048), shared: Vec::new() }
    }

    pub fn written(&mut self) -> &mut Vec<u8> {
        &mut self.written
    }

    /// How much of it is in the text's own part.
    pub fn own_len(&self) -> usize {
        self.written.len() - self.shared.iter().map(|(start, end)| end - start).sum::<usize>()
    }

    /// Objects are likely to have the text from `start` to here in common.
    pub fn share_from(&mut self, start: usize) {
        if self.parts.is_some() && self.written.len() - start >= SHORTEST {
            self.shared.push((start, self.written.len()));
        }
    }

    pub fn finish(self) -> Text {
        let own_len = self.own_len();
        let TextWriter { parts, written, shared } = self;
        let len = written.len() as u32;
        let Some(parts) = parts.filter(|_| !shared.is_empty()) else {
            return Text { own: written.into(), shared: Box::default(), len };
        };
        let mut own = Vec::with_capacity(own_len);
        let mut references = Vec::with_capacity(shared.len());
        let mut passed = 0;
        for (start, end) in shared {
            own.extend_from_slice(&written[passed..start]);
            references.push((own.len() as u32, parts.get(&written[start..end])));
            passed = end;
        }
        own.extend_from_slice(&written[passed..]);
        Text { own: own.into(), shared: references.into(), len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text with `[` and `]` around what is shared.
    fn text(parts: &SharedParts, marked: &str) -> Text {
        let mut writer = TextWriter::new(Some(parts));
        let mut start = 0;
        for c in marked.bytes() {
            match c {
                b'[' => start = writer.written().len(),
                b']' => writer.share_from(start),
                other => writer.written().push(other),
            }
        }
        writer.finish()
    }

    #[test]
    fn a_text_reads_as_it_was_written_and_equal_parts_are_kept_once() {
        let (long, other) = ("x".repeat(SHORTEST), "y".repeat(SHORTEST));
        let parts = SharedParts::default();
        for marked in [
            "",
            "a",
            "[short]",
            &format!("[{long}]"),
            &format!("a[{long}]"),
            &format!("[{long}]b[{other}][{long}]c"),
        ] {
            let text = text(&parts, marked);
            let plain = marked.replace(['[', ']'], "");
            assert_eq!((text.to_vec(), text.len()), (plain.clone().into_bytes(), plain.len()));
            for (start, end) in [(0, 0), (0, plain.len()), (plain.len() / 3, plain.len() / 2)] {
                let mut part = Vec::new();
                text.write_range(&mut part, start, end);
                assert_eq!(part, &plain.as_bytes()[start..end]);
            }
            let mut longer = plain.clone();
            longer.push('!');
            let end = text.own_part().len() as u32;
            assert_eq!(text.clone().insert(end, b"!").to_vec(), longer.into_bytes());
            if let Some(at) = plain.find('b') {
                let place = text.own_part().iter().position(|byte| *byte == b'b').unwrap();
                let longer = text.insert(place as u32, b"12");
                assert_eq!(longer.to_vec(), [&plain[..at], "12", &plain[at..]].concat().into_bytes());
                assert_eq!(longer.len(), plain.len() + 2);
            }
        }
        assert_eq!(parts.len(), 2);
    }

    #[test]
    fn parts_that_no_object_has_are_removed() {
        let parts = SharedParts::default();
        for i in 0..10 * SWEEP_AT {
            text(&parts, &format!("[{i:0>SHORTEST$}]"));
        }
        assert!(parts.len() <= 2 * SWEEP_AT, "{}", parts.len());
    }
}
