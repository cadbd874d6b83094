//! How objects of each kind end.

use berth_api::object::time::rfc3339;
use berth_schema::resource::Resource;
use serde_json::Value;

use super::metadata::now;
use crate::handlers::DeleteOptions;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// How long a pod may take to end if it does not say.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Whether the last thing that held a deleted object back is gone, so that it goes now.
pub fn is_finished(resource: &Resource, value: &Value) -> bool {
    let metadata = &value["metadata"];
    let held = has_finalizers(resource, value);
    let waiting = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    !metadata["deletionTimestamp"].is_null() && !held && !waiting
}

fn has_finalizers(resource: &Resource, value: &Value) -> bool {
    let some = |finalizers: &Value| finalizers.as_array().is_some_and(|list| !list.is_empty());
    some(&value["metadata"]["finalizers"])
        || (resource.plural == "namespaces" && some(&value["spec"]["finalizers"]))
}

/// Changes an object into one that is being deleted. Answers whether it goes at once.
pub fn begin_deletion(resource: &Resource, value: &mut Value, options: &DeleteOptions) -> bool {
    set_propagation(resource, value, options.propagation_policy.as_deref());
    let grace = if resource.group.is_empty() && resource.plural == "pods" {
        pod_grace_seconds(value, options.grace_period_seconds)
    } else {
        0
    };
    let deleting = !value["metadata"]["deletionTimestamp"].is_null();
    if grace == 0 && !has_finalizers(resource, value) {
        return true;
    }
    let current = value["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if deleting && current.is_none_or(|current| current <= grace || options.grace_period_seconds.is_none()) {
        return false;
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
    if resource.plural == "namespaces" {
        value["status"]["phase"] = Value::from("Terminating");
    }
    false
}

/// How long a pod may take to end: nothing waits for a pod that never ran or has ended.
fn pod_grace_seconds(pod: &Value, asked: Option<i64>) -> i64 {
    let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if !scheduled || ended {
        return 0;
    }
    let seconds = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
    let seconds = seconds.unwrap_or(DEFAULT_GRACE_SECONDS);
    // As upstream: a negative grace period stands for the shortest there is. A year is as good as forever.
    if seconds < 0 { 1 } else { seconds.min(366 * 24 * 3600) }
}

/// Writes into the finalizers what is to become of the objects that this one owns.
fn set_propagation(resource: &Resource, value: &mut Value, policy: Option<&str>) {
    let orphans_by_default = resource.group.is_empty() && resource.plural == "replicationcontrollers";
    let wanted = match policy {
        Some("Orphan") => Some(ORPHAN),
        Some("Foreground") => Some(FOREGROUND),
        Some(_) => None,
        None if orphans_by_default => Some(ORPHAN),
        // Said nothing: what the finalizers already say holds.
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
