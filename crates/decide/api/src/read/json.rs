//! Reading JSON as a stream. Objects are parsed from a buffer that holds a whole one: the parser is twice as fast on bytes
//! as on a reader.

use std::io::Read;
use std::sync::Arc;

use memchr::{memchr_iter, memmem, memrchr};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::{Document, Each};
use super::error::shortened;
use super::items::{self, Item};
use super::{LOG, MAX_OBJECT_BYTES, ReadError, SourceLocation};

/// Reads one JSON object after the other; lines `---` may be between them, as between documents of YAML.
pub(super) fn read<E: From<ReadError>>(
    input: impl Read,
    file: &str,
    decodes_pods: bool,
    each: Each<'_, E>,
) -> Result<(), E> {
    let file: Arc<str> = file.into();
    let place = SourceLocation { file, document: 0, item: None, line: None };
    let mut text = Text {
        input,
        decodes_pods,
        n_threads: items::n_threads(),
        place,
        buffer: Vec::new(),
        at: 0,
        is_complete: false,
        n_lines: 0,
        n_columns: 0,
    };
    while text.has_document()? {
        text.place.document += 1;
        text.document(each)?;
    }
    Ok(())
}

/// What is read at once; more for an object that does not fit.
const BUFFER_BYTES: usize = 1 << 21;

struct Text<R> {
    input: R,
    /// Whether pods may come without their manifests.
    decodes_pods: bool,
    n_threads: usize,
    /// The current document.
    place: SourceLocation,
    /// What was read and not parsed, from `at`.
    buffer: Vec<u8>,
    at: usize,
    /// The input has ended.
    is_complete: bool,
    /// Line ends before the buffer, and bytes after the last of them.
    n_lines: usize,
    n_columns: usize,
}

impl<R: Read> Text<R> {
    fn document<E: From<ReadError>>(&mut self, each: Each<'_, E>) -> Result<(), E> {
        let found = match self.peek()? {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            _ => match self.value()? {
                Value::Null => return Ok(()),
                Value::String(_) => "a string",
                Value::Bool(_) => "a boolean",
                _ => "a number",
            },
        };
        let mut document = Document::new(self.place.clone(), each);
        match found {
            "an object" => {}
            "an array" => {
                self.items(&mut document)?;
                return document.finish_array();
            }
            _ => return Err(ReadError::NotAnObject { place: self.place.clone(), found }.into()),
        }
        let mut is_first = true;
        while self.has_next(std::mem::take(&mut is_first), b'}')? {
            if self.peek()? != Some(b'"') {
                return Err(self.error("key must be a string", "EOF while parsing an object").into());
            }
            let key: String = self.value()?;
            if self.peek()? != Some(b':') {
                return Err(self.error("expected `:`", "EOF while parsing an object").into());
            }
            self.at += 1;
            if self.peek()? == Some(b'[') && document.expects_items(&key) {
                document.start_items();
                self.items(&mut document)?;
            } else {
                document.field(key, self.value()?);
            }
        }
        document.finish()
    }

    fn items<E: From<ReadError>>(&mut self, document: &mut Document<'_, E>) -> Result<(), E> {
        let mut is_first = true;
        while self.has_next(std::mem::take(&mut is_first), b']')? {
            let text = &self.buffer[self.at..];
            let (items, n_bytes) = items::items(text, self.n_threads, self.decodes_pods);
            self.at += n_bytes;
            if items.is_empty() {
                document.item(None, self.value()?)?;
            }
            for item in items {
                match item {
                    Item::Value(value) => document.item(None, value)?,
                    Item::Pod(pod) => document.pod(pod)?,
                }
            }
        }
        Ok(())
    }

    /// Whether another document follows: passes separators, and the logs that `kubectl cluster-info dump` writes between documents.
    fn has_document(&mut self) -> Result<bool, ReadError> {
        loop {
            let (begin, end): (&[u8], &[u8]) = match self.peek()? {
                Some(b'-') => (b"---", b""),
                Some(b'=') => (LOG[0].as_bytes(), LOG[1].as_bytes()),
                next => return Ok(next.is_some()),
            };
            while self.buffer.len() - self.at < begin.len() && !self.is_complete {
                self.fill()?;
            }
            if !self.buffer[self.at..].starts_with(begin) {
                return Ok(true);
            }
            self.at += begin.len();
            if !end.is_empty() {
                self.skip_past(end)?;
                self.skip_past(b"\n")?;
            }
        }
    }

    /// Passes a text up to and with a mark, or to its end.
    fn skip_past(&mut self, mark: &[u8]) -> Result<(), ReadError> {
        loop {
            if let Some(at) = memmem::find(&self.buffer[self.at..], mark) {
                self.at += at + mark.len();
                return Ok(());
            }
            if self.is_complete {
                self.at = self.buffer.len();
                return Ok(());
            }
            self.at = self.at.max(self.buffer.len().saturating_sub(mark.len() - 1));
            self.fill()?;
        }
    }

    /// Whether an object or array goes on: passes its opening bracket or the comma, or its closing bracket.
    fn has_next(&mut self, is_first: bool, close: u8) -> Result<bool, ReadError> {
        let (expected, eof) = match close {
            b']' => ("expected `,` or `]`", "EOF while parsing a list"),
            _ => ("expected `,` or `}`", "EOF while parsing an object"),
        };
        match self.peek()? {
            Some(byte) if byte == close && !is_first => {
                self.at += 1;
                return Ok(false);
            }
            Some(_) if is_first => {}
            Some(b',') => {}
            _ => return Err(self.error(expected, eof)),
        }
        self.at += 1;
        match self.peek()? {
            Some(byte) if byte == close && is_first => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == close => Err(self.error("trailing comma", eof)),
            Some(_) => Ok(true),
            None => Err(self.error(expected, eof)),
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            let rest = &self.buffer[self.at..];
            match rest.iter().position(|byte| !b" \t\n\r".contains(byte)) {
                Some(n) => {
                    self.at += n;
                    return Ok(self.buffer.get(self.at).copied());
                }
                None if self.is_complete => {
                    self.at = self.buffer.len();
                    return Ok(None);
                }
                None => {
                    self.at = self.buffer.len();
                    self.fill()?;
                }
            }
        }
    }

    fn value<T: DeserializeOwned>(&mut self) -> Result<T, ReadError> {
        loop {
            let mut values = serde_json::Deserializer::from_slice(&self.buffer[self.at..]).into_iter();
            let value = values.next();
            let end = self.at + values.byte_offset();
            match value {
                // A number may go on.
                Some(Ok(value)) if end < self.buffer.len() || self.is_complete => {
                    self.at = end;
                    return Ok(value);
                }
                Some(Err(error)) if self.is_complete || !error.is_eof() => {
                    return Err(self.syntax_error(&error));
                }
                None if self.is_complete => return Err(self.error("", "EOF while parsing a value")),
                _ => self.fill()?,
            }
        }
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        (self.n_lines, self.n_columns) = self.position();
        self.buffer.drain(..self.at);
        self.at = 0;
        if self.buffer.len() > MAX_OBJECT_BYTES {
            return Err(ReadError::LargeObject { place: self.place.clone() });
        }
        let n_wanted = self.buffer.len().max(BUFFER_BYTES) as u64;
        let n_read = self.input.by_ref().take(n_wanted).read_to_end(&mut self.buffer);
        let io_error = |error: std::io::Error| ReadError::Io {
            file: self.place.file.to_string(),
            message: error.to_string(),
        };
        self.is_complete = n_read.map_err(io_error)? == 0;
        Ok(())
    }

    /// Line ends before the next byte, and bytes after the last of them.
    fn position(&self) -> (usize, usize) {
        let parsed = &self.buffer[..self.at];
        match memrchr(b'\n', parsed) {
            Some(last) => (self.n_lines + memchr_iter(b'\n', parsed).count(), self.at - last - 1),
            None => (self.n_lines, self.n_columns + self.at),
        }
    }

    /// An error at the next byte, or at the end of the text.
    fn error(&self, message: &str, at_end: &str) -> ReadError {
        let (line, column) = self.position();
        let is_at_end = self.at == self.buffer.len();
        let (column, message) = if is_at_end { (column, at_end) } else { (column + 1, message) };
        let file = self.place.file.to_string();
        ReadError::Syntax { file, line: line + 1, column, format: "JSON", message: message.to_owned() }
    }

    fn syntax_error(&self, error: &serde_json::Error) -> ReadError {
        let file = self.place.file.to_string();
        let (n_lines, n_columns) = self.position();
        let line = n_lines + error.line().max(1);
        let column = if error.line() > 1 { error.column() } else { n_columns + error.column() };
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let message = message.strip_suffix(&position).unwrap_or(&message);
        if message == "recursion limit exceeded" {
            return ReadError::TooDeep { file, line, column };
        }
        ReadError::Syntax { file, line, column, format: "JSON", message: shortened(message) }
    }
}
