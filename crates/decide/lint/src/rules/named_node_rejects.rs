//! Pods with `spec.nodeName` that do not run on that node, by a simulation of all pods that name a node.

use std::collections::{HashMap, HashSet};

use berth_api::object::{Pod, VolumeObject};
use berth_input::inventory::{Entry, Inventory};
use berth_simulate::{NotRunning, Unadmitted, UnadmittedState, volume_claims};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let subjects: Vec<_> =
        input.subjects().filter(|subject| subject.written.awaits_node_admission()).collect();
    if subjects.is_empty() || input.nodes.is_empty() {
        return;
    }
    let (mut of_workloads, mut of_pods) = (HashMap::new(), HashMap::new());
    for subject in subjects {
        if subject.template.is_empty() {
            of_pods.insert(subject.pod.object.key(), subject);
        } else {
            of_workloads.insert((subject.namespace().to_owned(), subject.shown()), subject);
        }
    }
    for group in not_running(input) {
        let workload = group.workload.clone().map(|workload| (group.namespace.clone(), workload));
        let workload = workload.and_then(|workload| of_workloads.get(&workload));
        for subject in workload.into_iter().chain(group.pods.iter().filter_map(|pod| of_pods.get(pod))) {
            findings.add(&subject.object, subject.path("spec.nodeName"), message(subject, &group));
        }
    }
}

/// The pods of the input that do not run on the nodes that they name, as if the objects that the API server rejects were not there.
/// None if they are too many.
fn not_running(input: &LintInput<'_>) -> Vec<NotRunning> {
    let all = input.inventory;
    let names_node = |pod: &Pod| !pod.spec.node_name.is_empty();
    let pods = all.pods.iter().filter(|entry| names_node(&entry.object)).cloned();
    let workloads = all.workloads.iter().filter(|entry| entry.object.template_node_name().is_some()).cloned();
    let mut inventory = Inventory::default();
    inventory.volume_objects = unscheduled_volumes(input);
    inventory.nodes.clone_from(&all.nodes);
    inventory.namespaces.clone_from(&all.namespaces);
    inventory.pods = pods.collect();
    inventory.workloads = workloads.collect();
    inventory.index();
    let of_workloads = input.subjects.iter().filter(|subject| subject.written.awaits_node_admission());
    let n_pods = of_workloads.map(|subject| subject.n_pods().max(0)).fold(0, i64::saturating_add);
    let n_pods = usize::try_from(n_pods).unwrap_or(usize::MAX).saturating_add(inventory.pods.len());
    let groups = input.simulated(inventory, n_pods).map(|simulation| simulation.not_running());
    let mut groups = groups.unwrap_or_default();
    groups.retain(|group| group.why.state != UnadmittedState::NotCreated);
    groups
}

/// The objects of volumes without the claims of pods that a scheduler decides about: these are bound for them.
fn unscheduled_volumes(input: &LintInput<'_>) -> Vec<Entry<VolumeObject>> {
    let scheduled = input.subjects().filter(|subject| !subject.written.awaits_node_admission());
    let scheduled = scheduled.flat_map(|subject| volume_claims(&subject.written)).collect::<HashSet<_>>();
    let is_scheduled = |object: &VolumeObject| match object {
        VolumeObject::PersistentVolumeClaim(claim) => scheduled.contains(&claim.metadata.namespaced_name()),
        _ => false,
    };
    input.inventory.volume_objects.iter().filter(|entry| !is_scheduled(&entry.object)).cloned().collect()
}

fn message(subject: &Subject<'_>, NotRunning { why, pods, .. }: &NotRunning) -> String {
    let node = &why.node;
    match (why.state, subject.n_pods(), pods.len()) {
        (UnadmittedState::Unbound, ..) => {
            format!("does not run: {}", why.message.trim_start_matches("spec.nodeName: "))
        }
        (UnadmittedState::Waiting, ..) if subject.template.is_empty() => {
            format!("node {node} is not in the input: the pod does not run")
        }
        (UnadmittedState::Waiting, ..) => format!("node {node} is not in the input: the pods do not run"),
        (UnadmittedState::Rejected, n_pods, n) if !subject.template.is_empty() && n_pods > 1 => {
            format!("{node} rejects {n} of {n_pods} pods: {}: {}", reason(why), why.message)
        }
        (UnadmittedState::Rejected | UnadmittedState::NotCreated, ..) => {
            format!("{node} rejects the pod: {}: {}", reason(why), why.message)
        }
    }
}

fn reason(why: &Unadmitted) -> &str {
    why.reason.as_deref().unwrap_or_default()
}
