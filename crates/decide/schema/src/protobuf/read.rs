//! Reading messages.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::error::ProtobufError;
use super::wire::{Reader, Wire};
use super::{MAGIC, Place, Places, message_type, numbers};
use crate::types::{Scalar, Struct, Type};

/// Decodes an object into JSON.
///
/// # Errors
/// The bytes are not an object of a known kind.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let message = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoEnvelope)?;
    let (mut kind, mut api_version, mut raw) = (String::new(), String::new(), &[][..]);
    let mut envelope = Reader::new(message);
    while let Some((number, value)) = envelope.next_field()? {
        match (number, value) {
            (1, Wire::Bytes(meta)) => {
                let mut meta = Reader::new(meta);
                while let Some((number, value)) = meta.next_field()? {
                    match number {
                        1 => api_version = value.text()?.to_owned(),
                        2 => kind = value.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(object)) => raw = object,
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                return Err(ProtobufError::Malformed("the envelope's content is encoded"));
            }
            _ => {}
        }
    }
    let Some(of) = message_type(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    read_fields(of, &numbers(&of.name).by_number, raw, &mut object)?;
    Ok(Value::Object(object))
}

fn read_fields(
    of: &Struct,
    numbers: &'static Places,
    message: &[u8],
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.next_field()? {
        match numbers.iter().find(|(known, _)| *known == number).map(|(_, place)| place) {
            Some(Place::Inline(_, inner)) => read_fields(of, inner, wire.bytes()?, object)?,
            Some(Place::Field(name, _)) => read_field(of, name, &wire, object)?,
            // An unknown field, from a newer version.
            None => {}
        }
    }
    Ok(())
}

/// Reads one occurrence of a field: repeated ones add up. Clients send zeros of fields that are not set.
fn read_field(
    of: &Struct,
    name: &str,
    wire: &Wire<'_>,
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let Some(field) = of.field(name) else { return Ok(()) };
    match field.ty() {
        Type::List { items, .. } => {
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                read_items(items.get(), wire, list)?;
            }
        }
        Type::Map { values, .. } => {
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                read_entry(values.get(), wire.bytes()?, map)?;
            }
        }
        ty => {
            let value = read_value(ty, wire)?;
            if !value.is_null() && !of.omits(name, &value) {
                object.insert(name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn read_items(items: &Type, wire: &Wire<'_>, list: &mut Vec<Value>) -> Result<(), ProtobufError> {
    match (items, wire) {
        // Numbers may be packed or unpacked.
        (Type::Scalar(Scalar::Int32 | Scalar::Int64), Wire::Bytes(packed)) => {
            let mut packed = Reader::new(packed);
            while !packed.is_empty() {
                list.push(packed.varint()?.cast_signed().into());
            }
        }
        _ => list.push(read_value(items, wire)?),
    }
    Ok(())
}

fn read_entry(values: &Type, entry: &[u8], map: &mut Map<String, Value>) -> Result<(), ProtobufError> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(entry);
    while let Some((number, wire)) = reader.next_field()? {
        match (number, values) {
            (1, _) => key = wire.text()?.to_owned(),
            // A list as a value is a message with the list as its only field.
            (2, Type::List { items, .. }) => {
                let mut list = Vec::new();
                let mut inner = Reader::new(wire.bytes()?);
                while let Some((_, item)) = inner.next_field()? {
                    read_items(items.get(), &item, &mut list)?;
                }
                value = Some(Value::Array(list));
            }
            (2, _) => value = Some(read_value(values, &wire)?),
            _ => {}
        }
    }
    map.insert(key, value.unwrap_or_else(|| values.zero()));
    Ok(())
}

/// Reads a value; `null` for an absent time or an absent JSON value.
fn read_value(ty: &Type, wire: &Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match ty {
        Type::Struct(of) => {
            let mut object = Map::new();
            read_fields(of, &numbers(&of.name).by_number, wire.bytes()?, &mut object)?;
            Value::Object(object)
        }
        Type::Any => match first(wire.bytes()?)? {
            Some(raw) if !raw.bytes()?.is_empty() => serde_json::from_slice(raw.bytes()?)
                .map_err(|_| ProtobufError::Malformed("a field of any content is not JSON"))?,
            _ => Value::Null,
        },
        Type::Scalar(scalar) => read_scalar(*scalar, wire)?,
        Type::Map { .. } | Type::List { .. } => {
            return Err(ProtobufError::Malformed("a list or map within a list"));
        }
    })
}

/// The field with number 1, the only field of some messages.
fn first(message: &[u8]) -> Result<Option<Wire<'_>>, ProtobufError> {
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.next_field()? {
        if number == 1 {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

fn read_scalar(scalar: Scalar, wire: &Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match scalar {
        Scalar::String => wire.text()?.into(),
        Scalar::Bytes => base64::engine::general_purpose::STANDARD.encode(wire.bytes()?).into(),
        Scalar::Int32 | Scalar::Int64 => wire.integer()?.into(),
        Scalar::Boolean => (wire.integer()? != 0).into(),
        Scalar::Number => wire.float()?.into(),
        Scalar::Quantity => match first(wire.bytes()?)? {
            Some(text) => text.text()?.into(),
            None => "0".into(),
        },
        Scalar::IntOrString => {
            let (mut is_text, mut number, mut text) = (false, 0, "");
            let mut reader = Reader::new(wire.bytes()?);
            while let Some((field, wire)) = reader.next_field()? {
                match field {
                    1 => is_text = wire.integer()? == 1,
                    2 => number = wire.integer()?,
                    3 => text = wire.text()?,
                    _ => {}
                }
            }
            if is_text { text.into() } else { number.into() }
        }
        Scalar::Time | Scalar::MicroTime => {
            let (mut seconds, mut nanos) = (None, 0);
            let mut reader = Reader::new(wire.bytes()?);
            while let Some((field, wire)) = reader.next_field()? {
                match field {
                    1 => seconds = Some(wire.integer()?),
                    2 => nanos = wire.integer()?,
                    _ => {}
                }
            }
            let Some(seconds) = seconds else { return Ok(Value::Null) };
            let nanos = i32::try_from(nanos).map_err(|_| ProtobufError::Malformed("a time out of range"))?;
            let time = Timestamp::new(seconds, nanos);
            time.map_err(|_| ProtobufError::Malformed("a time out of range"))?.to_string().into()
        }
    })
}
