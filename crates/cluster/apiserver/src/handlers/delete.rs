//! Object deletion: immediate, graceful, or after the last finalizer is removed.

use std::sync::Arc;

use berth_schema::resource::{
    CSI_DRIVERS, CSI_NODES, DEVICE_CLASSES, JOBS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES,
    POD_TEMPLATES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES,
    Resource, SERVICE_ACCOUNTS, SERVICES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_ATTRIBUTES_CLASSES,
};
use http::StatusCode;
use serde_json::{Value, json};

use super::admission::Act;
use super::api::Api;
use super::binding::set_condition;
use super::object::{answer_object, stored};
use super::reply::Reply;
use super::{body, convert, read_options, sent, write};
use crate::lifecycle;
use crate::request::status::{self, Status};
use crate::request::{ApiRequest, DeleteOptions, not_a_number};
use crate::store::{Change, Object, Write, WriteError};
use crate::strategy::now;
use crate::webhook::Operation;

const ATTEMPTS: usize = 64;

/// Reads the options of a deletion from the body or the query; the body has precedence.
fn read_options(request: &ApiRequest) -> Result<DeleteOptions, Box<Status>> {
    let query = &request.query;
    let mut options = DeleteOptions {
        grace_period_seconds: match query.get("gracePeriodSeconds") {
            "" => None,
            text => {
                let wrong = |error| Status::bad_request(not_a_number("ParseInt", text, &error));
                Some(text.parse().map_err(wrong)?)
            }
        },
        propagation_policy: Some(query.get("propagationPolicy").to_owned()).filter(|p| !p.is_empty()),
        dry_run: sent::is_dry_run(query, "DeleteOptions")?,
        ..DeleteOptions::default()
    };
    if let Some(orphans) = query.flag("orphanDependents") {
        options.set_orphan_dependents(orphans);
    }
    if !request.body.is_empty() {
        let body = sent::parse_object(&request.headers, &request.body, "DeleteOptions")?;
        options.take_value(&body)?;
    }
    match options.propagation_policy.as_deref() {
        None | Some("Background" | "Foreground" | "Orphan") => Ok(options),
        Some(other) => {
            let why = format!(
                "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            Err(Status::invalid_options(
                "DeleteOptions",
                &[("FieldValueNotSupported", "propagationPolicy", why)],
            ))
        }
    }
}

pub enum Deleted {
    /// The object is deleted; this is its last state.
    Gone(Arc<Object>),
    /// The object is terminating; this is its current state.
    Ending(Arc<Object>),
}

/// Answers the deletion of an object.
///
/// # Errors
/// The object does not exist, fails a precondition, or may not be deleted.
pub async fn delete(api: &Api, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let options = read_options(request)?;
    let info = &request.info;
    let mut warnings = orphan_warning(info.resource, &options);
    let deleted = delete_object(api, request, &info.namespace, &info.name, &options, &mut warnings).await?;
    let reply = match deleted {
        Deleted::Gone(object) if !RETURNED.iter().any(|r| std::ptr::eq(*r, info.resource)) => {
            let uid = object.value()["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            Reply::value(StatusCode::OK, &status::deleted(info.resource, &info.name, &uid))
        }
        Deleted::Gone(object) | Deleted::Ending(object) => answer_object(request, StatusCode::OK, &object)?,
    };
    Ok(reply.with_warnings(warnings))
}

/// Jobs leave their pods behind, which is not what most users expect.
fn orphan_warning(resource: &Resource, options: &DeleteOptions) -> Vec<String> {
    let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
                   or set propagationPolicy=Orphan to suppress this warning";
    let is_due = *resource == JOBS && options.propagation_policy.is_none();
    is_due.then(|| warning.to_owned()).into_iter().collect()
}

/// Resources whose deletion answers the object, as upstream does, instead of a status.
static RETURNED: [&Resource; 17] = [
    &CSI_DRIVERS,
    &CSI_NODES,
    &DEVICE_CLASSES,
    &NAMESPACES,
    &PERSISTENT_VOLUMES,
    &PERSISTENT_VOLUME_CLAIMS,
    &PODS,
    &POD_TEMPLATES,
    &RESOURCE_CLAIMS,
    &RESOURCE_CLAIM_TEMPLATES,
    &RESOURCE_QUOTAS,
    &RESOURCE_SLICES,
    &SERVICES,
    &SERVICE_ACCOUNTS,
    &STORAGE_CLASSES,
    &VOLUME_ATTACHMENTS,
    &VOLUME_ATTRIBUTES_CLASSES,
];

/// Answers the deletion of all selected objects.
///
/// # Errors
/// An object may not be deleted. The objects before it are deleted.
pub async fn delete_collection(api: &Api, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let options = read_options(request)?;
    let info = &request.info;
    let filter = read_options::filter(&api.store, info, &request.query)?;
    let (revision, objects) = api.store.list(stored(info)?, &filter);
    let mut deleted = Vec::new();
    let mut warnings = orphan_warning(info.resource, &options);
    for object in objects {
        let (namespace, name) = (object.facts.namespace(), object.facts.name());
        match delete_object(api, request, namespace, name, &options, &mut warnings).await {
            Ok(Deleted::Gone(object) | Deleted::Ending(object)) => deleted.push(object),
            Err(status) if status.code == StatusCode::NOT_FOUND => {}
            Err(status) => return Err(status),
        }
    }
    let head = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{revision}"}},"items":["#,
        info.resource.list_kind(),
        info.resource.api_version()
    );
    let items = convert::Items::new(info.resource);
    let body = body::list(head, deleted, move |object, out| items.write(object, out));
    Ok(Reply::json(StatusCode::OK, body).with_warnings(warnings))
}

/// Deletes one object or marks it as terminating.
///
/// # Errors
/// The object does not exist, fails a precondition, or may not be deleted.
pub async fn delete_object(
    api: &Api,
    request: &ApiRequest,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<Deleted, Box<Status>> {
    let shown = request.info.resource;
    let resource = stored(&request.info)?;
    let context = api.context(&request.user, request.info.resource.version);
    let n_warnings = warnings.len();
    for _ in 0..ATTEMPTS {
        let current =
            api.store.get(resource, namespace, name).ok_or_else(|| Status::not_found(shown, name))?;
        let old = current.value();
        check_preconditions(shown, name, &current, &old, options)?;
        lifecycle::admit_delete(&context, resource, &old)?;
        if !options.evicts {
            warnings.truncate(n_warnings);
            let act = Act { operation: Operation::Delete, old: Some(&old), dry_run: options.dry_run };
            api.admission.mutate(request, act, None, warnings).await?;
            api.admission.validate(request, act, None, warnings).await?;
        }
        let mut new = old.clone();
        if options.evicts {
            set_condition(&mut new["status"], disruption_target());
        }
        let gone = lifecycle::begin_deletion(resource, &mut new, options);
        if !gone && new == old {
            return Ok(Deleted::Ending(current));
        }
        if options.dry_run {
            let tried = Arc::new(write::tried(resource, new, Some(&current)));
            return Ok(if gone { Deleted::Gone(tried) } else { Deleted::Ending(tried) });
        }
        let expected = current.revision;
        let change = if gone { Change::Delete { expected } } else { Change::Release { expected } };
        match api.store.write(Write { resource, change, object: new.into() }).await {
            Ok(object) if gone => return Ok(Deleted::Gone(object)),
            Ok(object) => return Ok(Deleted::Ending(object)),
            Err(WriteError::Modified) => {}
            Err(error) => return Err(error.into_status(shown, name)),
        }
    }
    Err(Status::modified(shown, name))
}

/// The condition of an evicted pod, by which Jobs distinguish evictions from failures.
fn disruption_target() -> Value {
    json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now(),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"})
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    current: &Object,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), Box<Status>> {
    let uid = old["metadata"]["uid"].as_str().unwrap_or_default();
    let version = current.revision.to_string();
    let failed = |what: &str, wanted: &str, is: &str, why: &str| {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({is}). The object might have been {why}"
        );
        Err(Status::conflict_on(resource.kind, resource.group, name, &why))
    };
    match (&options.uid, &options.resource_version) {
        (Some(wanted), _) if wanted != uid => failed("UID", wanted, uid, "deleted and then recreated"),
        (_, Some(wanted)) if *wanted != version => failed("ResourceVersion", wanted, &version, "modified"),
        _ => Ok(()),
    }
}
