//! Evicts pods from nodes whose `NoExecute` taints they do not tolerate, or no longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_api::object::Toleration;
use berth_api::resource::PODS;
use berth_control::taints::{Stay, stay};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, DeleteOptions};
use crate::disruption::disruption_target;
use crate::events::{Recorder, Reference};
use crate::index::Index;
use crate::informers::{Caches, Informers};
use crate::queue::{Next, Queue, until, work};
use crate::view::{Node, NodeTaint, Pod, find_condition};
use berth_client::call::CallError;

/// When to evict a pod; the earlier is the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leaves {
    Now,
    At(Timestamp),
    Never,
}

/// When to evict a pod from a node with these taints: at once if one is not tolerated, otherwise when the first
/// toleration expires, counted from the time its taint was added, or was first seen if it does not say. A pod that arrived later
/// has the whole time from then on.
pub(crate) fn leaves(
    tolerations: &[Toleration],
    taints: &[NodeTaint],
    gates: FeatureGates,
    arrived: Option<Timestamp>,
    seen: impl Fn(&NodeTaint) -> Timestamp,
) -> Leaves {
    let mut leaves = Leaves::Never;
    for taint in taints.iter().filter(|taint| taint.taint.effect == "NoExecute") {
        let seconds = match stay(tolerations, &taint.taint, gates) {
            Stay::No => return Leaves::Now,
            Stay::Forever => continue,
            Stay::Seconds(seconds) => seconds,
        };
        let added = taint.time_added.unwrap_or_else(|| seen(taint));
        let since = arrived.map_or(added, |arrived| arrived.max(added));
        let Ok(at) = since.checked_add(SignedDuration::from_secs(seconds)) else { continue };
        leaves = leaves.min(Leaves::At(at));
    }
    leaves
}

/// When a pod came to its node: when it was bound, or created with the name of the node.
fn arrival(pod: &Pod) -> Option<Timestamp> {
    let bound = find_condition(&pod.status.conditions, "PodScheduled").filter(|c| c.is_true());
    bound.and_then(|condition| condition.last_transition_time).max(pod.metadata.creation_timestamp)
}

/// Until when a pod that its node has neither accepted nor rejected is left alone.
fn node_decides_until(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.filter(|_| pod.status.start_time.is_none())?;
    berth_api::object::node_decides_until(created, now)
}

fn has_no_execute(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.taint.effect == "NoExecute")
}

pub(crate) struct TaintEviction {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
    seen: Arc<Mutex<Seen>>,
    feature_gates: FeatureGates,
}

/// By uid of pods, since when the taints of their nodes have been seen that do not say when they were added.
type Seen = HashMap<String, Vec<(NodeTaint, Timestamp)>>;

impl TaintEviction {
    pub(crate) fn new(
        api: &Api,
        recorder: Recorder,
        informers: &mut Informers,
        feature_gates: FeatureGates,
    ) -> Self {
        let caches = informers.caches();
        let (queue, seen) = Default::default();
        let controller = TaintEviction { api: api.clone(), recorder, caches, queue, seen, feature_gates };
        let (queue, cache) = (controller.queue.clone(), controller.caches.pods.clone());
        informers.nodes.on_change(move |change| {
            let Some(node) = change.new else { return };
            let is_new = || change.old.is_none_or(|old| old.spec.taints != node.spec.taints);
            if (has_no_execute(node) || change.old.is_some_and(|old| has_no_execute(old))) && is_new() {
                for pod in cache.by(&Index::Node(node.metadata.name.clone())) {
                    queue.add(pod.metadata.namespaced_name());
                }
            }
        });
        let (queue, cache) = (controller.queue.clone(), controller.caches.nodes.clone());
        let seen = controller.seen.clone();
        informers.pods.on_change(move |change| {
            if let (Some(old), None) = (change.old, change.new) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&old.metadata.uid);
            }
            let Some(pod) = change.new.filter(|pod| !pod.spec.node_name.is_empty()) else { return };
            let same = change.old.is_some_and(|old| {
                old.spec.node_name == pod.spec.node_name && old.spec.tolerations == pod.spec.tolerations
            });
            let node = NamespacedName::new("", pod.spec.node_name.as_str());
            if !same && cache.get(&node).is_some_and(|node| has_no_execute(&node)) {
                queue.add(pod.metadata.namespaced_name());
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("taint-eviction", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(pod) = self.caches.pods.get(&key).filter(|pod| pod.is_active()) else {
            return Ok(Next::Wait);
        };
        let node = NamespacedName::new("", pod.spec.node_name.as_str());
        let Some(node) = self.caches.nodes.get(&node) else { return Ok(Next::Wait) };
        let now = Timestamp::now();
        let seen = self.seen(&pod, &node.spec.taints, now);
        let since =
            |taint: &NodeTaint| seen.iter().find(|(known, _)| known == taint).map_or(now, |(_, at)| *at);
        let (tolerations, taints) = (&pod.spec.tolerations, &node.spec.taints);
        match leaves(tolerations, taints, self.feature_gates, arrival(&pod), since) {
            Leaves::Never => Ok(Next::Wait),
            Leaves::At(at) if at > now => Ok(Next::After(until(at, now).max(Duration::from_millis(1)))),
            Leaves::At(_) | Leaves::Now => match node_decides_until(&pod, now) {
                Some(at) => Ok(Next::After(until(at, now))),
                None => {
                    EVICTION.carry_out(&self.api, &self.recorder, &pod).await?;
                    Ok(Next::Wait)
                }
            },
        }
    }

    /// The taints of a pod's node that do not say when they were added, with the time they were first seen.
    fn seen(&self, pod: &Pod, taints: &[NodeTaint], now: Timestamp) -> Vec<(NodeTaint, Timestamp)> {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.remove(&pod.metadata.uid).unwrap_or_default();
        let since =
            |taint: &NodeTaint| before.iter().find(|(known, _)| known == taint).map_or(now, |(_, at)| *at);
        let silent = taints.iter().filter(|t| t.taint.effect == "NoExecute" && t.time_added.is_none());
        let seen: Vec<_> = silent.map(|taint| (taint.clone(), since(taint))).collect();
        if !seen.is_empty() {
            all.insert(pod.metadata.uid.clone(), seen.clone());
        }
        seen
    }
}

/// How a controller evicts pods because of taints.
pub(crate) struct Eviction {
    pub(crate) event: &'static str,
    /// Reason and message of the condition.
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

const EVICTION: Eviction = Eviction {
    event: "TaintManagerEviction",
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

impl Eviction {
    /// Deletes a pod, and says why in its status and an event.
    pub(crate) async fn carry_out(&self, api: &Api, recorder: &Recorder, pod: &Pod) -> Result<(), CallError> {
        let key = pod.metadata.namespaced_name();
        let about = Reference::new(&PODS, &pod.metadata);
        recorder.normal(&about, self.event, format!("Marking for deletion Pod {key}"));
        let condition = disruption_target(pod, self.reason, self.message, Timestamp::now());
        match api.merge_status(&PODS, &pod.metadata, &json!({"conditions": [condition]})).await {
            Err(error) if error.is_not_found() || error.is_stale() => return Ok(()),
            result => result?,
        }
        match api.delete(&PODS, &key, DeleteOptions::of_uid(&pod.metadata.uid)).await {
            Err(error) if error.is_stale() => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_node_decides_about_a_new_pod_before_it_is_evicted() {
        let pod = |status: Value| -> Pod {
            let metadata = json!({"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"});
            serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
        };
        let five_seconds: Timestamp = "2026-01-01T00:00:05Z".parse().unwrap();
        let pending = pod(json!({"phase": "Pending"}));
        let four = five_seconds - SignedDuration::from_secs(1);
        assert_eq!(node_decides_until(&pending, four), Some(five_seconds));
        assert_eq!(node_decides_until(&pending, five_seconds), None);
        assert_eq!(node_decides_until(&pending, four - SignedDuration::from_hours(1)), None, "another clock");
        let accepted = json!({"phase": "Running", "startTime": "2026-01-01T00:00:01Z"});
        assert_eq!(node_decides_until(&pod(accepted), four), None);
    }

    /// Enhancement 5471, story 2: pods are evicted when the rating of their node drops below their threshold.
    #[test]
    fn a_pod_is_evicted_when_its_comparison_no_longer_holds() {
        let on = FeatureGates { taint_toleration_comparison_operators: true, ..FeatureGates::default() };
        let tolerations = json!([{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}]);
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        for (value, gates, expected) in [
            ("951", on, Leaves::Never),
            ("950", on, Leaves::Now),
            ("high", on, Leaves::Now),
            ("951", FeatureGates::default(), Leaves::Now),
        ] {
            let taint = json!({"key": "sla", "value": value, "effect": "NoExecute"});
            let taint: NodeTaint = serde_json::from_value(taint).unwrap();
            let found = leaves(&tolerations, &[taint], gates, None, |_| unreachable!());
            assert_eq!(found, expected, "{value} {gates:?}");
        }
    }

    #[test]
    fn pods_are_evicted_when_their_toleration_expires() {
        let at = |seconds: i64| {
            let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            Leaves::At(start + SignedDuration::from_secs(seconds))
        };
        let tolerate = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        for (taints, tolerations, expected) in [
            (vec![], vec![], Leaves::Never),
            (vec![("a", "NoSchedule")], vec![], Leaves::Never),
            (vec![("a", "NoExecute")], vec![], Leaves::Now),
            (vec![("a", "NoExecute")], vec![tolerate("a", json!(null))], Leaves::Never),
            (vec![("a", "NoExecute")], vec![tolerate("a", json!(300))], at(300)),
            (vec![("a", "NoExecute")], vec![tolerate("a", json!(0))], Leaves::Now),
            (vec![("a", "NoExecute")], vec![tolerate("a", json!(300)), tolerate("a", json!(60))], at(300)),
            (vec![("a", "NoExecute"), ("b", "NoExecute")], vec![tolerate("a", json!(9))], Leaves::Now),
            (
                vec![("a", "NoExecute"), ("b", "NoExecute")],
                vec![tolerate("a", json!(9)), tolerate("b", json!(5))],
                at(5),
            ),
            (vec![("a", "NoExecute")], vec![json!({"operator": "Exists"})], Leaves::Never),
        ] {
            let taints = taints.into_iter().map(
                |(key, effect)| json!({"key": key, "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}),
            );
            let taints: Vec<NodeTaint> = serde_json::from_value(taints.collect()).unwrap();
            let parsed: Vec<Toleration> = serde_json::from_value(json!(tolerations)).unwrap();
            let never_asked = |_: &NodeTaint| unreachable!("the taint says when it was added");
            assert_eq!(
                leaves(&parsed, &taints, FeatureGates::default(), None, never_asked),
                expected,
                "{taints:?} {tolerations:?}"
            );
            // As `kubectl taint` leaves it.
            let silent: Vec<_> = taints.iter().map(|t| NodeTaint { time_added: None, ..t.clone() }).collect();
            let seen: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
            let later = match expected {
                Leaves::At(at) => Leaves::At(at + SignedDuration::from_hours(1)),
                expected => expected,
            };
            assert_eq!(
                leaves(&parsed, &silent, FeatureGates::default(), None, |_| seen),
                later,
                "{silent:?} {tolerations:?}"
            );
        }
    }

    #[test]
    fn a_pod_that_arrives_after_the_taint_has_its_whole_toleration_seconds() {
        let time = |text: &str| -> Timestamp { text.parse().unwrap() };
        let pod = |conditions: Value| -> Pod {
            let metadata = json!({"name": "p", "creationTimestamp": "2026-01-01T05:00:00Z"});
            serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": conditions}}))
                .unwrap()
        };
        let tolerations = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 60}]);
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
        let taint: NodeTaint = serde_json::from_value(taint).unwrap();
        let later = NodeTaint { time_added: Some(time("2026-01-01T07:00:00Z")), ..taint.clone() };
        let scheduled = |status: &str| json!([{"type": "PodScheduled", "status": status, "lastTransitionTime": "2026-01-01T06:00:00Z"}]);
        for (taint, conditions, leaves_at) in [
            (&taint, json!([]), "2026-01-01T05:01:00Z"),
            (&taint, scheduled("False"), "2026-01-01T05:01:00Z"),
            (&taint, scheduled("True"), "2026-01-01T06:01:00Z"),
            (&later, scheduled("True"), "2026-01-01T07:01:00Z"),
        ] {
            let arrived = arrival(&pod(conditions));
            let found = leaves(
                &tolerations,
                std::slice::from_ref(taint),
                FeatureGates::default(),
                arrived,
                |_| unreachable!(),
            );
            assert_eq!(found, Leaves::At(time(leaves_at)));
        }
    }
}
