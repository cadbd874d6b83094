//! The operations of each path, for the OpenAPI documents.

use serde_json::{Map, Value, json};

use super::names::{PATCH_DEFINITION, definition_of, gvk, reference};
use crate::resource::{Resource, Subresource};

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The query parameters of reading several objects.
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch also sends bookmarks."),
    ("continue", "string", "Token of the next page of a list with `limit`."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "How many objects to list at most."),
    ("resourceVersion", "string", "Version that the answer is at, or starts from."),
    ("resourceVersionMatch", "string", "How `resourceVersion` is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch starts with the existing objects."),
    ("timeoutSeconds", "integer", "How long the request may take."),
    ("watch", "boolean", "Watch for changes instead of listing."),
];

const DRY_RUN: Parameter = ("dryRun", "string", "`All`: process the request without storing the change.");
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "Name of the manager of the changed fields.");
const FIELD_VALIDATION: Parameter =
    ("fieldValidation", "string", "What unknown and duplicate fields are: Ignore, Warn or Strict.");

const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: &[Parameter] = &[
    DRY_RUN,
    FIELD_MANAGER,
    FIELD_VALIDATION,
    ("force", "boolean", "Whether an apply takes over the fields of other managers."),
];
const DELETE: &[Parameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "How long the object has to end."),
    ("orphanDependents", "boolean", "Whether dependents stay."),
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
];

const PATCH_TYPES: &[&str] =
    &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
/// Not for custom resources, whose schemas have no merge keys: `kubectl apply` sends what a kind accepts.
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Name, type and description.
type Parameter = (&'static str, &'static str, &'static str);

/// The kind that a path is about.
#[derive(Clone, Copy)]
struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    is_custom: bool,
}

/// Adds the paths of a resource and its subresources.
pub(super) fn add_paths(paths: &mut Map<String, Value>, resource: &Resource) {
    let prefix = match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let is_custom = resource.custom.is_some();
    let kind = Kind { group: resource.group, version: resource.version, kind: resource.kind, is_custom };
    let collection = match resource.namespaced {
        true => format!("{prefix}/namespaces/{{namespace}}/{}", resource.plural),
        false => format!("{prefix}/{}", resource.plural),
    };
    let named = format!("{collection}/{{name}}");
    let namespace = resource.namespaced.then_some("namespace");
    let of_collection = |verb: &str| operation_of_collection(verb, kind);
    let of_object = |verb: &str| operation_of_object(verb, kind);
    add(paths, collection, namespace, None, resource.verbs, of_collection);
    if resource.namespaced && resource.verbs.contains(&"list") {
        add(paths, format!("{prefix}/{}", resource.plural), None, None, &["list"], of_collection);
    }
    add(paths, named.clone(), namespace, Some("name"), resource.verbs, of_object);
    for sub in resource.subresources {
        let Subresource { group, version, kind, verbs, .. } = *sub;
        let kind = Kind { group, version, kind, is_custom };
        let path = format!("{named}/{}", sub.name);
        add(paths, path, namespace, Some("name"), verbs, |verb| match verb {
            "create" => operation_of_collection(verb, kind),
            _ => operation_of_object(verb, kind),
        });
    }
}

fn add(
    paths: &mut Map<String, Value>,
    path: String,
    namespace: Option<&str>,
    name: Option<&str>,
    verbs: &[&str],
    operation: impl Fn(&str) -> Option<(&'static str, Value)>,
) {
    let mut item = Map::new();
    item.extend(
        verbs.iter().filter_map(|verb| operation(verb)).map(|(method, value)| (method.to_owned(), value)),
    );
    if item.is_empty() {
        return;
    }
    let in_path: Vec<Value> = name
        .into_iter()
        .chain(namespace)
        .map(|name| {
            let schema = json!({ "type": "string", "uniqueItems": true });
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    item.insert("parameters".to_owned(), in_path.into());
    paths.insert(path, Value::Object(item));
}

fn operation_of_collection(verb: &str, kind: Kind) -> Option<(&'static str, Value)> {
    let list = definition_of(kind.group, kind.version, kind.kind)? + "List";
    Some(match verb {
        "list" => ("get", operation(kind, "list", LIST, None, &[200], &list)),
        "create" => (
            "post",
            operation(kind, "post", WRITE, Some(kind), &[200, 201, 202], list.trim_end_matches("List")),
        ),
        "deletecollection" => ("delete", operation(kind, "deletecollection", LIST, None, &[200], STATUS)),
        _ => return None,
    })
}

fn operation_of_object(verb: &str, kind: Kind) -> Option<(&'static str, Value)> {
    let definition = definition_of(kind.group, kind.version, kind.kind)?;
    Some(match verb {
        "get" => ("get", operation(kind, "get", &[], None, &[200], &definition)),
        "update" => ("put", operation(kind, "put", WRITE, Some(kind), &[200, 201], &definition)),
        "patch" => {
            let mut patch = operation(kind, "patch", PATCH, None, &[200, 201], &definition);
            let types = PATCH_TYPES.iter().copied().chain((!kind.is_custom).then_some(STRATEGIC_PATCH));
            patch["requestBody"] = body(types, PATCH_DEFINITION, true);
            ("patch", patch)
        }
        "delete" => {
            let mut delete = operation(kind, "delete", DELETE, None, &[200, 202], STATUS);
            delete["requestBody"] = body(["*/*"], DELETE_OPTIONS, false);
            ("delete", delete)
        }
        _ => return None,
    })
}

fn operation(
    kind: Kind,
    action: &str,
    query: &[Parameter],
    sent: Option<Kind>,
    codes: &[u16],
    answered: &str,
) -> Value {
    let parameters: Vec<Value> = query
        .iter()
        .map(|(name, of_type, description)| {
            json!({
                "name": name,
                "in": "query",
                "description": description,
                "schema": { "type": of_type, "uniqueItems": true },
            })
        })
        .collect();
    let responses: Map<String, Value> = codes
        .iter()
        .map(|code| {
            let description = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            let content = json!({ "application/json": { "schema": reference(answered) } });
            (code.to_string(), json!({ "description": description, "content": content }))
        })
        .collect();
    let mut operation = json!({
        "parameters": parameters,
        "responses": responses,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind.group, kind.version, kind.kind),
    });
    if let Some(definition) = sent.and_then(|sent| definition_of(sent.group, sent.version, sent.kind)) {
        operation["requestBody"] = body(["*/*"], &definition, true);
    }
    operation
}

fn body(media_types: impl IntoIterator<Item = &'static str>, definition: &str, required: bool) -> Value {
    let content: Map<String, Value> = media_types
        .into_iter()
        .map(|media_type| (media_type.to_owned(), json!({ "schema": reference(definition) })))
        .collect();
    json!({ "content": content, "required": required })
}
