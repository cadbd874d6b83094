//! Checks tokens against stored objects.

use std::borrow::Cow;
use std::sync::Arc;

use berth_schema::resource::{NODES, PODS, SECRETS, SERVICE_ACCOUNTS};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::tokens::{API_AUDIENCE, Claims, Tokens};
use crate::request::User;
use crate::store::{Compiled, Store};

/// How long a token outlives the deletion of an object that finalizers keep.
const DELETION_LEEWAY: SignedDuration = SignedDuration::from_secs(60);

pub struct Authenticator {
    store: Store,
    tokens: Tokens,
}

impl Authenticator {
    /// Authenticates by tokens and by the accounts and objects of a store that they are bound to.
    pub fn new(store: &Store, tokens: Tokens) -> Authenticator {
        Authenticator { store: store.clone(), tokens }
    }

    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The user of a token and those of the audiences for which it is valid; `None` if it is valid for none of them, has
    /// expired, or an object on which it depends does not exist.
    pub fn authenticate(&self, token: &str, audiences: &[&str]) -> Option<(Arc<User>, Vec<String>)> {
        let identity = self.tokens.authenticate(token)?;
        // Other tokens than those of service accounts are for this server.
        let own = identity.claims.as_ref().map(|claims| claims.audiences.as_slice());
        let is_for = |audience: &&str| match own {
            Some(own) => own.iter().any(|own| own == audience),
            None => *audience == API_AUDIENCE,
        };
        let valid: Vec<String> = audiences.iter().copied().filter(is_for).map(str::to_owned).collect();
        let holds = identity.claims.as_ref().is_none_or(|claims| self.claims_hold(claims));
        (!valid.is_empty() && holds).then_some((identity.user, valid))
    }

    /// Whether the account and the bound object of a token exist, or are deleted since a moment only.
    fn claims_hold(&self, claims: &Claims) -> bool {
        let now = Timestamp::now();
        let exists = |resource, namespace: &str, name: &str, uid: &str| {
            self.store.get(resource, namespace, name).is_some_and(|object| {
                let existence: Arc<Existence> = object.compiled();
                *existence.uid == *uid && existence.deleted.is_none_or(|at| now < at + DELETION_LEEWAY)
            })
        };
        let bound = claims.bound.as_ref();
        exists(&SERVICE_ACCOUNTS, &claims.namespace, &claims.name, &claims.uid)
            && bound.is_none_or(|bound| match bound.kind.as_str() {
                "Pod" => exists(&PODS, &claims.namespace, &bound.name, &bound.uid),
                "Secret" => exists(&SECRETS, &claims.namespace, &bound.name, &bound.uid),
                _ => exists(&NODES, "", &bound.name, &bound.uid),
            })
    }
}

/// What tokens need of the objects that they depend on.
struct Existence {
    uid: Box<str>,
    deleted: Option<Timestamp>,
}

impl Compiled for Existence {
    fn compile(value: Cow<'_, Value>) -> Existence {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
        Existence { uid: text("uid").into(), deleted: text("deletionTimestamp").parse().ok() }
    }
}
