//! Changes of the state, as those above it read them.

use std::sync::Arc;

use berth_api::object::NamespacedName;

use super::counting::counter::Counter;
use super::counting::matcher::MatcherId;
use super::counting::topology::{DomainId, TopologyId};
use super::ids::{NodeId, PodId};
use super::interned::lease::Lease;
use super::pod::signature::SignatureId;
use super::pod::uid::Uid;
use super::rule_set::RuleSetId;
use super::volume::PodVolumes;

/// A change that could make a node feasible for a pending pod.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    NodeAdded(Arc<str>),
    NodeChanged(Arc<str>, NodeParts),
    NodeRemoved,
    PodAttached(PodAt),
    PodDetached(PodAt),
    NamespaceChanged(Arc<str>),
    /// Of services or owners, which default spread constraints use.
    SelectorChanged,
    Volume(VolumeChange),
    Device(DeviceChange),
}

/// A change of an object that decides where pods with claims of devices may run.
#[derive(Clone, Debug)]
pub(crate) enum DeviceChange {
    /// A slice was added, removed, or has other devices.
    Slice,
    Class,
    /// A claim, or what is assumed of it.
    Claim {
        name: NamespacedName,
        /// Whether devices that it had may be free.
        frees: bool,
    },
}

/// A change of an object that decides where pods with volumes may run. Removed objects are left out where they can help
/// no pod.
#[derive(Clone, Debug)]
pub(crate) enum VolumeChange {
    /// A volume, with its class and the namespace and name of the claim that it is for.
    Volume {
        name: Arc<str>,
        class: Arc<str>,
        claim: Option<(Arc<str>, Arc<str>)>,
    },
    Claim {
        namespace: Arc<str>,
        name: Arc<str>,
    },
    /// A class was added or allows other topologies.
    Class(Arc<str>),
    /// The drivers of the node of this name.
    CsiNode(Arc<str>),
    /// The driver publishes its free capacity no longer.
    DriverChanged(Arc<str>),
    /// There is more free capacity for a class.
    Capacity(Arc<str>),
    /// A volume was detached from the node of this name.
    Detached(Arc<str>),
    /// Pods of the node of this name may use other volumes now: fewer may have to be attached there for a pod with the
    /// same ones.
    InUse(Arc<str>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeParts {
    pub(crate) labels: bool,
    pub(crate) taints: bool,
    pub(crate) allocatable: bool,
    pub(crate) unschedulable: bool,
    pub(crate) declared_features: bool,
    /// Not a change: whether pods were on it.
    pub(crate) has_pods: bool,
}

impl NodeParts {
    /// Whether anything changed that rules look at.
    pub(crate) fn any(self) -> bool {
        self.labels || self.taints || self.allocatable || self.unschedulable || self.declared_features
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PodAt {
    pub(crate) rule_set: RuleSetId,
    pub(crate) signature: SignatureId,
    pub(crate) node: Arc<str>,
    /// The state of nodes at that time.
    pub(crate) places: u64,
    pub(crate) volumes: Option<Arc<PodVolumes>>,
    /// Keeps the ids above valid.
    pub(super) _lease: Arc<Lease>,
}

/// A change that could make a rule of a running pod hold or not.
#[derive(Clone, Debug)]
pub(crate) enum TrackedChange {
    /// The pod counts on its node.
    Attached(PodId),
    /// The pod, with its uid, no longer counts.
    Detached(PodId, Uid),
    /// The labels of the pod's node changed.
    Relocated(PodId),
    /// The number of matching pods in a domain crossed from none to one or from one to two, or back; the same for a limit
    /// instead of none. A pod counts at most once itself: where the number stays higher, there is another one in any case.
    Count {
        matcher: MatcherId,
        topology: TopologyId,
        domain: DomainId,
        /// Few domains have matching pods: which pod is the first of its group may have changed.
        few_domains: bool,
    },
    /// Pods with the signature match the matcher now, or do no longer.
    Matches(MatcherId, SignatureId),
}

impl TrackedChange {
    /// The change behind a count that is one more or one less now, if it matters.
    #[inline]
    pub(super) fn count(
        matcher: MatcherId,
        topology: TopologyId,
        domain: DomainId,
        counter: &Counter,
        sign: i64,
        mut limits: impl Iterator<Item = u32>,
    ) -> Option<TrackedChange> {
        let now = counter.get(domain).count;
        let few_domains = counter.n_domains() <= 2;
        let lower = now.min(now - sign);
        let matters = lower <= 1 || limits.any(|limit| (0..=1).contains(&(lower - i64::from(limit))));
        matters.then_some(TrackedChange::Count { matcher, topology, domain, few_domains })
    }
}

/// The nodes that changed, in order: a pod came or went, or the node itself is not what it was.
///
/// Old entries are dropped: a reader that has not read them has to read all nodes.
#[derive(Clone, Default)]
pub(crate) struct ChangeLog {
    nodes: Vec<NodeId>,
    /// Position of the first entry kept.
    first: u64,
    /// Number of node ids in use so far.
    n_ids: usize,
    /// Changes that concern every node at once.
    pub(crate) epochs: Epochs,
    /// Changes of what nodes are by themselves ([`NodeParts`]), or whether they are there at all.
    pub(crate) places: u64,
}

/// Counts of changes that no list of nodes can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// Namespaces, services, the order of names, whether ids of removed nodes are reused, or whether a topology's
    /// domains are single nodes.
    pub(crate) layout: u64,
    /// Terms seen for the first time.
    pub(crate) terms: u64,
    /// On how many nodes, of how many, images are.
    pub(crate) images: u64,
    /// Devices that several nodes may be able to use, or what is allocated of them.
    pub(crate) devices: u64,
    /// Free volumes that several nodes may be able to use, by the number of other free volumes that offer the same: the
    /// last for all larger numbers.
    pub(crate) free_volumes: [u64; MAX_ALIKE + 1],
}

impl Epochs {
    /// A free volume was added to this many that offer the same, or removed so that this many are left.
    pub(super) fn record_free_volumes(&mut self, n_alike: usize) {
        self.free_volumes[MAX_ALIKE.min(n_alike)] += 1;
    }
}

/// Free volumes beyond this many that offer the same are not told apart by their number.
pub(crate) const MAX_ALIKE: usize = 4;

const MIN_KEPT: usize = 1 << 16;

impl ChangeLog {
    /// Adds an entry. Drops the older half if there are twice as many entries as nodes: reading all nodes is no more
    /// work than reading those.
    pub(crate) fn push(&mut self, node: NodeId) {
        self.n_ids = self.n_ids.max(node.0 as usize + 1);
        let kept = MIN_KEPT.max(self.n_ids);
        if self.nodes.len() >= 2 * kept {
            let n_dropped = self.nodes.len() - kept;
            self.nodes.drain(..n_dropped);
            self.first += n_dropped as u64;
        }
        self.nodes.push(node);
    }

    /// Position of the first entry kept.
    pub(crate) fn start(&self) -> u64 {
        self.first
    }

    /// The position after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.nodes.len() as u64
    }

    /// The entries from a position on; none if some of them were dropped.
    pub(crate) fn since(&self, position: u64) -> Option<&[NodeId]> {
        let start = position.checked_sub(self.first)?;
        self.nodes.get(start as usize..)
    }
}
