//! Volumes: the objects that decide where pods with volumes may run, what is assumed of them, and their indexes.
//!
//! Nothing here decides: [`crate::volume`] resolves the claims of a pod at each decision. A change of an object marks the
//! nodes whose volumes it concerns as changed.

mod attached;
mod claim;
mod free;
mod persistent_volume;
mod pod_volumes;
mod storage;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::syntax::labels::HOSTNAME;
use berth_rules::volume::VOLUME_ZONE_LABELS;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::free::FreeVolumes;
use super::ids::{NodeId, PodId};
use super::interned::intern::{Symbol, Symbols};

pub(crate) use self::attached::{Attachment, VolumeDelta};
pub(crate) use self::claim::{ClaimRecord, Needs};
pub(crate) use self::free::Matching;
pub(crate) use self::persistent_volume::{Source, VolumeRecord, ZoneRule};
pub(crate) use self::pod_volumes::{ClaimKey, Disk, PodClaim, PodVolumes};
pub(crate) use self::storage::{
    AllowedTopologies, CapacityRecord, ClassRecord, CsiNodeRecord, DriverRecord, compared,
};

/// Objects by name, and their indexes. Names are what users send: the hashers are keyed.
#[derive(Clone)]
pub(crate) struct Volumes {
    claims: HashMap<ClaimKey, ClaimRecord>,
    volumes: HashMap<Arc<str>, VolumeRecord>,
    classes: HashMap<Box<str>, ClassRecord>,
    drivers: HashMap<Box<str>, DriverRecord>,
    /// By the name of the node, of which it is a user.
    csi_nodes: FxHashMap<Symbol, CsiNodeRecord>,
    capacities: HashMap<NamespacedName, CapacityRecord>,
    attachments: HashMap<Box<str>, AttachmentRecord>,

    claims_of_volume: HashMap<Box<str>, BTreeSet<ClaimKey>>,
    /// Pods on nodes that exist.
    pods_of_claim: HashMap<ClaimKey, SmallVec<[PodId; 1]>>,
    pods_on_node: FxHashMap<NodeId, Vec<PodId>>,
    /// Pods with inline in-tree disks, on nodes that exist.
    n_in_tree_pods: usize,
    /// By class.
    free: HashMap<Box<str>, FreeVolumes>,
    /// Volumes that belong to a claim, are reserved for it, or are assumed for it.
    reserved: HashMap<ClaimKey, BTreeSet<Arc<str>>>,
    /// By driver and handle, of volumes that a CSI driver may attach.
    of_handle: HashMap<DriverHandle, BTreeSet<Arc<str>>>,
    capacities_of_class: HashMap<Box<str>, BTreeSet<NamespacedName>>,
    /// By the name of the node, of which it is a user.
    attachments_of_node: FxHashMap<Symbol, BTreeSet<Box<str>>>,
    attachments_of_volume: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// Nodes by the value of [`Volumes::hostname`], from the first volume that selects nodes by it.
    hosts: Option<FxHashMap<Symbol, SmallVec<[NodeId; 1]>>>,
    /// The label by which volumes name a single node.
    pub(crate) hostname: Symbol,
    /// The labels that say where a node is.
    pub(crate) zone_keys: [Symbol; 4],
}

/// A driver, and what it calls a volume.
type DriverHandle = (Box<str>, Box<str>);

/// An attachment. A user of the name of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AttachmentRecord {
    node: Symbol,
    driver: Box<str>,
    volume: Box<str>,
}

impl Volumes {
    pub(super) fn new(symbols: &mut Symbols) -> Volumes {
        Volumes {
            claims: HashMap::new(),
            volumes: HashMap::new(),
            classes: HashMap::new(),
            drivers: HashMap::new(),
            csi_nodes: FxHashMap::default(),
            capacities: HashMap::new(),
            attachments: HashMap::new(),
            claims_of_volume: HashMap::new(),
            pods_of_claim: HashMap::new(),
            pods_on_node: FxHashMap::default(),
            n_in_tree_pods: 0,
            free: HashMap::new(),
            reserved: HashMap::new(),
            of_handle: HashMap::new(),
            capacities_of_class: HashMap::new(),
            attachments_of_node: FxHashMap::default(),
            attachments_of_volume: HashMap::new(),
            hosts: None,
            hostname: symbols.intern(HOSTNAME),
            zone_keys: VOLUME_ZONE_LABELS.map(|(key, _)| symbols.intern(key)),
        }
    }

    pub(crate) fn claim(&self, key: &ClaimKey) -> Option<&ClaimRecord> {
        self.claims.get(key)
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&VolumeRecord> {
        self.volumes.get(name)
    }

    pub(crate) fn class(&self, name: &str) -> Option<&ClassRecord> {
        self.classes.get(name)
    }

    pub(crate) fn csi_node(&self, node: Symbol) -> Option<&CsiNodeRecord> {
        self.csi_nodes.get(&node)
    }

    /// What a driver says of itself; nothing if there is no such CSIDriver.
    pub(crate) fn driver(&self, name: &str) -> DriverRecord {
        self.drivers.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn capacities(&self, class: &str) -> impl Iterator<Item = &CapacityRecord> {
        self.capacities_of_class.get(class).into_iter().flatten().filter_map(|name| self.capacities.get(name))
    }

    /// Assigned pods that use a claim.
    pub(crate) fn pods_of_claim(&self, key: &ClaimKey) -> &[PodId] {
        self.pods_of_claim.get(key).map_or(&[], |pods| pods)
    }

    pub(crate) fn pods_on_node(&self, node: NodeId) -> &[PodId] {
        self.pods_on_node.get(&node).map_or(&[], |pods| pods)
    }

    /// The nodes whose hostname label has a value.
    pub(crate) fn hosts(&self, value: Symbol) -> &[NodeId] {
        self.hosts.as_ref().and_then(|hosts| hosts.get(&value)).map_or(&[], |nodes| nodes)
    }

    /// Number of entries in each table. Hosts are left out: there are no more than nodes.
    pub(super) fn table_sizes(&self) -> BTreeMap<&'static str, usize> {
        [
            ("claims", self.claims.len()),
            ("volumes", self.volumes.len()),
            ("storage classes", self.classes.len()),
            ("CSI drivers", self.drivers.len()),
            ("CSI nodes", self.csi_nodes.len()),
            ("storage capacities", self.capacities.len()),
            ("volume attachments", self.attachments.len()),
            ("claims of volumes", self.claims_of_volume.len()),
            ("pods of claims", self.pods_of_claim.len()),
            ("nodes with volumes", self.pods_on_node.len()),
            ("free volumes", self.free.values().map(FreeVolumes::len).sum()),
            ("offers of free volumes", self.free.values().map(FreeVolumes::n_offers).sum()),
            ("classes with free volumes", self.free.len()),
            ("reserved volumes", self.reserved.len()),
            ("volume handles", self.of_handle.len()),
            ("classes with capacities", self.capacities_of_class.len()),
            ("nodes with attachments", self.attachments_of_node.len()),
            ("attached volumes", self.attachments_of_volume.len()),
        ]
        .into()
    }
}
