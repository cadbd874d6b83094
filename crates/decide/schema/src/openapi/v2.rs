//! The document of OpenAPI v2, made from those of v3.

use serde_json::{Map, Value, json};

use super::Served;
use super::v3::make as make_v3;
use crate::definitions::REFERENCE;

pub(super) fn make(served: Served<'_>) -> Value {
    let (mut definitions, mut paths) = (Map::new(), Map::new());
    for (group, version) in served.versions() {
        let mut document = make_v3(group, version, served, &served.of_version(group, version));
        refer_to_definitions(&mut document);
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            definitions.extend(schemas);
        }
        if let Value::Object(more) = document["paths"].take() {
            paths.extend(more);
        }
    }
    paths.values_mut().filter_map(Value::as_object_mut).for_each(convert_path);
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": format!("v{}.0", served.gates.version) },
        "paths": paths,
        "definitions": definitions,
    })
}

/// References have another root, and may have siblings.
fn refer_to_definitions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = reference.replace(REFERENCE, "#/definitions/");
            }
            // A field of this name is a schema.
            if fields.get("oneOf").is_some_and(Value::is_array) {
                fields.remove("oneOf");
            }
            fields.values_mut().for_each(refer_to_definitions);
            let only = fields.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
            if let Some(reference) = only.and_then(|all| all[0].get("$ref")).cloned() {
                fields.remove("allOf");
                fields.insert("$ref".to_owned(), reference);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(refer_to_definitions),
        _ => {}
    }
}

fn convert_path(path: &mut Map<String, Value>) {
    for (method, item) in path {
        if method == "parameters" {
            item.as_array_mut().into_iter().flatten().for_each(convert_parameter);
            continue;
        }
        let body = item.as_object_mut().and_then(|operation| operation.remove("requestBody"));
        let parameters = item["parameters"].as_array_mut();
        if let Some(parameters) = parameters {
            parameters.iter_mut().for_each(convert_parameter);
            if let Some(body) = body {
                let required = body["required"].clone();
                let schema = first_schema(&body["content"]);
                parameters
                    .push(json!({ "name": "body", "in": "body", "required": required, "schema": schema }));
            }
        }
        for response in item["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            let schema = first_schema(&response["content"]);
            *response = json!({ "description": response["description"], "schema": schema });
        }
    }
}

/// All media types have the same schema.
fn first_schema(content: &Value) -> Value {
    content
        .as_object()
        .and_then(|content| content.values().next())
        .map_or(Value::Null, |c| c["schema"].clone())
}

fn convert_parameter(parameter: &mut Value) {
    let Some(fields) = parameter.as_object_mut() else { return };
    if let Some(Value::Object(schema)) = fields.remove("schema") {
        fields.extend(schema);
    }
}
