//! The lines of a watch: split from the stream, and decoded.

use std::borrow::Cow;

use bytes::{Buf, BytesMut};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ended::Ended;

/// A line of a watch. Objects are not read yet: [`read_object`] does.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    Added,
    Modified,
    Deleted,
    /// The resource version, and whether this ends the initial events of a streaming list.
    Bookmark {
        version: String,
        ends_initial: bool,
    },
    /// The server ends this watch.
    Error {
        code: u16,
        reason: String,
        message: String,
    },
}

/// Splits chunks into lines. Holds at most one line and one chunk.
pub(super) struct Lines {
    buffer: BytesMut,
    /// Number of bytes that are known to have no line end.
    searched: usize,
    max_line: usize,
}

impl Lines {
    pub(super) fn new(max_line: usize) -> Lines {
        Lines { buffer: BytesMut::new(), searched: 0, max_line }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line, without its end. Empty lines are skipped.
    pub(super) fn next(&mut self) -> Result<Option<BytesMut>, Ended> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return if self.searched > self.max_line { Err(too_long(self.max_line)) } else { Ok(None) };
            };
            let line = self.buffer.split_to(self.searched + end);
            self.buffer.advance(1);
            self.searched = 0;
            if line.len() > self.max_line {
                return Err(too_long(self.max_line));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

/// An object has more text than this.
pub(super) fn too_long(max_bytes: usize) -> Ended {
    Ended::Broken(format!("an object is larger than {max_bytes} bytes"))
}

/// Reads the chunks of a watch as the client does, for the fuzzer.
#[cfg(fuzzing)]
pub fn fuzz_frames(chunks: &[&[u8]]) {
    let mut lines = Lines::new(4096);
    for chunk in chunks {
        lines.push(chunk);
        while let Ok(Some(line)) = lines.next() {
            if let Ok(Frame::Added | Frame::Modified | Frame::Deleted) = decode(&line) {
                let _ = read_object::<serde_json::Value>(&line);
            }
        }
        if lines.buffer.len() > 4096 {
            return;
        }
    }
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct WatchObject<T> {
    object: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Mark {
    metadata: MarkMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MarkMeta {
    resource_version: String,
    annotations: Option<MarkAnnotations>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
}

/// The type of an event. Servers write it first, so that the object need not be parsed to find it.
fn kind(line: &[u8]) -> Result<Cow<'_, str>, serde_json::Error> {
    const START: &[u8] = br#"{"type":""#;
    if let Some(rest) = line.strip_prefix(START)
        && let Some(end) = rest.iter().take(16).position(|b| *b == b'"')
        && let Ok(kind) = std::str::from_utf8(&rest[..end])
    {
        return Ok(kind.into());
    }
    Ok(serde_json::from_slice::<Kind<'_>>(line)?.kind)
}

/// Decodes a line, but not its object.
pub(super) fn decode(line: &[u8]) -> Result<Frame, Ended> {
    match kind(line)?.as_ref() {
        "ADDED" => Ok(Frame::Added),
        "MODIFIED" => Ok(Frame::Modified),
        "DELETED" => Ok(Frame::Deleted),
        "BOOKMARK" => {
            let Mark { metadata } = read_object(line)?;
            let ends_initial =
                metadata.annotations.and_then(|a| a.initial_events_end).as_deref() == Some("true");
            Ok(Frame::Bookmark { version: metadata.resource_version, ends_initial })
        }
        "ERROR" => {
            let Status { code, reason, message } = read_object(line)?;
            Ok(Frame::Error { code, reason, message })
        }
        other => Err(Ended::Broken(format!("an event of unknown type {other:?}"))),
    }
}

/// The object of a line of a watch.
pub fn read_object<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    Ok(serde_json::from_slice::<WatchObject<T>>(line)?.object)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        let text = "{\"a\":1}\n\n{\"b\":2}\r\nrest";
        for size in 1..text.len() {
            let mut lines = Lines::new(100);
            let mut found = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                lines.push(chunk);
                while let Some(line) = lines.next().unwrap() {
                    found.push(String::from_utf8(line.to_vec()).unwrap().trim().to_owned());
                }
            }
            assert_eq!(found, ["{\"a\":1}", "{\"b\":2}"], "chunks of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_an_error_and_not_memory() {
        let mut lines = Lines::new(10);
        lines.push(b"0123456789");
        assert!(lines.next().unwrap().is_none());
        lines.push(b"x");
        assert!(lines.next().is_err());
    }

    #[test]
    fn the_type_is_found_wherever_it_stands() {
        let object = json!({"metadata": {"resourceVersion": "7", "labels": {"type": "BOOKMARK"}}});
        let first = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        let last = format!(r#"{{"object":{object}, "type" : "MODIFIED"}}"#);
        for line in [first, last] {
            assert_eq!(decode(line.as_bytes()).unwrap(), Frame::Modified, "{line}");
            assert_eq!(read_object::<Value>(line.as_bytes()).unwrap(), object, "{line}");
        }
    }

    #[test]
    fn bookmarks_errors_and_nonsense() {
        let end = br#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert_eq!(decode(end).unwrap(), Frame::Bookmark { version: "9".into(), ends_initial: true });
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        assert!(matches!(decode(gone).unwrap(), Frame::Error { code: 410, .. }));
        // An object that cannot be read is listed again; that does not help against an unknown type.
        assert!(read_object::<Value>(b"{\"type\":\"ADDED\"}").is_err());
        for line in [&b"{}"[..], b"null", b"\xff"] {
            let error = decode(line).unwrap_err();
            assert!(matches!(error, Ended::Unreadable(_)), "{:?}", String::from_utf8_lossy(line));
        }
        assert!(matches!(decode(b"{\"type\":\"ODD\",\"object\":{}}"), Err(Ended::Broken(_))));
    }
}
