//! Calling webhooks.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use berth_serve::with_sources;
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::Instant;

use super::hook::{Hook, Target};
use super::review::{self, Answer};
use super::{AdmissionAttributes, Denied, Mutated, ServedForm};
use crate::fairness::without_seats;
use crate::request::Reason;

/// Largest response of a webhook: a base64 patch that replaces the largest object, plus a margin.
const MAX_ANSWER_BYTES: usize = 6 * 1024 * 1024;
/// Maximum number of cached HTTP clients. Each client has its own connections.
const MAX_CLIENTS: usize = 64;

/// Resolves a service (namespace, name and port) to its address (`HOST:PORT`).
///
/// # Errors
/// The service has no address; the text is the reason.
pub type Resolver = Arc<dyn Fn(&str, &str, u16) -> Result<String, String> + Send + Sync>;

/// Calls webhooks over HTTPS and reuses connections.
pub struct Webhooks {
    resolver: Resolver,
    clients: Mutex<HashMap<Endpoint, Client>>,
}

/// Cache key of connections: the origin, the server name in its certificate, and the trusted CAs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Endpoint {
    origin: String,
    server_name: Option<String>,
    roots: Vec<Vec<u8>>,
}

/// A failed call: the webhook returned no valid response.
struct CallError(String);

impl Webhooks {
    /// Calls webhooks by URL; `resolver` supplies the addresses of webhooks that are services.
    pub fn new(resolver: Resolver) -> Webhooks {
        Webhooks { resolver, clients: Mutex::default() }
    }

    /// Calls the matching mutating webhooks in sequence; each may change the object. With `reinvocationPolicy`
    /// `IfNeeded`, a webhook is called again if later ones changed the object. Adds their warnings to `warnings`.
    pub async fn mutate(
        &self,
        hooks: &[Hook],
        attributes: &AdmissionAttributes<'_>,
        object: Option<Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Mutated>, Denied> {
        let mut mutated = object.map(|object| Mutated { object, changed: false });
        let mut called: Vec<(&Hook, &ServedForm)> = Vec::new();
        let mut again: HashSet<&(String, usize)> = HashSet::new();
        for hook in hooks {
            let object = mutated.as_ref().map(|mutated| &mutated.object);
            let Some(form) = hook.matches(attributes, object) else { continue };
            if !hook.conditions_hold(attributes, form, object)? {
                continue;
            }
            if self.mutate_one(hook, attributes, form, &mut mutated, warnings).await? {
                again.extend(called.iter().filter(|(earlier, _)| earlier.reinvoke).map(|(hook, _)| &hook.id));
            }
            called.push((hook, form));
        }
        for (hook, form) in called.into_iter().filter(|(hook, _)| again.contains(&hook.id)) {
            self.mutate_one(hook, attributes, form, &mut mutated, warnings).await?;
        }
        Ok(mutated)
    }

    /// Whether the webhook changed the object.
    async fn mutate_one(
        &self,
        hook: &Hook,
        attributes: &AdmissionAttributes<'_>,
        form: &ServedForm,
        mutated: &mut Option<Mutated>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Denied> {
        let object = mutated.as_ref().map(|mutated| &mutated.object);
        let answered = without_seats(self.ask(hook, attributes, form, object, warnings)).await;
        let Some(answer) = answered.ok_or_else(Denied::too_many)?? else {
            return Ok(false);
        };
        match (answer.patch, mutated.as_mut()) {
            (Some(patch), Some(mutated)) => mutated.patch(form, &patch),
            _ => Ok(false),
        }
    }

    /// Calls all matching validating webhooks in parallel. Adds their warnings to `warnings`.
    pub async fn validate(
        &self,
        hooks: &[Hook],
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Denied> {
        let mut matching = Vec::new();
        for hook in hooks {
            if let Some(form) = hook.matches(attributes, object)
                && hook.conditions_hold(attributes, form, object)?
            {
                matching.push((hook, form));
            }
        }
        let called = matching.into_iter().map(|(hook, form)| async move {
            let mut warnings = Vec::new();
            let result = self.ask(hook, attributes, form, object, &mut warnings).await;
            (result, warnings)
        });
        let mut denied = None;
        for (result, added) in without_seats(join_all(called)).await.ok_or_else(Denied::too_many)? {
            warnings.extend(added);
            if let Err(why) = result {
                denied.get_or_insert(why);
            }
        }
        denied.map_or(Ok(()), Err)
    }

    /// A webhook's response; `None` if the call failed and its failure policy is `Ignore`.
    async fn ask(
        &self,
        hook: &Hook,
        attributes: &AdmissionAttributes<'_>,
        form: &ServedForm,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Answer>, Denied> {
        if attributes.dry_run && !hook.dry_run {
            return Err(Denied {
                code: 400,
                reason: Reason::BadRequest,
                message: format!("admission webhook {:?} does not support dry run", hook.name),
            });
        }
        let uid = uuid::Uuid::new_v4().to_string();
        let call = async {
            let Some(version) = hook.review_version else {
                return Err(CallError(
                    "no supported version of AdmissionReview: v1 and v1beta1 are".to_owned(),
                ));
            };
            let question = review::question(version, &uid, attributes, form, object);
            let review = self.post(hook, &question).await?;
            review::answer(version, &hook.name, &uid, review).map_err(CallError)
        };
        let until = attributes.deadline.min(Instant::now() + hook.timeout);
        let called = tokio::time::timeout_at(until, call).await;
        let late = |_| {
            CallError(format!("failed to call webhook: Post {:?}: context deadline exceeded", hook.url()))
        };
        match called.map_err(late).flatten() {
            Ok(Answer { denied: Some(denied), warnings: added, .. }) => {
                warnings.extend(added);
                Err(denied)
            }
            Ok(answer) => {
                warnings.extend(answer.warnings.iter().cloned());
                Ok(Some(answer))
            }
            // A request whose time is over fails, whatever its webhooks allow.
            Err(CallError(why)) if hook.fail || attributes.deadline <= Instant::now() => {
                Err(Denied::internal(format!("failed calling webhook {:?}: {why}", hook.name)))
            }
            Err(CallError(why)) => {
                tracing::warn!(webhook = hook.name, why, "a webhook with failurePolicy Ignore failed");
                Ok(None)
            }
        }
    }

    async fn post(&self, hook: &Hook, question: &Value) -> Result<Value, CallError> {
        let failed = |why: &dyn std::fmt::Display| {
            CallError(format!("failed to call webhook: Post {:?}: {why}", hook.url()))
        };
        let (endpoint, path) = self.endpoint(hook).map_err(|why| failed(&why))?;
        let client = self.client(endpoint).map_err(|error| failed(&error))?;
        let request = Request::post(format!("{path}?timeout={}s", hook.timeout.as_secs()))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(kube::client::Body::from(Bytes::from(question.to_string())))
            .map_err(|error| failed(&error))?;
        let response = client.send(request).await.map_err(|error| failed(&with_sources(&error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| failed(&error))?.to_bytes();
        if !status.is_success() {
            let shown: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            return Err(failed(&format!("status {status}: {shown}")));
        }
        review::read(&body).map_err(|why| failed(&format!("the answer is not JSON: {why}")))
    }

    /// The address of a webhook and its URL path.
    fn endpoint(&self, hook: &Hook) -> Result<(Endpoint, String), String> {
        let roots = hook.roots.clone();
        match &hook.target {
            Target::Url(url) => {
                let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
                let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
                let origin = format!("https://{authority}");
                Ok((Endpoint { origin, server_name: None, roots }, uri.path().to_owned()))
            }
            Target::Service { namespace, name, port, path } => {
                let address = (self.resolver)(namespace, name, *port)?;
                let server_name = Some(format!("{name}.{namespace}.svc"));
                let path = if path.is_empty() { "/" } else { path };
                Ok((Endpoint { origin: format!("https://{address}"), server_name, roots }, path.to_owned()))
            }
        }
    }

    fn client(&self, endpoint: Endpoint) -> Result<Client, String> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&endpoint) {
            return Ok(client.clone());
        }
        let mut config = Config::new(endpoint.origin.parse().map_err(|error| format!("{error}"))?);
        config.root_cert = Some(endpoint.roots.clone()).filter(|roots| !roots.is_empty());
        config.tls_server_name.clone_from(&endpoint.server_name);
        let client = berth_client::connect::client(config).map_err(|error| with_sources(&error))?;
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        clients.insert(endpoint, client.clone());
        Ok(client)
    }
}

impl Hook {
    fn url(&self) -> String {
        format!("{}?timeout={}s", self.target, self.timeout.as_secs())
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Url(url) => f.write_str(url),
            Target::Service { namespace, name, port, path } => {
                write!(f, "https://{name}.{namespace}.svc:{port}{path}")
            }
        }
    }
}
