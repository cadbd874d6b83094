//! Roles and their bindings (`rbac.authorization.k8s.io/v1`): permissions beyond the built-in ones. Each is compiled when
//! it is written; a change replaces what it concerns.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_schema::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource};
use serde_json::Value;
use smallvec::SmallVec;

use super::builtin;
use super::held::HeldPermissions;
use super::role::Role;
use crate::request::{Attributes, SERVICE_ACCOUNT_PREFIX, User};
use crate::store::{Compiled, Filter, Object, Store};

/// The group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// The resources that grants are made of.
pub const RESOURCES: [&Resource; 4] = [&CLUSTER_ROLES, &CLUSTER_ROLE_BINDINGS, &ROLES, &ROLE_BINDINGS];
/// The kinds of subjects in their keys.
const USER: char = 'u';
const USER_GROUP: char = 'g';

#[derive(Debug, Default)]
pub struct Grants {
    /// The version up to which each of the resources is known.
    known: [Option<u64>; RESOURCES.len()],
    /// By namespace and name; cluster roles have no namespace.
    roles: HashMap<NamespacedName, StoredRole>,
    /// Like the roles.
    bindings: HashMap<NamespacedName, Arc<Binding>>,
    /// The roles that bindings give a subject, one for each binding, by [`subject_key`].
    bound: HashMap<Arc<str>, SmallVec<[Arc<NamespacedName>; 1]>>,
}

/// The key of a subject in a namespace, which is empty for cluster-wide bindings.
fn subject_key(kind: char, namespace: &str, name: &str) -> String {
    format!("{kind}{namespace}/{name}")
}

#[derive(Debug)]
struct StoredRole {
    object: Arc<Object>,
    role: Arc<Role>,
    /// For an aggregated role, the roles that it selects.
    parts: Vec<(Arc<Object>, Arc<Role>)>,
}

impl StoredRole {
    fn parts(&self) -> impl Iterator<Item = (&Arc<Object>, &Arc<Role>)> {
        let own = self.role.aggregates.is_none().then_some((&self.object, &self.role));
        own.into_iter().chain(self.parts.iter().map(|(object, role)| (object, role)))
    }
}

#[derive(Debug)]
pub struct Binding {
    role: Option<Arc<NamespacedName>>,
    /// The keys of its subjects.
    subjects: Box<[Arc<str>]>,
}

/// The role that a binding in a namespace names.
pub fn role_of(role: &Value, namespace: &str) -> Option<NamespacedName> {
    let name = role["name"].as_str().unwrap_or_default();
    match role["kind"].as_str() {
        Some("ClusterRole") => Some(NamespacedName::new("", name)),
        _ => (!namespace.is_empty()).then(|| NamespacedName::new(namespace, name)),
    }
}

impl Compiled for Binding {
    fn compile(value: Cow<'_, Value>) -> Binding {
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let namespace = text(&value["metadata"], "namespace");
        let key = |subject: &Value| {
            let name = text(subject, "name");
            Some(match subject["kind"].as_str()? {
                "User" => subject_key(USER, &namespace, &name),
                "Group" => subject_key(USER_GROUP, &namespace, &name),
                "ServiceAccount" => {
                    let own = Some(text(subject, "namespace")).filter(|own| !own.is_empty());
                    let account = own.as_ref().unwrap_or(&namespace);
                    subject_key(USER, &namespace, &format!("{SERVICE_ACCOUNT_PREFIX}{account}:{name}"))
                }
                _ => return None,
            })
        };
        let subjects = value["subjects"].as_array().into_iter().flatten();
        Binding {
            role: role_of(&value["roleRef"], &namespace).map(Arc::new),
            subjects: subjects.filter_map(|subject| Some(key(subject)?.into())).collect(),
        }
    }
}

impl Grants {
    /// Compiles roles and bindings of a store when they are written.
    pub fn compile_in(store: &Store) {
        for roles in [&CLUSTER_ROLES, &ROLES] {
            store.compile_as::<Role>(roles);
        }
        for bindings in [&CLUSTER_ROLE_BINDINGS, &ROLE_BINDINGS] {
            store.compile_as::<Binding>(bindings);
        }
    }

    /// Whether everything up to these versions is known.
    pub fn is_current(&self, versions: [u64; RESOURCES.len()]) -> bool {
        self.known == versions.map(Some)
    }

    /// Applies all changes up to some versions, at least.
    pub fn update(&mut self, store: &Store, versions: [u64; RESOURCES.len()]) {
        let mut cluster_roles_changed = false;
        for (i, resource) in RESOURCES.into_iter().enumerate() {
            if self.known[i] == Some(versions[i]) {
                continue;
            }
            let all = Filter::default();
            let since = self.known[i].and_then(|known| {
                let (_, events) = store.events_for(resource, &all, known, usize::MAX).ok()?;
                Some(events.into_iter().map(|event| name_of(&event.object)).collect())
            });
            let changed: HashSet<NamespacedName> = since.unwrap_or_else(|| {
                // At the start, or when the history has been forgotten: everything that is or was there.
                let (_, objects) = store.list(resource, &all);
                let is_namespaced =
                    |name: &&NamespacedName| name.namespace().is_empty() != resource.namespaced;
                let known: Vec<_> = match is_role(resource) {
                    true => self.roles.keys().filter(is_namespaced).cloned().collect(),
                    false => self.bindings.keys().filter(is_namespaced).cloned().collect(),
                };
                objects.iter().map(|object| name_of(object)).chain(known).collect()
            });
            for name in changed {
                let object = store.get(resource, name.namespace(), name.name());
                match is_role(resource) {
                    true => self.set_role(name, object),
                    false => self.set_binding(name, object),
                }
            }
            cluster_roles_changed |= *resource == CLUSTER_ROLES;
            self.known[i] = Some(versions[i]);
        }
        if cluster_roles_changed {
            self.aggregate();
        }
    }

    fn set_role(&mut self, name: NamespacedName, object: Option<Arc<Object>>) {
        match object {
            Some(object) => {
                let role = object.compiled();
                self.roles.insert(name, StoredRole { object, role, parts: Vec::new() });
            }
            None => drop(self.roles.remove(&name)),
        }
    }

    /// Finds the rules of the aggregated roles: those of the cluster roles that they select.
    fn aggregate(&mut self) {
        let aggregates = |stored: &StoredRole| stored.role.aggregates.clone();
        let aggregated: Vec<_> = self
            .roles
            .iter()
            .filter_map(|(name, stored)| Some((name.clone(), aggregates(stored)?)))
            .collect();
        for (name, selectors) in aggregated {
            let is_selected = |stored: &StoredRole| {
                let labels = &stored.object.facts;
                stored.role.aggregates.is_none()
                    && labels.namespace().is_empty()
                    && selectors.iter().any(|selector| selector.matches(|key| labels.label(key)))
            };
            let selected = self.roles.values().filter(|stored| is_selected(stored));
            let parts = selected.map(|stored| (stored.object.clone(), stored.role.clone())).collect();
            if let Some(stored) = self.roles.get_mut(&name) {
                stored.parts = parts;
            }
        }
    }

    fn set_binding(&mut self, name: NamespacedName, object: Option<Arc<Object>>) {
        let binding: Option<Arc<Binding>> = object.map(|object| object.compiled());
        let earlier = match &binding {
            Some(binding) => self.bindings.insert(name, binding.clone()),
            None => self.bindings.remove(&name),
        };
        for (earlier, role) in earlier.iter().filter_map(|earlier| Some((earlier, earlier.role.as_ref()?))) {
            for subject in &earlier.subjects {
                let Some(roles) = self.bound.get_mut(subject) else { continue };
                roles.retain(|bound| !Arc::ptr_eq(bound, role));
                if roles.is_empty() {
                    self.bound.remove(subject);
                }
            }
        }
        for (binding, role) in binding.iter().filter_map(|binding| Some((binding, binding.role.as_ref()?))) {
            for subject in &binding.subjects {
                self.bound.entry(subject.clone()).or_default().push(role.clone());
            }
        }
    }

    /// The roles that a user has through bindings in a namespace; cluster-wide if it is empty.
    fn bound(&self, user: &User, namespace: &str) -> impl Iterator<Item = &StoredRole> {
        let groups = user.groups.iter().map(|group| subject_key(USER_GROUP, namespace, group));
        let subjects = [subject_key(USER, namespace, &user.name)].into_iter().chain(groups);
        let names = subjects.filter_map(|subject| self.bound.get(subject.as_str())).flatten();
        names.filter_map(|name| self.roles.get(&**name))
    }

    pub fn allow(&self, user: &User, what: &Attributes<'_>) -> bool {
        let namespace = Some(what.namespace).filter(|name| !name.is_empty() && !what.resource.is_empty());
        let allows = |stored: &StoredRole| stored.parts().any(|(_, role)| role.allows(what));
        self.bound(user, "").any(allows) || namespace.is_some_and(|name| self.bound(user, name).any(allows))
    }

    /// What a user holds in a namespace (in all namespaces, if it is empty).
    pub fn held(&self, user: &User, namespace: &str) -> HeldPermissions {
        let mut held =
            HeldPermissions { roles: builtin::roles(user).cloned().collect(), ..HeldPermissions::default() };
        let mut seen = HashSet::new();
        let mut add = |held: &mut HeldPermissions, namespace: &str| {
            for (object, role) in self.bound(user, namespace).flat_map(StoredRole::parts) {
                if seen.insert(Arc::as_ptr(role)) {
                    held.roles.push(role.clone());
                    held.objects.push(object.clone());
                }
            }
        };
        add(&mut held, "");
        held.n_cluster_wide = held.roles.len();
        if !namespace.is_empty() {
            add(&mut held, namespace);
        }
        held
    }

    /// The objects whose rules a role has; `None` if there is no such role.
    pub fn rules_of(&self, role: &NamespacedName) -> Option<Vec<Arc<Object>>> {
        Some(self.roles.get(role)?.parts().map(|(object, _)| object.clone()).collect())
    }
}

fn is_role(resource: &Resource) -> bool {
    *resource == CLUSTER_ROLES || *resource == ROLES
}

fn name_of(object: &Object) -> NamespacedName {
    NamespacedName::new(object.facts.namespace(), object.facts.name())
}
