//! The nodes and pods an agent takes care of.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use berth_api::object::{NamespacedName, Node};
use rustc_hash::FxHashMap;

use crate::admission::Fingerprint;
use crate::node::NodeView;
use crate::pod::life::Life;
use crate::pod::view::PodView;

/// A node, by the order in which it became ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) u32);

/// A pod; never used again for another one, so that late answers and timers find nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Not in the API yet.
    Registering,
    /// In the API, sending heartbeats.
    Up,
    /// Switched off.
    Off,
    /// Deleted from the API.
    Gone,
}

pub(super) struct NodeEntry {
    pub(super) name: Arc<str>,
    /// What a made node is registered with, and what a node taken over gets where it has nothing.
    pub(super) template: Arc<Node>,
    pub(super) state: NodeState,
    /// As last seen; none before registration.
    pub(super) view: Option<NodeView>,
    pub(super) ip: Ipv4Addr,
    pub(super) lease_exists: bool,
    /// A Lease request waits or is under way.
    pub(super) lease_busy: bool,
    /// A status request waits, is under way, or is to be tried again.
    pub(super) status_busy: bool,
    /// Failures in a row.
    pub(super) failures: u32,
    /// Told apart from those of an earlier life of the node.
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
    /// The version of the status that the API server has.
    pub(super) written: u32,
    /// Removed from the API but for finalizers.
    pub(super) removed: bool,
    /// A request waits or is under way, or is to be tried again.
    pub(super) busy: bool,
    pub(super) failures: u32,
    /// The timer that counts; others are of the past.
    pub(super) timer_epoch: u32,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) counted: Counted,
}

pub(super) enum PodState {
    /// Refused once; it will be judged for good after a while.
    Doubtful(Box<PodView>),
    /// Accepted or refused for good.
    Decided(Box<Life>),
}

/// As what a pod is in the numbers of [`crate::Snapshot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counted {
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

    /// The pods of a node, in the order in which they came.
    pub(super) fn of_node(&self, node: NodeId) -> Vec<PodId> {
        let mut ids: Vec<_> =
            self.entries.iter().filter(|(_, p)| p.node == node).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}
