//! Reading YAML: parser events to JSON values, document by document.
//!
//! The values are built from the parser's events. This keeps the line numbers of objects, gives scalars the meaning of
//! `kubectl`, and is several times faster than serde.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, Span, StrInput, Tag};

use super::document::Document;
use super::document::Each;
use super::scalar::resolve_plain;
use super::{MAX_DEPTH, MAX_EMPTY_DOCUMENTS, MAX_OBJECT_BYTES, ReadError, SourceLocation, error};

/// Limit of the data that the aliases of a text expand to, in bytes. What reads the objects may need ten times as much.
pub const MAX_ALIASED_BYTES: usize = 8 << 20;

/// Limit of the text that is parsed again because of continuation lines that had to be indented, in bytes.
const MAX_REREAD_BYTES: usize = 32 << 20;

/// Reads one document after the other.
pub(super) fn read<E: From<ReadError>>(
    text: &str,
    file: &str,
    max_aliased_bytes: usize,
    each: Each<'_, E>,
) -> Result<(), E> {
    let file: Arc<str> = file.into();
    let (mut document, mut lines_before, mut reread_bytes, mut aliased_bytes) = (0, 0, 0, 0);
    let mut n_empty = 0;
    for part in split_documents(text) {
        let mut text = Cow::Borrowed(part);
        let (mut n_handed_over, mut last_indented) = (0, 0);
        loop {
            let mut reader = Reader::new(&text, file.clone(), document, lines_before);
            reader.aliased_bytes = aliased_bytes;
            reader.max_aliased_bytes = max_aliased_bytes;
            let mut n_read = 0;
            let result = reader.documents(&mut |object| {
                n_read += 1;
                if n_read <= n_handed_over {
                    return Ok(());
                }
                n_handed_over = n_read;
                each(object)
            });
            let under_indented_line = reader.under_indented_line;
            let documents_so_far = reader.document;
            aliased_bytes = reader.aliased_bytes;
            reread_bytes += part.len();
            match under_indented_line {
                // The line is already indented, so indentation is not the problem.
                Some(line) if line > last_indented && reread_bytes <= MAX_REREAD_BYTES => {
                    text = indent_line(&text, line).into();
                    last_indented = line;
                }
                _ => {
                    result?;
                    document = documents_so_far;
                    reread_bytes -= part.len();
                    break;
                }
            }
        }
        n_empty += usize::from(n_handed_over == 0);
        if n_empty > MAX_EMPTY_DOCUMENTS {
            return Err(ReadError::EmptyDocuments { file: file.to_string() }.into());
        }
        lines_before += part.bytes().filter(|byte| *byte == b'\n').count();
    }
    Ok(())
}

/// Splits a text before each line that starts a document.
pub(super) fn split_documents(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        let end = loop {
            let Some(found) = rest[from..].find("\n---") else { break rest.len() };
            from += found + 1;
            let is_marker = rest[from + 3..].chars().next().is_none_or(char::is_whitespace);
            // Directives (`%YAML 1.1`) belong to the document after them.
            let last_line = rest[..from].trim_end().rsplit('\n').next().unwrap_or_default();
            if is_marker && !last_line.starts_with('%') {
                break from;
            }
        };
        let (document, after) = rest.split_at(end);
        rest = after;
        Some(document)
    })
}

/// Indents a continuation line of a quoted scalar. The meaning does not change, because indentation is folded.
fn indent_line(text: &str, line: usize) -> String {
    const FAR: usize = 128;
    // As the parser counts them, lines end with LF, CR LF or CR.
    let bytes = text.as_bytes();
    let ends_line = |at: &usize| match bytes[*at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    let start = (0..bytes.len()).filter(ends_line).nth(line.saturating_sub(2)).map_or(0, |at| at + 1);
    let (before, after) = text.split_at(start);
    format!("{before}{:FAR$}{after}", "")
}

struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    file: Arc<str>,
    /// Documents seen so far in the file.
    document: usize,
    /// Lines of the file before this text.
    lines_before: usize,
    /// Where the text of the current object begins, in characters.
    object_start: usize,
    anchors: HashMap<usize, Value>,
    /// Bytes kept for anchors or repeated by aliases so far.
    aliased_bytes: usize,
    max_aliased_bytes: usize,
    /// The parser stopped at a quoted scalar whose continuation line (of this text, from 1) is indented
    /// less than YAML 1.2 requires. `kubectl` accepts it, and generated manifests have such lines.
    under_indented_line: Option<usize>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, file: Arc<str>, document: usize, lines_before: usize) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        Reader {
            text,
            parser: Parser::new_from_str_with_options(text, options),
            file,
            document,
            lines_before,
            object_start: 0,
            anchors: HashMap::new(),
            aliased_bytes: 0,
            max_aliased_bytes: MAX_ALIASED_BYTES,
            under_indented_line: None,
        }
    }

    fn documents<E: From<ReadError>>(&mut self, each: Each<'_, E>) -> Result<(), E> {
        loop {
            match self.next()?.0 {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(..) => {
                    self.document += 1;
                    self.anchors.clear();
                    self.read_document(each)?;
                }
                _ => {}
            }
        }
    }

    fn read_document<E: From<ReadError>>(&mut self, each: Each<'_, E>) -> Result<(), E> {
        let (event, span) = self.next()?;
        self.object_start = span.start.index();
        let place = SourceLocation {
            file: self.file.clone(),
            document: self.document,
            item: None,
            line: Some(self.line(&span)),
        };
        if let Event::SequenceStart(..) = event {
            let mut array = Document::new(place, each);
            self.items(&mut array)?;
            return array.finish_array();
        }
        let Event::MappingStart(..) = event else {
            return match self.value(event, span, 0)? {
                Value::Null => Ok(()),
                other => Err(ReadError::NotAnObject { place, found: error::describe(&other) }.into()),
            };
        };
        let mut gathered = Document::new(place, each);
        let mut merged = Vec::new();
        while let Some(key) = self.key()? {
            let (event, span) = self.next()?;
            match event {
                _ if key.merge => merged.push(self.value(event, span, 1)?),
                _ if gathered.has_field(&key.text) => return Err(self.duplicate_key(&key).into()),
                Event::SequenceStart(_, 0, _) if gathered.expects_items(&key.text) => {
                    gathered.start_items();
                    self.items(&mut gathered)?;
                }
                event => gathered.field(key.text, self.value(event, span, 1)?),
            }
        }
        for (key, value) in merged.into_iter().flat_map(merge_sources).flatten() {
            if !gathered.has_field(&key) {
                gathered.field(key, value);
            }
        }
        gathered.finish()
    }

    fn items<E: From<ReadError>>(&mut self, document: &mut Document<'_, E>) -> Result<(), E> {
        loop {
            let (event, span) = self.next()?;
            if let Event::SequenceEnd = event {
                return Ok(());
            }
            self.object_start = span.start.index();
            let line = self.line(&span);
            let item = self.value(event, span, 2)?;
            document.item(Some(line), item)?;
        }
    }

    /// The value that starts with this event.
    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Value, ReadError> {
        let (line, column) = self.position(&span);
        if depth >= MAX_DEPTH {
            return Err(ReadError::TooDeep { file: self.file.to_string(), line, column });
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(text, style, tag.as_deref()), anchor),
            Event::SequenceStart(_, anchor, _) => (self.sequence(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(anchor) => {
                let Some(value) = self.anchors.get(&anchor).cloned() else {
                    return Err(self.syntax(&span, "an alias refers to a value that contains the alias"));
                };
                self.count_aliased(&value, &span)?;
                return Ok(value);
            }
            _ => return Err(self.syntax(&span, "a value is expected here")),
        };
        if anchor != 0 {
            self.count_aliased(&value, &span)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, ReadError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if let Event::SequenceEnd = event {
                return Ok(Value::Array(items));
            }
            items.push(self.value(event, span, depth + 1)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, ReadError> {
        let mut fields = Map::new();
        let mut merged = Vec::new();
        while let Some(key) = self.key()? {
            let (event, span) = self.next()?;
            let value = self.value(event, span, depth + 1)?;
            if key.merge {
                merged.push(value);
            } else if fields.contains_key(&key.text) {
                return Err(self.duplicate_key(&key));
            } else {
                fields.insert(key.text, value);
            }
        }
        // Explicit fields override merged ones, and earlier merges override later ones.
        for (key, value) in merged.into_iter().flat_map(merge_sources).flatten() {
            fields.entry(key).or_insert(value);
        }
        Ok(Value::Object(fields))
    }

    /// The next key of a mapping; none at its end. Keys are always text: `on:` is not `true:`.
    fn key(&mut self) -> Result<Option<Key>, ReadError> {
        let (event, span) = self.next()?;
        match event {
            Event::MappingEnd => Ok(None),
            Event::Scalar(text, style, anchor, _) => {
                if anchor != 0 {
                    let value = scalar(text.clone(), style, None);
                    self.count_aliased(&value, &span)?;
                    self.anchors.insert(anchor, value);
                }
                let merge = style == ScalarStyle::Plain && text == "<<";
                Ok(Some(Key { text: text.into_owned(), merge, span }))
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(Value::String(text)) => {
                    let text = text.clone();
                    self.count_aliased_bytes(text.len(), &span)?;
                    Ok(Some(Key { text, merge: false, span }))
                }
                _ => Err(self.syntax(&span, "a key must be a string")),
            },
            _ => Err(self.syntax(&span, "a key must be a string")),
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), ReadError> {
        match self.parser.next_event() {
            Some(Ok((_, span)))
                if span.start.index().saturating_sub(self.object_start) > MAX_OBJECT_BYTES =>
            {
                let (file, line) = (self.file.clone(), Some(self.line(&span)));
                let place = SourceLocation { file, document: self.document, item: None, line };
                Err(ReadError::LargeObject { place })
            }
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let (line, column) = (error.marker().line(), error.marker().col() + 1);
                if matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent) {
                    self.under_indented_line = Some(line);
                }
                Err(ReadError::Syntax {
                    file: self.file.to_string(),
                    line: self.lines_before + line,
                    column,
                    format: "YAML",
                    message: self.with_hint(error::shortened(&error.info())),
                })
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn line(&self, span: &Span) -> usize {
        self.lines_before + span.start.line()
    }

    fn position(&self, span: &Span) -> (usize, usize) {
        (self.line(span), span.start.col() + 1)
    }

    fn count_aliased(&mut self, value: &Value, span: &Span) -> Result<(), ReadError> {
        self.count_aliased_bytes(size(value), span)
    }

    fn count_aliased_bytes(&mut self, bytes: usize, span: &Span) -> Result<(), ReadError> {
        self.aliased_bytes = self.aliased_bytes.saturating_add(bytes);
        if self.aliased_bytes > self.max_aliased_bytes {
            let (line, column) = self.position(span);
            let limit_kib = self.max_aliased_bytes >> 10;
            return Err(ReadError::AliasBomb { file: self.file.to_string(), line, column, limit_kib });
        }
        Ok(())
    }

    fn duplicate_key(&self, key: &Key) -> ReadError {
        self.syntax(&key.span, &format!("duplicate key {:?}", error::shortened(&key.text)))
    }

    fn syntax(&self, span: &Span, message: &str) -> ReadError {
        let (line, column) = self.position(span);
        let file = self.file.to_string();
        ReadError::Syntax { file, line, column, format: "YAML", message: self.with_hint(message.to_owned()) }
    }

    /// A parser's message; with the remedy if the text is none that a parser can read.
    fn with_hint(&self, message: String) -> String {
        match self.text.contains("{{") && self.text.contains("}}") {
            true => {
                format!("{message}; this looks like a Helm template: render it first with `helm template`")
            }
            false => message,
        }
    }
}

struct Key {
    text: String,
    /// `<<`, the merge key.
    merge: bool,
    span: Span,
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let plain = match tag {
        None => style == ScalarStyle::Plain,
        Some(tag) => matches!(tag.core_suffix(), Some("int" | "float" | "bool" | "null")),
    };
    if plain { resolve_plain(&text) } else { Value::String(text.into_owned()) }
}

/// The mappings of `<<`: one, or several in an array.
fn merge_sources(value: Value) -> Vec<Map<String, Value>> {
    match value {
        Value::Object(fields) => vec![fields],
        Value::Array(values) => values.into_iter().flat_map(merge_sources).collect(),
        _ => Vec::new(),
    }
}

/// Estimate of the memory of a value, in bytes.
fn size(value: &Value) -> usize {
    const NODE: usize = 64;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| NODE + key.len() + size(value)).sum(),
        _ => 0,
    }
}
