//! What expressions see of values with a schema: types, largest sizes and names.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use berth_cel::{Key, Map as CelMap, Step, Type, Value as CelValue, is_reserved};

use crate::kinds::prelude::*;

/// The bytes of the largest object, as estimates assume it.
pub(super) const MAX_OBJECT_BYTES: u64 = 3 << 20;

/// What expressions see of a value with a schema.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) ty: Type,
    /// Bytes of the smallest value, as JSON.
    pub(super) min_bytes: u64,
    /// Characters, elements or entries of the largest value; 0 of other types.
    max_size: u64,
    /// By the names that expressions use.
    pub(super) fields: BTreeMap<Arc<str>, Declared>,
    /// The elements of a list, the values of a map.
    pub(super) element: Option<Box<Declared>>,
}

impl Declared {
    fn scalar(ty: Type, min_bytes: u64, max_size: u64) -> Declared {
        Declared { ty, min_bytes, max_size, fields: BTreeMap::new(), element: None }
    }

    /// `None` if expressions cannot see values with the schema.
    pub(super) fn of(schema: &Value, is_object: bool) -> Option<Declared> {
        // A text takes two quotes.
        const MAX_TEXT: u64 = MAX_OBJECT_BYTES - 2;
        let limit = |field: &str| schema[field].as_i64().map(|limit| u64::try_from(limit).unwrap_or(0));
        // Four bytes for each character.
        let max_length = limit("maxLength").map(|length| length.saturating_mul(4));
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Declared::scalar(Type::Dyn, 1, max_length.unwrap_or(MAX_TEXT)));
        }
        let container = |ty: Type, max_size: u64, element: Declared| Declared {
            element: Some(Box::new(element)),
            ..Declared::scalar(ty, 2, max_size)
        };
        Some(match schema["type"].as_str()? {
            "array" => {
                let items = Declared::of(&schema["items"], is_embedded(&schema["items"]))?;
                let fitting = MAX_TEXT / (items.min_bytes + 1);
                container(Type::list(items.ty.clone()), limit("maxItems").unwrap_or(fitting), items)
            }
            "object" if schema["additionalProperties"].is_object() => {
                let values = &schema["additionalProperties"];
                let values = Declared::of(values, is_embedded(values))?;
                let fitting = MAX_TEXT / (values.min_bytes + 6);
                let ty = Type::map(Type::String, values.ty.clone());
                container(ty, limit("maxProperties").unwrap_or(fitting), values)
            }
            "object" => {
                let (mut fields, mut min_bytes) = (BTreeMap::new(), 2);
                for (name, property) in properties(schema, is_object) {
                    let Some(declared) = Declared::of(&property, is_embedded(&property)) else { continue };
                    let is_required = items(schema, "required").iter().any(|required| *required == *name);
                    if is_required && property.get("default").is_none() {
                        min_bytes += name.len() as u64 + declared.min_bytes + 4;
                    }
                    if let Some(name) = escaped(&name) {
                        fields.insert(name.into(), declared);
                    }
                }
                let types = fields
                    .iter()
                    .map(|(name, field): (&Arc<str>, &Declared)| (name.clone(), field.ty.clone()));
                Declared {
                    fields: fields.clone(),
                    ..Declared::scalar(Type::object("object", types), min_bytes, 0)
                }
            }
            "string" => match schema["format"].as_str() {
                Some("byte") => Declared::scalar(Type::Bytes, 2, limit("maxLength").unwrap_or(MAX_TEXT)),
                Some("duration") => Declared::scalar(Type::Duration, 3, 32),
                Some("date") => Declared::scalar(Type::Timestamp, 12, 12),
                Some("date-time") => Declared::scalar(Type::Timestamp, 21, 32),
                _ => {
                    let lengths = items(schema, "enum").iter().filter_map(Value::as_str).map(str::len).max();
                    let longest = lengths.map(|length| length as u64);
                    Declared::scalar(Type::String, 2, max_length.or(longest).unwrap_or(MAX_TEXT))
                }
            },
            "boolean" => Declared::scalar(Type::Bool, 4, 0),
            "number" => Declared::scalar(Type::Double, 1, 0),
            "integer" => Declared::scalar(Type::Int, 1, 0),
            _ => return None,
        })
    }

    /// What expressions see of a property: also of one that they cannot name.
    pub(super) fn property(declared: Option<&Declared>, name: &str, schema: &Value) -> Option<Declared> {
        match escaped(name) {
            Some(name) => declared?.fields.get(&*name).cloned(),
            None => Declared::of(schema, is_embedded(schema)),
        }
    }

    /// The largest size of a part of `self` or `oldSelf`.
    pub(super) fn largest_size(&self, path: &[Step]) -> Option<u64> {
        let mut at = self;
        for step in path.get(1..)? {
            at = match step {
                Step::Items | Step::Values => at.element.as_deref()?,
                Step::Keys => return at.element.as_ref().map(|_| 0),
                Step::Name(name) => at.fields.get(name)?,
                Step::Positions => return None,
            };
        }
        Some(at.max_size)
    }
}

pub(super) fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

/// The properties of a schema; of an object of Kubernetes, those that each has.
fn properties(schema: &Value, is_object: bool) -> Map<String, Value> {
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    if is_object {
        let text = json!({"type": "string"});
        let metadata = json!({"type": "object", "properties": {"name": text, "generateName": text}});
        for (name, property) in [("kind", text.clone()), ("apiVersion", text), ("metadata", metadata)] {
            properties.insert(name.to_owned(), property);
        }
    }
    properties
}

/// The name that expressions use for a field; `None` if they cannot name it.
pub(super) fn escaped(name: &str) -> Option<String> {
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_valid) {
        return None;
    }
    let replaced = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];
    Some(replaced.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to)))
}

/// A value as expressions see it.
pub(super) fn shown(schema: &Value, is_object: bool, value: &Value) -> CelValue {
    match value {
        Value::Array(list) => {
            let item = &schema["items"];
            CelValue::list(list.iter().map(|value| shown(item, is_embedded(item), value)))
        }
        Value::Object(fields) => {
            let values = &schema["additionalProperties"];
            let entries = fields.iter().filter_map(|(name, value)| {
                let key = |name: &str| Key::String(name.into());
                match schema["properties"].get(name) {
                    _ if is_object && name == "metadata" => {
                        let named = ["name", "generateName"].map(|field| (field, value.get(field)));
                        let named = named
                            .into_iter()
                            .filter_map(|(field, value)| Some((field.to_owned(), value?.clone())));
                        Some((key(name), CelValue::from(&Value::Object(named.collect()))))
                    }
                    Some(property) => {
                        Some((key(&escaped(name)?), shown(property, is_embedded(property), value)))
                    }
                    None if values.is_object() => {
                        Some((key(name), shown(values, is_embedded(values), value)))
                    }
                    None => Some((key(name), CelValue::from(value))),
                }
            });
            CelValue::Map(Arc::new(CelMap { entries: entries.collect(), has_default: false }))
        }
        Value::Number(number) if schema["type"] == "number" => {
            CelValue::Double(number.as_f64().unwrap_or_default())
        }
        Value::String(text) => {
            let parsed = match schema["format"].as_str() {
                Some("date-time") => text.parse().ok().map(CelValue::Timestamp),
                Some("date") => format!("{text}T00:00:00Z").parse().ok().map(CelValue::Timestamp),
                Some("duration") => berth_cel::parse_duration(text).map(CelValue::Duration),
                Some("byte") => {
                    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                    bytes.ok().map(|bytes| CelValue::Bytes(bytes.into()))
                }
                _ => None,
            };
            parsed.unwrap_or_else(|| CelValue::string(text.as_str()))
        }
        other => CelValue::from(other),
    }
}
