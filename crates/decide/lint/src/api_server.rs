//! What is known of the API server that the objects are for: whether it has the fields of the design proposals.

use berth_api::object::{Affinity, ObjectMeta, Pod};
use berth_api::read::SourceLocation;
use berth_input::inventory::{Entry, Inventory, Workload, WorkloadSpec};
use serde_json::Value;

/// Container runtime of the nodes that Berth simulates begin so.
const SIMULATED_RUNTIME: &str = "berth://";
const ENFORCED: &str = "requiredDuringSchedulingRequiredDuringExecution";

/// Whether the objects of an input were stored by an API server without the fields of the proposals. A `metadata.uid` shows
/// that an API server stored an object. It has the fields if it stored one of them, or if the cluster has nodes that Berth
/// simulates. With a cluster and linted files, the cluster decides.
pub(crate) fn is_standard(inventory: &Inventory, is_linted: &impl Fn(&SourceLocation) -> bool) -> bool {
    let Inventory { nodes, namespaces, pods, workloads, .. } = inventory;
    let sources = sources(nodes).chain(sources(namespaces)).chain(sources(pods)).chain(sources(workloads));
    let has_cluster = sources.into_iter().any(|source| !is_linted(source));
    let counts = |source: &SourceLocation| !has_cluster || !is_linted(source);
    let is_stored =
        |source: &SourceLocation, metadata: &ObjectMeta| counts(source) && !metadata.uid.is_empty();

    let is_simulated = nodes.iter().any(|Entry { object, .. }| {
        object.status.node_info.container_runtime_version.starts_with(SIMULATED_RUNTIME)
    });
    let mut stored_pods =
        pods.iter().filter(|pod| is_stored(&pod.source, &pod.object.metadata)).map(|pod| &pod.object);
    let mut stored_workloads = workloads
        .iter()
        .filter(|workload| is_stored(&workload.source, workload.object.metadata()))
        .map(|workload| &workload.object);
    let has_stored = nodes.iter().any(|node| is_stored(&node.source, &node.object.metadata))
        || namespaces.iter().any(|namespace| is_stored(&namespace.source, &namespace.object.metadata))
        || stored_pods.clone().next().is_some()
        || stored_workloads.clone().next().is_some();
    has_stored && !is_simulated && !stored_pods.any(has_field) && !stored_workloads.any(template_has_field)
}

fn sources<T>(entries: &[Entry<T>]) -> impl Iterator<Item = &SourceLocation> {
    entries.iter().map(|entry| &entry.source)
}

fn has_field(pod: &Pod) -> bool {
    let Some(Affinity { node_affinity, pod_affinity, pod_anti_affinity }) = pod.spec.affinity.as_deref()
    else {
        return false;
    };
    node_affinity.as_ref().is_some_and(|a| a.required_during_scheduling_required_during_execution.is_some())
        || [pod_affinity, pod_anti_affinity]
            .into_iter()
            .flatten()
            .any(|a| !a.required_during_scheduling_required_during_execution.is_empty())
}

fn template_has_field(workload: &Workload) -> bool {
    let template = match &workload.spec {
        WorkloadSpec::Deployment(w)
        | WorkloadSpec::ReplicaSet(w)
        | WorkloadSpec::StatefulSet(w)
        | WorkloadSpec::DaemonSet(w) => &w.spec.template,
        WorkloadSpec::ReplicationController(w) => &w.spec.template,
        WorkloadSpec::Job(w) => &w.spec.template,
        WorkloadSpec::CronJob(w) => &w.spec.job_template["spec"]["template"],
    };
    let affinity = template["spec"]["affinity"].as_object();
    affinity.is_some_and(|affinity| affinity.values().any(|rules| !matches!(rules[ENFORCED], Value::Null)))
}
