//! Deletion: grace periods, finalizers and propagation.

use berth_api::object::time::rfc3339;
use berth_rules::admission::Operation;
use berth_schema::resource::Resource;
use serde_json::Value;

use super::node_restriction;
use crate::kinds;
use crate::request::{ApiResult, DeleteOptions, Status};
use crate::strategy::{Context, metadata, now};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

pub fn admit_delete(context: &Context<'_>, resource: &Resource, value: &Value) -> ApiResult {
    let name = metadata::name(value);
    if let Some(why) = kinds::strategy(resource).refuses_deletion(name) {
        return Err(Status::forbidden(resource, name, why));
    }
    // An eviction deletes the pod itself.
    let context = &Context { subresource: "", ..*context };
    node_restriction::admit(context, resource, Operation::Delete, &Value::Null, value)
}

/// Whether an object that is being deleted has no finalizer and no grace period left, so that it can be removed.
pub fn is_finished(resource: &Resource, value: &Value) -> bool {
    let metadata = &value["metadata"];
    let held = kinds::strategy(resource).has_finalizers(value);
    let waiting = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    !metadata["deletionTimestamp"].is_null() && !held && !waiting
}

/// Changes an object into one that is being deleted. Returns whether it can be removed at once: only what could have had time to end then
/// shows its deletion.
pub fn begin_deletion(resource: &Resource, value: &mut Value, options: &DeleteOptions) -> bool {
    let strategy = kinds::strategy(resource);
    set_propagation(resource, value, options.propagation_policy.as_deref());
    let period = strategy.grace_seconds(value, options.grace_period_seconds);
    let grace = period.unwrap_or(0);
    let is_removed = grace == 0 && !strategy.has_finalizers(value);
    if is_removed && period.is_none() {
        return true;
    }
    let deleting = !value["metadata"]["deletionTimestamp"].is_null();
    let current = value["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if deleting && current.is_none_or(|current| current <= grace || options.grace_period_seconds.is_none()) {
        return is_removed;
    }
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(grace);
    let metadata = &mut value["metadata"];
    metadata["deletionTimestamp"] = Value::from(if grace == 0 { now() } else { rfc3339(ends) });
    metadata["deletionGracePeriodSeconds"] = Value::from(grace);
    if let Some(generation) = metadata["generation"].as_i64()
        && !deleting
    {
        metadata["generation"] = Value::from(generation.saturating_add(1));
    }
    strategy.mark_deleting(value);
    is_removed
}

/// Sets the finalizers that select the propagation policy for dependents.
fn set_propagation(resource: &Resource, value: &mut Value, policy: Option<&str>) {
    let wanted = match policy {
        Some("Orphan") => Some(ORPHAN),
        Some("Foreground") => Some(FOREGROUND),
        Some(_) => None,
        None if kinds::kind(resource).is_some_and(|kind| kind.orphans_dependents) => Some(ORPHAN),
        // Without a policy the existing finalizers stay.
        None => return,
    };
    let old = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let mut finalizers: Vec<Value> =
        old.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    finalizers.extend(wanted.map(Value::from));
    if finalizers == old {
        return;
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
        }
    }
}
