//! JSON parser that reports duplicate fields; the last value of a field wins.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Fields beyond this many are not reported.
const MAX_REPORTED: usize = 100;
/// Duplicate fields are looked up by their paths until the paths have this many bytes together.
const MAX_PATH_BYTES: usize = 1 << 20;

/// The parsed value and the paths of duplicate fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub value: Value,
    /// Paths of duplicate fields, such as `spec.containers[0].image`, each once, in order.
    pub duplicates: Vec<String>,
}

/// Reads a JSON text.
///
/// # Errors
/// The text is not JSON.
pub fn parse(text: &[u8]) -> Result<Parsed, serde_json::Error> {
    let found = RefCell::new(Duplicates::default());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Reader { path: None, found: &found }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Parsed { value, duplicates: found.into_inner().paths })
}

#[derive(Default)]
struct Duplicates {
    paths: Vec<String>,
    bytes: usize,
}

/// A position in the document, as a path from the inside out.
#[derive(Clone, Copy)]
struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Field(&'p str),
    Item(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Field(name) => f.write_str(name),
            Step::Item(index) => write!(f, "[{index}]"),
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'p> {
    path: Option<&'p Path<'p>>,
    found: &'p RefCell<Duplicates>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path { parent: self.path, step: Step::Item(list.len()) };
            match items.next_element_seed(Reader { path: Some(&path), found: self.found })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = Path { parent: self.path, step: Step::Field(&name) };
            let value = fields.next_value_seed(Reader { path: Some(&path), found: self.found })?;
            match map.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    self.note(&Path { parent: self.path, step: Step::Field(entry.key()) });
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

impl Reader<'_> {
    fn note(&self, path: &Path<'_>) {
        let mut found = self.found.borrow_mut();
        if found.paths.len() >= MAX_REPORTED || found.bytes >= MAX_PATH_BYTES {
            return;
        }
        let path = path.to_string();
        found.bytes += path.len();
        if !found.paths.contains(&path) {
            found.paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_duplicate_field_wins_and_all_are_reported() {
        let text = br#"{"a": 1, "b": [{"c": 1, "c": {"d": -2.5, "d": null}}, "x"], "a": 18446744073709551615, "a": true}"#;
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.value, json!({"a": true, "b": [{"c": {"d": null}}, "x"]}));
        assert_eq!(parsed.duplicates, ["b[0].c.d", "b[0].c", "a"]);
        for text in ["{\"a\": 1, \"b\": [1.5e3, -7, \"\\u00e9\"]}", "[]", "null", "3"] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), Parsed { value: plain, duplicates: Vec::new() });
        }
        for text in ["{\"a\": 1} x", "{", "", &"[".repeat(1000)] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
