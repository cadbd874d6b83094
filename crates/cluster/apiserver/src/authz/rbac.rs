//! Roles and their bindings (`rbac.authorization.k8s.io/v1`) as rules: permissions beyond the built-in ones of users,
//! the admin and nodes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use berth_api::object::{LabelSelector, NamespacedName};
use berth_api::read::from_value;
use berth_api::rules::Selector;
use berth_schema::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource};
use serde_json::Value;

use super::builtin::is_allowed;
use crate::request::{Attributes, SERVICE_ACCOUNT_PREFIX, User};
use crate::store::{Derived, Filter, Object, Store};

/// The group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// Rules with more single permissions than this altogether are not expanded; the rest counts as not granted.
const MAX_COMBINATIONS: usize = 100_000;
const RESOURCES: [&Resource; 4] = [&CLUSTER_ROLES, &CLUSTER_ROLE_BINDINGS, &ROLES, &ROLE_BINDINGS];

/// A rule of a role. `*` in a list matches every value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// Verbs.
    pub verbs: Vec<String>,
    /// API groups.
    pub api_groups: Vec<String>,
    /// Plurals, with `/SUBRESOURCE` for a subresource.
    pub resources: Vec<String>,
    /// Names of objects; all if there are none.
    pub resource_names: Vec<String>,
    /// Non-resource URLs; a trailing `*` matches any suffix.
    pub non_resource_urls: Vec<String>,
}

/// A grant of a binding to a subject.
#[derive(Clone, Debug)]
struct Grant {
    /// The namespace; `None` for all namespaces, cluster-scoped resources and paths.
    namespace: Option<Arc<str>>,
    rules: Arc<[PolicyRule]>,
}

/// The grants by subject.
#[derive(Debug, Default)]
pub struct Grants {
    cluster_roles: HashMap<String, Arc<[PolicyRule]>>,
    roles: HashMap<NamespacedName, Arc<[PolicyRule]>>,
    users: HashMap<String, Vec<Grant>>,
    groups: HashMap<String, Vec<Grant>>,
}

impl Grants {
    /// The grants in a store, computed again when roles or bindings change.
    pub fn derived(store: &Store) -> Derived<Grants> {
        let grants = |store: &Store| {
            Arc::new(Grants::of(RESOURCES.map(|resource| store.list(resource, &Filter::default()).1)))
        };
        Derived::new(store, &RESOURCES, grants)
    }

    /// `objects` are cluster roles, their bindings, roles and theirs.
    fn of([cluster_roles, cluster_bindings, roles, bindings]: [Vec<Arc<Object>>; 4]) -> Grants {
        let rules_of =
            |role: &Arc<Object>| -> Arc<[PolicyRule]> { PolicyRule::list(&role.value()["rules"]).into() };
        let plain: HashMap<&str, Arc<[PolicyRule]>> =
            cluster_roles.iter().map(|role| (&*role.facts.name, rules_of(role))).collect();
        let of_cluster =
            |role: &Arc<Object>| (role.facts.name.to_string(), aggregated(role, &cluster_roles, &plain));
        let of_namespace = |role: &Arc<Object>| {
            (NamespacedName::new(&role.facts.namespace, &role.facts.name), rules_of(role))
        };
        let mut grants = Grants {
            cluster_roles: cluster_roles.iter().map(of_cluster).collect(),
            roles: roles.iter().map(of_namespace).collect(),
            ..Grants::default()
        };
        for binding in cluster_bindings {
            let value = binding.value();
            if let Some(rules) = grants.role(&value["roleRef"], "") {
                grants.bind(&value, "", &Grant { namespace: None, rules });
            }
        }
        for binding in bindings {
            let value = binding.value();
            let namespace = &*binding.facts.namespace;
            if let Some(rules) = grants.role(&value["roleRef"], namespace) {
                let grant = Grant { namespace: Some(namespace.into()), rules };
                grants.bind(&value, namespace, &grant);
            }
        }
        grants
    }

    /// The rules of the role that a binding in a namespace names; `None` if there is no such role.
    pub fn role(&self, role: &Value, namespace: &str) -> Option<Arc<[PolicyRule]>> {
        let name = text(role, "name");
        match role["kind"].as_str() {
            Some("ClusterRole") => self.cluster_roles.get(name).cloned(),
            _ => self.roles.get(&NamespacedName::new(namespace, name)).cloned(),
        }
    }

    /// The rules that exceed the user's permissions in the namespace (in all namespaces, if it is empty).
    pub fn beyond<'r>(&self, user: &User, namespace: &str, rules: &'r [PolicyRule]) -> Vec<&'r PolicyRule> {
        let holds = |what: &Attributes<'_>| is_allowed(user, what) || self.allow(user, what);
        let mut left = MAX_COMBINATIONS;
        let is_granted = |rule: &&PolicyRule| {
            let room = left.checked_sub(rule.combinations());
            left = room.unwrap_or(0);
            room.is_some() && rule.all(namespace, holds)
        };
        let (_, beyond): (Vec<_>, Vec<_>) = rules.iter().partition(is_granted);
        beyond
    }

    fn bind(&mut self, binding: &Value, namespace: &str, grant: &Grant) {
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let name = text(subject, "name");
            let of = match subject["kind"].as_str() {
                Some("User") => self.users.entry(name.to_owned()),
                Some("Group") => self.groups.entry(name.to_owned()),
                Some("ServiceAccount") => {
                    let own = Some(text(subject, "namespace")).filter(|own| !own.is_empty());
                    let namespace = own.unwrap_or(namespace);
                    self.users.entry(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"))
                }
                _ => continue,
            };
            of.or_default().push(grant.clone());
        }
    }

    fn of_user<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a Grant> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        self.users.get(&user.name).into_iter().chain(groups).flatten()
    }

    /// Whether a role grants a user a permission.
    pub fn allow(&self, user: &User, what: &Attributes<'_>) -> bool {
        self.of_user(user).any(|grant| {
            let here = match &grant.namespace {
                None => true,
                Some(namespace) => !what.resource.is_empty() && **namespace == *what.namespace,
            };
            here && grant.rules.iter().any(|rule| rule.allows(what))
        })
    }

    /// The rules a user has in a namespace, each once.
    pub fn rules(&self, user: &User, namespace: &str) -> Vec<&PolicyRule> {
        let here =
            self.of_user(user).filter(|grant| grant.namespace.as_deref().is_none_or(|n| n == namespace));
        let mut seen = HashSet::new();
        here.flat_map(|grant| grant.rules.iter()).filter(|rule| seen.insert(format!("{rule:?}"))).collect()
    }
}

impl PolicyRule {
    /// The rules of a role, as it is stored.
    pub fn list(rules: &Value) -> Vec<PolicyRule> {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let rule = |rule: &Value| PolicyRule {
            verbs: texts(rule, "verbs"),
            api_groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            resource_names: texts(rule, "resourceNames"),
            non_resource_urls: texts(rule, "nonResourceURLs"),
        };
        rules.as_array().into_iter().flatten().map(rule).collect()
    }

    /// The number of its single permissions.
    fn combinations(&self) -> usize {
        let product = |lists: &[&Vec<String>]| {
            lists.iter().map(|list| list.len().max(1)).fold(1, usize::saturating_mul)
        };
        product(&[&self.verbs, &self.api_groups, &self.resources, &self.resource_names])
            .saturating_add(product(&[&self.verbs, &self.non_resource_urls]))
    }

    /// Whether a predicate holds for every permission of the rule in a namespace.
    fn all(&self, namespace: &str, holds: impl Fn(&Attributes<'_>) -> bool) -> bool {
        // Only rules for objects of every name cover a rule without names: no object has this name, and no role names it.
        let nameless = ["\0".to_owned()];
        let names = if self.resource_names.is_empty() { &nameless[..] } else { &self.resource_names };
        self.verbs.iter().all(|verb| {
            self.non_resource_urls
                .iter()
                .all(|path| holds(&Attributes { verb, path, ..Attributes::default() }))
                && self.api_groups.iter().all(|group| {
                    self.resources.iter().all(|resource| {
                        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                        names.iter().all(|name| {
                            holds(&Attributes {
                                verb,
                                group,
                                resource,
                                subresource,
                                namespace,
                                name,
                                ..Attributes::default()
                            })
                        })
                    })
                })
        })
    }

    fn allows(&self, what: &Attributes<'_>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        if !has(&self.verbs, what.verb) {
            return false;
        }
        if what.resource.is_empty() {
            return self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                Some(prefix) => what.path.starts_with(prefix),
                None => url == what.path,
            });
        }
        has(&self.api_groups, what.group)
            && self.resources.iter().any(|resource| covers(resource, what))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == what.name))
    }
}

/// Whether a rule's resource (`*`, `pods`, `pods/binding`, `*/scale`) matches a resource.
fn covers(resource: &str, what: &Attributes<'_>) -> bool {
    match resource.split_once('/') {
        _ if resource == "*" => true,
        None => resource == what.resource && what.subresource.is_empty(),
        Some((plural, sub)) => {
            (plural == "*" || plural == what.resource) && sub == what.subresource && !sub.is_empty()
        }
    }
}

/// A cluster role's rules; for an aggregated role, the rules of all cluster roles that it selects.
fn aggregated(
    role: &Object,
    all: &[Arc<Object>],
    plain: &HashMap<&str, Arc<[PolicyRule]>>,
) -> Arc<[PolicyRule]> {
    let value = role.value();
    let Some(selectors) = value["aggregationRule"]["clusterRoleSelectors"].as_array() else {
        return plain.get(&*role.facts.name).cloned().unwrap_or_default();
    };
    let selectors: Vec<Selector> = selectors
        .iter()
        .filter_map(|selector| Selector::parse(Some(&from_value::<LabelSelector>(selector).ok()?)).ok())
        .collect();
    let selected = |other: &&Arc<Object>| {
        selectors.iter().any(|selector| selector.matches(|key| other.facts.label(key)))
            && other.value()["aggregationRule"].is_null()
    };
    let rules = all.iter().filter(selected).filter_map(|other| plain.get(&*other.facts.name));
    rules.flat_map(|rules| rules.iter().cloned()).collect()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// As kube-apiserver prints a rule.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let said = lists.iter().filter(|(_, list)| !list.is_empty());
        let said: Vec<String> = said.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        write!(f, "{{{}}}", said.join(", "))
    }
}

/// Texts in Go's format of a quoted list: `["a" "b"]`.
pub fn quoted(texts: &[String]) -> String {
    let each: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", each.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: Value) -> PolicyRule {
        PolicyRule::list(&json!([value])).remove(0)
    }

    #[test]
    fn rules_cover_the_permissions_they_name() {
        let binding = Attributes {
            verb: "create",
            resource: "pods",
            subresource: "binding",
            name: "p",
            ..Attributes::default()
        };
        let list = Attributes { verb: "list", resource: "pods", ..Attributes::default() };
        let path = Attributes { verb: "get", path: "/metrics/x", ..Attributes::default() };
        let of = |group: &str, verbs: &[&str], resources: &[&str], names: &[&str]| {
            rule(
                json!({"apiGroups": [group], "verbs": verbs, "resources": resources, "resourceNames": names}),
            )
        };
        for (rule, wanted) in [
            (of("", &["create"], &["pods/binding"], &[]), [true, false]),
            (of("", &["*"], &["pods"], &[]), [false, true]),
            (of("", &["*"], &["*/binding"], &[]), [true, false]),
            (of("*", &["*"], &["*"], &[]), [true, true]),
            (of("apps", &["*"], &["*"], &[]), [false, false]),
            (of("", &["create", "list"], &["pods/*", "pods"], &[]), [false, true]),
            (of("", &["*"], &["*"], &["p"]), [true, false]),
            (of("", &["*"], &["*"], &["q"]), [false, false]),
        ] {
            assert_eq!([&binding, &list].map(|what| rule.allows(what)), wanted, "{rule:?}");
            assert!(!rule.allows(&path));
        }
        for (url, wanted) in [("/metrics", false), ("/metrics/*", true), ("*", true), ("/metrics/x", true)] {
            let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": [url]}));
            assert_eq!(rule.allows(&path), wanted, "{url}");
            assert!(!rule.allows(&list));
        }
    }
}
