//! Roles and their bindings: defaults and rules as kube-apiserver has them.

use serde_json::Value;

use super::fields::{Causes, default_text, is_empty, items, items_mut, text};
use crate::resource::Resource;
use crate::server::RBAC_GROUP as GROUP;

/// Whether a resource is one of these.
pub fn is_rbac(resource: &Resource) -> bool {
    resource.group == GROUP
}

/// What is wrong with a name: it has only to fit into a path.
pub fn name_problems(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let wrong = ['/', '%'].into_iter().filter(|c| name.contains(*c));
    wrong.map(|c| format!("may not contain '{c}'")).collect()
}

/// Completes a binding, new or changed.
pub fn default_binding(resource: &Resource, value: &mut Value) {
    if !resource.kind.ends_with("Binding") {
        return;
    }
    if let Some(role) = value.get_mut("roleRef").and_then(Value::as_object_mut) {
        default_text(role, "apiGroup", GROUP);
    }
    for subject in items_mut(value, "subjects").iter_mut().filter_map(Value::as_object_mut) {
        if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}

/// Whether a role or binding is one.
pub fn validate(resource: &Resource, value: &Value, causes: &mut Causes) {
    if resource.kind.ends_with("Binding") {
        validate_binding(resource, value, causes);
    } else {
        for (i, rule) in items(value, "rules").iter().enumerate() {
            validate_rule(&format!("rules[{i}]"), rule, resource.namespaced, causes);
        }
    }
}

fn validate_rule(path: &str, rule: &Value, namespaced: bool, causes: &mut Causes) {
    if is_empty(&rule["verbs"]) {
        causes.required(&format!("{path}.verbs"), "verbs must contain at least one value");
    }
    let urls = &rule["nonResourceURLs"];
    if !is_empty(urls) {
        let field = format!("{path}.nonResourceURLs");
        if namespaced {
            causes.invalid(&field, urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !is_empty(&rule[*field])) {
            causes.invalid(
                &field,
                urls,
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if is_empty(&rule["apiGroups"]) {
        causes.required(&format!("{path}.apiGroups"), "resource rules must supply at least one api group");
    }
    if is_empty(&rule["resources"]) {
        causes.required(&format!("{path}.resources"), "resource rules must supply at least one resource");
    }
}

fn validate_binding(resource: &Resource, value: &Value, causes: &mut Causes) {
    let role = &value["roleRef"];
    if role["apiGroup"] != GROUP {
        causes.not_supported("roleRef.apiGroup", &role["apiGroup"], &[GROUP]);
    }
    let kinds: &[&str] = if resource.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "/kind")) {
        causes.not_supported("roleRef.kind", &role["kind"], kinds);
    }
    if text(role, "/name").is_empty() {
        causes.required("roleRef.name", "");
    }
    for (i, subject) in items(value, "subjects").iter().enumerate() {
        let path = format!("subjects[{i}]");
        if text(subject, "/name").is_empty() {
            causes.required(&format!("{path}.name"), "");
        }
        let group = match text(subject, "/kind") {
            "ServiceAccount" => {
                if text(subject, "/namespace").is_empty() && !resource.namespaced {
                    causes.required(&format!("{path}.namespace"), "");
                }
                ""
            }
            "User" | "Group" => GROUP,
            _ => {
                let kinds = ["ServiceAccount", "User", "Group"];
                causes.not_supported(&format!("{path}.kind"), &subject["kind"], &kinds);
                continue;
            }
        };
        if text(subject, "/apiGroup") != group {
            causes.not_supported(&format!("{path}.apiGroup"), &subject["apiGroup"], &[group]);
        }
    }
}

/// Whether a role or binding may be changed so: a binding stays one of its role.
pub fn validate_update(new: &Value, old: &Value, causes: &mut Causes) {
    if new["roleRef"] != old["roleRef"] {
        causes.invalid("roleRef", &new["roleRef"], "cannot change roleRef");
    }
}
