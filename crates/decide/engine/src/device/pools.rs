//! The pools whose devices a node can use.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use berth_api::feature_gates::VersionChange;
use berth_api::syntax::quantity::Quantity;

use super::DevicesInUse;
use super::in_use::PoolUse;
use crate::state::State;
use crate::state::device::{Amounts, DeviceRecord, NodeScope, Pool, PoolName, SliceRecord};
use crate::state::node::NodeRecord;

/// The counters of a pool, by their sets.
pub(super) type Counters<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Quantity>>;

/// A pool with devices that a node can use.
pub(super) struct NodePool<'a> {
    pub(super) name: &'a PoolName,
    pub(super) condition: Condition,
    /// The slices with devices for the node, by name; none unless the pool is usable.
    pub(super) slices: Vec<&'a SliceRecord>,
    /// The slices with shared counters.
    counter_slices: Vec<&'a SliceRecord>,
    /// Whether devices for the node have binding conditions; a pool that is not usable has none.
    binds: bool,
    pub(super) used: PoolUse<'a>,
    /// What is left of the shared counters, by set and counter.
    pub(super) counters: Counters<'a>,
}

impl<'a> NodePool<'a> {
    /// The shared counters as they were before devices took from them.
    pub(super) fn counter_sets(&self) -> impl Iterator<Item = &'a (Arc<str>, Amounts)> {
        self.counter_slices.iter().flat_map(|slice| slice.counter_sets.iter())
    }
}

/// Whether devices of a pool can be allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Usable,
    /// Slices of its generation are missing.
    Incomplete,
    /// Names of devices or counters are there twice, or counters are missing.
    Invalid,
}

/// The pools with slices for a node, in the order in which their devices are tried: by driver and name, those with binding
/// conditions last.
pub(super) fn pools_of<'a>(
    state: &'a State,
    node: &NodeRecord,
    in_use: &'a DevicesInUse,
) -> Vec<NodePool<'a>> {
    let near = state.devices.pools_near(state.symbols.text(node.name));
    let near: BTreeMap<_, _> = near.chain(state.devices.faulty_pools()).collect();
    let pools =
        near.into_iter().filter_map(|(name, pool)| node_pool(state, node, name, pool, in_use.of(name, pool)));
    let mut pools: Vec<_> = pools.collect();
    pools.sort_by_key(|pool| pool.binds);
    pools
}

fn node_pool<'a>(
    state: &State,
    node: &NodeRecord,
    name: &'a PoolName,
    pool: &'a Pool,
    used: PoolUse<'a>,
) -> Option<NodePool<'a>> {
    let counters_of_node = state.settings.config.feature_gates.has(VersionChange::CounterSlicesOfNode);
    pool_of_slices(name, pool, used, |slice| {
        let includes = |scope: &NodeScope| scope.includes(&state.symbols, node);
        (!slice.counter_sets.is_empty() && !counters_of_node)
            || match slice.scope {
                NodeScope::PerDevice => slice.devices.iter().any(|device| includes(&device.scope)),
                ref scope => includes(scope),
            }
    })
}

pub(super) fn whole_pool<'a>(
    name: &'a PoolName,
    pool: &'a Pool,
    in_use: &'a DevicesInUse,
) -> Option<NodePool<'a>> {
    pool_of_slices(name, pool, in_use.of(name, pool), |_| true)
}

fn pool_of_slices<'a>(
    name: &'a PoolName,
    pool: &'a Pool,
    used: PoolUse<'a>,
    is_relevant: impl Fn(&SliceRecord) -> bool,
) -> Option<NodePool<'a>> {
    let relevant = || pool.slices.values().filter(|slice| is_relevant(slice));
    let generation = relevant().map(|slice| slice.generation).max()?;
    let slices: Vec<&SliceRecord> =
        relevant().filter(|slice| slice.generation == generation).map(|slice| &**slice).collect();
    let n_expected = slices.first()?.n_slices;
    let mut others: Vec<&SliceRecord> = Vec::new();
    let mut condition = Condition::Usable;
    if slices.len() as i64 != n_expected {
        if pool.slices.values().any(|slice| slice.generation > generation) {
            // The driver replaces the pool, and the new one has nothing for the node.
            return None;
        }
        let all = pool.slices.values().filter(|slice| slice.generation == generation).map(|slice| &**slice);
        let (own, rest): (Vec<_>, Vec<_>) =
            all.partition(|slice| slices.iter().any(|own| std::ptr::eq(*own, *slice)));
        if (own.len() + rest.len()) as i64 != n_expected {
            condition = Condition::Incomplete;
        }
        others = rest;
    }
    let mut counters = BTreeMap::new();
    let (with_devices, mut counter_slices): (Vec<_>, Vec<_>) =
        slices.iter().copied().partition(|slice| slice.counter_sets.is_empty());
    counter_slices.extend(others.iter().filter(|slice| !slice.counter_sets.is_empty()));
    if condition == Condition::Usable {
        let are_valid = |counters: &Counters<'_>| {
            are_names_unique(&with_devices)
                && slices.iter().chain(&others).all(|slice| are_counters_known(slice, counters))
        };
        if !add_counters(&counter_slices, &mut counters) || !(pool.is_sound || are_valid(&counters)) {
            condition = Condition::Invalid;
        } else if !used.is_empty() && !counters.is_empty() {
            let all = slices.iter().chain(&others).flat_map(|slice| &slice.devices);
            all.filter(|device| used.get(&device.name).is_some()).for_each(|device| {
                take(&mut counters, device);
            });
        }
    }
    let slices = if condition == Condition::Usable { with_devices } else { Vec::new() };
    let mut devices = slices.iter().flat_map(|slice| &slice.devices);
    let binds = devices.any(|device| !device.binding_conditions.is_empty());
    Some(NodePool { name, condition, slices, counter_slices, binds, used, counters })
}

fn are_names_unique(slices: &[&SliceRecord]) -> bool {
    let mut names = HashSet::new();
    slices.iter().flat_map(|slice| &slice.devices).all(|device| names.insert(&*device.name))
}

/// Adds the counters of slices; returns whether each set is there once.
fn add_counters<'a>(slices: &[&'a SliceRecord], counters: &mut Counters<'a>) -> bool {
    slices.iter().flat_map(|slice| slice.counter_sets.iter()).all(|(name, amounts)| {
        let amounts = amounts.iter().map(|(counter, amount)| (&**counter, *amount)).collect();
        counters.insert(name, amounts).is_none()
    })
}

fn are_counters_known(slice: &SliceRecord, counters: &Counters<'_>) -> bool {
    slice.devices.iter().flat_map(|device| &device.consumes).all(|(set, amounts)| {
        counters.get(&**set).is_some_and(|known| amounts.keys().all(|counter| known.contains_key(&**counter)))
    })
}

/// Takes what a device takes of counters. Devices that are in use may take more than there is.
fn take(counters: &mut Counters<'_>, device: &DeviceRecord) {
    change(counters, device, |left, amount| *left = *left - amount);
}

/// Takes what a device takes of counters, if they suffice.
pub(super) fn try_take(counters: &mut Counters<'_>, device: &DeviceRecord) -> bool {
    let mut suffices = true;
    change(counters, device, |left, amount| {
        *left = *left - amount;
        suffices &= !left.is_negative();
    });
    if !suffices {
        give_back(counters, device);
    }
    suffices
}

/// The contrary of taking.
pub(super) fn give_back(counters: &mut Counters<'_>, device: &DeviceRecord) {
    change(counters, device, |left, amount| *left += amount);
}

fn change(counters: &mut Counters<'_>, device: &DeviceRecord, mut by: impl FnMut(&mut Quantity, Quantity)) {
    for (set, amounts) in &device.consumes {
        let Some(left) = counters.get_mut(&**set) else { continue };
        for (counter, amount) in amounts {
            if let Some(left) = left.get_mut(&**counter) {
                by(left, *amount);
            }
        }
    }
}
