//! What creating and changing an object of each resource means, besides storing it.

mod deletion;
mod metadata;

use serde_json::Value;

use super::Resource;
use crate::server::status::Status;
use crate::server::{Shared, User};
use crate::store::Object;

pub use deletion::{begin_deletion, is_finished};
pub use metadata::{generate_name, now};

/// What strategies may look at besides the object.
pub struct Context<'a> {
    /// The server.
    pub shared: &'a Shared,
    /// Who asks.
    pub user: &'a User,
}

/// Fills in what the system gives a new object, and what its kind leaves to defaults.
///
/// # Errors
/// The object has no name.
pub fn prepare_create(
    _context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
) -> Result<(), Box<Status>> {
    metadata::prepare_create(resource, value)
}

/// Says whether the object may be created.
///
/// # Errors
/// It may not.
pub fn admit_create(
    context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    warnings.extend(metadata::name_warnings(resource, value));
    metadata::check_namespace(context, resource, value)
}

/// What follows from a creation.
pub async fn created(_context: &Context<'_>, _resource: &Resource, _object: &Object) {}

/// Keeps in a changed object what the change may not touch.
///
/// # Errors
/// The object is malformed.
pub fn prepare_update(
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
) -> Result<(), Box<Status>> {
    metadata::prepare_update(resource, subresource, new, old)
}

/// Says whether the change may be made.
///
/// # Errors
/// It may not.
pub fn admit_update(
    _context: &Context<'_>,
    _resource: &Resource,
    _subresource: &str,
    _new: &mut Value,
    _old: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    warnings.clear();
    Ok(())
}

/// Says whether the object may be deleted.
///
/// # Errors
/// It may not.
pub fn admit_delete(_context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if resource.plural == "namespaces" && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}
