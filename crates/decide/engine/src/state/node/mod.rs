//! Nodes.

pub(crate) mod attribute;
pub(crate) mod condition;
pub(crate) mod image;
pub(crate) mod name_order;
pub(crate) mod shortage;

use std::sync::Arc;

use berth_api::object::ResourceList;
use berth_rules::{HostPort, NodeFeatures, PodRequests, TaintEffect};
use rustc_hash::FxHashMap;

pub(crate) use super::ids::NodeId;

use self::image::NodeImages;
use super::ids::PodId;
use super::interned::intern::{Labels, Symbol, Symbols};
use super::interned::table::{Id, Keyed};

/// Amounts of resources: CPU in thousandths, memory and storage in bytes, others in units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resources {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    pub(crate) scalar: Vec<(Symbol, i64)>,
}

impl Resources {
    pub(crate) fn of_pod(symbols: &mut Symbols, requests: &PodRequests) -> Resources {
        Resources {
            milli_cpu: requests.milli_cpu,
            memory: requests.memory,
            ephemeral_storage: requests.ephemeral_storage,
            scalar: requests.scalar.iter().map(|(name, amount)| (symbols.intern(name), *amount)).collect(),
        }
    }

    /// The amount of a resource other than CPU, memory and storage; none if it is not listed.
    pub(crate) fn scalar(&self, name: Symbol) -> Option<i64> {
        self.scalar.iter().find(|(n, _)| *n == name).map(|(_, amount)| *amount)
    }

    pub(crate) fn add(&mut self, other: &Resources, sign: i64) {
        self.milli_cpu = self.milli_cpu.saturating_add(sign * other.milli_cpu);
        self.memory = self.memory.saturating_add(sign * other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(sign * other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            match self.scalar.iter_mut().find(|(n, _)| n == name) {
                Some((_, sum)) => *sum = sum.saturating_add(sign * amount),
                None => self.scalar.push((*name, sign * amount)),
            }
        }
        // Nothing keeps the name of a resource that no pod asks for.
        if sign < 0 {
            self.scalar.retain(|(_, sum)| *sum != 0);
        }
    }
}

/// What a node offers: nodes that offer the same share it. A user of the names of its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Allocatable {
    pub(crate) resources: Resources,
    pub(crate) pods: i64,
}

impl Allocatable {
    pub(super) fn compile(symbols: &mut Symbols, list: &ResourceList) -> Allocatable {
        let mut allocatable = Allocatable::default();
        let resources = &mut allocatable.resources;
        for (name, quantity) in list {
            match name.as_str() {
                "cpu" => resources.milli_cpu = quantity.millis(),
                "memory" => resources.memory = quantity.units(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.units(),
                "pods" => allocatable.pods = quantity.units(),
                _ => resources.scalar.push((symbols.intern(name), quantity.units())),
            }
        }
        allocatable
    }
}

impl Keyed for Arc<Allocatable> {
    type Key = Allocatable;

    fn key(&self) -> &Allocatable {
        self
    }
}

/// A taint over symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaintRecord {
    pub(crate) key: Symbol,
    pub(crate) value: Symbol,
    pub(crate) effect: TaintEffect,
}

/// A node and what runs on it. A user of its symbols and of what it offers.
#[derive(Clone)]
pub(crate) struct NodeRecord {
    pub(crate) name: Symbol,
    /// Its labels, and under keys that no label has the annotations and fields that rules mention.
    pub(crate) labels: Labels,
    /// See [`self::attribute`].
    pub(crate) attributes_epoch: u32,
    pub(crate) unschedulable: bool,
    pub(crate) declared_features: NodeFeatures,
    pub(crate) taints: Box<[TaintRecord]>,
    pub(crate) allocatable: Arc<Allocatable>,
    pub(crate) allocatable_id: Id<Arc<Allocatable>>,
    pub(crate) images: NodeImages,
    /// Sum of the requests of its pods.
    pub(crate) requested: Resources,
    /// The same for scoring, with the default for containers that ask for none.
    pub(crate) non_zero_milli_cpu: i64,
    pub(crate) non_zero_memory: i64,
    /// Host ports in use, sorted; once per pod that uses them.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) pods: Vec<PodId>,
}

impl NodeRecord {
    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let taints = self.taints.iter().flat_map(|taint| [taint.key, taint.value]);
        let images = self.images.iter().map(|(name, _)| *name);
        self.labels.symbols().chain(taints).chain(images).chain([self.name])
    }

    /// The same node with its sums, but without the lists that no filter reads.
    pub(crate) fn without_pods(&self) -> NodeRecord {
        NodeRecord {
            labels: self.labels.clone(),
            taints: self.taints.clone(),
            allocatable: self.allocatable.clone(),
            images: NodeImages::default(),
            requested: self.requested.clone(),
            ports: self.ports.clone(),
            pods: Vec::new(),
            ..*self
        }
    }

    /// Moves the pods of another record of the node here, with what they use.
    pub(super) fn take_pods(&mut self, other: &mut NodeRecord) {
        self.requested = std::mem::take(&mut other.requested);
        self.non_zero_milli_cpu = other.non_zero_milli_cpu;
        self.non_zero_memory = other.non_zero_memory;
        self.ports = std::mem::take(&mut other.ports);
        self.pods = std::mem::take(&mut other.pods);
    }

    /// Adds (`sign` 1) or subtracts (−1) what a pod uses; `ports` are sorted.
    pub(crate) fn account(
        &mut self,
        requests: &Resources,
        rules: &PodRequests,
        ports: &[HostPort],
        sign: i64,
    ) {
        self.requested.add(requests, sign);
        self.non_zero_milli_cpu = self.non_zero_milli_cpu.saturating_add(sign * rules.non_zero_milli_cpu);
        self.non_zero_memory = self.non_zero_memory.saturating_add(sign * rules.non_zero_memory);
        if sign > 0 {
            self.ports.extend_from_slice(ports);
            self.ports.sort();
        } else if !ports.is_empty() {
            let mut freed = ports.iter().peekable();
            self.ports.retain(|port| freed.next_if_eq(&port).is_none());
        }
    }

    /// Adds (`sign` 1) or subtracts (−1) what devices of a pod take.
    pub(crate) fn account_devices(&mut self, taken: &Resources, sign: i64) {
        self.requested.add(taken, sign);
        self.non_zero_milli_cpu = self.non_zero_milli_cpu.saturating_add(sign * taken.milli_cpu);
        self.non_zero_memory = self.non_zero_memory.saturating_add(sign * taken.memory);
    }
}

#[derive(Clone, Default)]
pub(crate) struct Nodes {
    slots: Vec<Option<NodeRecord>>,
    /// Ids that the next nodes get.
    free: Vec<NodeId>,
    /// Ids of removed nodes, which no node gets yet: caches may still refer to the removed nodes by them.
    removed: Vec<NodeId>,
    by_name: FxHashMap<Symbol, NodeId>,
}

/// Ids of removed nodes are reused once there are more of them than this, and than an eighth of the nodes.
const MIN_REUSED: usize = 64;

impl Nodes {
    /// Adds a node. Returns its id, and whether ids of nodes removed before may be reused from now on.
    pub(crate) fn insert(&mut self, record: NodeRecord) -> (NodeId, bool) {
        let name = record.name;
        let reuse = self.free.is_empty() && self.removed.len() > MIN_REUSED.max(self.len() / 8);
        if reuse {
            self.free = std::mem::take(&mut self.removed);
        }
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = Some(record);
                id
            }
            None => {
                self.slots.push(Some(record));
                NodeId((self.slots.len() - 1) as u32)
            }
        };
        self.by_name.insert(name, id);
        (id, reuse)
    }

    pub(crate) fn remove(&mut self, id: NodeId) -> Option<NodeRecord> {
        let record = self.slots[id.0 as usize].take()?;
        self.by_name.remove(&record.name);
        self.removed.push(id);
        Some(record)
    }

    pub(crate) fn find(&self, name: Symbol) -> Option<NodeId> {
        self.by_name.get(&name).copied()
    }

    /// A node, if it exists.
    pub(crate) fn find_by_id(&self, id: NodeId) -> Option<&NodeRecord> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// A node known to exist: ids are handed out and taken back by this store alone.
    pub(crate) fn get(&self, id: NodeId) -> &NodeRecord {
        self.slots[id.0 as usize].as_ref().expect("node ids are only kept for nodes that exist")
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut NodeRecord {
        self.slots[id.0 as usize].as_mut().expect("node ids are only kept for nodes that exist")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        self.slots.iter().enumerate().filter_map(|(i, n)| Some((NodeId(i as u32), n.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut NodeRecord> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}
