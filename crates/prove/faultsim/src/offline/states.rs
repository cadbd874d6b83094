//! The states of pods, by workload, in the cluster and in a simulation.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::Pod;
use berth_simulate::{SimulatedPod, Simulation, UnadmittedState, Workloads};

/// Namespace, and kind and name of a workload or `Pod NAME`.
pub type Key = (String, String);

/// How many pods of each workload are in each state.
pub type States = BTreeMap<Key, BTreeMap<String, usize>>;

const RUNNING: &str = "running";
const NOT_CREATED: &str = "not created";
/// The kubelet of the node is gone, and nothing replaces the pod.
const ON_LOST_NODE: &str = "on a lost node";

/// The pods of these workloads have their nodes by name.
fn names_nodes(workload: &str) -> bool {
    workload.starts_with("DaemonSet ")
}

fn running(workload: &str, node: &str) -> String {
    if names_nodes(workload) { format!("{RUNNING} on {node}") } else { RUNNING.to_owned() }
}

/// Whether a preemption was looked for is not compared: what was found is, by the pods that run. Nor are the names of pods.
fn pending(message: &str) -> String {
    let message = message.split(" preemption: ").next().unwrap_or_default().trim();
    let without_pod =
        message.split_once("; pod ").and_then(|(group, pod)| Some((group, pod.split_once(' ')?.1)));
    match without_pod {
        Some((group, why)) => format!("pending: {group}; {why}"),
        None => format!("pending: {message}"),
    }
}

fn of(workload: Option<String>, pod: &Pod) -> Key {
    (pod.metadata.namespace.clone(), workload.unwrap_or_else(|| format!("Pod {}", pod.metadata.name)))
}

fn add(states: &mut States, key: Key, state: String, n: usize) {
    *states.entry(key).or_default().entry(state).or_default() += n;
}

pub fn offline(simulation: &Simulation, lost: &BTreeSet<String>) -> States {
    let mut states = States::new();
    // Simulations do not say what deletes pods that have ended.
    let has_ended = |pod: &SimulatedPod| pod.is_unadmitted(UnadmittedState::Rejected);
    let is_created = |pod: &SimulatedPod| !pod.is_unadmitted(UnadmittedState::NotCreated);
    let is_left = |pod: &SimulatedPod| pod.node().is_some_and(|node| is_replaced(&pod.pod, node, lost));
    for pod in simulation.pods().iter().filter(|pod| !has_ended(pod) && is_created(pod) && !is_left(pod)) {
        let key = of(pod.workload.clone(), &pod.pod);
        let state = state_offline(pod, &key.1, lost);
        add(&mut states, key, state, 1);
    }
    let not_running = simulation.not_running().into_iter();
    for group in not_running.filter(|group| group.why.state == UnadmittedState::NotCreated) {
        let key = (group.namespace, group.workload.unwrap_or_default());
        add(&mut states, key, NOT_CREATED.to_owned(), group.pods.len());
    }
    states
}

fn state_offline(pod: &SimulatedPod, workload: &str, lost: &BTreeSet<String>) -> String {
    match (pod.node(), &pod.unadmitted) {
        (Some(node), _) if lost.contains(node) => ON_LOST_NODE.to_owned(),
        (Some(node), _) => running(workload, node),
        (None, Some(_)) => "waits on a node".to_owned(),
        (None, None) => pending(&pod.outcome.message()),
    }
}

/// ReplicaSets and Jobs have created another one; the names of pods of StatefulSets are not free, nor the nodes of those of DaemonSets.
fn is_replaced(pod: &Pod, node: &str, lost: &BTreeSet<String>) -> bool {
    lost.contains(node)
        && pod.metadata.is_deleting()
        && pod.metadata.controller().is_some_and(|owner| matches!(owner.kind.as_str(), "ReplicaSet" | "Job"))
}

/// The states in the cluster. `wanted` is how many pods workloads want.
pub fn in_cluster(
    pods: &[Pod],
    workloads: &Workloads,
    wanted: &BTreeMap<Key, usize>,
    lost: &BTreeSet<String>,
) -> States {
    let mut states = States::new();
    let mut n_created: BTreeMap<Key, usize> = BTreeMap::new();
    for pod in pods {
        let key = of(workloads.owner(pod), pod);
        let is_bound = !pod.spec.node_name.is_empty();
        let is_lost = lost.contains(&pod.spec.node_name);
        if is_replaced(pod, &pod.spec.node_name, lost) || pod.is_terminal() {
            continue;
        }
        // A pod that a StatefulSet has still to delete is none of those that it wants.
        let ordinal = pod.metadata.name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok());
        let is_surplus = key.1.starts_with("StatefulSet ") && ordinal.as_ref() >= wanted.get(&key);
        *n_created.entry(key.clone()).or_default() += usize::from(!is_surplus);
        let state = if is_lost {
            ON_LOST_NODE.to_owned()
        } else if pod.status.phase == "Running" {
            running(&key.1, &pod.spec.node_name)
        } else if is_bound {
            "waits on a node".to_owned()
        } else {
            let mut conditions = pod.status.conditions.iter();
            let scheduled = conditions.find(|condition| condition.condition_type == "PodScheduled");
            pending(scheduled.map_or("", |condition| &condition.message))
        };
        add(&mut states, key, state, 1);
    }
    for (key, wanted) in wanted {
        let missing = wanted.saturating_sub(n_created.get(key).copied().unwrap_or(0));
        if missing > 0 {
            add(&mut states, key.clone(), NOT_CREATED.to_owned(), missing);
        }
    }
    states
}

/// Without the reasons: kube-scheduler does not look again at a pod that waits when a node is cordoned, and its message is of before.
pub fn without_reasons(states: States) -> States {
    renamed(states, |_, state| if state.starts_with("pending: ") { "pending".to_owned() } else { state })
}

/// Without the order in which StatefulSets create pods: several that left at once were created again by the order in which they were
/// deleted.
pub fn without_order(states: States) -> States {
    renamed(states, |(_, workload), state| match workload.starts_with("StatefulSet ") {
        true if state == NOT_CREATED || state.starts_with("pending") => "waiting".to_owned(),
        _ => state,
    })
}

fn renamed(states: States, rename: impl Fn(&Key, String) -> String) -> States {
    let mut all = States::new();
    for (key, of_workload) in states {
        of_workload.into_iter().for_each(|(state, n)| add(&mut all, key.clone(), rename(&key, state), n));
    }
    all
}

/// Without the nodes of DaemonSets that cannot create all of their pods: a controller begins with any of the nodes.
fn without_chosen_nodes(states: &States) -> States {
    renamed(states.clone(), |key, state| {
        let is_limited = states.get(key).is_some_and(|of_workload| of_workload.contains_key(NOT_CREATED));
        if is_limited && state.starts_with(RUNNING) { RUNNING.to_owned() } else { state }
    })
}

/// Whether the group of pods has fewer members than it needs.
fn is_incomplete(state: &str) -> bool {
    state.starts_with("pending: pod group ") && state.contains(" of at least ")
}

/// Without what depends on the nodes that the scheduler had chosen: which pods of groups with too few members have not lost them, and where
/// volumes are.
fn without_choices(states: &States, other: &States) -> States {
    let has = |key: &Key, is_meant: fn(&str) -> bool| {
        let of_workload = [states, other].into_iter().filter_map(|states| states.get(key));
        of_workload.flat_map(BTreeMap::keys).any(|state| is_meant(state))
    };
    let is_of_volume = |state: &str| state.contains("PersistentVolume's node affinity");
    renamed(states.clone(), |key, state| {
        let is_member = state.starts_with(RUNNING) || is_incomplete(&state);
        if is_member && has(key, is_incomplete) {
            "in an incomplete group".to_owned()
        } else if state.starts_with("pending") && has(key, is_of_volume) {
            "pending".to_owned()
        } else {
            state
        }
    })
}

/// The differences in words.
pub fn differences(offline: &States, cluster: &States) -> Vec<String> {
    let (offline, cluster) = (&without_chosen_nodes(offline), &without_chosen_nodes(cluster));
    let (offline, cluster) = (&without_choices(offline, cluster), &without_choices(cluster, offline));
    let keys: BTreeSet<&Key> = offline.keys().chain(cluster.keys()).collect();
    let different = keys.into_iter().filter(|key| offline.get(key) != cluster.get(key));
    let none = BTreeMap::new();
    let told = different.map(|key| {
        let [offline, cluster] = [offline, cluster].map(|states| states.get(key).unwrap_or(&none));
        format!("{}/{}: offline {offline:?}, cluster {cluster:?}", key.0, key.1)
    });
    told.collect()
}
