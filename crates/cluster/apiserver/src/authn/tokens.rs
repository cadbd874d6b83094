//! Tokens and the users that they identify.
//!
//! All tokens are derived from one secret: `KIND.SUBJECT.MAC`, and those of service accounts are JWTs. Node tokens need no table, and a
//! token is valid as long as the secret is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use ring::{digest, hmac};
use serde_json::{Value, json};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub namespace: String,
    pub name: String,
    /// Uid of the account: no other of the same name is meant.
    pub uid: String,
    /// When the token was made and when it expires, in seconds since 1970.
    pub issued: u64,
    pub expires: u64,
    pub audiences: Vec<String>,
    /// The object with which the token becomes invalid.
    pub bound: Option<Bound>,
    /// The node of a bound pod: its name and uid. The token stays valid without it.
    pub node: Option<(String, String)>,
    /// Distinguishes tokens of the same account.
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// `Pod`, `Secret` or `Node`.
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Claims {
    /// The claims as Kubernetes names them.
    fn to_value(&self) -> Value {
        let named = |name: &str, uid: &str| json!({"name": name, "uid": uid});
        let mut own = json!({"namespace": self.namespace, "serviceaccount": named(&self.name, &self.uid)});
        if let Some(Bound { kind, name, uid }) = &self.bound {
            own[kind.to_ascii_lowercase()] = named(name, uid);
        }
        if let Some((name, uid)) = &self.node {
            own["node"] = named(name, uid);
        }
        json!({
            "aud": self.audiences, "exp": self.expires, "iat": self.issued, "nbf": self.issued, "iss": API_AUDIENCE, "jti": self.id,
            "kubernetes.io": own, "sub": format!("{SERVICE_ACCOUNT_PREFIX}{}:{}", self.namespace, self.name),
        })
    }

    fn of_value(value: &Value) -> Option<Claims> {
        let own = &value["kubernetes.io"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let named = |kind: &str| Some((text(&own[kind]["name"])?, text(&own[kind]["uid"])?));
        let bound = ["Pod", "Secret", "Node"].into_iter().find_map(|kind| {
            let (name, uid) = named(&kind.to_ascii_lowercase())?;
            Some(Bound { kind: kind.to_owned(), name, uid })
        });
        let (name, uid) = named("serviceaccount")?;
        Some(Claims {
            namespace: text(&own["namespace"])?,
            name,
            uid,
            issued: value["iat"].as_u64()?,
            expires: value["exp"].as_u64()?,
            audiences: value["aud"].as_array()?.iter().filter_map(text).collect(),
            node: named("node").filter(|_| bound.as_ref().is_some_and(|bound| bound.kind == "Pod")),
            bound,
            id: text(&value["jti"])?,
        })
    }

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
    signer: Ed25519KeyPair,
    key_id: String,
    admin: Arc<User>,
    admin_token: String,
}

impl Tokens {
    pub fn new(secret: &[u8; 32]) -> Tokens {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let admin_token = signed(&key, "admin", "");
        let seed = hmac::sign(&key, b"service accounts");
        let signer = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("the seed has 32 bytes");
        let id = digest::digest(&digest::SHA256, signer.public_key().as_ref());
        let key_id = URL_SAFE_NO_PAD.encode(id);
        Tokens { key, signer, key_id, admin: Arc::new(User::admin()), admin_token }
    }

    /// `/openid/v1/jwks`: who has it can verify the tokens of service accounts.
    pub fn key_set(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.signer.public_key());
        json!({"keys": [{"use": "sig", "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": self.key_id, "x": x}]})
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
        let header = json!({"alg": "EdDSA", "kid": self.key_id});
        let [header, claims] =
            [header, claims.to_value()].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.signer.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// The claims of a token of a service account that has not expired.
    fn claims(&self, token: &str) -> Option<Claims> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ED25519, self.signer.public_key());
        key.verify(text.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.')?.1).ok()?;
        let claims = Claims::of_value(&serde_json::from_slice(&claims).ok()?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        (now < claims.expires).then_some(claims)
    }

    /// The identity of a token; `None` if it is invalid or has expired. The caller checks the claims against stored
    /// objects.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let (kind, rest) = token.split_once('.')?;
        // The header of a JWT.
        if kind.starts_with("eyJ") {
            let claims = self.claims(token)?;
            return Some(Identity { user: Arc::new(claims.user()), claims: Some(claims) });
        }
        let (subject, mac) = rest.split_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let subject = String::from_utf8(URL_SAFE_NO_PAD.decode(subject).ok()?).ok()?;
        hmac::verify(&self.key, format!("{kind}\n{subject}").as_bytes(), &mac).ok()?;
        match kind {
            "admin" => Some(Identity { user: self.admin.clone(), claims: None }),
            "component" => Some(Identity { user: Arc::new(User::component(&subject)), claims: None }),
            "node" => Some(Identity { user: Arc::new(User::node(&subject)), claims: None }),
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
                issued: 1,
                expires,
                audiences: vec!["a".into()],
                bound: Some(Bound { kind: "Pod".into(), name: "p".into(), uid: "q".into() }),
                node: Some(("n".into(), "m".into())),
                id: "1".into(),
            })
        };
        let identity = tokens.authenticate(&token(u64::MAX)).unwrap();
        let (account, claims) = (identity.user, identity.claims.unwrap());
        assert_eq!(tokens.service_account(&claims), token(u64::MAX));
        assert_eq!((account.name.as_str(), account.uid.as_str()), ("system:serviceaccount:ns:bot", "u"));
        assert_eq!(account.groups[1..], ["system:serviceaccounts:ns", AUTHENTICATED]);
        let expired = token(1);
        let of_another = Tokens::new(&[8; 32]).admin().to_owned();
        let other_claims = token(u64::MAX).replacen('.', ".e30.", 1);
        let promoted = tokens.node("n").replacen("node", "admin", 1);
        for bad in ["", "a", "admin..", "admin.x.y", &expired, &of_another, &promoted, &other_claims] {
            assert_eq!(tokens.authenticate(bad), None, "{bad}");
        }
    }
}
