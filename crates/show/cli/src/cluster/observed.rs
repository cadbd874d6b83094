//! Nodes and pods from watch events, with the fields that summaries need.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::object::{Condition, NamespacedName, ObjectMeta, find_condition};
use berth_client::watch::{Event, KubeObject};
use serde::Deserialize;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: Status,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: Status,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub priority: Option<i32>,
}

/// The status of a node or pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub phase: Option<String>,
    pub conditions: Vec<Condition>,
    pub nominated_node_name: Option<String>,
}

macro_rules! versioned {
    ($($type:ty),*) => {
        $(impl KubeObject for $type {
            fn resource_version(&self) -> &str {
                &self.metadata.resource_version
            }

            fn key(&self) -> (&str, &str) {
                (&self.metadata.namespace, &self.metadata.name)
            }
        })*
    };
}

versioned!(Node, Pod);

impl Node {
    /// Whether the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        find_condition(&self.status.conditions, "Ready").is_some_and(|c| c.status == "True")
    }
}

/// The stage of a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No scheduler has processed it.
    New,
    /// It is unschedulable or has scheduling gates.
    Pending,
    /// It has a node and has not started.
    Bound,
    /// It runs.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It is being deleted.
    Terminating,
}

impl Stage {
    /// Name in summaries.
    pub fn name(self) -> &'static str {
        match self {
            Stage::New => "new",
            Stage::Pending => "pending",
            Stage::Bound => "starting",
            Stage::Running => "running",
            Stage::Succeeded => "succeeded",
            Stage::Failed => "failed",
            Stage::Terminating => "terminating",
        }
    }
}

impl Pod {
    /// The stage.
    pub fn stage(&self) -> Stage {
        match self.status.phase.as_deref() {
            Some("Succeeded") => Stage::Succeeded,
            Some("Failed") => Stage::Failed,
            _ if self.metadata.is_deleting() => Stage::Terminating,
            Some("Running") => Stage::Running,
            _ if self.node().is_some() => Stage::Bound,
            _ if self.unscheduled_condition().is_some() => Stage::Pending,
            _ => Stage::New,
        }
    }

    /// Its node.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The condition `PodScheduled` if it is false: why the pod has no node.
    pub fn unscheduled_condition(&self) -> Option<&Condition> {
        let condition = find_condition(&self.status.conditions, "PodScheduled")?;
        (condition.status == "False").then_some(condition)
    }

    /// Whether a nominated node waits for the termination of preempted pods.
    pub fn is_nominated(&self) -> bool {
        self.node().is_none() && self.status.nominated_node_name.as_ref().is_some_and(|n| !n.is_empty())
    }
}

/// A pod that a scheduler preempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its node.
    pub node: String,
    /// The uid of the pod that preempted it; none if the scheduler does not tell.
    pub preemptor: Option<String>,
}

/// All nodes and pods.
#[derive(Debug, Default)]
pub struct Observed {
    pub nodes: BTreeMap<String, Node>,
    pub pods: HashMap<NamespacedName, Pod>,
    /// Pods that a scheduler preempted.
    pub victims: BTreeMap<NamespacedName, Victim>,
    /// Pods that were nominated, by node.
    pub nominated: BTreeMap<String, BTreeSet<NamespacedName>>,
    /// Number of observed bindings.
    pub n_bound: u64,
    /// Increases with every event.
    pub version: u64,
    has_nodes: bool,
    has_pods: bool,
}

impl Observed {
    /// Whether a pod is unschedulable, or was preempted.
    pub fn has_failures(&self) -> bool {
        !self.victims.is_empty() || self.pods.values().any(|pod| pod.stage() == Stage::Pending)
    }

    /// Applies an event of a node.
    pub fn node_event(&mut self, event: Event<Node>) {
        self.version += 1;
        match event {
            Event::Restarted(nodes) => {
                self.nodes = nodes.into_iter().map(|n| (n.metadata.name.clone(), n)).collect();
                self.has_nodes = true;
            }
            Event::Applied(node) => drop(self.nodes.insert(node.metadata.name.clone(), node)),
            Event::Deleted(node) => drop(self.nodes.remove(&node.metadata.name)),
        }
    }

    /// Applies an event of a pod.
    pub fn pod_event(&mut self, event: Event<Pod>) {
        self.version += 1;
        match event {
            Event::Restarted(pods) => {
                let mut before = std::mem::take(&mut self.pods);
                for pod in pods {
                    let before = before.remove(&pod.metadata.namespaced_name());
                    self.set_pod(pod, before.as_ref());
                }
                self.has_pods = true;
            }
            Event::Applied(pod) => {
                let before = self.pods.remove(&pod.metadata.namespaced_name());
                self.set_pod(pod, before.as_ref());
            }
            Event::Deleted(pod) => {
                self.note_preemption(&pod);
                self.pods.remove(&pod.metadata.namespaced_name());
            }
        }
    }

    /// Notes a victim of a preemption, or a pod that is nominated.
    fn note_preemption(&mut self, pod: &Pod) {
        let target = find_condition(&pod.status.conditions, "DisruptionTarget");
        if let Some(condition) = target.filter(|c| c.status == "True" && c.reason == "PreemptionByScheduler")
            && let Some(node) = pod.node()
        {
            let uid = condition.message.rsplit_once(" (uid ").and_then(|(_, uid)| uid.strip_suffix(')'));
            let victim = Victim { node: node.to_owned(), preemptor: uid.map(str::to_owned) };
            self.victims.insert(pod.metadata.namespaced_name(), victim);
        }
        if let Some(node) = pod.status.nominated_node_name.as_ref().filter(|_| pod.is_nominated()) {
            self.nominated.entry(node.clone()).or_default().insert(pod.metadata.namespaced_name());
        }
    }

    fn set_pod(&mut self, pod: Pod, before: Option<&Pod>) {
        self.note_preemption(&pod);
        if pod.node().is_some() && before.is_some_and(|b| b.node().is_none()) {
            self.n_bound += 1;
        }
        self.pods.insert(pod.metadata.namespaced_name(), pod);
    }

    /// Whether nodes and pods have been listed.
    pub fn is_complete(&self) -> bool {
        self.has_nodes && self.has_pods
    }

    /// Counts.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { n_nodes: self.nodes.len(), ..Tally::default() };
        tally.n_ready = self.nodes.values().filter(|n| n.is_ready()).count();
        let mut messages: HashMap<&str, usize> = HashMap::new();
        for pod in self.pods.values() {
            let stage = pod.stage();
            *tally.stages.entry(stage).or_default() += 1;
            if stage == Stage::Pending {
                let message = pod.unscheduled_condition().map(|c| c.message.as_str()).unwrap_or_default();
                *messages.entry(message).or_default() += 1;
            }
        }
        // The most frequent message; ties are broken by text.
        let top = messages.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)));
        tally.top_message = top.map(|(message, n_pods)| (message.to_owned(), n_pods));
        tally
    }
}

/// Counts of nodes and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes.
    pub n_nodes: usize,
    /// Nodes that are ready.
    pub n_ready: usize,
    /// Pods by stage; stages without pods are left out.
    pub stages: BTreeMap<Stage, usize>,
    /// The most frequent message of pending pods, and their number.
    pub top_message: Option<(String, usize)>,
}

impl Tally {
    /// All pods.
    pub fn n_pods(&self) -> usize {
        self.stages.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, spec: Value, status: Value) -> Pod {
        let pod = json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn set(observed: &mut Observed, pod: Pod) {
        observed.pod_event(Event::Applied(pod));
    }

    fn pending(name: &str, message: &str) -> Pod {
        let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
        pod(name, json!({}), json!({"phase": "Pending", "conditions": [condition]}))
    }

    #[test]
    fn pods_are_counted_by_stage() {
        let mut observed = Observed::default();
        set(&mut observed, pod("new", json!({}), json!({"phase": "Pending"})));
        set(&mut observed, pod("bound", json!({"nodeName": "n"}), json!({"phase": "Pending"})));
        set(&mut observed, pod("running", json!({"nodeName": "n"}), json!({"phase": "Running"})));
        ["x", "y"].iter().for_each(|name| set(&mut observed, pending(name, "0/3 nodes")));
        set(&mut observed, pending("z", "gated"));
        let tally = observed.tally();
        let expected = [(Stage::New, 1), (Stage::Pending, 3), (Stage::Bound, 1), (Stage::Running, 1)];
        assert_eq!(tally.stages, BTreeMap::from(expected));
        assert_eq!(tally.n_pods(), 6);
        assert_eq!(tally.top_message, Some(("0/3 nodes".to_owned(), 2)));
    }

    #[test]
    fn victims_are_known_with_their_preemptors_and_nodes() {
        let mut observed = Observed::default();
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "berth: preempting to accommodate a higher priority pod (uid u)"});
        let victim = pod("low", json!({"nodeName": "n"}), json!({"conditions": [target]}));
        observed.pod_event(Event::Deleted(victim));
        set(&mut observed, pod("high", json!({}), json!({"nominatedNodeName": "n"})));
        let keys = |name: &str| NamespacedName::new("a", name);
        let victim = Victim { node: "n".to_owned(), preemptor: Some("u".to_owned()) };
        assert_eq!(observed.victims, BTreeMap::from([(keys("low"), victim)]));
        assert_eq!(observed.nominated["n"], BTreeSet::from([keys("high")]));
    }

    #[test]
    fn a_binding_is_counted_once_and_only_when_seen() {
        let mut observed = Observed::default();
        set(&mut observed, pod("there", json!({"nodeName": "n"}), json!({})));
        set(&mut observed, pod("p", json!({}), json!({})));
        set(&mut observed, pod("p", json!({"nodeName": "n"}), json!({})));
        set(&mut observed, pod("p", json!({"nodeName": "n"}), json!({"phase": "Running"})));
        assert_eq!(observed.n_bound, 1);
    }
}
