//! Parses an object for its row: without its managed fields, often half of it, which no column shows.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Parses an object without `metadata.managedFields`.
///
/// # Errors
/// The text is not a JSON object.
pub fn parse(json: &[u8]) -> Result<Value, serde_json::Error> {
    Part::Object.deserialize(&mut serde_json::Deserializer::from_slice(json))
}

#[derive(Clone, Copy)]
enum Part {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = match (self, name.as_str()) {
                (Part::Object, "metadata") => fields.next_value_seed(Part::Metadata)?,
                (Part::Metadata, "managedFields") => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => fields.next_value()?,
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
