//! Nodes and pods as the API server tells of them, as far as a summary needs them.

use std::collections::{BTreeMap, HashMap};

use berth_client::watch::{Event, KubeObject};
use serde::Deserialize;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub status: Status,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: Status,
}

/// What the spec of a pod says of its place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub priority: Option<i32>,
}

/// The status of either.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub phase: Option<String>,
    pub conditions: Vec<Condition>,
    pub nominated_node_name: Option<String>,
}

/// A condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// What both say of themselves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub deletion_timestamp: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
}

/// An owner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

impl Metadata {
    /// The owner that made the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
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

impl Status {
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }
}

impl Node {
    /// Whether its kubelet says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.status.condition("Ready").is_some_and(|c| c.status == "True")
    }
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No scheduler has spoken of it.
    New,
    /// It fits nowhere at present, or its scheduling gates hold it.
    Waiting,
    /// It has a node, which has not started it.
    Bound,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
    /// It is being deleted.
    Terminating,
}

impl Stage {
    /// As summaries call it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::New => "new",
            Stage::Waiting => "pending",
            Stage::Bound => "starting",
            Stage::Running => "running",
            Stage::Succeeded => "succeeded",
            Stage::Failed => "failed",
            Stage::Terminating => "terminating",
        }
    }
}

impl Pod {
    /// How far it has come.
    pub fn stage(&self) -> Stage {
        match self.status.phase.as_deref() {
            Some("Succeeded") => Stage::Succeeded,
            Some("Failed") => Stage::Failed,
            _ if self.metadata.deletion_timestamp.is_some() => Stage::Terminating,
            Some("Running") => Stage::Running,
            _ if self.node().is_some() => Stage::Bound,
            _ if self.refusal().is_some() => Stage::Waiting,
            _ => Stage::New,
        }
    }

    /// The node it has been given.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The condition that says why it has no node.
    pub fn refusal(&self) -> Option<&Condition> {
        let condition = self.status.condition("PodScheduled")?;
        (condition.status == "False").then_some(condition)
    }

    /// Whether a node is being cleared for it.
    pub fn is_nominated(&self) -> bool {
        self.node().is_none() && self.status.nominated_node_name.as_ref().is_some_and(|n| !n.is_empty())
    }

    /// Namespace and name.
    pub fn key(&self) -> Key {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }
}

/// Namespace and name.
pub type Key = (String, String);

/// All nodes and pods.
#[derive(Debug, Default)]
pub struct Observed {
    pub nodes: BTreeMap<String, Node>,
    pub pods: HashMap<Key, Pod>,
    /// Pods that were seen to be given a node.
    pub n_bound: u64,
    /// Grows with every change.
    pub version: u64,
    has_nodes: bool,
    has_pods: bool,
}

impl Observed {
    /// Takes in a change of the nodes.
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

    /// Takes in a change of the pods.
    pub fn pod_event(&mut self, event: Event<Pod>) {
        self.version += 1;
        match event {
            Event::Restarted(pods) => {
                let mut before = std::mem::take(&mut self.pods);
                for pod in pods {
                    let before = before.remove(&pod.key());
                    self.set_pod(pod, before.as_ref());
                }
                self.has_pods = true;
            }
            Event::Applied(pod) => {
                let before = self.pods.remove(&pod.key());
                self.set_pod(pod, before.as_ref());
            }
            Event::Deleted(pod) => drop(self.pods.remove(&pod.key())),
        }
    }

    fn set_pod(&mut self, pod: Pod, before: Option<&Pod>) {
        if pod.node().is_some() && before.is_some_and(|b| b.node().is_none()) {
            self.n_bound += 1;
        }
        self.pods.insert(pod.key(), pod);
    }

    /// Whether nodes and pods were told of at all.
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
            if stage == Stage::Waiting {
                let message = pod.refusal().and_then(|c| c.message.as_deref()).unwrap_or_default();
                *messages.entry(message).or_default() += 1;
            }
        }
        // The most frequent, and of equally frequent ones the first by text.
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
    /// What is said of most of the pods that wait, and of how many of them.
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

    fn waiting(name: &str, message: &str) -> Pod {
        let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
        pod(name, json!({}), json!({"phase": "Pending", "conditions": [condition]}))
    }

    #[test]
    fn pods_are_counted_by_how_far_they_came() {
        let mut observed = Observed::default();
        set(&mut observed, pod("new", json!({}), json!({"phase": "Pending"})));
        set(&mut observed, pod("bound", json!({"nodeName": "n"}), json!({"phase": "Pending"})));
        set(&mut observed, pod("running", json!({"nodeName": "n"}), json!({"phase": "Running"})));
        ["x", "y"].iter().for_each(|name| set(&mut observed, waiting(name, "0/3 nodes")));
        set(&mut observed, waiting("z", "gated"));
        let tally = observed.tally();
        let expected = [(Stage::New, 1), (Stage::Waiting, 3), (Stage::Bound, 1), (Stage::Running, 1)];
        assert_eq!(tally.stages, BTreeMap::from(expected));
        assert_eq!(tally.n_pods(), 6);
        assert_eq!(tally.top_message, Some(("0/3 nodes".to_owned(), 2)));
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
