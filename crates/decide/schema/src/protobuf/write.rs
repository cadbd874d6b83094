//! Writing messages, from the JSON of objects.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{MAGIC, message_type, numbers};
use crate::types::{Scalar, Struct, Type};

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta<'j> {
    #[serde(borrow)]
    api_version: Cow<'j, str>,
    #[serde(borrow)]
    kind: Cow<'j, str>,
}

/// The protobuf form of an object, from its JSON; `None` if its kind has none.
pub fn encode(json: &[u8]) -> Option<Vec<u8>> {
    let TypeMeta { api_version, kind } = serde_json::from_slice(json).ok()?;
    let of = message_type(&api_version, &kind)?;
    let mut out = envelope(&api_version, &kind);
    nested(&mut out, 2, |out| write_message(of, json, out)).ok()?;
    Some(out)
}

/// Appends an object, from its JSON, to the items of a list; `None` if its kind has no protobuf form.
pub fn push_item(api_version: &str, kind: &str, json: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let of = message_type(api_version, kind)?;
    nested(out, 2, |out| write_message(of, json, out)).ok()
}

/// What a list begins with, before its items of `n_bytes` bytes together. `kind` is that of the list, `metadata` its JSON.
pub fn list_head(api_version: &str, kind: &str, metadata: &str, n_bytes: usize) -> Option<Vec<u8>> {
    let of = message_type("meta.k8s.io/v1", "ListMeta")?;
    let mut own = Vec::new();
    nested(&mut own, 1, |out| write_message(of, metadata.as_bytes(), out)).ok()?;
    let mut out = envelope(api_version, kind);
    tag(&mut out, 2, BYTES);
    varint(&mut out, (own.len() + n_bytes) as u64);
    out.extend_from_slice(&own);
    Some(out)
}

/// An event of a watch around an object in its protobuf form, with its length before it.
pub fn watch_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(object.len() + 32);
    bytes(&mut event, 1, event_type.as_bytes());
    nested(&mut event, 2, |out| bytes(out, 1, object));
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length[..], &event].concat()
}

fn envelope(api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    nested(&mut out, 1, |out| {
        bytes(out, 1, api_version.as_bytes());
        bytes(out, 2, kind.as_bytes());
    });
    out
}

fn write_message(of: &'static Struct, json: &[u8], out: &mut Vec<u8>) -> serde_json::Result<()> {
    Message { of, out }.deserialize(&mut serde_json::Deserializer::from_slice(json))
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(out, u64::from(number << 3 | wire_type));
}

fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    tag(out, number, BYTES);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn integer(out: &mut Vec<u8>, number: u32, value: u64) {
    tag(out, number, VARINT);
    varint(out, value);
}

/// Begins a field that is as long as what follows until [`close`]. Most are short: one byte is left for the length.
fn open(out: &mut Vec<u8>, number: u32) -> usize {
    tag(out, number, BYTES);
    out.push(0);
    out.len()
}

fn close(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    match u8::try_from(length) {
        Ok(short @ ..0x80) => out[start - 1] = short,
        _ => {
            let mut encoded = Vec::new();
            varint(&mut encoded, length as u64);
            out.splice(start - 1..start, encoded);
        }
    }
}

fn nested<R>(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let start = open(out, number);
    let result = write(out);
    close(out, start);
    result
}

/// Writes the fields of an object. Those of a newer version, without a number, are left out.
struct Message<'o> {
    of: &'static Struct,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key_seed(Name(self.of))? {
            match field {
                Some((path, ty)) => fields.next_value_seed(Field { path, ty, out: self.out })?,
                None => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The name of a field: its numbers and its type, if it has any.
struct Name(&'static Struct);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<(&'static [u32], &'static Type)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<(&'static [u32], &'static Type)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let path = numbers(&self.0.name).by_name.get(name);
        Ok(path.and_then(|path| Some((path.as_slice(), self.0.field(name)?.ty()))))
    }
}

/// Writes the value of a field; nothing for `null`.
struct Field<'o> {
    /// The number of the field, after those of the messages around it.
    path: &'o [u32],
    ty: &'static Type,
    out: &'o mut Vec<u8>,
}

impl Field<'_> {
    fn write<E: Error>(self, write: impl FnOnce(&mut Vec<u8>, u32) -> Result<(), E>) -> Result<(), E> {
        let Some((number, outer)) = self.path.split_last() else { return Ok(()) };
        let starts: Vec<usize> = outer.iter().map(|number| open(self.out, *number)).collect();
        let result = write(self.out, *number);
        starts.into_iter().rev().for_each(|start| close(self.out, start));
        result
    }

    fn number<E: Error>(self, value: i64) -> Result<(), E> {
        let Type::Scalar(scalar) = *self.ty else { return Err(E::custom("a number is out of place")) };
        self.write(|out, number| {
            match scalar {
                Scalar::Number => {
                    tag(out, number, FIXED64);
                    out.extend((value as f64).to_le_bytes());
                }
                Scalar::Quantity => nested(out, number, |out| bytes(out, 1, value.to_string().as_bytes())),
                Scalar::IntOrString => nested(out, number, |out| {
                    integer(out, 1, 0);
                    integer(out, 2, value.cast_unsigned());
                }),
                _ => integer(out, number, value.cast_unsigned()),
            }
            Ok(())
        })
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !matches!(self.ty, Type::Any) {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw == "null" {
            return Ok(());
        }
        self.write(|out, number| {
            nested(out, number, |out| bytes(out, 1, raw.as_bytes()));
            Ok(())
        })
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the type of its field")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(|out, number| {
            integer(out, number, value.into());
            Ok(())
        })
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.number(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.number(i64::try_from(value).map_err(E::custom)?)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.write(|out, number| {
            tag(out, number, FIXED64);
            out.extend(value.to_le_bytes());
            Ok(())
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let Type::Scalar(scalar) = *self.ty else { return Err(E::custom("a text is out of place")) };
        self.write(|out, number| {
            match scalar {
                Scalar::Bytes => {
                    let content =
                        base64::engine::general_purpose::STANDARD.decode(text).map_err(E::custom)?;
                    bytes(out, number, &content);
                }
                Scalar::Quantity => nested(out, number, |out| bytes(out, 1, text.as_bytes())),
                Scalar::IntOrString => nested(out, number, |out| {
                    integer(out, 1, 1);
                    bytes(out, 3, text.as_bytes());
                }),
                Scalar::Time | Scalar::MicroTime => {
                    let time: Timestamp = text.parse().map_err(E::custom)?;
                    // The nanoseconds of a time are positive, also before 1970.
                    let nanos = time.as_nanosecond();
                    nested(out, number, |out| {
                        integer(out, 1, (nanos.div_euclid(1_000_000_000) as i64).cast_unsigned());
                        integer(out, 2, nanos.rem_euclid(1_000_000_000) as u64);
                    });
                }
                _ => bytes(out, number, text.as_bytes()),
            }
            Ok(())
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Type::List { items: ty, .. } = self.ty else {
            return Err(A::Error::custom("a list is out of place"));
        };
        let ty = ty.get();
        self.write(|out, number| {
            while items.next_element_seed(Field { path: &[number], ty, out: &mut *out })?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        match self.ty {
            Type::Struct(of) => {
                self.write(|out, number| nested(out, number, |out| Message { of, out }.visit_map(entries)))
            }
            Type::Map { values, .. } => {
                let ty = values.get();
                self.write(|out, number| {
                    while let Some(key) = entries.next_key::<String>()? {
                        let entry = open(out, number);
                        bytes(out, 1, key.as_bytes());
                        // A list as a value is a message with the list as its only field.
                        let path: &[u32] = if matches!(ty, Type::List { .. }) { &[2, 1] } else { &[2] };
                        entries.next_value_seed(Field { path, ty, out: &mut *out })?;
                        close(out, entry);
                    }
                    Ok(())
                })
            }
            _ => Err(A::Error::custom("an object is out of place")),
        }
    }
}
