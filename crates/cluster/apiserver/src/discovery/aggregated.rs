//! Discovery of everything in two requests (`apidiscovery.k8s.io`).

use berth_schema::resource::Resource;
use serde_json::{Map, Value, json};

use super::served::Served;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscoveryForm {
    V2,
    V2Beta1,
}

impl DiscoveryForm {
    /// The format that a client prefers to plain JSON, if any.
    pub(super) fn requested(accept: Option<&str>) -> Option<DiscoveryForm> {
        for range in accept?.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters: Vec<&str> = parts.collect();
            let has = |parameter: &str| parameters.contains(&parameter);
            if !["application/json", "application/*", "*/*"].contains(&media_type) {
                continue;
            }
            if !parameters.iter().any(|parameter| parameter.starts_with("as=")) {
                return None;
            }
            if media_type == "application/json"
                && has("g=apidiscovery.k8s.io")
                && has("as=APIGroupDiscoveryList")
            {
                if has("v=v2") {
                    return Some(DiscoveryForm::V2);
                }
                if has("v=v2beta1") {
                    return Some(DiscoveryForm::V2Beta1);
                }
            }
        }
        None
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            DiscoveryForm::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            DiscoveryForm::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            DiscoveryForm::V2 => "apidiscovery.k8s.io/v2",
            DiscoveryForm::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
        }
    }
}

/// The core group alone, or all the others.
pub(super) fn group_discovery_list(form: DiscoveryForm, core: bool, all: Served<'_>) -> Value {
    let chosen = all.groups().into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = chosen.map(|(group, versions)| group_discovery(group, &versions, all)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": form.api_version(),
        "metadata": {},
        "items": items,
    })
}

fn group_discovery(group: &str, versions: &[&str], all: Served<'_>) -> Value {
    let mut metadata = Map::new();
    if !group.is_empty() {
        metadata.insert("name".to_owned(), json!(group));
    }
    metadata.insert("creationTimestamp".to_owned(), Value::Null);
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = all.resources(group, version).map(resource_discovery).collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    json!({ "metadata": metadata, "versions": versions })
}

fn resource_discovery(resource: &Resource) -> Value {
    let kind_of =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind_of(resource.group, resource.version, resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular(),
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        let subresources: Vec<Value> = resource
            .subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": kind_of(sub.group, sub.version, sub.kind),
                    "verbs": sub.verbs,
                })
            })
            .collect();
        entry["subresources"] = json!(subresources);
    }
    entry
}
