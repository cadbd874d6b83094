//! Authentication: tokens and the users that they identify.
//!
//! All tokens are derived from one secret: `KIND.SUBJECT.MAC`. Node tokens need no table, and a
//! token is valid as long as the secret is.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::admission::node_restriction::{NODE_USER_PREFIX, NODES_GROUP as NODES};
use ring::hmac;

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Prefix of service account user names; `NAMESPACE:NAME` follows.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl User {
    /// The administrator.
    pub fn admin() -> User {
        User {
            name: "kubernetes-admin".to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
        }
    }

    /// A node's identity.
    pub fn node(name: &str) -> User {
        User {
            name: format!("{NODE_USER_PREFIX}{name}"),
            groups: vec![NODES.to_owned(), AUTHENTICATED.to_owned()],
        }
    }

    /// A user without a token.
    pub fn anonymous() -> User {
        User { name: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()] }
    }

    fn service_account(namespace: &str, name: &str) -> User {
        User::impersonated(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"), Vec::new())
    }

    /// An impersonated user. If the request names no groups, a service account gets its own;
    /// every user except `system:anonymous` is authenticated.
    pub fn impersonated(name: String, mut groups: Vec<String>) -> User {
        let account = name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
        if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        if name != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User { name, groups }
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The node whose identity this is.
    pub fn node_name(&self) -> Option<&str> {
        if self.is_in(NODES) { self.name.strip_prefix(NODE_USER_PREFIX) } else { None }
    }
}

/// The contents of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: Arc<User>,
    /// The service account that must still exist for it.
    pub account: Option<Account>,
}

/// A service account, and no other of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// Makes and reads tokens.
pub struct Tokens {
    key: hmac::Key,
    admin: Arc<User>,
    admin_token: String,
}

impl Tokens {
    /// Tokens derived from a secret.
    pub fn new(secret: &[u8; 32]) -> Tokens {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let admin_token = signed(&key, "admin", "");
        Tokens { key, admin: Arc::new(User::admin()), admin_token }
    }

    /// The administrator's token.
    pub fn admin(&self) -> &str {
        &self.admin_token
    }

    /// A node's token.
    pub fn node(&self, name: &str) -> String {
        signed(&self.key, "node", name)
    }

    /// A service account's token, valid until a time in seconds since 1970.
    pub fn service_account(&self, namespace: &str, name: &str, uid: &str, expires: u64) -> String {
        signed(&self.key, "sa", &format!("{namespace}/{name}/{uid}/{expires}"))
    }

    /// The identity of a token; `None` if it is invalid or has expired. The caller checks whether the service account
    /// still exists.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let (kind, rest) = token.split_once('.')?;
        let (subject, mac) = rest.split_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let subject = String::from_utf8(URL_SAFE_NO_PAD.decode(subject).ok()?).ok()?;
        hmac::verify(&self.key, format!("{kind}\n{subject}").as_bytes(), &mac).ok()?;
        match kind {
            "admin" => Some(Identity { user: self.admin.clone(), account: None }),
            "node" => Some(Identity { user: Arc::new(User::node(&subject)), account: None }),
            "sa" => {
                let mut parts = subject.split('/');
                let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
                let expires: u64 = parts.next()?.parse().ok()?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
                let account =
                    Account { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() };
                let user = Arc::new(User::service_account(namespace, name));
                (now < expires).then_some(Identity { user, account: Some(account) })
            }
            _ => None,
        }
    }
}

fn signed(key: &hmac::Key, kind: &str, subject: &str) -> String {
    let mac = hmac::sign(key, format!("{kind}\n{subject}").as_bytes());
    format!("{kind}.{}.{}", URL_SAFE_NO_PAD.encode(subject), URL_SAFE_NO_PAD.encode(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_identify_users() {
        let tokens = Tokens::new(&[7; 32]);
        assert!(tokens.authenticate(tokens.admin()).unwrap().user.is_in(MASTERS));
        let node = tokens.authenticate(&tokens.node("n.1")).unwrap().user;
        assert_eq!((node.name.as_str(), node.node_name()), ("system:node:n.1", Some("n.1")));
        let account = tokens.service_account("ns", "bot", "u", u64::MAX);
        assert_eq!(tokens.authenticate(&account).unwrap().user.name, "system:serviceaccount:ns:bot");
        let expired = tokens.service_account("ns", "bot", "u", 1);
        let of_another = Tokens::new(&[8; 32]).admin().to_owned();
        let promoted = tokens.node("n").replacen("node", "admin", 1);
        for bad in ["", "a", "admin..", "admin.x.y", &expired, &of_another, &promoted] {
            assert_eq!(tokens.authenticate(bad), None, "{bad}");
        }
    }
}
