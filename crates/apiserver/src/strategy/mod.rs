//! What creating and changing an object of each resource means, besides storing it.
//!
//! Creation: [`prepare_create`] fills in what the system gives and what is left to defaults, [`admit_create`]
//! says no or completes what admission decides. A change: [`prepare_update`] keeps what may not be touched,
//! [`admit_update`] says no.

mod deletion;
mod fields;
mod job;
mod kinds;
mod metadata;
mod node_restriction;
mod pod;
mod pod_update;
mod rbac;
mod service;
mod template;
mod workload;

use berth_schema::resource::Resource;
use serde_json::Value;

use crate::server::status::Status;
use crate::server::{Shared, User};
use crate::store::Object;
use fields::Causes;

pub use deletion::{begin_deletion, is_finished};
pub use metadata::{generate_name, now};
pub use node_restriction::admit_eviction;

/// What strategies may look at besides the object.
pub struct Context<'a> {
    /// The server.
    pub shared: &'a Shared,
    /// Who asks.
    pub user: &'a User,
}

fn is_pod(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

/// Fills in what the system gives a new object, and what its kind leaves to defaults.
///
/// # Errors
/// The object has no metadata.
pub fn prepare_create(
    context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
) -> Result<(), Box<Status>> {
    metadata::prepare_create(resource, value)?;
    default_object(resource, value);
    kinds::prepare_create(resource, value);
    match resource.kind {
        "Pod" => pod::prepare_create(value),
        "Service" => service::allocate(context, value, None),
        "Job" => job::prepare_create(value),
        _ => {}
    }
    Ok(())
}

/// What every object gets that is read, new or changed. Doing it twice changes nothing.
pub fn default_object(resource: &Resource, value: &mut Value) {
    match resource.kind {
        "Pod" => pod::default_pod(value),
        "Service" => service::default_service(value),
        _ if workload::is_workload(resource) => workload::default_workload(resource, value),
        _ if rbac::is_rbac(resource) => rbac::default_binding(resource, value),
        _ => kinds::default_kind(resource, value),
    }
}

/// Says whether the object may be created, and completes what that decides.
///
/// # Errors
/// It may not: the user may not, its namespace is not there, or it is not valid.
pub fn admit_create(
    context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    metadata::check_namespace(context, resource, value)?;
    node_restriction::admit_create(context, resource, value)?;
    let mut causes = Causes::default();
    if is_pod(resource) {
        metadata::validate_owners(value, &mut causes);
        if causes.0.is_empty() {
            return pod::admit_create(context, resource, value, warnings);
        }
    } else {
        metadata::validate(resource, value, &mut causes);
        validate(context, resource, value, &mut causes);
        warnings.extend(kinds::warnings(resource, value));
    }
    refuse(resource, value, causes)?;
    rbac::admit(context, resource, value)
}

fn validate(context: &Context<'_>, resource: &Resource, value: &Value, causes: &mut Causes) {
    match resource.kind {
        "Service" => service::validate(value, causes),
        _ if workload::is_workload(resource) => workload::validate(context, resource, value, causes),
        _ if rbac::is_rbac(resource) => rbac::validate(resource, value, causes),
        _ => kinds::validate(resource, value, causes),
    }
}

fn refuse(resource: &Resource, value: &Value, causes: Causes) -> Result<(), Box<Status>> {
    if causes.0.is_empty() {
        return Ok(());
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(resource, name, causes.0))
}

/// What follows from a creation: a namespace gets its service account.
pub async fn created(context: &Context<'_>, resource: &Resource, object: &Object) {
    if resource.group.is_empty()
        && resource.plural == "namespaces"
        && let Err(error) =
            crate::bootstrap::ensure_service_account(&context.shared.store, &object.facts.name).await
    {
        tracing::error!(%error, namespace = %object.facts.name, "the service account could not be made");
    }
}

/// Keeps in a changed object what the change may not touch, and completes it.
///
/// # Errors
/// The object is malformed.
pub fn prepare_update(
    context: &Context<'_>,
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
) -> Result<(), Box<Status>> {
    metadata::keep_fixed(resource, subresource, new, old)?;
    if is_pod(resource) {
        pod_update::prepare_update(subresource, new, old);
    } else if subresource.is_empty() || subresource == "scale" {
        default_object(resource, new);
        if resource.kind == "Service" {
            service::allocate(context, new, Some(old));
        }
    }
    metadata::count_generation(resource, new, old);
    Ok(())
}

/// Says whether the change may be made.
///
/// # Errors
/// It may not: the user may not, or the result is not valid.
pub fn admit_update(
    context: &Context<'_>,
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<(), Box<Status>> {
    node_restriction::admit_update(context, resource, subresource, new, old)?;
    let mut causes = Causes::default();
    metadata::validate(resource, new, &mut causes);
    metadata::validate_update(new, old, &mut causes);
    match (resource.kind, subresource) {
        (_, "status" | "finalize" | "ephemeralcontainers") => {}
        ("Pod", _) => causes.0.extend(pod_update::validate_update(new, old)),
        _ => {
            validate(context, resource, new, &mut causes);
            match resource.kind {
                "Service" => service::validate_update(new, old, &mut causes),
                _ if workload::is_workload(resource) => {
                    workload::validate_update(resource, new, old, &mut causes);
                }
                _ if rbac::is_rbac(resource) => rbac::validate_update(new, old, &mut causes),
                _ => kinds::validate_update(resource, new, old, &mut causes),
            }
        }
    }
    refuse(resource, new, causes)?;
    rbac::admit(context, resource, new)
}

/// Says whether the object may be deleted.
///
/// # Errors
/// It may not.
pub fn admit_delete(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if resource.plural == "namespaces" && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(resource, name, "this namespace may not be deleted"));
    }
    node_restriction::admit_delete(context, resource, value)
}
