//! Rules for creating, changing and deleting objects of each resource.
//!
//! Creation: [`prepare_create`] sets system fields and defaults, [`admit_create`] refuses the object or completes what
//! admission decides. An update: [`prepare_update`] restores immutable fields, [`admit_update`] refuses. The functions of
//! this module hold for every resource; a [`Strategy`] (in `kinds`) adds what holds for one.

mod deletion;
pub mod fields;
mod limit_range;
pub mod metadata;
mod node_restriction;
pub mod template;
pub mod typed;

use berth_api::admission::Operation;
use berth_api::syntax;
use berth_schema::resource::{PERSISTENT_VOLUME_CLAIMS, Resource};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::kinds;
use crate::server::status::Status;
use crate::server::{Shared, User};
use crate::store::Object;
use fields::Causes;

pub use deletion::{begin_deletion, is_finished};
pub use fields::{items, text};
pub use metadata::{generate_name, now};
pub use node_restriction::admit as restrict_node;

/// The server and the user of a request.
pub struct Context<'a> {
    /// The server.
    pub shared: &'a Shared,
    /// The user.
    pub user: &'a User,
}

/// The specific rules of one kind. Every method defaults to the behaviour of a resource without specific rules.
pub trait Strategy: Sync {
    /// Sets defaults in a new or changed object. The operation is idempotent.
    fn default(&self, _value: &mut Value) {}

    /// Completes a new object after its defaults: initial status, allocated addresses.
    fn prepare_create(&self, _context: &Context<'_>, _value: &mut Value) {}

    /// Completes a changed object.
    fn prepare_update(&self, _context: &Context<'_>, subresource: &str, new: &mut Value, _old: &Value) {
        if matches!(subresource, "" | "scale") {
            self.default(new);
        }
    }

    /// Validates an object's name; returns the problems.
    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::dns_subdomain(name)
    }

    /// Validates everything but metadata.
    fn validate(&self, _context: &Context<'_>, _value: &Value, _causes: &mut Causes) {}

    /// Validates a change of everything but metadata.
    fn validate_update(&self, _new: &Value, _old: &Value, _causes: &mut Causes) {}

    /// Validates a status that the subresource `status` sets.
    fn validate_status(&self, _status: &Value, _causes: &mut Causes) {}

    /// Validates a change by the subresource `resize`.
    fn validate_resize(&self, _new: &Value, _old: &Value, _causes: &mut Causes) {}

    /// Warns of fields that this server stores and ignores.
    fn warnings(&self, _value: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Checks whether the user may write this content.
    fn authorize(&self, _context: &Context<'_>, _value: &Value) -> Result<(), Box<Status>> {
        Ok(())
    }

    /// Checks whether a valid change is allowed.
    fn authorize_update(
        &self,
        _context: &Context<'_>,
        _subresource: &str,
        _new: &Value,
        _old: &Value,
    ) -> Result<(), Box<Status>> {
        Ok(())
    }

    /// Validates a new object, or completes what admission decides about it.
    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        value: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Box<Status>> {
        validate_new(self, context, resource, value, warnings)?;
        self.authorize(context, value)
    }

    /// Creates what belongs to a new object.
    fn created<'a>(&'a self, _shared: &'a Shared, _name: &'a str) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Whether a new object comes with its status.
    fn is_created_with_status(&self) -> bool {
        false
    }

    /// Why an object must not be deleted, if so.
    fn refuses_deletion(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// How many seconds an object may take to end, with the request's `gracePeriodSeconds`.
    fn grace_seconds(&self, _value: &Value, _requested: Option<i64>) -> i64 {
        0
    }

    /// Whether dependents stay when a deletion names no propagation policy.
    fn orphans_dependents(&self) -> bool {
        false
    }

    /// Whether finalizers keep an object that is being deleted.
    fn has_finalizers(&self, value: &Value) -> bool {
        !fields::is_empty(&value["metadata"]["finalizers"])
    }

    /// Shows in an object that its deletion has begun.
    fn mark_deleting(&self, _value: &mut Value) {}
}

/// Sets system fields and the defaults of the kind in a new object.
///
/// # Errors
/// The object has no metadata.
pub fn prepare_create(
    context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
) -> Result<(), Box<Status>> {
    let strategy = kinds::strategy(resource);
    metadata::prepare_create(resource, strategy, kinds::has_generation(resource), value)?;
    strategy.default(value);
    limit_range::set_defaults(context, resource, value);
    strategy.prepare_create(context, value);
    Ok(())
}

/// Sets the defaults of the kind in an object that admission has changed.
pub fn default_object(resource: &Resource, value: &mut Value) {
    kinds::strategy(resource).default(value);
}

/// Refuses a new object, or completes what admission decides about it.
///
/// # Errors
/// The user may not create it, its namespace does not exist, or it is not valid.
pub fn admit_create(
    context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    metadata::check_namespace(context, resource, value)?;
    node_restriction::admit(context, resource, "", Operation::Create, value, &Value::Null)?;
    kinds::strategy(resource).admit_create(context, resource, value, warnings)?;
    limit_range::check(context, resource, value)
}

/// Validates a new object.
///
/// # Errors
/// It is not valid.
pub fn validate_new<S: Strategy + ?Sized>(
    strategy: &S,
    context: &Context<'_>,
    resource: &Resource,
    value: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    let mut causes = Causes::default();
    metadata::validate(strategy.name_problems(metadata::name(value)), value, &mut causes);
    strategy.validate(context, value, &mut causes);
    warnings.extend(strategy.warnings(value));
    refuse(resource, value, causes)
}

/// Refuses an object for these causes, if there are any.
///
/// # Errors
/// There are causes.
pub fn refuse(resource: &Resource, value: &Value, causes: Causes) -> Result<(), Box<Status>> {
    if causes.0.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(resource, metadata::name(value), causes.into_list()))
}

/// Creates what belongs to a new object.
pub async fn created(context: &Context<'_>, resource: &Resource, object: &Object) {
    kinds::strategy(resource).created(context.shared, &object.facts.name).await;
}

/// Restores immutable fields in a changed object, and completes it.
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
    let strategy = kinds::strategy(resource);
    metadata::keep_fixed(resource, subresource, new, old)?;
    strategy.prepare_update(context, subresource, new, old);
    if kinds::has_generation(resource) {
        metadata::count_generation(new, old);
    }
    Ok(())
}

/// Refuses a change.
///
/// # Errors
/// The user may not make it, or the result is not valid.
pub fn admit_update(
    context: &Context<'_>,
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<(), Box<Status>> {
    node_restriction::admit(context, resource, subresource, Operation::Update, new, old)?;
    let strategy = kinds::strategy(resource);
    let mut causes = Causes::default();
    metadata::validate(strategy.name_problems(metadata::name(new)), new, &mut causes);
    metadata::validate_update(new, old, &mut causes);
    match subresource {
        "status" => strategy.validate_status(&new["status"], &mut causes),
        "approval" | "finalize" | "ephemeralcontainers" => {}
        "resize" => strategy.validate_resize(new, old, &mut causes),
        _ => {
            strategy.validate(context, new, &mut causes);
            strategy.validate_update(new, old, &mut causes);
        }
    }
    refuse(resource, new, causes)?;
    if subresource == "resize" || (subresource.is_empty() && *resource == PERSISTENT_VOLUME_CLAIMS) {
        limit_range::check(context, resource, new)?;
    }
    strategy.authorize_update(context, subresource, new, old)?;
    strategy.authorize(context, new)
}

/// Refuses a deletion.
///
/// # Errors
/// The object must stay, or the user may not delete it.
pub fn admit_delete(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    let name = metadata::name(value);
    if let Some(why) = kinds::strategy(resource).refuses_deletion(name) {
        return Err(Status::forbidden(resource, name, why));
    }
    node_restriction::admit(context, resource, "", Operation::Delete, &Value::Null, value)
}
