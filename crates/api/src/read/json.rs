//! Reading JSON as a stream.

use std::cell::Cell;
use std::fmt;
use std::io::{BufReader, Read};
use std::rc::Rc;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::document::Document;
use super::{MAX_OBJECT_BYTES, Manifest, ReadError, SourceLocation};

/// Reads one JSON object after the other.
pub(super) fn read<E: From<ReadError>>(
    input: impl Read,
    file: &str,
    each: &mut dyn FnMut(Manifest) -> Result<(), E>,
) -> Result<(), E> {
    let left = Rc::new(Cell::new(MAX_OBJECT_BYTES));
    let input = OfObject { input, left: left.clone() };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER_BYTES, input));
    let file: Arc<str> = file.into();
    let mut document = 0;
    while json.end().is_err() {
        document += 1;
        left.set(MAX_OBJECT_BYTES);
        let place = SourceLocation { file: file.clone(), document, item: None, line: None };
        let mut failure = None;
        let seed =
            DocumentSeed { place: place.clone(), left: &left, each: &mut *each, failure: &mut failure };
        if let Err(error) = seed.deserialize(&mut json) {
            let is_large = left.get() == 0 && error.is_io();
            let large = || ReadError::LargeObject { place: place.clone() }.into();
            return Err(failure
                .unwrap_or_else(|| if is_large { large() } else { syntax_error(&place, &error).into() }));
        }
    }
    Ok(())
}

const BUFFER_BYTES: usize = 1 << 16;

/// Reads as much as one object may have.
struct OfObject<R> {
    input: R,
    /// Bytes left for the current object. What the buffer has read ahead is not counted for the next one.
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for OfObject<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left.get() == 0 {
            return Err(std::io::Error::other("the object is too large"));
        }
        let n = self.input.read(buffer)?;
        self.left.set(self.left.get().saturating_sub(n));
        Ok(n)
    }
}

fn syntax_error(place: &SourceLocation, error: &serde_json::Error) -> ReadError {
    let file = place.file.to_string();
    if error.is_io() {
        return ReadError::Io { file, message: error.to_string() };
    }
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&position).unwrap_or(&message);
    let (line, column) = (error.line(), error.column());
    if message == "recursion limit exceeded" {
        return ReadError::TooDeep { file, line, column };
    }
    ReadError::Syntax { file, line, column, format: "JSON", message: super::error::shortened(message) }
}

struct DocumentSeed<'a, E> {
    place: SourceLocation,
    left: &'a Cell<usize>,
    each: &'a mut dyn FnMut(Manifest) -> Result<(), E>,
    /// Errors other than the parser's, passed around serde.
    failure: &'a mut Option<E>,
}

impl<'de, E: From<ReadError>> DeserializeSeed<'de> for DocumentSeed<'_, E> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<E: From<ReadError>> DocumentSeed<'_, E> {
    fn not_an_object<X: serde::de::Error>(self, found: &'static str) -> Result<(), X> {
        *self.failure = Some(ReadError::NotAnObject { place: self.place, found }.into());
        Err(X::custom(found))
    }
}

impl<'de, E: From<ReadError>> Visitor<'de> for DocumentSeed<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (left, failure) = (self.left, self.failure);
        let mut document = Document::new(self.place, self.each);
        while let Some(key) = map.next_key::<String>()? {
            if document.expects_items(&key) {
                map.next_value_seed(ItemsSeed { left, document: &mut document, failure: &mut *failure })?;
            } else {
                let value = map.next_value()?;
                document.field(key, value);
            }
        }
        around(failure, document.finish())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.not_an_object("an array")
    }
    fn visit_str<X: serde::de::Error>(self, _: &str) -> Result<(), X> {
        self.not_an_object("a string")
    }
    fn visit_bool<X: serde::de::Error>(self, _: bool) -> Result<(), X> {
        self.not_an_object("a boolean")
    }
    fn visit_u64<X: serde::de::Error>(self, _: u64) -> Result<(), X> {
        self.not_an_object("a number")
    }
    fn visit_i64<X: serde::de::Error>(self, _: i64) -> Result<(), X> {
        self.not_an_object("a number")
    }
    fn visit_f64<X: serde::de::Error>(self, _: f64) -> Result<(), X> {
        self.not_an_object("a number")
    }
    fn visit_unit<X: serde::de::Error>(self) -> Result<(), X> {
        Ok(())
    }
}

/// The value of `items`: an array is passed on item by item; another value is an ordinary field.
struct ItemsSeed<'a, 'b, E> {
    left: &'a Cell<usize>,
    document: &'a mut Document<'b, E>,
    failure: &'a mut Option<E>,
}

impl<'de, E: From<ReadError>> DeserializeSeed<'de> for ItemsSeed<'_, '_, E> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<E> ItemsSeed<'_, '_, E>
where
    E: From<ReadError>,
{
    fn field(self, value: Value) {
        self.document.field("items".to_owned(), value);
    }
}

impl<'de, E: From<ReadError>> Visitor<'de> for ItemsSeed<'_, '_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.document.start_items();
        while let Some(item) = items.next_element::<Value>()? {
            around(self.failure, self.document.item(None, item))?;
            self.left.set(MAX_OBJECT_BYTES);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let value = Value::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        self.field(value);
        Ok(())
    }
    fn visit_str<X: serde::de::Error>(self, text: &str) -> Result<(), X> {
        self.field(text.into());
        Ok(())
    }
    fn visit_bool<X: serde::de::Error>(self, value: bool) -> Result<(), X> {
        self.field(value.into());
        Ok(())
    }
    fn visit_u64<X: serde::de::Error>(self, value: u64) -> Result<(), X> {
        self.field(value.into());
        Ok(())
    }
    fn visit_i64<X: serde::de::Error>(self, value: i64) -> Result<(), X> {
        self.field(value.into());
        Ok(())
    }
    fn visit_f64<X: serde::de::Error>(self, value: f64) -> Result<(), X> {
        self.field(value.into());
        Ok(())
    }
    fn visit_unit<X: serde::de::Error>(self) -> Result<(), X> {
        self.field(Value::Null);
        Ok(())
    }
}

/// Passes an error around serde, which only has errors of its own type.
fn around<E, X: serde::de::Error>(failure: &mut Option<E>, result: Result<(), E>) -> Result<(), X> {
    result.map_err(|error| {
        *failure = Some(error);
        X::custom("stopped")
    })
}
