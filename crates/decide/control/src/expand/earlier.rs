//! The earlier template of a workload whose object the input lacks: dumps often have pods without their workloads.

use std::collections::HashSet;

use serde_json::json;

use super::ownership::{Ownership, is_active};
use super::rollout::{changes_template, defaulted};
use super::{revision, template_mut};
use berth_api::object::group::POD_TEMPLATE_HASH;
use berth_api::object::{Container, NamespacedName, Pod};
use berth_api::read::Kind;
use berth_input::inventory::{Inventory, Workload, WorkloadSpec};
use berth_rules::unmerge_label_keys;

/// The workloads of an input, by kind, namespace and name.
pub fn workload_names(inventory: &Inventory) -> HashSet<(Kind, NamespacedName)> {
    let workloads = inventory.workloads.iter().map(|entry| &entry.object);
    workloads.map(|workload| (workload.kind(), workload.metadata().namespaced_name())).collect()
}

/// Gives the workloads of an input that were not known before, but whose pods or ReplicaSets the input has, the template of these as their
/// earlier one, if they differ: the newest ReplicaSet, or else the newest pod. Of a pod, what placement reads is compared.
/// Workloads whose template stays the same keep the earlier one.
pub fn find_earlier_templates(inventory: &mut Inventory, known: &HashSet<(Kind, NamespacedName)>) {
    for workload in inventory.workloads.iter_mut().map(|entry| &mut entry.object) {
        if workload.replaced_before.is_some() && !changes_template(workload) {
            workload.replaced = workload.replaced_before.take();
        }
        workload.replaced_before = None;
    }
    let ownership = Ownership::new(inventory);
    let is_new = |workload: &Workload| {
        workload.replaced.is_none()
            && !known.contains(&(workload.kind(), workload.metadata().namespaced_name()))
    };
    let workloads = inventory.workloads.iter().map(|entry| &entry.object).enumerate();
    let found = workloads.filter(|(_, workload)| is_new(workload));
    let found = found.filter_map(|(i, workload)| Some((i, earlier(workload, &ownership)?)));
    let found: Vec<_> = found.collect();
    for (i, earlier) in found {
        inventory.workloads[i].object.replaced = Some(Box::new(earlier));
    }
}

fn earlier(workload: &Workload, ownership: &Ownership<'_>) -> Option<WorkloadSpec> {
    let metadata = workload.metadata();
    let mut earlier = workload.spec.clone();
    let template = template_mut(&mut earlier)?;
    let sets = ownership.workloads_of(workload.kind(), metadata);
    if let Some(set) = sets.iter().max_by_key(|set| (revision(set.object.metadata()), set.order)) {
        let WorkloadSpec::ReplicaSet(set) = &set.object.spec else { return None };
        set.spec.template.clone_into(template);
        let labels = template.pointer_mut("/metadata/labels").and_then(|labels| labels.as_object_mut());
        labels.and_then(|labels| labels.remove(POD_TEMPLATE_HASH));
        return Some(earlier);
    }
    let mut pods = ownership.pods_of(workload.kind(), metadata);
    pods.extend(ownership.pods_of_absent_replica_sets(metadata));
    let pods = pods.into_iter().filter(|pod| is_active(pod));
    let pod = pods.max_by_key(|pod| (pod.metadata.creation_timestamp, pod.metadata.name.as_str()))?;
    if is_of_template(pod, &defaulted(template)?) {
        return None;
    }
    let mut spec = pod.spec.clone();
    spec.node_name.clear();
    *template = json!({"metadata": {"labels": pod.metadata.labels}, "spec": spec});
    Some(earlier)
}

/// Whether what placement reads of a running pod is that of the template, apart from what admission and controllers add.
fn is_of_template(pod: &Pod, template: &Pod) -> bool {
    let mut pod = pod.clone();
    unmerge_label_keys(&mut pod);
    let (running, new) = (&pod.spec, &template.spec);
    let labels = template.metadata.labels.iter();
    let same_labels = labels.clone().all(|(key, value)| pod.metadata.labels.get(key) == Some(value));
    let is_added = |key: &str| key.starts_with("node.kubernetes.io/");
    let tolerates = new.tolerations.iter().all(|t| running.tolerations.contains(t))
        && running.tolerations.iter().all(|t| new.tolerations.contains(t) || is_added(&t.key));
    let (mut affinity, mut wanted) = (running.affinity.clone(), new.affinity.clone());
    if pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet") {
        // The controller pins the pod to its node.
        affinity.iter_mut().chain(&mut wanted).for_each(|affinity| affinity.node_affinity = None);
    }
    let same_containers = |running: &[Container], new: &[Container]| {
        new.iter().all(|new| running.iter().any(|running| is_of_container(running, new)))
    };
    same_labels
        && tolerates
        && affinity.unwrap_or_default() == wanted.unwrap_or_default()
        && running.node_selector == new.node_selector
        && running.topology_spread_constraints == new.topology_spread_constraints
        && running.scheduler_name == new.scheduler_name
        && (new.priority_class_name.is_empty() || running.priority_class_name == new.priority_class_name)
        && running.runtime_class_name == new.runtime_class_name
        && same_containers(&running.containers, &new.containers)
        && same_containers(&running.init_containers, &new.init_containers)
}

fn is_of_container(running: &Container, new: &Container) -> bool {
    let (has, wants) = (&running.resources, &new.resources);
    // A LimitRange gives defaults to containers that say nothing.
    let is_silent = wants.requests.is_empty() && wants.limits.is_empty();
    running.name == new.name
        && running.image == new.image
        && (is_silent || (has.requests == wants.requests && has.limits == wants.limits))
}
