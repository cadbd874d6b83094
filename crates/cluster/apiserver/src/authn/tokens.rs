//! Tokens and the users that they identify.
//!
//! All tokens are derived from one secret: `KIND.SUBJECT.MAC`. Node tokens need no table, and a
//! token is valid as long as the secret is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::request::{SERVICE_ACCOUNT_PREFIX, User};

/// The audience of this server. Tokens that are requested without audiences are for it.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: Arc<User>,
    /// What must still hold for a service account's token.
    pub claims: Option<Claims>,
}

/// The subject of a service account's token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Namespace of the account.
    pub namespace: String,
    /// Name of the account.
    pub name: String,
    /// Uid of the account: no other of the same name is meant.
    pub uid: String,
    /// When the token expires, in seconds since 1970.
    pub expires: u64,
    /// Who accepts the token.
    pub audiences: Vec<String>,
    /// The object with which the token becomes invalid.
    pub bound: Option<Bound>,
    /// The node of a bound pod: its name and uid. The token stays valid without it.
    pub node: Option<(String, String)>,
    /// Distinguishes tokens of the same account.
    pub id: String,
}

/// An object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// `Pod`, `Secret` or `Node`.
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Claims {
    fn user(&self) -> User {
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, value: &str| {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        };
        add("credential-id", &format!("JTI={}", self.id));
        if let Some(Bound { kind, name, uid }) = self.bound.as_ref().filter(|bound| bound.kind != "Secret") {
            add(&format!("{}-name", kind.to_ascii_lowercase()), name);
            add(&format!("{}-uid", kind.to_ascii_lowercase()), uid);
        }
        if let Some((name, uid)) = &self.node {
            add("node-name", name);
            add("node-uid", uid);
        }
        let name = format!("{SERVICE_ACCOUNT_PREFIX}{}:{}", self.namespace, self.name);
        User { name, uid: self.uid.clone(), groups: Vec::new(), extra }.with_implied_groups()
    }
}

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

    pub fn admin(&self) -> &str {
        &self.admin_token
    }

    pub fn component(&self, name: &str) -> String {
        signed(&self.key, "component", name)
    }

    pub fn node(&self, name: &str) -> String {
        signed(&self.key, "node", name)
    }

    pub fn service_account(&self, claims: &Claims) -> String {
        signed(&self.key, "sa", &json!(claims).to_string())
    }

    /// The identity of a token; `None` if it is invalid or has expired. The caller checks the claims against stored
    /// objects.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let (kind, rest) = token.split_once('.')?;
        let (subject, mac) = rest.split_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let subject = String::from_utf8(URL_SAFE_NO_PAD.decode(subject).ok()?).ok()?;
        hmac::verify(&self.key, format!("{kind}\n{subject}").as_bytes(), &mac).ok()?;
        match kind {
            "admin" => Some(Identity { user: self.admin.clone(), claims: None }),
            "component" => Some(Identity { user: Arc::new(User::component(&subject)), claims: None }),
            "node" => Some(Identity { user: Arc::new(User::node(&subject)), claims: None }),
            "sa" => {
                let claims: Claims = serde_json::from_str(&subject).ok()?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
                let user = Arc::new(claims.user());
                (now < claims.expires).then_some(Identity { user, claims: Some(claims) })
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
    use crate::request::{AUTHENTICATED, MASTERS};

    #[test]
    fn tokens_identify_users() {
        let tokens = Tokens::new(&[7; 32]);
        assert!(tokens.authenticate(tokens.admin()).unwrap().user.is_in(MASTERS));
        let scheduler = tokens.authenticate(&tokens.component("kube-scheduler")).unwrap().user;
        assert_eq!((scheduler.name.as_str(), scheduler.is_in(MASTERS)), ("system:kube-scheduler", true));
        let node = tokens.authenticate(&tokens.node("n.1")).unwrap().user;
        assert_eq!((node.name.as_str(), node.node_name()), ("system:node:n.1", Some("n.1")));
        let token = |expires| {
            tokens.service_account(&Claims {
                namespace: "ns".into(),
                name: "bot".into(),
                uid: "u".into(),
                expires,
                audiences: Vec::new(),
                bound: None,
                node: None,
                id: "1".into(),
            })
        };
        let account = tokens.authenticate(&token(u64::MAX)).unwrap().user;
        assert_eq!((account.name.as_str(), account.uid.as_str()), ("system:serviceaccount:ns:bot", "u"));
        assert_eq!(account.groups[1..], ["system:serviceaccounts:ns", AUTHENTICATED]);
        let expired = token(1);
        let of_another = Tokens::new(&[8; 32]).admin().to_owned();
        let promoted = tokens.node("n").replacen("node", "admin", 1);
        for bad in ["", "a", "admin..", "admin.x.y", &expired, &of_another, &promoted] {
            assert_eq!(tokens.authenticate(bad), None, "{bad}");
        }
    }
}
