//! All permissions of a user in a namespace, as `SelfSubjectRulesReview` lists them.

use serde_json::{Value, json};

use super::builtin::EVERYONE_RULES;
use super::rbac::Grants;
use crate::request::{AUTHENTICATED, MASTERS, User};

/// Rules as `SelfSubjectRulesReview` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// `resourceRules`.
    pub resource: Vec<Value>,
    /// `nonResourceRules`.
    pub non_resource: Vec<Value>,
    /// Why the lists are incomplete.
    pub incomplete: Option<&'static str>,
}

/// Paths that all authenticated users may read.
const READABLE: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
];

/// All permissions of a user in a namespace: those of roles and the built-in ones.
pub fn rules_for(user: &User, grants: &Grants, namespace: &str) -> Rules {
    if user.is_in(MASTERS) {
        return Rules {
            resource: vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})],
            non_resource: vec![json!({"verbs": ["*"], "nonResourceURLs": ["*"]})],
            incomplete: None,
        };
    }
    let mut rules = Rules::default();
    if user.node_name().is_some() {
        rules.incomplete = Some("node authorizer does not support user rule resolution");
    }
    for (verbs, group, resources) in EVERYONE_RULES.iter().filter(|_| user.is_in(AUTHENTICATED)) {
        rules.resource.push(json!({"verbs": verbs, "apiGroups": [group], "resources": resources}));
    }
    rules.non_resource.push(json!({"verbs": ["get"], "nonResourceURLs": READABLE}));
    for rule in grants.rules(user, namespace) {
        if rule.non_resource_urls.is_empty() {
            let mut listed =
                json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
            if !rule.resource_names.is_empty() {
                listed["resourceNames"] = json!(rule.resource_names);
            }
            rules.resource.push(listed);
        } else {
            let listed = json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls});
            rules.non_resource.push(listed);
        }
    }
    rules
}
