//! The rules for changes.

use berth_api::admission::Operation;
use berth_schema::resource::{PERSISTENT_VOLUME_CLAIMS, Resource};
use serde_json::Value;

use super::{limit_range, node_restriction};
use crate::kinds;
use crate::request::Status;
use crate::strategy::fields::Causes;
use crate::strategy::{Context, metadata};

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
        "status" => strategy.validate_status(new, old, &mut causes),
        "approval" | "finalize" | "ephemeralcontainers" | "binding" => {}
        "resize" => strategy.validate_resize(new, old, &mut causes),
        _ => {
            strategy.validate(context, new, &mut causes);
            strategy.validate_update(context, new, old, &mut causes);
        }
    }
    causes.refuse(resource, new)?;
    if subresource == "resize" || (subresource.is_empty() && *resource == PERSISTENT_VOLUME_CLAIMS) {
        limit_range::check(context, resource, new)?;
    }
    strategy.authorize_update(context, subresource, new, old)?;
    strategy.authorize(context, new)
}
