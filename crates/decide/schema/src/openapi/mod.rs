//! The OpenAPI documents that clients read: of v3, one for each group and version, and an index of them; of v2, one.
//!
//! A document is built on first use and cached as bytes.

mod names;
mod operations;
mod v2;
mod v3;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

use berth_api::feature_gates::FeatureGates;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::resource::{RESOURCES, Resource};
use v3::make;

#[derive(Clone, Copy)]
pub struct Served<'c> {
    /// Whether it has the proposals' fields.
    pub extensions: bool,
    pub gates: FeatureGates,
    pub custom: &'c [&'static Resource],
}

/// The answer to `GET` of `/openapi/v2`, `/openapi/v3`, `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`;
/// `None` for any other path.
pub fn document(path: &str, served: Served<'_>) -> Option<Bytes> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["openapi", "v2"] => Some(cached("v2", served, &served.resources(), || v2::make(served))),
        ["openapi", "v3"] => Some(cached("v3", served, &served.resources(), || index(served))),
        ["openapi", "v3", "api", version] => of_version("", version, served),
        ["openapi", "v3", "apis", group, version] if !group.is_empty() => of_version(group, version, served),
        _ => None,
    }
}

impl Served<'_> {
    fn resources(self) -> Vec<&'static Resource> {
        let built_in = RESOURCES.iter().filter(|resource| resource.is_discoverable(self.gates));
        built_in.chain(self.custom).copied().collect()
    }

    fn of_version(self, group: &str, version: &str) -> Vec<&'static Resource> {
        let mut resources = self.resources();
        resources.retain(|resource| resource.group == group && resource.version == version);
        resources
    }

    /// The groups with their versions.
    fn versions(self) -> Vec<(&'static str, &'static str)> {
        let mut versions = Vec::new();
        for resource in self.resources() {
            if !versions.contains(&(resource.group, resource.version)) {
                versions.push((resource.group, resource.version));
            }
        }
        versions
    }
}

/// A document of these resources, made once for the same schemas.
fn cached(name: &str, served: Served<'_>, resources: &[&Resource], make: impl FnOnce() -> Value) -> Bytes {
    type Documents = HashMap<(String, bool), (Vec<u64>, Bytes)>;
    static DOCUMENTS: LazyLock<Mutex<Documents>> = LazyLock::new(Mutex::default);
    let number = |resource: &Resource| match resource.custom {
        Some(custom) => custom.schema().number,
        None => u64::MAX - RESOURCES.iter().position(|built_in| **built_in == *resource).unwrap_or(0) as u64,
    };
    let numbers = [served.gates.version as u64].into_iter();
    let numbers = numbers.chain(resources.iter().map(|resource| number(resource))).collect();
    let key = (name.to_owned(), served.extensions);
    let lock = || DOCUMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, document)) = lock().get(&key)
        && *of == numbers
    {
        return document.clone();
    }
    let made: Bytes = make().to_string().into();
    let mut documents = lock();
    if documents.len() >= MAX_DOCUMENTS {
        documents.clear();
    }
    documents.insert(key, (numbers, made.clone()));
    made
}

/// How many documents are kept.
const MAX_DOCUMENTS: usize = 256;

fn of_version(group: &str, version: &str, served: Served<'_>) -> Option<Bytes> {
    let resources = served.of_version(group, version);
    let name = format!("v3/{group}/{version}");
    (!resources.is_empty())
        .then(|| cached(&name, served, &resources, || make(group, version, served, &resources)))
}

/// The paths of the documents, each with a hash of its content: clients keep a document for as long as that
/// is the same.
fn index(served: Served<'_>) -> Value {
    let mut paths = Map::new();
    for (group, version) in served.versions() {
        let Some(document) = of_version(group, version, served) else { continue };
        let path =
            if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let mut hasher = DefaultHasher::new();
        document.hash(&mut hasher);
        let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

#[cfg(test)]
mod tests {
    use super::names::{definition_of, gvk};
    use super::*;
    use crate::definitions::{REFERENCE, referred};

    fn served(extensions: bool) -> Served<'static> {
        Served { extensions, gates: FeatureGates::default(), custom: &[] }
    }

    fn get(path: &str) -> Value {
        let document = document(path, served(true)).expect(path);
        serde_json::from_slice(&document).expect("documents are JSON")
    }

    #[test]
    fn the_index_lists_every_version() {
        let index = get("/openapi/v3");
        let paths = index["paths"].as_object().expect("paths");
        for resource in served(true).resources() {
            let path = match resource.group {
                "" => format!("api/{}", resource.version),
                group => format!("apis/{group}/{}", resource.version),
            };
            let url = paths[&path]["serverRelativeURL"].as_str().expect("an address");
            assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
            assert_eq!(get(&format!("/openapi/v3/{path}"))["openapi"], "3.0.0");
        }
        assert!(document("/openapi/v3/apis/none/v1", served(true)).is_none());
        assert!(document("/openapi/v4", served(true)).is_none());
    }

    #[test]
    fn the_extension_fields_exist_only_with_extensions() {
        for (path, extensions) in [("/openapi/v3/api/v1", true), ("/openapi/v3/apis/apps/v1", false)] {
            let document = document(path, served(extensions)).expect(path);
            let text = std::str::from_utf8(&document).expect("text");
            assert_eq!(
                text.contains("requiredDuringSchedulingRequiredDuringExecution"),
                extensions,
                "{path}"
            );
            assert!(text.contains("requiredDuringSchedulingIgnoredDuringExecution"), "{path}");
        }
    }

    #[test]
    fn every_reference_is_in_its_document() {
        fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
            found.extend(referred(value));
            match value {
                Value::Object(fields) => fields.values().for_each(|field| references(field, found)),
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        let index = get("/openapi/v3");
        for path in index["paths"].as_object().expect("paths").keys() {
            let document = get(&format!("/openapi/v3/{path}"));
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for name in found {
                assert!(document["components"]["schemas"][name].is_object(), "{path}: {name}");
            }
        }
    }

    #[test]
    fn the_old_document_has_every_definition_and_path() {
        let document = get("/openapi/v2");
        assert_eq!(document["swagger"], "2.0");
        let text = document.to_string();
        assert!(!text.contains(REFERENCE) && !text.contains("requestBody"));
        for resource in served(true).resources() {
            let definition = definition_of(resource.group, resource.version, resource.kind).expect("known");
            assert!(document["definitions"][&definition].is_object(), "{definition}");
        }
        let create = &document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"];
        let body = create["parameters"].as_array().expect("parameters").iter().find(|p| p["in"] == "body");
        assert_eq!(body.expect("a body")["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
        assert_eq!(create["responses"]["201"]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
        let query =
            create["parameters"].as_array().expect("parameters").iter().find(|p| p["name"] == "dryRun");
        assert_eq!(query.expect("a query parameter")["type"], "string");
    }

    #[test]
    fn kubectl_finds_its_definitions() {
        let apps = get("/openapi/v3/apis/apps/v1");
        let path = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        let kind = gvk("apps", "v1", "Deployment");
        assert_eq!(path["patch"]["x-kubernetes-group-version-kind"], kind);
        let names: Vec<&str> = path["patch"]["parameters"]
            .as_array()
            .expect("parameters")
            .iter()
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
            assert!(names.contains(&name), "{name}");
        }
        let all = &apps["paths"]["/apis/apps/v1/deployments"]["get"];
        assert_eq!(all["x-kubernetes-group-version-kind"], kind);
        let schemas = &apps["components"]["schemas"];
        let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([kind]));
        assert_eq!(
            deployment["properties"]["spec"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"
        );
        let extensions = get("/openapi/v3/apis/apiextensions.k8s.io/v1");
        let prefix = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
        for schemas in [&extensions["components"]["schemas"], &get("/openapi/v2")["definitions"]] {
            let properties = &schemas[format!("{prefix}.JSONSchemaProps")]["properties"];
            assert!(properties["$ref"]["type"] == "string" && properties["oneOf"]["type"] == "array");
        }
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    }
}
