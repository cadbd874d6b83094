//! Delegated authentication and authorization: an API server decides who may read what a component serves.
//!
//! A token is reviewed with a TokenReview, the access of its user with a SubjectAccessReview. Both answers are remembered
//! for a few seconds. Client certificates are checked by the component, with the authorities that the cluster publishes
//! for this purpose. A request without a token or a certificate is one of `system:anonymous`, as in Kubernetes' components.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::resource::{CONFIG_MAPS, Resource, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS};
use berth_serve::{ClientAuthorities, ClientIdentity};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::call::{self, CallError};

/// How long an answer is remembered, as in kube-scheduler.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Answers that are remembered; a full memory is emptied.
const MAX_REMEMBERED: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the authorities of client certificates are read.
const AUTHORITIES_INTERVAL: Duration = Duration::from_secs(60);
/// The paths that need no permission.
pub const ALWAYS_ALLOWED_PATHS: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// A refusal: the HTTP status and the message.
pub type Refusal = (StatusCode, String);

/// Asks an API server who may read what a component serves.
pub struct DelegatedAuthorizer {
    client: kube::Client,
    always_allowed: Vec<String>,
    /// By token: the user, or none for a token that is not valid.
    users: Memory<String, Option<Arc<User>>>,
    /// By user and description of the permission.
    accesses: Memory<(Arc<User>, String), bool>,
}

/// A user as a TokenReview shows it.
#[derive(PartialEq, Eq, Hash)]
struct User {
    name: String,
    uid: String,
    groups: Vec<String>,
    /// `extra`, as JSON text.
    extra: String,
}

/// Answers, each with the time until which it holds.
struct Memory<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K: Hash + Eq, V: Clone> Memory<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    fn insert(&self, key: K, answer: V, now: Instant) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_REMEMBERED {
            answers.clear();
        }
        answers.insert(key, (now + REMEMBERED, answer));
    }
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Memory(Mutex::default())
    }
}

impl DelegatedAuthorizer {
    /// Asks the API server of `client`. Requests for `always_allowed` paths need no permission; a path that ends with
    /// `*` stands for all paths that begin like it.
    pub fn new(client: kube::Client, always_allowed: Vec<String>) -> DelegatedAuthorizer {
        DelegatedAuthorizer { client, always_allowed, users: Memory::default(), accesses: Memory::default() }
    }

    /// Whether the bearer of a certificate or a token may read a path. `verb` is the HTTP method in lower case.
    ///
    /// # Errors
    /// 401 for a token that is not valid, 403 without the permission, 500 if the API server gives no answer.
    pub async fn authorize(
        &self,
        certificate: Option<ClientIdentity>,
        token: Option<String>,
        verb: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        if self.always_allowed.iter().any(|allowed| is_covered(path, allowed)) {
            return Ok(());
        }
        let user = match (certificate, token) {
            (Some(identity), _) => Arc::new(User::identified(identity)),
            (None, Some(token)) => self.user(token).await?,
            (None, None) => Arc::new(User::anonymous()),
        };
        let attributes = json!({"verb": verb, "path": path});
        self.access(user, "nonResourceAttributes", attributes, format!("{verb} path {path:?}")).await
    }

    /// Whether the bearer of a token may list these resources in the whole cluster.
    pub async fn authorize_list(&self, token: String, resources: &[Resource]) -> Result<(), Refusal> {
        let user = self.user(token).await?;
        for resource in resources {
            let (group, plural) = (resource.group, resource.plural);
            let attributes =
                json!({"verb": "list", "group": group, "version": resource.version, "resource": plural});
            let what = format!("list resource {plural:?} in API group {group:?} at the cluster scope");
            self.access(user.clone(), "resourceAttributes", attributes, what).await?;
        }
        Ok(())
    }

    /// Whether a user has a permission; `what` describes it.
    async fn access(
        &self,
        user: Arc<User>,
        kind: &str,
        attributes: Value,
        what: String,
    ) -> Result<(), Refusal> {
        // As in kube-scheduler, members of this group need no review.
        if user.groups.iter().any(|group| group == "system:masters") {
            return Ok(());
        }
        let question = (user, what);
        let allowed = match self.accesses.get(&question, Instant::now()) {
            Some(allowed) => allowed,
            None => {
                let spec = question.0.access_review(kind, attributes);
                let status = self.review(&SUBJECT_ACCESS_REVIEWS, spec).await?;
                let allowed = status["allowed"] == true && status["denied"] != true;
                self.accesses.insert(question.clone(), allowed, Instant::now());
                allowed
            }
        };
        let (user, what) = &question;
        let refused = || format!("forbidden: User {:?} cannot {what}", user.name);
        if allowed { Ok(()) } else { Err((StatusCode::FORBIDDEN, refused())) }
    }

    async fn user(&self, token: String) -> Result<Arc<User>, Refusal> {
        let user = match self.users.get(&token, Instant::now()) {
            Some(user) => user,
            None => {
                let status = self.review(&TOKEN_REVIEWS, json!({"token": token})).await?;
                let is_valid = status["authenticated"] == true;
                let user = is_valid.then(|| Arc::new(User::of(&status["user"])));
                self.users.insert(token, user.clone(), Instant::now());
                user
            }
        };
        user.ok_or_else(|| (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()))
    }

    /// Creates a review and returns its status.
    async fn review(&self, resource: &Resource, spec: Value) -> Result<Value, Refusal> {
        let body = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "spec": spec});
        let request = call::with_json(Method::POST, &resource.path(""), &body);
        let answer: Result<Value, CallError> = call::json(&self.client, request, TIMEOUT).await;
        let failed = |error| {
            tracing::warn!("a request cannot be authorized: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot review the request: {error}"))
        };
        answer.map(|mut review| review["status"].take()).map_err(failed)
    }
}

/// Keeps the authorities of client certificates as the cluster has them, without end. The cluster publishes them in the
/// ConfigMap `extension-apiserver-authentication`; a component that may not read it has none.
pub(crate) async fn follow_client_authorities(client: kube::Client, authorities: Arc<ClientAuthorities>) {
    let request = || call::get(&CONFIG_MAPS.object_path("kube-system", "extension-apiserver-authentication"));
    let (mut seen, mut is_reported) = (String::new(), false);
    loop {
        let answer: Result<Value, CallError> = call::json(&client, request(), TIMEOUT).await;
        let pem = answer.map(|map| map["data"]["client-ca-file"].as_str().unwrap_or_default().to_owned());
        let result = match pem {
            Ok(pem) if pem == seen => Ok(()),
            Ok(pem) => {
                seen = pem;
                authorities.set_pem(seen.as_bytes())
            }
            Err(error) => Err(error.to_string()),
        };
        match result {
            Ok(()) => is_reported = false,
            Err(reason) if !std::mem::replace(&mut is_reported, true) => {
                tracing::info!("the authorities of client certificates are not updated: {reason}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(AUTHORITIES_INTERVAL).await;
    }
}

impl User {
    fn anonymous() -> User {
        User::with_groups("system:anonymous".to_owned(), vec!["system:unauthenticated".to_owned()])
    }

    fn identified(ClientIdentity { common_name, organizations }: ClientIdentity) -> User {
        let mut groups = organizations;
        groups.push("system:authenticated".to_owned());
        User::with_groups(common_name, groups)
    }

    fn with_groups(name: String, groups: Vec<String>) -> User {
        User { name, uid: String::new(), groups, extra: "{}".to_owned() }
    }

    fn of(user: &Value) -> User {
        let text = |name: &str| user[name].as_str().unwrap_or_default().to_owned();
        let groups = user["groups"].as_array().into_iter().flatten();
        User {
            name: text("username"),
            uid: text("uid"),
            groups: groups.filter_map(|group| group.as_str().map(str::to_owned)).collect(),
            extra: user.get("extra").map_or_else(|| "{}".to_owned(), Value::to_string),
        }
    }

    fn access_review(&self, kind: &str, attributes: Value) -> Value {
        json!({
            "user": self.name,
            "uid": self.uid,
            "groups": self.groups,
            "extra": serde_json::from_str::<Value>(&self.extra).unwrap_or_default(),
            kind: attributes,
        })
    }
}

fn is_covered(path: &str, allowed: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_path_is_that_path_or_what_begins_like_it() {
        for (path, allowed, is) in [
            ("/healthz", "/healthz", true),
            ("/healthz/ping", "/healthz", false),
            ("/healthz/ping", "/healthz/*", true),
            ("/metrics", "/*", true),
        ] {
            assert_eq!(is_covered(path, allowed), is, "{path} {allowed}");
        }
    }

    #[test]
    fn answers_are_forgotten_after_a_while_and_bounded() {
        let (memory, now) = (Memory::default(), Instant::now());
        memory.insert(0, true, now);
        assert_eq!(memory.get(&0, now), Some(true));
        assert_eq!(memory.get(&0, now + REMEMBERED), None);
        (0..3 * MAX_REMEMBERED).for_each(|key| memory.insert(key, true, now));
        assert!(memory.0.lock().unwrap().len() <= MAX_REMEMBERED);
    }
}
