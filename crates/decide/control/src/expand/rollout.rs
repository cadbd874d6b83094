//! Whether replacing a workload changes its template, so that its controller replaces its pods.

use serde_json::{Value, json};

use super::names::template_hash;
use berth_api::object::group::POD_TEMPLATE_HASH;
use berth_api::object::{ObjectMeta, OwnerReference, Pod};
use berth_api::read::decode_at;
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_api::syntax::quantity::Quantity;
use berth_input::inventory::{Inventory, Workload, WorkloadSpec};
use berth_rules::admission::default_pod;

/// Whether the controller replaces the pods of the workload: its template is not that of the workload it replaced.
pub(super) fn has_new_template(workload: &Workload) -> bool {
    let replaces_pods = match &workload.spec {
        WorkloadSpec::Deployment(workload) => !workload.spec.paused,
        WorkloadSpec::StatefulSet(workload) | WorkloadSpec::DaemonSet(workload) => {
            workload.spec.update_strategy.kind != "OnDelete"
        }
        _ => false,
    };
    replaces_pods && changes_template(workload)
}

/// Whether the rollout of a Deployment with several ReplicaSets goes on, as only its strategy is not that of the one it replaced. Its
/// ReplicaSet has to be known: all other pods are old.
pub(super) fn goes_on(deployment: &Workload, set: &str) -> bool {
    let (WorkloadSpec::Deployment(new), Some(WorkloadSpec::Deployment(earlier))) =
        (&deployment.spec, deployment.replaced.as_deref())
    else {
        return false;
    };
    !set.is_empty() && !new.spec.paused && new.spec.strategy != earlier.spec.strategy
}

/// Whether the template of a workload is not that of the workload it replaced, but its controller keeps the pods. Those that it creates
/// again have the new one, except that of a paused Deployment.
pub fn keeps_old_pods(workload: &Workload) -> bool {
    changes_template(workload) && !has_new_template(workload)
}

/// Whether the template of a workload is not that of the workload it replaced, also if its controller keeps the pods.
///
/// The earlier template may have defaults of the API server, and annotations that no manifest sets (as `kubectl rollout
/// restart` does): the fields that Berth reads are compared with their defaults, of all others those that the new template
/// has.
pub fn changes_template(workload: &Workload) -> bool {
    let earlier = workload.replaced.as_deref().and_then(template);
    earlier.zip(template(&workload.spec)).is_some_and(|(earlier, template)| differs(earlier, template))
}

fn differs(earlier: &Value, template: &Value) -> bool {
    // Errors of templates that cannot be read are reported elsewhere.
    let (Some(pod), Some(earlier_pod)) = (defaulted(template), defaulted(earlier)) else { return false };
    pod != earlier_pod || !contains(earlier, template)
}

/// Name, uid and hash of the ReplicaSet of the present template of a Deployment: one of these that it has, or else a new one.
pub(super) fn present_set<'a>(
    deployment: &Workload,
    sets: impl Iterator<Item = &'a Workload>,
) -> (String, String, String) {
    let wanted = template(&deployment.spec).unwrap_or(&Value::Null);
    let mut same = sets.filter(|set| template(&set.spec).is_some_and(|template| !differs(template, wanted)));
    let known = same.find_map(|set| {
        let ObjectMeta { name, uid, .. } = set.metadata();
        let hash = template(&set.spec)?.pointer("/metadata/labels")?.get(POD_TEMPLATE_HASH)?.as_str()?;
        Some((name.clone(), uid.clone(), hash.to_owned()))
    });
    known.unwrap_or_else(|| {
        let hash = template_hash(wanted);
        (format!("{}-{hash}", deployment.metadata().name), String::new(), hash)
    })
}

/// Whether a pod has the present template of its Deployment.
pub fn has_template_of(pod: &Pod, inventory: &Inventory, deployment: &Workload) -> bool {
    let ObjectMeta { namespace, name, .. } = deployment.metadata();
    let is_owner = |of: &OwnerReference| of.kind == "Deployment" && of.name == *name;
    let sets = inventory.workloads.iter().map(|entry| &entry.object).filter(|set| {
        let metadata = set.metadata();
        metadata.namespace == *namespace && metadata.controller().is_some_and(is_owner)
    });
    let (_, _, hash) = present_set(deployment, sets);
    pod.metadata.label(POD_TEMPLATE_HASH) == Some(&hash)
}

fn template(spec: &WorkloadSpec) -> Option<&Value> {
    match spec {
        WorkloadSpec::Deployment(workload)
        | WorkloadSpec::ReplicaSet(workload)
        | WorkloadSpec::StatefulSet(workload)
        | WorkloadSpec::DaemonSet(workload) => Some(&workload.spec.template),
        WorkloadSpec::ReplicationController(workload) => Some(&workload.spec.template),
        WorkloadSpec::Job(_) | WorkloadSpec::CronJob(_) => None,
    }
}

pub(super) fn defaulted(template: &Value) -> Option<Pod> {
    let pod = json!({"metadata": template.get("metadata"), "spec": template.get("spec")});
    let mut pod: Pod = decode_at(&pod, "", &"").ok()?;
    default_pod(&mut pod);
    pod.metadata.labels.remove(POD_TEMPLATE_HASH);
    pod.metadata.annotations.retain(|key, _| key == AFFINITY_ANNOTATION);
    Some(pod)
}

/// Whether `earlier` has all that `new` sets; a server leaves out empty values.
fn contains(earlier: &Value, new: &Value) -> bool {
    match (earlier, new) {
        (Value::Object(earlier), Value::Object(new)) => new.iter().all(|(key, value)| {
            earlier.get(key).map_or_else(|| is_empty(value), |earlier| contains(earlier, value))
        }),
        (Value::Array(earlier), Value::Array(new)) => {
            earlier.len() == new.len() && earlier.iter().zip(new).all(|(earlier, new)| contains(earlier, new))
        }
        (earlier, new) => {
            earlier == new || is_empty(earlier) && is_empty(new) || is_same_quantity(earlier, new)
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(true) => false,
    }
}

/// `0.5` and `500m`.
fn is_same_quantity(a: &Value, b: &Value) -> bool {
    let quantity = |value: &Value| match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    };
    quantity(a).is_some_and(|a| quantity(b) == Some(a))
}
