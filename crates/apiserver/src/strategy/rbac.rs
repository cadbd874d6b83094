//! Roles and their bindings: defaults and rules as kube-apiserver has them.

use berth_schema::resource::{CLUSTER_ROLES, ROLES, Resource};
use serde_json::{Value, json};

use super::Context;
use super::fields::{Causes, default_text, is_empty, items, items_mut, text};
use crate::server::status::Status;
use crate::server::{Attributes, MASTERS, PolicyRule, RBAC_GROUP as GROUP, quoted};

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

/// Whether the user may give away what a role or binding gives: only what is their own, unless they hold the verb
/// `escalate` on the role, or `bind` on the role that is bound.
///
/// # Errors
/// They may not, or there is no such role to bind.
pub fn admit(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    if !is_rbac(resource) || context.user.is_in(MASTERS) {
        return Ok(());
    }
    let (namespace, name) = crate::store::key(value);
    let binds = resource.kind.ends_with("Binding");
    let role = &value["roleRef"];
    let (verb, roles, role_name) = match (binds, text(role, "/kind")) {
        (false, _) => ("escalate", resource, name),
        (true, "ClusterRole") => ("bind", &CLUSTER_ROLES, text(role, "/name")),
        (true, _) => ("bind", &ROLES, text(role, "/name")),
    };
    let special = Attributes {
        verb,
        group: GROUP,
        resource: roles.plural,
        namespace,
        name: role_name,
        ..Attributes::default()
    };
    if context.shared.allows(context.user, &special) {
        return Ok(());
    }
    let grants = context.shared.grants();
    let rules = if binds {
        let found = grants.role(role, namespace);
        found.ok_or_else(|| Status::not_found(roles, role_name))?
    } else if value["aggregationRule"].is_null() {
        PolicyRule::list(&value["rules"]).into()
    } else {
        // It may come to anything.
        let anything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        PolicyRule::list(&anything).into()
    };
    let beyond = grants.beyond(context.user, namespace, &rules);
    if beyond.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> = beyond.iter().map(ToString::to_string).collect();
    missing.sort();
    let why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        context.user.name,
        quoted(&context.user.groups),
        missing.join("\n")
    );
    Err(Status::forbidden(resource, name, &why))
}

/// Whether a role or binding may be changed so: a binding stays one of its role.
pub fn validate_update(new: &Value, old: &Value, causes: &mut Causes) {
    if new["roleRef"] != old["roleRef"] {
        causes.invalid("roleRef", &new["roleRef"], "cannot change roleRef");
    }
}
