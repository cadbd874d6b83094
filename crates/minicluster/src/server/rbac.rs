//! Roles and their bindings (`rbac.authorization.k8s.io/v1`) as rules: what a user may do besides what everyone, the
//! admin and nodes may.
//!
//! Roles are not guarded against escalation: whoever may write them may give away anything.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::object::LabelSelector;
use berth_api::rules::Selector;
use serde::Deserialize as _;
use serde_json::Value;

use super::authorize::Attributes;
use super::identity::{SERVICE_ACCOUNT_PREFIX, User};
use crate::resource::{Resource, find};
use crate::store::{Filter, Object, Store};

/// The group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
const PLURALS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

/// The roles of a cluster, read anew whenever they or their bindings change.
#[derive(Default)]
pub struct Roles(Mutex<(Option<[u64; 4]>, Arc<Grants>)>);

/// A rule of a role. A list that holds `*` stands for everything.
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
    /// Paths that are not resources'; a `*` at the end stands for any rest.
    pub non_resource_urls: Vec<String>,
}

/// What a binding gives to a subject.
#[derive(Clone, Debug)]
struct Grant {
    /// Where; `None` for everywhere, cluster-scoped resources and paths included.
    namespace: Option<Arc<str>>,
    rules: Arc<[PolicyRule]>,
}

/// Who is given what.
#[derive(Debug, Default)]
pub struct Grants {
    users: HashMap<String, Vec<Grant>>,
    groups: HashMap<String, Vec<Grant>>,
}

impl Roles {
    /// What the roles and bindings in the store come to.
    pub fn grants(&self, store: &Store) -> Arc<Grants> {
        let resources = PLURALS.map(|plural| find(GROUP, "v1", plural));
        // Read before the objects are: what changes in between is read again by whoever comes next.
        let versions = resources.map(|r| r.map_or(0, |resource| *store.changes(resource).borrow()));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != Some(versions) {
            let list = |resource: Option<&'static Resource>| {
                resource.map_or_else(Vec::new, |resource| store.list(resource, &Filter::default()).1)
            };
            *known = (Some(versions), Arc::new(Grants::of(resources.map(list))));
        }
        known.1.clone()
    }
}

impl Grants {
    /// `objects` are cluster roles, their bindings, roles and theirs.
    fn of([cluster_roles, cluster_bindings, roles, bindings]: [Vec<Arc<Object>>; 4]) -> Grants {
        let rules_of = |role: &Arc<Object>| -> Arc<[PolicyRule]> { rules(&role.value()["rules"]).into() };
        let plain: HashMap<&str, Arc<[PolicyRule]>> =
            cluster_roles.iter().map(|role| (&*role.facts.name, rules_of(role))).collect();
        let of_cluster: HashMap<&str, Arc<[PolicyRule]>> = cluster_roles
            .iter()
            .map(|role| (&*role.facts.name, aggregated(role, &cluster_roles, &plain)))
            .collect();
        let of_namespace: HashMap<(&str, &str), Arc<[PolicyRule]>> =
            roles.iter().map(|role| ((&*role.facts.namespace, &*role.facts.name), rules_of(role))).collect();
        let mut grants = Grants::default();
        for binding in cluster_bindings {
            let value = binding.value();
            if let Some(rules) = of_cluster.get(text(&value["roleRef"], "name")) {
                grants.bind(&value, "", &Grant { namespace: None, rules: rules.clone() });
            }
        }
        for binding in bindings {
            let value = binding.value();
            let namespace = &*binding.facts.namespace;
            let name = text(&value["roleRef"], "name");
            let rules = match value["roleRef"]["kind"].as_str() {
                Some("ClusterRole") => of_cluster.get(name),
                _ => of_namespace.get(&(namespace, name)),
            };
            if let Some(rules) = rules {
                let grant = Grant { namespace: Some(namespace.into()), rules: rules.clone() };
                grants.bind(&value, namespace, &grant);
            }
        }
        grants
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

    /// Whether a user is given the right to do something.
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

/// Whether a rule's resource (`*`, `pods`, `pods/binding`, `*/scale`) is the one that is meant.
fn covers(resource: &str, what: &Attributes<'_>) -> bool {
    match resource.split_once('/') {
        _ if resource == "*" => true,
        None => resource == what.resource && what.subresource.is_empty(),
        Some((plural, sub)) => {
            (plural == "*" || plural == what.resource) && sub == what.subresource && !sub.is_empty()
        }
    }
}

/// A cluster role's rules; those of all that it selects, if it selects.
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
        .filter_map(|selector| Selector::parse(Some(&LabelSelector::deserialize(selector).ok()?)).ok())
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

fn rules(list: &Value) -> Vec<PolicyRule> {
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
    list.as_array().into_iter().flatten().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: Value) -> PolicyRule {
        rules(&json!([value])).remove(0)
    }

    #[test]
    fn rules_cover_what_they_name() {
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
