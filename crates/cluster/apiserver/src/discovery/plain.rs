//! Discovery one group and one version at a time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_schema::resource::Resource;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::served::Served;

/// `/api`.
pub(super) fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

/// `/apis`.
pub(super) fn api_group_list(all: Served<'_>) -> Value {
    let named = all.groups().into_iter().filter(|(group, _)| !group.is_empty());
    let groups: Vec<Value> = named.map(|(group, versions)| group_of(group, &versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/GROUP`.
pub(super) fn api_group(name: &str, all: Served<'_>) -> Option<Value> {
    let (group, versions) = all.groups().into_iter().find(|(group, _)| *group == name)?;
    let mut found = group_of(group, &versions);
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

fn group_of(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{group}/{version}"), "version": version }))
        .collect();
    json!({ "name": group, "versions": versions, "preferredVersion": versions.first() })
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(super) fn api_resource_list(group: &str, version: &str, all: Served<'_>) -> Option<Value> {
    let mut list = Vec::new();
    for resource in all.resources(group, version) {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        if let Some(stored) = resource.stored() {
            entry["storageVersionHash"] = json!(storage_version_hash(stored));
        }
        list.push(entry);
        for sub in resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if (sub.group, sub.version) != (group, version) {
                entry["group"] = json!(sub.group);
                entry["version"] = json!(sub.version);
            }
            list.push(entry);
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": list,
        })
    })
}

/// As kube-apiserver computes it.
fn storage_version_hash(stored: &Resource) -> String {
    let hash = digest(&SHA256, format!("{}/{}/{}", stored.group, stored.version, stored.kind).as_bytes());
    STANDARD.encode(&hash.as_ref()[..8])
}
