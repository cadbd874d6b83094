//! Pools, their slices, and what of their devices is allocated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use berth_api::object::device::DeviceTaint;
use berth_api::syntax::quantity::Quantity;
use rustc_hash::FxHasher;

use super::NodeMappings;
use super::claim::AllocatedDevice;
use super::scope::NodeScope;
use super::shape::Shape;
use crate::state::interned::intern::{Symbol, Symbols};
use crate::state::node::NodeRecord;

pub(crate) type Amounts = BTreeMap<Arc<str>, Quantity>;

pub(crate) type CounterSets = Box<[(Arc<str>, Amounts)]>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// By name: the order in which their devices are tried.
    pub(crate) slices: BTreeMap<Arc<str>, Arc<SliceRecord>>,
    /// What is allocated of its devices, also of those that no slice has any more.
    pub(crate) used: HashMap<Arc<str>, DeviceUse>,
    /// All slices are there, names of devices and sets of counters are there once, and counters that devices take from exist.
    pub(crate) is_sound: bool,
}

impl Pool {
    pub(super) fn check(&mut self) {
        let slices = || self.slices.values();
        let (mut devices, mut counters) = (HashSet::new(), HashMap::new());
        let first = slices().next().map(|slice| (slice.generation, slice.n_slices));
        self.is_sound =
            first.is_some_and(|(generation, n)| {
                n == slices().count() as i64
                    && slices().all(|slice| (slice.generation, slice.n_slices) == (generation, n))
            }) && slices().flat_map(|slice| &slice.devices).all(|device| devices.insert(&device.name))
                && slices()
                    .flat_map(|slice| slice.counter_sets.iter())
                    .all(|(set, amounts)| counters.insert(set, amounts).is_none())
                && slices().flat_map(|slice| &slice.devices).flat_map(|device| &device.consumes).all(
                    |(set, amounts)| {
                        let known = counters.get(set);
                        known.is_some_and(|known| amounts.keys().all(|counter| known.contains_key(counter)))
                    },
                );
    }

    /// Whether the pool may not be usable where it has no devices: it has counter sets, and slices are missing, or devices take
    /// from counters that it does not have.
    pub(super) fn may_be_faulty(&self) -> bool {
        let generation =
            self.slices.values().filter(|slice| !slice.counter_sets.is_empty()).map(|s| s.generation).max();
        let Some(generation) = generation else { return false };
        let slices = || self.slices.values().filter(|slice| slice.generation == generation);
        let has_counter = |set: &Arc<str>, counter: &Arc<str>| {
            let mut sets = slices().flat_map(|slice| slice.counter_sets.iter());
            sets.any(|(name, amounts)| name == set && amounts.contains_key(counter))
        };
        let mut consumed = slices().flat_map(|slice| &slice.devices).flat_map(|device| &device.consumes);
        slices().any(|slice| slice.n_slices != slices().count() as i64)
            || consumed.any(|(set, amounts)| !amounts.keys().all(|counter| has_counter(set, counter)))
    }
}

/// A slice. A user of the symbols of its scopes.
#[derive(Debug, PartialEq)]
pub(crate) struct SliceRecord {
    pub(crate) name: Arc<str>,
    pub(crate) generation: i64,
    /// How many slices the pool has in this generation.
    pub(crate) n_slices: i64,
    pub(crate) scope: NodeScope,
    pub(crate) devices: Box<[DeviceRecord]>,
    /// Those of most nodes are equal.
    pub(crate) counter_sets: Arc<CounterSets>,
}

/// A device: what selectors see of it, and what they do not.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceRecord {
    pub(crate) shape: Arc<Shape>,
    pub(crate) rest: Arc<DeviceRest>,
}

/// What selectors do not see of a device. Equal ones are one: most nodes have devices of the same names.
#[derive(Debug, PartialEq)]
pub(crate) struct DeviceRest {
    pub(crate) name: Arc<str>,
    /// The nodes that can use it, if the slice leaves that to its devices.
    pub(crate) scope: NodeScope,
    /// Its own taints, then those of rules.
    pub(crate) taints: Box<[DeviceTaint]>,
    pub(super) n_own_taints: usize,
    /// What it takes of sets of counters.
    pub(crate) consumes: CounterSets,
    pub(crate) binds_to_node: bool,
    pub(crate) binding_conditions: Box<[String]>,
    pub(crate) binding_failure_conditions: Box<[String]>,
    /// What an allocation takes of the node; nothing without the gate.
    pub(crate) node_mappings: NodeMappings,
}

impl Deref for DeviceRecord {
    type Target = DeviceRest;

    fn deref(&self) -> &DeviceRest {
        &self.rest
    }
}

impl DeviceRest {
    /// A hash of the parts that differ between most devices.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (&self.name, &self.scope, &self.consumes).hash(&mut hasher);
        hasher.finish()
    }
}

impl SliceRecord {
    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.scope.symbols().chain(self.devices.iter().flat_map(|device| device.scope.symbols()))
    }

    /// Whether a node may be able to use devices of it.
    pub(super) fn may_serve(&self, symbols: &Symbols, node: &NodeRecord) -> bool {
        // Counters are read with every slice of their pool.
        self.counter_sets.is_empty()
            && match &self.scope {
                NodeScope::PerDevice => self.devices.iter().any(|of| of.scope.includes(symbols, node)),
                scope => scope.includes(symbols, node),
            }
    }

    /// The names of the single nodes that its devices are for; none if several nodes may use a device.
    pub(super) fn node_names(&self) -> Option<Vec<&Arc<str>>> {
        match &self.scope {
            // Counters are read with every slice of their pool.
            _ if !self.counter_sets.is_empty() => Some(Vec::new()),
            NodeScope::Node(name) | NodeScope::SelectedNode(name) => Some(vec![name]),
            NodeScope::None => Some(Vec::new()),
            NodeScope::All | NodeScope::Selected { .. } => None,
            NodeScope::PerDevice => {
                let mut names = Vec::new();
                for device in &self.devices {
                    match &device.scope {
                        NodeScope::Node(name) | NodeScope::SelectedNode(name) => names.push(name),
                        NodeScope::None | NodeScope::PerDevice => {}
                        NodeScope::All | NodeScope::Selected { .. } => return None,
                    }
                }
                Some(names)
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DeviceUse {
    /// Claims that have the device for themselves: one, unless something went wrong.
    pub(crate) n_exclusive: u32,
    pub(crate) n_shares: u32,
    /// What these take of its capacities.
    pub(crate) consumed: BTreeMap<String, Quantity>,
}

impl DeviceUse {
    pub(crate) fn add(&mut self, allocated: &AllocatedDevice) {
        match &allocated.share {
            None => self.n_exclusive += 1,
            Some(share) => {
                self.n_shares += 1;
                for (name, amount) in share {
                    *self.consumed.entry(name.clone()).or_default() += *amount;
                }
            }
        }
    }

    /// Returns whether nothing is allocated any more.
    pub(crate) fn remove(&mut self, allocated: &AllocatedDevice) -> bool {
        match &allocated.share {
            None => self.n_exclusive -= 1,
            Some(share) => {
                self.n_shares -= 1;
                for (name, amount) in share {
                    if let Some(consumed) = self.consumed.get_mut(name) {
                        *consumed = *consumed - *amount;
                    }
                }
            }
        }
        self.is_free()
    }

    pub(crate) fn is_free(&self) -> bool {
        self.n_exclusive == 0 && self.n_shares == 0
    }
}
