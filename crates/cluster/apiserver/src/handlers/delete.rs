//! What is special about deletions: preconditions, what is answered.

use berth_schema::resource::{
    CSI_DRIVERS, CSI_NODES, DEVICE_CLASSES, JOBS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES,
    POD_TEMPLATES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES,
    Resource, SERVICE_ACCOUNTS, SERVICES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_ATTRIBUTES_CLASSES,
};
use serde_json::{Value, json};

use super::binding::set_condition;
use crate::lifecycle;
use crate::request::{ApiResult, DeleteOptions, RequestInfo, Status};
use crate::store::Object;
use crate::strategy::now;

/// Jobs leave their pods behind, which is not what most users expect.
pub fn orphan_warning(resource: &Resource, options: &DeleteOptions) -> Option<String> {
    let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
                   or set propagationPolicy=Orphan to suppress this warning";
    let is_due = *resource == JOBS && options.propagation_policy.is_none();
    is_due.then(|| warning.to_owned())
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

/// Whether a deletion answers the object, instead of a status.
pub fn answers_object(resource: &Resource) -> bool {
    RETURNED.iter().any(|returned| std::ptr::eq(*returned, resource))
}

/// Changes an object into one that is being deleted. Returns whether it can be removed at once.
pub fn begin(resource: &Resource, object: &mut Value, options: &DeleteOptions) -> bool {
    if options.evicts {
        set_condition(&mut object["status"], disruption_target());
    }
    lifecycle::begin_deletion(resource, object, options)
}

/// The condition of an evicted pod, by which Jobs distinguish evictions from failures.
fn disruption_target() -> Value {
    json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now(),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"})
}

pub fn check_preconditions(
    RequestInfo { resource, name, .. }: &RequestInfo,
    current: &Object,
    old: &Value,
    options: &DeleteOptions,
) -> ApiResult {
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
