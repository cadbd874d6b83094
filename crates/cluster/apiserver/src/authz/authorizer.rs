//! Whether a user may do something: built-in permissions, the Node authorizer, roles.

use std::sync::Arc;

use super::builtin::is_allowed;
use super::node;
use super::rbac::Grants;
use super::rules::{Rules, rules_for};
use crate::request::{Attributes, User, refusal};
use crate::store::{Derived, Store};

/// Authorizes requests by the objects of a store.
pub struct Authorizer {
    store: Store,
    grants: Derived<Grants>,
}

impl Authorizer {
    /// Authorizes by the roles, bindings and pods of a store.
    pub fn new(store: &Store) -> Authorizer {
        Authorizer { store: store.clone(), grants: Grants::derived(store) }
    }

    /// Whether a user may do something.
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

    /// Checks a user by the Node authorizer.
    fn check_node(&self, user: &User, what: &Attributes<'_>) -> Result<(), String> {
        match user.node_name() {
            Some(node) if !node.is_empty() => node::check(&self.store, node, what),
            _ => Err(String::new()),
        }
    }

    /// Grants of roles and their bindings.
    pub fn grants(&self) -> Arc<Grants> {
        self.grants.get()
    }

    /// The permissions of a user in a namespace.
    pub fn rules_of(&self, user: &User, namespace: &str) -> Rules {
        rules_for(user, &self.grants(), namespace)
    }
}
