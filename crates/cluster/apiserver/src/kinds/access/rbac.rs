//! Roles, ClusterRoles and their bindings.

use berth_api::syntax;
use berth_api::work::WorkBudget;
use berth_schema::resource::{CLUSTER_ROLES, ROLES, Resource};

use crate::authz::{PolicyRule, RBAC_GROUP as GROUP, quoted, role_of};
use crate::kinds::prelude::*;
use crate::request::{ApiResult, Attributes, MASTERS, Reason, Status};
use crate::store::key;

pub struct Role(pub &'static Resource);

impl Strategy for Role {
    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::path_segment(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let rules = items(value, "rules");
        for (i, rule) in rules.iter().enumerate() {
            validate_rule(&format!("rules[{i}]"), rule, self.0.namespaced, causes);
        }
        let selectors = items(&value["aggregationRule"], "clusterRoleSelectors");
        if value["aggregationRule"].is_object() && selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            causes.required("aggregationRule.clusterRoleSelectors", why);
        }
        for (i, selector) in selectors.iter().enumerate() {
            let path = format!("aggregationRule.clusterRoleSelectors[{i}]");
            let n_earlier = causes.0.len();
            validate_label_selector(&path, selector, causes);
            if causes.0.len() > n_earlier {
                causes.invalid(&path, &Value::Null, "invalid label selector.");
            }
        }
        // Declared rules come after those that are written by hand.
        for (i, _) in rules.iter().enumerate().filter(|(_, rule)| is_empty(&rule["verbs"])) {
            causes.required(&format!("rules[{i}].verbs"), "");
        }
    }

    /// What aggregates permissions may stop doing so only by a user who may set it up.
    fn authorize_update(&self, context: &Context<'_>, _new: &Value, old: &Value) -> ApiResult {
        if old["aggregationRule"].is_null() { Ok(()) } else { self.authorize(context, old) }
    }

    /// The user must hold every permission of the role, or the verb `escalate` on it.
    fn authorize(&self, context: &Context<'_>, value: &Value) -> ApiResult {
        let (namespace, name) = key(value);
        if is_exempt(context, "escalate", self.0, namespace, name) {
            return Ok(());
        }
        let rules = if value["aggregationRule"].is_null() {
            PolicyRule::list(&value["rules"])
        } else {
            // An aggregated role may later contain any permission.
            PolicyRule::list(&json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]}]))
        };
        check_held(context, self.0, namespace, name, &rules)
    }
}

pub struct RoleBinding(pub &'static Resource);

impl Strategy for RoleBinding {
    fn default(&self, value: &mut Value) {
        if let Some(role) = object(value, "roleRef") {
            default_text(role, "apiGroup", GROUP);
        }
        for subject in items_mut(value, "subjects").iter_mut().filter_map(Value::as_object_mut) {
            if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
                default_text(subject, "apiGroup", GROUP);
            }
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::path_segment(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_binding(self.0, value, causes);
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        causes.unchanged("roleRef", &new["roleRef"], &old["roleRef"]);
    }

    /// The user must hold every permission of the bound role, or the verb `bind` on it.
    fn authorize(&self, context: &Context<'_>, value: &Value) -> ApiResult {
        let (namespace, name) = key(value);
        let role = &value["roleRef"];
        let roles = if text(role, "/kind") == "ClusterRole" { &CLUSTER_ROLES } else { &ROLES };
        let role_name = text(role, "/name");
        if is_exempt(context, "bind", roles, namespace, role_name) {
            return Ok(());
        }
        let parts = role_of(role, namespace).and_then(|role| context.lookup.rules_of_role(&role));
        let parts = parts.ok_or_else(|| Status::not_found(roles, role_name))?;
        let rules: Vec<PolicyRule> =
            parts.iter().flat_map(|part| PolicyRule::list(&part.value()["rules"])).collect();
        check_held(context, self.0, namespace, name, &rules)
    }
}

fn validate_rule(path: &str, rule: &Value, namespaced: bool, causes: &mut Causes) {
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
    causes.one_of("roleRef.kind", &role["kind"], kinds);
    causes.problems("roleRef.name", &role["name"], syntax::path_segment(text(role, "/name")));
    let subjects = items(value, "subjects");
    for (i, subject) in subjects.iter().enumerate() {
        let path = format!("subjects[{i}]");
        let group = match text(subject, "/kind") {
            "ServiceAccount" => {
                let name = text(subject, "/name");
                if !name.is_empty() {
                    causes.problems(&format!("{path}.name"), &name.into(), syntax::dns_subdomain(name));
                }
                if text(subject, "/namespace").is_empty() && !resource.namespaced {
                    causes.required(&format!("{path}.namespace"), "");
                }
                ""
            }
            "User" | "Group" => GROUP,
            _ => {
                let kinds = ["ServiceAccount", "User", "Group"];
                causes.one_of(&format!("{path}.kind"), &subject["kind"], &kinds);
                continue;
            }
        };
        if text(subject, "/apiGroup") != group {
            causes.not_supported(&format!("{path}.apiGroup"), &subject["apiGroup"], &[group]);
        }
    }
    causes.not_empty("roleRef.name", &role["name"]);
    for (i, subject) in subjects.iter().enumerate() {
        causes.not_empty(&format!("subjects[{i}].name"), &subject["name"]);
    }
}

/// Whether the user may grant permissions that it does not hold.
fn is_exempt(context: &Context<'_>, verb: &str, roles: &Resource, namespace: &str, name: &str) -> bool {
    let (group, resource) = (GROUP, roles.plural);
    let what = Attributes { verb, group, resource, namespace, name, ..Attributes::default() };
    context.user.is_in(MASTERS) || context.lookup.allows(context.user, &what)
}

/// Steps of work for finding out whether a user holds the rules of a role: some ten milliseconds.
const MAX_STEPS: u64 = 2_000_000;
/// Rules that a refusal names at most.
const MAX_NAMED: usize = 100;

/// Checks that the user holds every permission that an object grants.
fn check_held(
    context: &Context<'_>,
    resource: &Resource,
    namespace: &str,
    name: &str,
    rules: &[PolicyRule],
) -> ApiResult {
    let held = context.lookup.held(context.user, namespace);
    let budget = WorkBudget::new(MAX_STEPS);
    let mut beyond = Vec::new();
    for (i, rule) in rules.iter().enumerate() {
        match held.covers(rule, &budget) {
            Ok(true) => {}
            Ok(false) => beyond.push(rule),
            Err(error) => {
                let message = format!(
                    "{} {name:?}: rules[{i}]: whether user {:?} holds these permissions takes {error} to find out: \
                     grant fewer permissions at once, or let a user with the verb \"escalate\" or \"bind\" grant them",
                    resource.group_resource(),
                    context.user.name
                );
                return Err(Status::new(Reason::RequestEntityTooLarge, message));
            }
        }
    }
    if beyond.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> = beyond.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    missing.sort();
    if beyond.len() > MAX_NAMED {
        missing.push(format!("and {} more rules", beyond.len() - MAX_NAMED));
    }
    let why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        context.user.name,
        quoted(&context.user.groups),
        missing.join("\n")
    );
    Err(Status::forbidden(resource, name, &why))
}

pub const BINDING_COLUMNS: &[Column] = &[
    NAME,
    Column::text("Role", "Role that is bound.", |row| {
        let text = |pointer: &str| row.text(pointer).unwrap_or_default();
        format!("{}/{}", text("/roleRef/kind"), text("/roleRef/name")).into()
    }),
    AGE,
    Column::text("Users", "Users it is bound to.", |row| subjects(row, "User")).wide(),
    Column::text("Groups", "Groups it is bound to.", |row| subjects(row, "Group")).wide(),
    Column::text("ServiceAccounts", "Service accounts it is bound to.", |row| {
        subjects(row, "ServiceAccount")
    })
    .wide(),
];

/// The subjects of a kind, joined; service accounts with their namespaces.
fn subjects(row: &Row<'_>, kind: &str) -> Value {
    let of_kind = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
    let shown = of_kind.map(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(", ").into()
}
