//! What must hold some time after the last fault and the last change by a user.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{Condition, Pod};
use berth_testkit::check::bindings::Attempt;
use berth_testkit::check::history::{Changes, State, name, text};
use berth_testkit::check::volumes;
use berth_testkit::naive::{Options, evaluate, preempt};
use serde_json::Value;

use super::groups::Groups;
use super::{devices, profile};

/// In the condition of a pod whose preemptions have not made room.
const GAVE_UP_PREEMPTING: &str = "preemptions have not made room";

/// What does not hold yet.
pub fn unsettled(changes: &Changes, state: &State, attempts: &[Attempt]) -> Vec<String> {
    let mut findings = Vec::new();
    let ready = ready_nodes(changes);
    let is_ready = |name: &str| ready.contains(name);
    let groups = Groups::new(changes, state, attempts);
    for pod in state.pods().filter(|pod| !pod.is_terminal()) {
        let key = pod.key();
        if pod.metadata.is_deleting() {
            if pod.spec.node_name.is_empty() || is_ready(&pod.spec.node_name) {
                findings.push(format!("{key} is still being deleted"));
            }
        } else if pod.spec.node_name.is_empty() {
            let why = if groups.has(pod) { None } else { could_be_bound(state, pod) };
            findings.extend(why.or_else(|| waits_without_reason(pod)));
        } else if is_ready(&pod.spec.node_name) && pod.status.phase != "Running" {
            findings.push(format!("{key} does not run on {}: {:?}", pod.spec.node_name, pod.status.phase));
        } else if scheduled(pod).is_some_and(|condition| condition.status != "True") {
            findings.push(format!("{key} is bound, but its condition says that it is not scheduled"));
        }
    }
    findings.extend(volumes::check(&state.world("")));
    findings.extend(replicas(changes, state));
    findings.extend(groups.findings());
    findings.extend(devices::leaks(state));
    findings
}

fn ready_nodes(changes: &Changes) -> BTreeSet<&str> {
    let mut ready = BTreeSet::new();
    for change in changes.values().filter(|change| change.kind == "Node") {
        let name = text(&change.object["metadata"]["name"]);
        let conditions = change.object["status"]["conditions"].as_array();
        let is_ready =
            conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
        if is_ready && !change.deleted {
            ready.insert(name)
        } else {
            ready.remove(name)
        };
    }
    ready
}

fn scheduled(pod: &Pod) -> Option<&Condition> {
    pod.status.conditions.iter().find(|condition| condition.condition_type == "PodScheduled")
}

fn waits_without_reason(pod: &Pod) -> Option<String> {
    let has_reason = scheduled(pod).is_some_and(|c| c.status == "False" && !c.message.is_empty());
    (!has_reason).then(|| format!("{} waits without a reason", pod.key()))
}

/// Why a pod should have a node by now.
fn could_be_bound(state: &State, pod: &Pod) -> Option<String> {
    let key = pod.key();
    let world = state.world(&key);
    let mut pending = pod.clone();
    pending.status.nominated_node_name.clear();
    let decision = evaluate(&world, &pending, &profile(), &Options::default());
    if let Some(node) = decision.chosen {
        return Some(format!("{key} waits, but fits on {node}"));
    }
    // Replacements of the victims may take other nodes of a domain where the pod must not meet them.
    if scheduled(pod).is_some_and(|condition| condition.message.contains(GAVE_UP_PREEMPTING)) {
        return None;
    }
    let victims = preempt(&world, &pending, &profile(), &Options::default()).ok()?;
    Some(format!("{key} waits, but could preempt {:?} on {}", victims.victims, victims.node))
}

/// Workloads without the right number of pods.
fn replicas(changes: &Changes, state: &State) -> Vec<String> {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    for change in changes.values().filter(|c| matches!(c.kind.as_str(), "ReplicaSet" | "StatefulSet")) {
        let uid = text(&change.object["metadata"]["uid"]);
        match change.deleted {
            true => last.remove(uid),
            false => last.insert(uid, &change.object),
        };
    }
    let mut findings = Vec::new();
    for (uid, object) in last {
        let owned: Vec<&Pod> = state
            .pods()
            .map(|pod| &**pod)
            .filter(|pod| {
                !pod.is_terminal() && !pod.metadata.is_deleting() && pod.metadata.is_controlled_by(uid)
            })
            .collect();
        let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
        // One that goes in order waits for its first pod that is not ready.
        let is_ordered =
            object["kind"] == "StatefulSet" && object["spec"]["podManagementPolicy"] == "OrderedReady";
        let waits = is_ordered && owned.iter().any(|pod| pod.status.phase != "Running" || !is_pod_ready(pod));
        // A pod that lost its labels has no owner, but keeps its name.
        let is_taken = |i: usize| {
            let pod = state.pod(&format!("{}-{i}", name(object)));
            pod.is_some_and(|pod| !pod.metadata.is_controlled_by(uid))
        };
        let lacks_name = object["kind"] == "StatefulSet" && (0..wanted).any(is_taken);
        if owned.len() != wanted && !waits && !lacks_name && object["metadata"]["deletionTimestamp"].is_null()
        {
            findings.push(format!(
                "{} {} has {} pods of {wanted}",
                object["kind"],
                name(object),
                owned.len()
            ));
        }
    }
    findings
}

fn is_pod_ready(pod: &Pod) -> bool {
    pod.status
        .conditions
        .iter()
        .any(|condition| condition.condition_type == "Ready" && condition.status == "True")
}
