//! Pods that are assigned to a node.

use std::collections::HashMap;

use berth_api::object::Pod;
use rustc_hash::FxHashMap;

use super::intern::{Labels, Symbol};
use super::node::NodeId;
use super::prepared::PreparedPod;
use super::rule_set::RuleSetId;
use super::signature::SignatureId;
use super::uid::Uid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(pub(crate) u32);

/// The annotation that kubelet marks its mirror pods with.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// How a pod stands against others where one has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Precedence {
    pub(crate) priority: i32,
    /// A scheduler is removing it already, to make room.
    pub(crate) being_preempted: bool,
    /// Its node runs it from a file and only mirrors it: deleting it at the API server does not end it.
    pub(crate) is_mirror: bool,
    /// Seconds since 1970; [`Precedence::NOT_STARTED`] before its node took notice of it.
    pub(crate) started: i64,
}

impl Precedence {
    /// Later than any start.
    pub(crate) const NOT_STARTED: i64 = i64::MAX;

    pub(crate) fn of(pod: &Pod) -> Precedence {
        Precedence {
            priority: pod.spec.priority.unwrap_or(0),
            being_preempted: pod.is_being_preempted(),
            is_mirror: pod.metadata.annotations.contains_key(MIRROR_ANNOTATION),
            started: pod.started().unwrap_or(Precedence::NOT_STARTED),
        }
    }
}

/// An assigned pod.
pub(crate) struct PodRecord {
    pub(crate) namespace: Symbol,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    pub(crate) labels: Labels,
    pub(crate) terminating: bool,
    pub(crate) precedence: Precedence,
    pub(crate) rule_set: RuleSetId,
    pub(crate) signature: SignatureId,
    /// The node it is assigned to, by name: the node may not exist (yet, or any more).
    pub(crate) node_name: Symbol,
    /// The node, when it exists: only then does the pod count anywhere.
    pub(crate) node: Option<NodeId>,
}

impl PodRecord {
    /// Whether nothing of a pod differs that rules look at.
    pub(crate) fn is_as(&self, pod: &PreparedPod, node_name: Symbol) -> bool {
        self.rule_set == pod.rule_set
            && self.node_name == node_name
            && self.terminating == pod.terminating
            && self.precedence == pod.precedence
            && self.labels == pod.labels
    }
}

/// All assigned pods.
#[derive(Default)]
pub(crate) struct Pods {
    slots: Vec<Option<PodRecord>>,
    free: Vec<PodId>,
    by_key: HashMap<(Symbol, Box<str>), PodId>,
    /// Pods assigned to nodes that do not exist.
    pub(crate) unknown_node_pods: FxHashMap<Symbol, Vec<PodId>>,
}

impl Pods {
    pub(crate) fn insert(&mut self, record: PodRecord) -> PodId {
        let key = (record.namespace, record.name.clone());
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = Some(record);
                id
            }
            None => {
                self.slots.push(Some(record));
                PodId((self.slots.len() - 1) as u32)
            }
        };
        self.by_key.insert(key, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<PodRecord> {
        let record = self.slots[id.0 as usize].take()?;
        self.by_key.remove(&(record.namespace, record.name.clone()));
        self.free.push(id);
        Some(record)
    }

    pub(crate) fn find(&self, namespace: Symbol, name: &str) -> Option<PodId> {
        self.by_key.get(&(namespace, name.into())).copied()
    }

    /// A pod, if it exists.
    pub(crate) fn find_by_id(&self, id: PodId) -> Option<&PodRecord> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// A pod known to exist: ids are handed out and taken back by this store alone.
    pub(crate) fn get(&self, id: PodId) -> &PodRecord {
        self.slots[id.0 as usize].as_ref().expect("pod ids are only kept for pods that exist")
    }

    pub(crate) fn get_mut(&mut self, id: PodId) -> &mut PodRecord {
        self.slots[id.0 as usize].as_mut().expect("pod ids are only kept for pods that exist")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &PodRecord)> {
        self.slots.iter().enumerate().filter_map(|(i, p)| Some((PodId(i as u32), p.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
