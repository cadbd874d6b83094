//! The protobuf form of objects (`application/vnd.kubernetes.protobuf`), which typed clients send and ask for: an envelope
//! with kind and version around a message. Messages are read and written along the same types as JSON; only the field
//! numbers come from another table (`numbers.txt`).

mod error;
mod read;
mod wire;
mod write;

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::built_in::type_of;
use crate::types::{Struct, Type};
pub use error::ProtobufError;
pub use read::decode;
pub use wire::{Reader, Wire};
pub use write::{Items, encode, list_head, watch_frame};

const MAGIC: &[u8] = b"k8s\0";

/// The type of the objects of a kind; `None` if they have no protobuf form.
fn message_type(api_version: &str, kind: &str) -> Option<&'static Struct> {
    let (group, version, kind) = match kind {
        // The metadata is the first field of every object.
        "PartialObjectMetadata" => ("", "v1", "Namespace"),
        // Every group has the same definition.
        "DeleteOptions" | "Status" => ("meta.k8s.io", "v1", kind),
        _ => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            (group, version, kind)
        }
    };
    match type_of(group, version, kind) {
        Some(Type::Struct(of)) if !numbers(&of.name).by_number.is_empty() => Some(of),
        _ => None,
    }
}

/// Whether objects of a kind have a protobuf form. CustomResourceDefinitions have none here: the alternatives within a schema
/// are other messages than in JSON.
pub fn is_encodable(api_version: &str, kind: &str) -> bool {
    message_type(api_version, kind).is_some()
}

/// The meaning of a number.
#[derive(Debug)]
enum Place {
    /// Its name, and its Go type if that is not clear from its type in JSON.
    Field(&'static str, &'static str),
    /// The name of the struct that Go embeds, and its fields.
    Inline(&'static str, Places),
}

type Places = Vec<(u32, Place)>;

/// The field numbers of a definition.
#[derive(Debug, Default)]
struct Numbers {
    by_number: Places,
    /// The number of each field, after those of the messages around it that JSON does not have.
    by_name: FxHashMap<&'static str, Vec<u32>>,
}

/// The numbers of a definition's fields; none if it has none.
fn numbers(definition: &str) -> &'static Numbers {
    static TABLE: OnceLock<FxHashMap<&'static str, Numbers>> = OnceLock::new();
    static NONE: OnceLock<Numbers> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let lines = include_str!("numbers.txt").lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split_once(' '))
            .map(|(name, fields)| (name, Numbers::parse(fields)))
            .collect()
    });
    let found = definition.strip_prefix("io.k8s.").and_then(|name| table.get(name));
    found.unwrap_or_else(|| NONE.get_or_init(Numbers::default))
}

impl Numbers {
    fn parse(fields: &'static str) -> Numbers {
        let mut numbers = Numbers { by_number: parse(fields, ' '), by_name: FxHashMap::default() };
        add_paths(&numbers.by_number, &mut Vec::new(), &mut numbers.by_name);
        numbers
    }
}

fn parse(fields: &'static str, separator: char) -> Places {
    let mut depth = 0;
    let outside = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && c == separator
    };
    let place = |field: &'static str| {
        let (name, number) = field.rsplit_once('=')?;
        let (number, go_type) = number.split_once(':').unwrap_or((number, ""));
        let place = match name.strip_suffix('}').and_then(|name| name.split_once('{')) {
            Some((embedded, inner)) => Place::Inline(embedded, parse(inner, ',')),
            None => Place::Field(name, go_type),
        };
        Some((number.parse().ok()?, place))
    };
    fields.split(outside).filter_map(place).collect()
}

fn add_paths(places: &Places, path: &mut Vec<u32>, by_name: &mut FxHashMap<&'static str, Vec<u32>>) {
    for (number, place) in places {
        path.push(*number);
        match place {
            Place::Field(name, _) => drop(by_name.insert(name, path.clone())),
            Place::Inline(_, inner) => add_paths(inner, path, by_name),
        }
        path.pop();
    }
}

/// How Go's decoder names a field: the structs that it is embedded by (`RuleWithOperations.Rule.`), and its type if that is not clear
/// from its type in JSON.
pub(crate) fn go_names(definition: &str, field: &str) -> (String, &'static str) {
    fn find(places: &'static Places, field: &str) -> Option<(String, &'static str)> {
        places.iter().find_map(|(_, place)| match place {
            Place::Field(name, go_type) => (*name == field).then(|| (String::new(), *go_type)),
            Place::Inline(embedded, inner) => {
                find(inner, field).map(|(within, go_type)| (format!("{embedded}.{within}"), go_type))
            }
        })
    }
    find(&numbers(definition).by_number, field).unwrap_or_default()
}

#[cfg(test)]
mod tests;
