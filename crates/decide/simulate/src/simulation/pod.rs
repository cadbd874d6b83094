//! A pod of a simulation.

use berth_api::object::{GroupKey, NamespacedName, Pod, Shared};
use berth_engine::{Outcome, PreparedPod};
use serde_json::{Value, json};

use super::unadmitted::{Unadmitted, UnadmittedState};

#[derive(Clone, Debug)]
pub struct SimulatedPod {
    /// The pod, as admitted.
    pub pod: Pod,
    /// The workload it belongs to, such as `Deployment web`; none for a pod without owner.
    pub workload: Option<String>,
    /// The pod of an earlier template in whose place its controller creates it.
    pub replaces: Option<NamespacedName>,
    /// The object as read or expanded, if the inventory keeps it.
    pub raw: Option<Box<Value>>,
    /// Whether it ran on a node before the simulation.
    pub was_running: bool,
    /// The decision, or the node on which it ran before.
    pub outcome: Outcome,
    /// Why it does not run on the node that it names (`spec.nodeName`): then it has no node.
    pub unadmitted: Option<Box<Unadmitted>>,
    /// The paths of the required rules that were relaxed to place it, with or without success.
    pub relaxed: Shared<Vec<String>>,
    /// The pods that were evicted for it, the most important first.
    pub victims: Shared<Vec<NamespacedName>>,
    /// The pod that it was evicted for.
    pub preempted_by: Option<NamespacedName>,
    /// How many pods had left their nodes when it was created: pods that have waited for longer are placed first.
    pub(crate) queued: usize,
    /// The group that it is placed with.
    pub group: Option<GroupKey>,
}

impl SimulatedPod {
    /// The node of the pod; none if it is not placed.
    pub fn node(&self) -> Option<&str> {
        self.outcome.node()
    }

    /// Whether it runs, and is not known to be unready.
    pub(crate) fn is_available(&self) -> bool {
        self.node().is_some() && !self.pod.is_unready()
    }

    pub(super) fn is_named(&self, namespace: &str, name: &str) -> bool {
        self.pod.metadata.namespace == namespace && self.pod.metadata.name == name
    }

    /// The score of the node when the pod was placed: the sum over the plugins of 0 to 100 times the weight. None for
    /// a pod that ran before, or is not placed.
    pub fn score(&self) -> Option<i64> {
        match self.outcome {
            Outcome::Placed { score, .. } => score,
            _ => None,
        }
    }

    /// It does not run on the node that it names.
    pub(crate) fn refuse(&mut self, why: Unadmitted) {
        self.was_running = false;
        self.outcome = Outcome::Failed { error: why.to_string() };
        self.unadmitted = Some(Box::new(why));
    }

    /// Whether it does not run, and is counted under this state.
    pub fn is_unadmitted(&self, state: UnadmittedState) -> bool {
        self.unadmitted.as_ref().is_some_and(|why| why.counted_as() == state)
    }

    /// Whether a scheduler found no node for it.
    pub fn is_unplaced(&self) -> bool {
        self.node().is_none() && self.unadmitted.is_none()
    }

    /// The object with `spec.nodeName` set, or removed from a pod that a scheduler found no node for, with what its devices take of
    /// the node, and all other fields unchanged.
    pub fn placed_object(&self) -> Option<Value> {
        let mut raw = Value::clone(self.raw.as_deref()?);
        let spec = raw.get_mut("spec")?.as_object_mut()?;
        match self.node() {
            Some(node) => _ = spec.insert("nodeName".to_owned(), node.into()),
            None if self.unadmitted.is_some() => {}
            None => _ = spec.remove("nodeName"),
        }
        let taken = &self.pod.status.node_allocatable_resource_claim_statuses;
        if !taken.is_empty() {
            raw["status"]["nodeAllocatableResourceClaimStatuses"] = json!(taken);
        }
        Some(raw)
    }
}

/// A pod that left its node, as it was before.
#[derive(Clone)]
pub(super) struct Vacated {
    pub position: usize,
    pub pod: SimulatedPod,
    pub prepared: Option<PreparedPod>,
}
