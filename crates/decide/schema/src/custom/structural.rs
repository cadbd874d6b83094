//! Types that follow from the structural schemas of CustomResourceDefinitions.

use serde_json::Value;

use crate::built_in::type_of;
use crate::types::{Field, ListType, MapKey, Patch, Struct, Type, TypeId};

/// The type of whole objects.
pub(crate) fn type_of_root(schema: &Value) -> Type {
    match of(schema, true) {
        Type::Any => Type::Struct(fields(schema, true)),
        other => other,
    }
}

/// Scalars have any type here: validation compares them with the schema.
fn of(schema: &Value, is_object: bool) -> Type {
    let keeps_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let is_object = is_object || schema["x-kubernetes-embedded-resource"] == true;
    match schema["type"].as_str() {
        Some("array") => Type::List { items: id(of(&schema["items"], false)), merged: list_type(schema) },
        Some("object") => match &schema["additionalProperties"] {
            Value::Null | Value::Bool(false)
                if keeps_unknown && !is_object && !schema["properties"].is_object() =>
            {
                Type::Any
            }
            Value::Null | Value::Bool(false) => Type::Struct(fields(schema, is_object)),
            values => Type::Map {
                values: id(if values.is_object() { of(values, false) } else { Type::Any }),
                atomic: schema["x-kubernetes-map-type"] == "atomic",
            },
        },
        _ => Type::Any,
    }
}

fn id(ty: Type) -> TypeId {
    TypeId::new(ty)
}

/// The fields of an object; those of every Kubernetes object as well, if it is one.
fn fields(schema: &Value, is_object: bool) -> Struct {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |ty: TypeId, required: bool| Field::new(ty, Patch::default(), required);
    let mut all: Vec<(String, Field)> = properties
        .filter(|(name, _)| !is_object || !["apiVersion", "kind", "metadata"].contains(&name.as_str()))
        .map(|(name, schema)| {
            (name.clone(), field(id(of(schema, false)), required.iter().any(|required| required == name)))
        })
        .collect();
    if is_object {
        all.extend(["apiVersion", "kind"].map(|name| (name.to_owned(), field(id(Type::Any), false))));
        if let Some(Type::Struct(any)) = type_of("", "v1", "ConfigMap")
            && let Some(metadata) = any.field("metadata")
        {
            all.push(("metadata".to_owned(), metadata.clone()));
        }
    }
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    Struct::new("", all, schema["x-kubernetes-map-type"] == "atomic", open)
}

fn list_type(schema: &Value) -> ListType {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            let key = |name: &str| MapKey {
                name: name.to_owned(),
                default: schema["items"]["properties"][name].get("default").cloned(),
            };
            ListType::Map(keys.filter_map(Value::as_str).map(key).collect())
        }
        _ => ListType::Atomic,
    }
}
