//! The user of a request.

use std::collections::BTreeMap;

use berth_api::syntax;
use berth_rules::admission::node_restriction::{NODE_USER_PREFIX, NODES_GROUP as NODES};
use serde_json::{Value, json};

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";
/// Prefix of service account user names; `NAMESPACE:NAME` follows.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Namespace and name of the service account that has a user name. A name that no account can have is a plain user's.
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let account = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':');
    account.filter(|(namespace, name)| {
        syntax::dns_label(namespace).is_empty() && syntax::dns_subdomain(name).is_empty()
    })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub fn admin() -> User {
        User {
            name: "kubernetes-admin".to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..User::default()
        }
    }

    /// A component of the cluster: `system:NAME`, which may do everything. Requests of components do not wait for those of
    /// people, who are the administrator.
    pub fn component(name: &str) -> User {
        User { name: format!("system:{name}"), ..User::admin() }
    }

    pub fn node(name: &str) -> User {
        User {
            name: format!("{NODE_USER_PREFIX}{name}"),
            groups: vec![NODES.to_owned(), AUTHENTICATED.to_owned()],
            ..User::default()
        }
    }

    /// A user without a token.
    pub fn anonymous() -> User {
        User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
    }

    /// Adds the groups that the name implies: those of a service account if no groups are given, and whether the user
    /// is authenticated, which every user except `system:anonymous` is.
    #[must_use]
    pub fn with_implied_groups(mut self) -> User {
        if let Some((namespace, _)) = service_account(&self.name).filter(|_| self.groups.is_empty()) {
            self.groups.push("system:serviceaccounts".to_owned());
            self.groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let implied = if self.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !self.is_in(implied) {
            self.groups.push(implied.to_owned());
        }
        self
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The node whose identity this is; empty if the user is a node without a name, which may do nothing.
    pub fn node_name(&self) -> Option<&str> {
        if self.is_in(NODES) { self.name.strip_prefix(NODE_USER_PREFIX) } else { None }
    }

    pub fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = Value::from(self.uid.as_str());
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
