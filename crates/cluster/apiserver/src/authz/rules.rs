//! All permissions of a user in a namespace, as `SelfSubjectRulesReview` lists them.

use std::collections::HashSet;

use berth_api::work::WorkBudget;
use serde_json::{Value, json};

use super::builtin::{EVERYONE_RULES, listed};
use super::held::HeldPermissions;
use super::policy_rule::PolicyRule;
use crate::request::{AUTHENTICATED, MASTERS, User};

/// Rules as `SelfSubjectRulesReview` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub resource: Vec<Value>,
    pub non_resource: Vec<Value>,
    /// Why the lists are incomplete.
    pub incomplete: Option<String>,
}

/// Bytes of the roles that are listed at most.
const MAX_ROLE_BYTES: u64 = 4 << 20;

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

/// All permissions of a user, who holds these roles: those of the roles and the built-in ones.
pub fn rules_for(user: &User, held: &HeldPermissions) -> Rules {
    if user.is_in(MASTERS) {
        return Rules {
            resource: vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})],
            non_resource: vec![json!({"verbs": ["*"], "nonResourceURLs": ["*"]})],
            incomplete: None,
        };
    }
    let mut rules = Rules::default();
    if user.node_name().is_some() {
        rules.incomplete = Some("node authorizer does not support user rule resolution".to_owned());
    }
    rules.resource.extend(EVERYONE_RULES.iter().filter(|_| user.is_in(AUTHENTICATED)).map(listed));
    rules.non_resource.push(json!({"verbs": ["get"], "nonResourceURLs": READABLE}));
    let (budget, mut seen) = (WorkBudget::new(MAX_ROLE_BYTES), HashSet::new());
    for object in &held.objects {
        if budget.spend(object.text().len()).is_err() {
            let name = object.facts.name();
            rules.incomplete = Some(format!(
                "role {name:?} and those after it are left out: the roles have more than {MAX_ROLE_BYTES} bytes"
            ));
            break;
        }
        for rule in PolicyRule::list(&object.value()["rules"]) {
            if seen.contains(&rule) {
                continue;
            }
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
            seen.insert(rule);
        }
    }
    rules
}
