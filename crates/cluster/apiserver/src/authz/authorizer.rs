//! Whether a user may do something: built-in permissions, the Node authorizer, roles.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use berth_api::object::NamespacedName;
use tokio::sync::watch;

use super::builtin::is_allowed;
use super::grants::{Grants, RESOURCES};
use super::held::HeldPermissions;
use super::node;
use super::rules::{Rules, rules_for};
use crate::request::{Attributes, User, refusal};
use crate::store::{Object, Store};

pub struct Authorizer {
    store: Store,
    /// The last versions of roles and bindings.
    versions: [watch::Receiver<u64>; RESOURCES.len()],
    grants: RwLock<Grants>,
}

impl Authorizer {
    /// Authorizes by the roles, bindings and pods of a store.
    pub fn new(store: &Store) -> Authorizer {
        Grants::compile_in(store);
        let versions = RESOURCES.map(|resource| store.changes(resource));
        let authorizer = Authorizer { store: store.clone(), versions, grants: RwLock::default() };
        // What was stored before is read now, not by the first request.
        drop(authorizer.grants());
        authorizer
    }

    pub fn allows(&self, user: &User, what: &Attributes<'_>) -> bool {
        is_allowed(user, what) || self.check_node(user, what).is_ok() || self.grants().allow(user, what)
    }

    /// Checks whether a user may do something.
    ///
    /// # Errors
    /// The user may not; the text is the reason.
    pub fn check(&self, user: &User, what: &Attributes<'_>) -> Result<(), String> {
        if self.allows(user, what) {
            return Ok(());
        }
        let why = refusal(user, what);
        match self.check_node(user, what) {
            Err(reason) if !reason.is_empty() => Err(format!("{why}: {reason}")),
            _ => Err(why),
        }
    }

    fn check_node(&self, user: &User, what: &Attributes<'_>) -> Result<(), String> {
        match user.node_name() {
            Some(node) if !node.is_empty() => node::check(&self.store, node, what),
            _ => Err(String::new()),
        }
    }

    /// The grants of all roles and bindings that are written.
    fn grants(&self) -> RwLockReadGuard<'_, Grants> {
        let versions = self.versions.each_ref().map(|version| *version.borrow());
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        if grants.is_current(versions) {
            return grants;
        }
        drop(grants);
        self.grants.write().unwrap_or_else(PoisonError::into_inner).update(&self.store, versions);
        self.grants.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a user holds in a namespace (in all namespaces, if it is empty).
    pub fn held(&self, user: &User, namespace: &str) -> HeldPermissions {
        self.grants().held(user, namespace)
    }

    /// The objects whose rules a role has; `None` if there is no such role.
    pub fn rules_of_role(&self, role: &NamespacedName) -> Option<Vec<Arc<Object>>> {
        self.grants().rules_of(role)
    }

    pub fn rules_of(&self, user: &User, namespace: &str) -> Rules {
        rules_for(user, &self.held(user, namespace))
    }
}
