//! Admission webhooks on the way of a request.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use serde_json::Value;

use crate::resource::{Resource, find};
use crate::server::status::Status;
use crate::server::{ApiRequest, Shared};
use crate::store::{Filter, key};
use crate::webhook::{Attributes, Denied, Hook, Operation, Webhooks};

const GROUP: &str = "admissionregistration.k8s.io";

/// The webhooks of the cluster, read anew whenever their configurations change. Webhooks that are services of
/// the cluster cannot be called: nothing serves them.
#[derive(Default)]
pub struct Admission {
    webhooks: Webhooks,
    mutating: Mutex<Known>,
    validating: Mutex<Known>,
}

/// The webhooks as they were at a version of their collection.
#[derive(Default)]
struct Known {
    at: Option<u64>,
    hooks: Arc<[Hook]>,
}

/// The webhooks that are configured, ordered by the names of their configurations.
fn hooks(shared: &Shared, known: &Mutex<Known>, plural: &str) -> Arc<[Hook]> {
    let Some(resource) = find(GROUP, "v1", plural) else { return Arc::default() };
    let version = *shared.store.changes(resource).borrow();
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.at != Some(version) {
        let (_, mut configurations) = shared.store.list(resource, &Filter::default());
        configurations.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        known.hooks = configurations.iter().flat_map(|object| Hook::of(&object.value())).collect();
        known.at = Some(version);
    }
    known.hooks.clone()
}

/// What a request does to one object, for webhooks.
#[derive(Clone, Copy)]
pub struct Act<'a> {
    /// The resource whose collection the object is in.
    pub resource: &'a Resource,
    /// What is done.
    pub operation: Operation,
    /// The object as it is; `None` if it is new.
    pub old: Option<&'a Value>,
    /// Whether the request is only tried.
    pub dry_run: bool,
}

/// Lets mutating webhooks change an object that will be stored (`None` for a deletion). Answers whether they
/// did.
///
/// # Errors
/// A webhook denies the request.
pub async fn mutate(
    shared: &Shared,
    request: &ApiRequest,
    act: Act<'_>,
    object: Option<&mut Value>,
    warnings: &mut Vec<String>,
) -> Result<bool, Box<Status>> {
    let hooks = hooks(shared, &shared.admission.mutating, "mutatingwebhookconfigurations");
    if hooks.is_empty() || act.resource.group == GROUP {
        return Ok(false);
    }
    let sent = object.as_deref().cloned();
    let named = Named::of(shared, act, sent.as_ref());
    let attributes = named.attributes(request, act);
    let mutated =
        shared.admission.webhooks.mutate(&hooks, &attributes, sent, warnings).await.map_err(status)?;
    match (mutated, object) {
        (Some(mutated), Some(object)) if mutated.changed => {
            let mut new = mutated.object;
            for field in ["name", "namespace", "uid", "creationTimestamp"] {
                keep(&mut new["metadata"], &object["metadata"], field);
            }
            *object = new;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Asks validating webhooks about an object as it will be stored (`None` for a deletion).
///
/// # Errors
/// A webhook denies the request.
pub async fn validate(
    shared: &Shared,
    request: &ApiRequest,
    act: Act<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    let hooks = hooks(shared, &shared.admission.validating, "validatingwebhookconfigurations");
    if hooks.is_empty() || act.resource.group == GROUP {
        return Ok(());
    }
    let named = Named::of(shared, act, object);
    let attributes = named.attributes(request, act);
    shared.admission.webhooks.validate(&hooks, &attributes, object, warnings).await.map_err(status)
}

/// Webhooks may not give an object another identity.
fn keep(new: &mut Value, old: &Value, field: &str) {
    if let (Some(new), Some(value)) = (new.as_object_mut(), old.get(field)) {
        new.insert(field.to_owned(), value.clone());
    }
}

/// What an object is called, and the labels of its namespace.
struct Named {
    namespace: String,
    name: String,
    namespace_labels: Option<Value>,
}

impl Named {
    fn of(shared: &Shared, act: Act<'_>, object: Option<&Value>) -> Named {
        let (namespace, name) = object.or(act.old).map(key).unwrap_or_default();
        let namespace_labels = find("", "v1", "namespaces")
            .filter(|_| act.resource.namespaced)
            .and_then(|namespaces| shared.store.get(namespaces, "", namespace))
            .map(|found| found.value()["metadata"]["labels"].take());
        Named { namespace: namespace.to_owned(), name: name.to_owned(), namespace_labels }
    }

    fn attributes<'a>(&'a self, request: &'a ApiRequest, act: Act<'a>) -> Attributes<'a> {
        let Resource { group, version, kind, plural, .. } = *act.resource;
        Attributes {
            operation: act.operation,
            resource: (group, version, plural),
            subresource: request.info.subresource_name(),
            kind: (group, version, kind),
            namespace: &self.namespace,
            name: &self.name,
            user: &request.user.name,
            groups: &request.user.groups,
            old_object: act.old,
            namespace_labels: self.namespace_labels.as_ref(),
            dry_run: act.dry_run,
        }
    }
}

/// Reasons that clients know; a webhook may give any text.
const REASONS: &[&str] = &[
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
];

fn status(denied: Denied) -> Box<Status> {
    let code = StatusCode::from_u16(denied.code).unwrap_or(StatusCode::BAD_REQUEST);
    let reason = REASONS.iter().find(|known| **known == denied.reason).copied().unwrap_or_default();
    Status::new(code, reason, denied.message)
}
