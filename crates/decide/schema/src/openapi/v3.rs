//! The documents of OpenAPI v3, one for each group and version.

use serde_json::{Map, Value, json};

use super::names::{PATCH_DEFINITION, definition_of, gvk, reference};
use super::{Served, operations};
use crate::definitions;
use crate::resource::{GeneratedType, Resource, Storage};

pub(super) fn make(group: &str, version: &str, served: Served<'_>, resources: &[&'static Resource]) -> Value {
    let in_version = || resources.iter().copied();
    // Subresources may be of kinds of other groups, such as `Scale`.
    let is_used = |kind: &GeneratedType| {
        (kind.group == group && kind.version == version)
            || in_version()
                .flat_map(|r| r.subresources)
                .any(|sub| (sub.group, sub.version, sub.kind) == (kind.group, kind.version, kind.kind))
    };
    let mut schemas = definitions::generate(is_used);
    if !served.extensions {
        definitions::remove_proposed(&mut schemas);
    }
    schemas.values_mut().for_each(as_openapi);
    for kind in definitions::types().iter().filter(|kind| is_used(kind)) {
        if let Some(schema) = schemas.get_mut(&*(kind.definition)()) {
            schema["x-kubernetes-group-version-kind"] = json!([gvk(kind.group, kind.version, kind.kind)]);
        }
    }
    for resource in in_version() {
        if let (Some(custom), Some(name)) = (resource.custom, definition_of(group, version, resource.kind)) {
            schemas.insert(name, custom_definition(resource, &custom.schema().openapi));
        }
    }
    for resource in in_version().filter(|resource| resource.storage != Storage::None) {
        if let Some(definition) = definition_of(group, version, resource.kind) {
            let list = list_definition(&definition, resource.kind, group, version);
            schemas.insert(format!("{definition}List"), list);
        }
    }
    schemas.insert(
        PATCH_DEFINITION.to_owned(),
        json!({
            "description": "The body of a PATCH request; what it holds depends on its media type.",
            "type": "object",
        }),
    );
    scalar_definitions(&mut schemas);
    schemas.sort_keys();
    let mut paths = Map::new();
    for resource in in_version() {
        operations::add_paths(&mut paths, resource);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": format!("v{}.0", served.gates.version) },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// The definition of a custom resource: its schema, with the fields of every object.
fn custom_definition(resource: &Resource, schema: &Value) -> Value {
    let mut definition = schema.clone();
    let properties = &mut definition["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = json!({ "type": "string", "description": "Group and version of the object." });
    properties["kind"] = json!({ "type": "string", "description": "Kind of the object." });
    properties["metadata"] = json!({
        "description": "Metadata of the object.",
        "allOf": [reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")],
    });
    definition["x-kubernetes-group-version-kind"] =
        json!([gvk(resource.group, resource.version, resource.kind)]);
    definition
}

fn list_definition(definition: &str, kind: &str, group: &str, version: &str) -> Value {
    json!({
        "description": format!("{kind}List is a list of objects of kind {kind}."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string", "description": "Version of the representation of the list." },
            "items": { "type": "array", "description": "The objects.", "items": reference(definition) },
            "kind": { "type": "string", "description": "Kind of the list." },
            "metadata": {
                "description": "Metadata of the list.",
                "allOf": [reference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")],
            },
        },
        "x-kubernetes-group-version-kind": [gvk(group, version, &format!("{kind}List"))],
    })
}

/// Types that are either text or a number.
fn scalar_definitions(schemas: &mut Map<String, Value>) {
    for (name, format, number) in [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", None, "number"),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", Some("int-or-string"), "integer"),
    ] {
        let Some(schema) = schemas.get_mut(name).and_then(Value::as_object_mut) else { continue };
        schema.remove("x-kubernetes-int-or-string");
        if let Some(format) = format {
            schema.insert("format".to_owned(), json!(format));
        }
        schema.insert("oneOf".to_owned(), json!([{ "type": number }, { "type": "string" }]));
    }
}

/// OpenAPI 3.0 ignores siblings of a reference; `allOf` with one member has the same meaning.
fn as_openapi(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(as_openapi);
            // A field of this name is a schema.
            if fields.len() > 1
                && fields.get("$ref").is_some_and(Value::is_string)
                && let Some(reference) = fields.shift_remove("$ref")
            {
                fields.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(as_openapi),
        _ => {}
    }
}
