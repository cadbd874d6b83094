//! Pods that LimitRanges and ResourceQuotas refuse, by a simulation of what their controllers create. No object says so when it is written.

use std::collections::{HashMap, HashSet};

use berth_api::read::Kind;
use berth_input::inventory::{Entry, Inventory, WorkloadSpec};
use berth_simulate::{NotRunning, UnadmittedState};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let all = input.inventory;
    let quotas = all.resource_quotas.iter().map(|entry| entry.object.metadata.namespace.as_str());
    let ranges = all.limit_ranges.iter().map(|entry| entry.object.metadata.namespace.as_str());
    let namespaces: HashSet<&str> = quotas.chain(ranges).collect();
    if namespaces.is_empty() {
        return;
    }
    let (mut of_workloads, mut of_pods, mut n_pods) = (HashMap::new(), HashMap::new(), 0_i64);
    for subject in input.subjects().filter(|subject| namespaces.contains(subject.namespace())) {
        n_pods = n_pods.saturating_add(subject.n_pods().max(0));
        if subject.template.is_empty() {
            of_pods.insert(subject.pod.object.key(), subject);
        } else {
            of_workloads.insert((subject.namespace().to_owned(), subject.shown()), subject);
        }
    }
    let inventory = of_namespaces(all, &namespaces);
    let n_pods = usize::try_from(n_pods).unwrap_or(usize::MAX).saturating_add(inventory.pods.len());
    let simulation = input.simulated(inventory, n_pods);
    for group in simulation.map(|simulation| simulation.not_running()).unwrap_or_default() {
        if group.why.state != UnadmittedState::NotCreated || group.why.reason.is_none() {
            continue;
        }
        let workload = group.workload.clone().map(|workload| (group.namespace.clone(), workload));
        let workload = workload.and_then(|workload| of_workloads.get(&workload));
        for subject in workload.into_iter().chain(group.pods.iter().filter_map(|pod| of_pods.get(pod))) {
            findings.add(&subject.object, subject.path("spec"), message(subject, &group));
        }
    }
}

/// What creation in these namespaces depends on. No pod runs there, so StatefulSets do not wait for theirs.
fn of_namespaces(all: &Inventory, namespaces: &HashSet<&str>) -> Inventory {
    fn of<T: Clone>(entries: &[Entry<T>], is_in: impl Fn(&T) -> bool) -> Vec<Entry<T>> {
        entries.iter().filter(|entry| is_in(&entry.object)).cloned().collect()
    }
    let has = |namespace: &str| namespaces.contains(namespace);
    let mut inventory = Inventory::default();
    inventory.workloads = of(&all.workloads, |workload| has(&workload.metadata().namespace));
    inventory.pods = of(&all.pods, |pod| has(&pod.metadata.namespace));
    inventory.volume_objects = of(&all.volume_objects, |object| has(&object.metadata().namespace));
    for workload in inventory.workloads.iter_mut().map(|entry| &mut entry.object) {
        if let WorkloadSpec::StatefulSet(set) = &mut workload.spec {
            "Parallel".clone_into(&mut set.spec.pod_management_policy);
        }
    }
    if inventory.workloads.iter().any(|entry| entry.object.kind() == Kind::DaemonSet) {
        inventory.nodes.clone_from(&all.nodes);
    }
    inventory.namespaces.clone_from(&all.namespaces);
    inventory.resource_quotas.clone_from(&all.resource_quotas);
    inventory.limit_ranges.clone_from(&all.limit_ranges);
    inventory.horizontal_pod_autoscalers.clone_from(&all.horizontal_pod_autoscalers);
    inventory.priority_classes.clone_from(&all.priority_classes);
    inventory.runtime_classes.clone_from(&all.runtime_classes);
    inventory.index();
    inventory
}

fn message(subject: &Subject<'_>, NotRunning { why, pods, of, .. }: &NotRunning) -> String {
    let by = why.reason.as_deref().unwrap_or_default();
    let refused = match of {
        Some(of) if *of > 1 => format!("{} of {of} pods are not created", pods.len()),
        _ if subject.template.is_empty() => "the pod is refused".to_owned(),
        _ => "the pod is not created".to_owned(),
    };
    format!("{refused}: {by}: {}", why.message)
}
