//! The nodes and pods of the agent.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use berth_api::object::{NamespacedName, Node};
use rustc_hash::FxHashMap;

use crate::admission::Fingerprint;
use crate::node::NodeView;
use crate::pod::lifecycle::PodLifecycle;
use crate::pod::view::PodView;
use crate::volume::Mounted;

/// Index of a node, in the order in which the agent got to know the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) u32);

/// Identifies a pod. It is never reused, so that late answers and timers find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Not in the API yet.
    Registering,
    /// In the API, sending heartbeats.
    Running,
    Stopped,
    Deleted,
}

pub(super) struct NodeEntry {
    pub(super) name: Arc<str>,
    /// The node to register; for an adopted node, defaults of what it lacks.
    pub(super) template: Arc<Node>,
    pub(super) state: NodeState,
    /// The last seen object; none before registration.
    pub(super) view: Option<NodeView>,
    pub(super) ip: Ipv4Addr,
    pub(super) lease_exists: bool,
    /// Whether a Lease request is queued or under way.
    pub(super) lease_busy: bool,
    /// Whether a status request is queued, under way or due for a retry.
    pub(super) status_busy: bool,
    /// Whether the first attempt to register it has not ended.
    pub(super) is_registering: bool,
    pub(super) failures: u32,
    /// Timers of another epoch are outdated.
    pub(super) timer_epoch: u32,
}

impl NodeEntry {
    pub(super) fn uid(&self) -> &str {
        self.view.as_ref().map(|view| view.metadata.uid.as_str()).unwrap_or_default()
    }
}

#[derive(Default)]
pub(super) struct Nodes {
    entries: Vec<NodeEntry>,
    by_name: HashMap<Arc<str>, NodeId>,
}

impl Nodes {
    pub(super) fn insert(&mut self, entry: NodeEntry) -> NodeId {
        let id = NodeId(self.entries.len() as u32);
        self.by_name.insert(entry.name.clone(), id);
        self.entries.push(entry);
        id
    }

    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, id: NodeId) -> &NodeEntry {
        &self.entries[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut NodeEntry {
        &mut self.entries[id.0 as usize]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.entries.len() as u32).map(NodeId)
    }
}

pub(super) struct PodEntry {
    pub(super) key: NamespacedName,
    pub(super) uid: String,
    pub(super) node: NodeId,
    pub(super) state: PodState,
    pub(super) ip: Option<Ipv4Addr>,
    /// The version of the status that was written last.
    pub(super) written: u32,
    /// Whether the delete request succeeded; finalizers may keep the pod.
    pub(super) removed: bool,
    /// Whether a request is queued, under way or due for a retry.
    pub(super) busy: bool,
    pub(super) failures: u32,
    /// Timers of another epoch are outdated.
    pub(super) timer_epoch: u32,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) counter: PodCounter,
    /// What its volumes occupy.
    pub(super) mounted: Mounted,
}

pub(super) enum PodState {
    /// Rejected by the first check; the final check follows.
    PendingRecheck(Box<PodView>),
    /// Accepted, or finally rejected.
    Decided(Box<PodLifecycle>),
}

/// The counter of [`crate::Status`] that a pod is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PodCounter {
    #[default]
    Nothing,
    Pending,
    Running,
    Ready,
}

#[derive(Default)]
pub(super) struct Pods {
    entries: FxHashMap<PodId, PodEntry>,
    by_key: HashMap<NamespacedName, PodId>,
    n_inserted: u64,
}

impl Pods {
    pub(super) fn insert(&mut self, entry: PodEntry) -> PodId {
        self.n_inserted += 1;
        let id = PodId(self.n_inserted);
        self.by_key.insert(entry.key.clone(), id);
        self.entries.insert(id, entry);
        id
    }

    pub(super) fn remove(&mut self, id: PodId) -> Option<PodEntry> {
        let entry = self.entries.remove(&id)?;
        self.by_key.remove(&entry.key);
        Some(entry)
    }

    pub(super) fn find(&self, key: &NamespacedName) -> Option<PodId> {
        self.by_key.get(key).copied()
    }

    pub(super) fn get(&self, id: PodId) -> Option<&PodEntry> {
        self.entries.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: PodId) -> Option<&mut PodEntry> {
        self.entries.get_mut(&id)
    }

    pub(super) fn ids(&self) -> Vec<PodId> {
        self.entries.keys().copied().collect()
    }

    /// The pods of a node, oldest first.
    pub(super) fn of_node(&self, node: NodeId) -> Vec<PodId> {
        let mut ids: Vec<_> =
            self.entries.iter().filter(|(_, p)| p.node == node).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

/// A pod whose resize the node has not allocated.
pub(super) struct PendingPodResize {
    pub(super) node: NodeId,
    pub(super) id: PodId,
    pub(super) pod: Box<PodView>,
}
