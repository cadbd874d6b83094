//! The next actions for a DaemonSet. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::fenceposts::{Round, scaled};
use jiff::Timestamp;

use super::eligibility::Belongs;
use crate::revisions::REVISION_LABEL;
use crate::view::{DaemonSet, DaemonSetStatus, Pod};

/// The actions, and the current status.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes on which to create a pod.
    pub(super) create_on: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Failed pods among `delete`: a backoff applies to their nodes.
    pub(super) failed: Vec<Arc<Pod>>,
    pub(super) status: DaemonSetStatus,
    /// When a ready pod becomes available.
    pub(super) look_again: Option<Timestamp>,
}

/// A node, its eligibility, and the pods bound or pinned to it, oldest first.
#[derive(Debug)]
pub(super) struct OnNode {
    pub(super) name: String,
    pub(super) belongs: Belongs,
    pub(super) pods: Vec<Arc<Pod>>,
}

/// Groups pods by the node they are bound or pinned to. The second result: pods pinned to missing nodes.
pub(super) fn by_node(
    nodes: impl Iterator<Item = (String, Belongs)>,
    pods: &[Arc<Pod>],
) -> (Vec<OnNode>, Vec<Arc<Pod>>) {
    let mut by_name: BTreeMap<&str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = pod.target_node() {
            by_name.entry(node).or_default().push(pod.clone());
        }
    }
    let mut on_nodes: Vec<OnNode> = nodes
        .map(|(name, belongs)| {
            let mut pods = by_name.remove(&*name).unwrap_or_default();
            pods.sort_by(|a, b| age(a).cmp(&age(b)));
            OnNode { name, belongs, pods }
        })
        .collect();
    on_nodes.sort_by(|a, b| a.name.cmp(&b.name));
    // The pod garbage collector deletes pods bound to a missing node.
    let nowhere = by_name.into_values().flatten().filter(|pod| pod.spec.node_name.is_empty());
    (on_nodes, nowhere.collect())
}

fn age(pod: &Pod) -> (Option<Timestamp>, &str) {
    (pod.metadata.creation_timestamp, &pod.metadata.name)
}

/// The plan. `hash` is the revision of the current template.
pub(super) fn plan(
    set: &DaemonSet,
    nodes: &[OnNode],
    nowhere: Vec<Arc<Pod>>,
    hash: &str,
    now: Timestamp,
) -> Plan {
    let bounds = Bounds::of(set, nodes);
    let mut plan = Plan::default();
    if !set.metadata.is_deleting() {
        for node in nodes {
            manage(set, node, bounds, hash, now, &mut plan);
        }
        plan.delete.extend(nowhere.into_iter().filter(|pod| !pod.metadata.is_deleting()));
        if set.spec.update_strategy.kind != "OnDelete" {
            if bounds.max_surge > 0 {
                roll_with_surge(set, nodes, bounds, hash, now, &mut plan);
            } else {
                roll(set, nodes, bounds, hash, now, &mut plan);
            }
        }
    }
    (plan.status, plan.look_again) = status(set, nodes, hash, now);
    plan
}

/// How many nodes may have a surge pod, or no available pod, during a rolling update.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    max_surge: i32,
    max_unavailable: i32,
}

impl Bounds {
    fn of(set: &DaemonSet, nodes: &[OnNode]) -> Self {
        let desired =
            i32::try_from(nodes.iter().filter(|n| n.belongs.should_run).count()).unwrap_or(i32::MAX);
        let rolling = &set.spec.update_strategy.rolling_update;
        let resolve = |value: Option<&serde_json::Value>, default| {
            value.and_then(|value| scaled(value, desired, Round::Up)).unwrap_or(default).max(0)
        };
        let max_surge = resolve(rolling.max_surge.as_ref(), 0);
        let max_unavailable = resolve(rolling.max_unavailable.as_ref(), 1);
        let max_unavailable = if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable };
        Bounds { max_surge, max_unavailable }
    }
}

/// Plans one pod on each eligible node and none elsewhere.
fn manage(set: &DaemonSet, node: &OnNode, bounds: Bounds, hash: &str, now: Timestamp, plan: &mut Plan) {
    let mut alive = Vec::new();
    for pod in node.pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
        if !node.belongs.should_continue {
            plan.delete.push(pod.clone());
        } else if pod.is_terminal() {
            if pod.status.phase == "Failed" {
                plan.failed.push(pod.clone());
            }
            plan.delete.push(pod.clone());
        } else {
            alive.push(pod);
        }
    }
    if node.belongs.should_run && node.pods.is_empty() {
        plan.create_on.push(node.name.clone());
    }
    if bounds.max_surge == 0 {
        plan.delete.extend(alive.into_iter().skip(1).cloned());
        return;
    }
    // Old and new pod may both exist until the new one is available.
    let is_new = |pod: &&Arc<Pod>| pod.metadata.label(REVISION_LABEL) == Some(hash);
    let (new, old): (Vec<_>, Vec<_>) = alive.into_iter().partition(is_new);
    plan.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|pod| Arc::clone(*pod)));
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.is_ready() || new.is_available(set.spec.min_ready_seconds, now))
    {
        plan.delete.push(Arc::clone(old));
    }
}

/// The pod of an older revision and the pod of the current one.
type OldAndNew<'a> = (Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>);

/// The active pods of a node by revision; `None` if a revision has several, which [`manage`] fixes first.
fn old_and_new<'a>(node: &'a OnNode, hash: &str) -> Option<OldAndNew<'a>> {
    let (mut old, mut new) = (None, None);
    for pod in node.pods.iter().filter(|pod| pod.is_active()) {
        let slot = if pod.metadata.label(REVISION_LABEL) == Some(hash) { &mut new } else { &mut old };
        if slot.replace(pod).is_some() {
            return None;
        }
    }
    Some((old, new))
}

/// Deletes old pods; the next sync creates their replacements.
fn roll(set: &DaemonSet, nodes: &[OnNode], bounds: Bounds, hash: &str, now: Timestamp, plan: &mut Plan) {
    let available = |pod: &Pod| pod.is_available(set.spec.min_ready_seconds, now);
    let mut n_unavailable = 0;
    let mut candidates = Vec::new();
    for node in nodes.iter().filter(|node| node.belongs.should_run) {
        match old_and_new(node, hash) {
            Some((None, Some(new))) => n_unavailable += i32::from(!available(new)),
            Some((Some(old), None)) if available(old) => candidates.push(old),
            Some((Some(old), None)) => {
                // Replacing an unavailable pod costs no availability.
                plan.delete.push(old.clone());
                n_unavailable += 1;
            }
            _ => n_unavailable += 1,
        }
    }
    let left = usize::try_from(bounds.max_unavailable - n_unavailable).unwrap_or(0);
    plan.delete.extend(candidates.into_iter().take(left).cloned());
}

/// Creates new pods beside the old ones.
fn roll_with_surge(
    set: &DaemonSet,
    nodes: &[OnNode],
    bounds: Bounds,
    hash: &str,
    now: Timestamp,
    plan: &mut Plan,
) {
    let available = |pod: &Pod| pod.is_available(set.spec.min_ready_seconds, now);
    let mut n_surge = 0;
    let mut candidates = Vec::new();
    for node in nodes.iter().filter(|node| node.belongs.should_run) {
        match old_and_new(node, hash) {
            Some((None, _)) => {}
            Some((Some(old), None)) if available(old) => candidates.push(node.name.clone()),
            // A surge pod beside an unavailable pod costs no availability.
            Some((Some(_), None)) => plan.create_on.push(node.name.clone()),
            Some((Some(_), Some(new))) => n_surge += i32::from(!available(new)),
            None => n_surge += 1,
        }
    }
    let left = usize::try_from(bounds.max_surge - n_surge).unwrap_or(0);
    plan.create_on.extend(candidates.into_iter().take(left));
}

fn status(
    set: &DaemonSet,
    nodes: &[OnNode],
    hash: &str,
    now: Timestamp,
) -> (DaemonSetStatus, Option<Timestamp>) {
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: set.status.collision_count,
        conditions: set.status.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    let mut next_available: Option<Timestamp> = None;
    for node in nodes {
        // The available pod represents its node, otherwise the oldest.
        let pod = node.pods.iter().find(|pod| pod.is_ready()).or(node.pods.first());
        if !node.belongs.should_run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        match pod.available_at(set.spec.min_ready_seconds) {
            Some(at) if at <= now => status.number_available += 1,
            Some(at) => next_available = Some(next_available.map_or(at, |next| next.min(at))),
            None => {}
        }
        let is_new = |pod: &Arc<Pod>| pod.metadata.label(REVISION_LABEL) == Some(hash);
        status.updated_number_scheduled += i32::from(node.pods.iter().any(is_new));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    (status, next_available)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses pods: `+` available, `-` not ready, `x` failed, `d` terminating; then revision and node.
    fn pod(text: &str) -> Arc<Pod> {
        let (state, node) = text.split_at(2);
        let (state, revision) = state.split_at(1);
        let ready = if state == "-" { "False" } else { "True" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": text, "labels": {REVISION_LABEL: revision},
                    "deletionTimestamp": (state == "d").then_some("2026-01-01T00:00:00Z")},
                "spec": {"nodeName": node},
                "status": {"phase": if state == "x" { "Failed" } else { "Running" },
                    "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap(),
        )
    }

    fn planned(rolling: Value, nodes: &str, pods: &[&str]) -> (Vec<String>, Vec<String>) {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let set = serde_json::from_value(json!({"spec": {"updateStrategy": strategy}})).unwrap();
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        // `a` gets pods, `A` neither gets nor keeps any, `'a'` after a `!` keeps its pods.
        let nodes = nodes.split(' ').map(|node| {
            let belongs = Belongs { should_run: node.len() == 1, should_continue: !node.starts_with('X') };
            (node.trim_start_matches(['X', '!']).into(), belongs)
        });
        let (nodes, nowhere) = by_node(nodes, &pods);
        let plan = plan(&set, &nodes, nowhere, "2", Timestamp::UNIX_EPOCH);
        let create = plan.create_on.iter().map(ToString::to_string).collect();
        (create, plan.delete.iter().map(|pod| pod.metadata.name.to_string()).collect())
    }

    #[test]
    fn one_pod_on_each_eligible_node_and_none_elsewhere() {
        for (nodes, pods, create, delete) in [
            ("a b", vec!["+2a"], vec!["b"], vec![]),
            ("a", vec!["d2a"], vec![], vec![]),
            ("a", vec!["x2a"], vec![], vec!["x2a"]),
            ("a", vec!["+2a", "-2a"], vec![], vec!["-2a"]),
            ("Xa !b", vec!["+2a", "+2b"], vec![], vec!["+2a"]),
            ("Xa !b", vec![], vec![], vec![]),
        ] {
            assert_eq!(
                planned(json!({}), nodes, &pods),
                (strings(&create), strings(&delete)),
                "{nodes} {pods:?}"
            );
        }
    }

    #[test]
    fn rolling_updates_keep_to_surge_and_unavailability() {
        for (rolling, pods, create, delete) in [
            (json!({}), vec!["+1a", "+1b", "+1c"], vec![], vec!["+1a"]),
            (json!({"maxUnavailable": "50%"}), vec!["+1a", "+1b", "+1c"], vec![], vec!["+1a", "+1b"]),
            (json!({}), vec!["-2a", "+1b", "+1c"], vec![], vec![]),
            (json!({}), vec!["+2a", "+1b", "+1c"], vec![], vec!["+1b"]),
            (json!({}), vec!["+1a", "-1b", "+1c"], vec![], vec!["-1b"]),
            (json!({}), vec!["d1a", "+1b", "+1c"], vec![], vec![]),
            (json!({"maxSurge": 1, "maxUnavailable": 0}), vec!["+1a", "+1b", "+1c"], vec!["a"], vec![]),
            (json!({"maxSurge": 1, "maxUnavailable": 0}), vec!["+1a", "-2a", "+1b", "+1c"], vec![], vec![]),
            (
                json!({"maxSurge": 1, "maxUnavailable": 0}),
                vec!["+1a", "+2a", "+1b", "+1c"],
                vec!["b"],
                vec!["+1a"],
            ),
            (json!({"maxSurge": 1, "maxUnavailable": 0}), vec!["-1a", "+1b", "+1c"], vec!["a", "b"], vec![]),
        ] {
            let expected = (strings(&create), strings(&delete));
            assert_eq!(planned(rolling.clone(), "a b c", &pods), expected, "{rolling} {pods:?}");
        }
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
}
