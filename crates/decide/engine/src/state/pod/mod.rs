//! Pods that are assigned to a node.

pub(crate) mod prepared;
pub(in crate::state) mod recent;
mod relaxation;
pub(crate) mod signature;
mod toleration;
pub(crate) mod uid;

use std::sync::Arc;

use berth_api::by_hash::ByHash;
use berth_api::object::{MIRROR_ANNOTATION, Pod};
use rustc_hash::FxHashMap;

pub(crate) use super::ids::PodId;

use self::signature::{LabelSetId, SignatureId};
use self::uid::Uid;
use super::device::PodDevices;
use super::group::GroupId;
use super::ids::NodeId;
use super::interned::intern::Symbol;
use super::volume::PodVolumes;
use crate::state::rule_set::RuleSetId;

/// By what pods are compared when one of them is to be evicted.
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

/// An assigned pod. A user of its rule set, its label set and its node name.
#[derive(Clone)]
pub(crate) struct PodRecord {
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    pub(crate) precedence: Precedence,
    pub(crate) rule_set: RuleSetId,
    pub(crate) label_set: LabelSetId,
    /// That of the label set.
    pub(crate) signature: SignatureId,
    /// That of the label set.
    pub(crate) namespace: Symbol,
    /// The node it is assigned to, by name: the node may not exist (yet, or any more).
    pub(crate) node_name: Symbol,
    /// The node, when it exists: only then does the pod count anywhere.
    pub(crate) node: Option<NodeId>,
    pub(crate) terminating: bool,
    /// The volumes that placement depends on.
    pub(crate) volumes: Option<Arc<PodVolumes>>,
    pub(crate) devices: Option<Arc<PodDevices>>,
    /// Set by the state: pods join their group when they are assigned.
    pub(crate) group: Option<GroupId>,
}

#[derive(Clone, Default)]
pub(crate) struct Pods {
    slots: Vec<Option<PodRecord>>,
    free: Vec<PodId>,
    by_key: ByHash,
    /// Pods assigned to nodes that do not exist.
    pub(crate) unknown_node_pods: FxHashMap<Symbol, Vec<PodId>>,
}

/// What rules distinguish pods by: pods alike in both have the same rules, and are the same to the rules of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Likeness {
    pub(crate) rule_set: RuleSetId,
    pub(crate) signature: SignatureId,
}

impl PodRecord {
    pub(crate) fn likeness(&self) -> Likeness {
        Likeness { rule_set: self.rule_set, signature: self.signature }
    }

    /// Whether a pod of the same name differs in nothing that rules look at.
    pub(super) fn is_as(&self, other: &PodRecord) -> bool {
        (self.rule_set, self.signature, self.node_name, self.precedence)
            == (other.rule_set, other.signature, other.node_name, other.precedence)
            && self.volumes == other.volumes
            && self.devices == other.devices
    }
}

impl Pods {
    /// Makes room for this many more pods.
    pub(crate) fn reserve(&mut self, n_pods: usize) {
        self.slots.reserve(n_pods);
        self.by_key.reserve(n_pods);
    }

    pub(crate) fn insert(&mut self, record: PodRecord) -> PodId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            PodId((self.slots.len() - 1) as u32)
        });
        self.by_key.insert(&(record.namespace, &*record.name), id.0);
        self.slots[id.0 as usize] = Some(record);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<PodRecord> {
        let record = self.slots[id.0 as usize].take()?;
        self.by_key.remove(&(record.namespace, &*record.name), id.0);
        self.free.push(id);
        Some(record)
    }

    pub(crate) fn find(&self, namespace: Symbol, name: &str) -> Option<PodId> {
        let is_it = |id: u32| {
            self.find_by_id(PodId(id)).is_some_and(|pod| pod.namespace == namespace && *pod.name == *name)
        };
        self.by_key.find(&(namespace, name), is_it).map(PodId)
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

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PodRecord> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &PodRecord)> {
        self.slots.iter().enumerate().filter_map(|(i, p)| Some((PodId(i as u32), p.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
