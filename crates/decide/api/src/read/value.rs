//! Types from JSON values, with errors that know the path of their field.
//!
//! The crate `serde_path_to_error` has the path as well. It wraps the reader of each type, and so each type was compiled three
//! times: half of the code of `api`, and a quarter of that of the binary.

use std::fmt::{self, Display};

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Number, Value, map};

use super::error::shortened;
use super::fields::suggestion;

/// Reads a type from a value.
///
/// # Errors
/// The first field with a wrong type.
pub fn from_value<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ValueError> {
    T::deserialize(ValueReader { value, is_strict: false })
}

/// Reads a type from a value that has no other fields than the type, at any depth.
///
/// # Errors
/// The first field with a wrong type, or that the type does not have.
pub fn from_value_strictly<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ValueError> {
    T::deserialize(ValueReader { value, is_strict: true })
}

/// Reads a type from JSON text.
///
/// # Errors
/// The text is not JSON, or a field has a wrong type.
pub fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(text).map_err(|error| {
        // The path costs a second reading, and only errors need it.
        let wrong =
            serde_json::from_slice::<Value>(text).ok().and_then(|value| from_value::<T>(&value).err());
        JsonError { path: wrong.map(|wrong| wrong.path()).unwrap_or_default(), error }
    })
}

/// JSON text that cannot be read as a type.
#[derive(Debug)]
pub struct JsonError {
    /// The path of the field with a wrong type; empty for text that is not JSON.
    pub path: String,
    /// The error.
    pub error: serde_json::Error,
}

/// What the message about a field begins with that is not known.
const UNKNOWN: &str = "unknown field";

/// A field with a wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    /// From the field outwards: an error collects its path on its way up, so that values without errors pay nothing.
    path: Vec<Segment>,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

impl ValueError {
    /// The path as Kubernetes writes it: `spec.containers[0].name`, `metadata.labels[app.kubernetes.io/name]`; empty
    /// for the value itself.
    pub fn path(&self) -> String {
        self.path_below("")
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The path with `prefix`, such as `spec.template`, before it.
    pub fn path_below(&self, prefix: &str) -> String {
        let mut path = prefix.to_owned();
        for segment in self.0.path.iter().rev() {
            match segment {
                Segment::Index(index) => path.push_str(&format!("[{index}]")),
                Segment::Key(key) if key.contains(['.', '/']) => path.push_str(&format!("[{key}]")),
                Segment::Key(key) if path.is_empty() => path.push_str(key),
                Segment::Key(key) => path.push_str(&format!(".{key}")),
            }
        }
        path
    }

    pub(super) fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.path.iter().rev().try_fold(value, |value, segment| match segment {
            Segment::Index(index) => value.get(index),
            Segment::Key(key) => value.get(key),
        })
    }

    /// Removes the field that is not known; `false` if something else is wrong.
    pub fn remove_unknown(&self, value: &mut Value) -> bool {
        let Some((Segment::Key(name), parents)) = self.0.path.split_first() else { return false };
        let parent = parents.iter().rev().try_fold(value, |value, segment| match segment {
            Segment::Index(index) => value.get_mut(index),
            Segment::Key(key) => value.get_mut(key),
        });
        let fields = parent.and_then(Value::as_object_mut).filter(|_| self.0.message.starts_with(UNKNOWN));
        fields.is_some_and(|fields| fields.remove(name).is_some())
    }

    #[cold]
    fn at(mut self, segment: Segment) -> ValueError {
        self.0.path.push(segment);
        self
    }
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ValueError {}

impl serde::de::Error for ValueError {
    fn custom<T: Display>(message: T) -> ValueError {
        ValueError(Box::new(Inner { path: Vec::new(), message: message.to_string() }))
    }
}

#[derive(Clone, Copy)]
struct ValueReader<'de> {
    value: &'de Value,
    /// Whether fields that a type does not have are errors.
    is_strict: bool,
}

impl<'de> ValueReader<'de> {
    /// A value within this one.
    fn within(self, value: &'de Value) -> ValueReader<'de> {
        ValueReader { value, ..self }
    }

    fn list<V: Visitor<'de>>(self, items: &'de [Value], visitor: V) -> Result<V::Value, ValueError> {
        let mut rest = Items { items, index: 0, reader: self };
        let value = visitor.visit_seq(&mut rest)?;
        if rest.index < items.len() {
            return Err(ValueError::invalid_length(items.len(), &"fewer elements in array"));
        }
        Ok(value)
    }

    fn fields(self, fields: &'de Map<String, Value>) -> Fields<'de> {
        Fields { fields: fields.iter(), last: None, reader: self }
    }

    #[cold]
    fn wrong_type(self, expected: &dyn Expected) -> ValueError {
        let found = match self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => Unexpected::Unsigned(value),
                (None, Some(value)) => Unexpected::Signed(value),
                (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        ValueError::invalid_type(found, expected)
    }
}

fn number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, ValueError> {
    match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => visitor.visit_u64(value),
        (None, Some(value)) => visitor.visit_i64(value),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
    }
}

/// What a visitor takes of one or two kinds of values; all others have the wrong type.
macro_rules! only {
    ($($deserialize:ident: $($pattern:pat => $visit:expr),+;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            match self.value {
                $($pattern => $visit(self, visitor),)+
                _ => Err(self.wrong_type(&visitor)),
            }
        }
    )*};
}

macro_rules! numbers {
    ($($deserialize:ident)*) => { only! { $($deserialize: Value::Number(value) => |_, v| number(value, v);)* } };
}

impl<'de> Deserializer<'de> for ValueReader<'de> {
    type Error = ValueError;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    only! {
        deserialize_bool: Value::Bool(value) => |_, v: V| v.visit_bool(*value);
        deserialize_str: Value::String(text) => |_, v: V| v.visit_borrowed_str(text);
        deserialize_string: Value::String(text) => |_, v: V| v.visit_borrowed_str(text);
        deserialize_seq: Value::Array(items) => |reader: Self, v| reader.list(items, v);
        deserialize_map: Value::Object(fields) => |reader: Self, v: V| v.visit_map(reader.fields(fields));
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(value) => number(value, visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => self.list(items, visitor),
            Value::Object(fields) => visitor.visit_map(self.fields(fields)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        if let Value::Object(fields) = self.value
            && let Some(name) = fields.keys().find(|name| self.is_strict && !known.contains(&name.as_str()))
        {
            let error = ValueError::custom(format!("{UNKNOWN}; {}", suggestion(name, known)));
            return Err(error.at(Segment::Key(shortened(name))));
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let variant = |name, value| Variant { name, reader: self.within(value) };
        match self.value {
            Value::String(name) => visitor.visit_enum(variant(name, &Value::Null)),
            Value::Object(fields) if fields.len() == 1 => match fields.iter().next() {
                Some((name, value)) => visitor.visit_enum(variant(name, value)),
                None => Err(self.wrong_type(&visitor)),
            },
            _ => Err(self.wrong_type(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { char bytes byte_buf unit unit_struct tuple tuple_struct identifier }
}

struct Items<'de> {
    items: &'de [Value],
    index: usize,
    reader: ValueReader<'de>,
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        let Some(item) = self.items.get(self.index) else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        let reader = self.reader.within(item);
        seed.deserialize(reader).map(Some).map_err(|error| error.at(Segment::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.index)
    }
}

struct Fields<'de> {
    fields: map::Iter<'de>,
    last: Option<(&'de str, &'de Value)>,
    reader: ValueReader<'de>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ValueError> {
        let Some((key, value)) = self.fields.next() else { return Ok(None) };
        self.last = Some((key, value));
        let read = seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some);
        read.map_err(|error: ValueError| error.at(Segment::Key(key.clone())))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ValueError> {
        let Some((key, value)) = self.last.take() else {
            return Err(ValueError::custom("a value was read before its key"));
        };
        let reader = self.reader.within(value);
        seed.deserialize(reader).map_err(|error| error.at(Segment::Key(key.to_owned())))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

struct Variant<'de> {
    name: &'de str,
    reader: ValueReader<'de>,
}

impl<'de> Variant<'de> {
    fn read<T>(&self, read: impl FnOnce(ValueReader<'de>) -> Result<T, ValueError>) -> Result<T, ValueError> {
        read(self.reader).map_err(|error| error.at(Segment::Key(self.name.to_owned())))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ValueError;
    type Variant = Variant<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Variant<'de>), ValueError> {
        Ok((seed.deserialize(BorrowedStrDeserializer::<ValueError>::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = ValueError;

    fn unit_variant(self) -> Result<(), ValueError> {
        self.read(Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ValueError> {
        self.read(|value| seed.deserialize(value))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _n: usize, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| value.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.read(|value| value.deserialize_map(visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Shape {
        Point,
        Circle { radius: f64 },
        Named(String),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Drawing {
        shapes: Vec<Shape>,
        #[serde(default)]
        labels: BTreeMap<String, Option<i32>>,
        size: (u8, u8),
    }

    #[test]
    fn reads_what_serde_json_reads() {
        let shapes = json!(["point", {"circle": {"radius": 1.5}}, {"named": "a"}]);
        let value = json!({"shapes": shapes, "labels": {"a": -1, "b": null}, "size": [1, 2], "unknown": {}});
        let read = from_value::<Drawing>(&value);
        assert_eq!(read, Ok(serde_json::from_value(value).unwrap()));
    }

    #[test]
    fn errors_name_the_path() {
        let read = |shapes: Value, labels: Value, size: Value| {
            from_value::<Drawing>(&json!({"shapes": shapes, "labels": labels, "size": size}))
                .unwrap_err()
                .to_string()
        };
        let cases = [
            (read(json!({}), json!({}), json!([1, 2])), "shapes: invalid type: map, expected a sequence"),
            (
                read(json!([{"circle": {"radius": "r"}}]), json!({}), json!([1, 2])),
                "shapes[0].circle.radius: invalid type: string \"r\", expected f64",
            ),
            (
                read(json!(["point", {"named": 7}]), json!({}), json!([1, 2])),
                "shapes[1].named: invalid type: integer `7`, expected a string",
            ),
            (
                read(json!([]), json!({"example.com/a": "x"}), json!([1, 2])),
                "labels[example.com/a]: invalid type: string \"x\", expected i32",
            ),
            (
                read(json!([]), json!({}), json!([1, 2, 3])),
                "size: invalid length 3, expected fewer elements in array",
            ),
            (
                read(json!([]), json!({}), json!([1, 256])),
                "size[1]: invalid value: integer `256`, expected u8",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error, expected);
        }
        let error = from_value::<Drawing>(&json!([])).unwrap_err();
        assert_eq!(error.to_string(), "invalid type: sequence, expected struct Drawing");
        assert_eq!(error.path(), "");
    }
}
