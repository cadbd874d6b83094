//! Pools of devices, as a node sees them.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::feature_gates::KubernetesVersion::{self, V1_37};
use berth_api::object::device::{CounterSet, Device, ResourceSlice};
use berth_api::object::{Node, NodeSelector};

use super::super::node_affinity::selects_node;
use super::Devices;

/// The newest generation of a pool of which a node can use slices. Before Kubernetes 1.37, slices with counters concern all nodes.
pub struct Pool<'a> {
    pub driver: &'a str,
    pub name: &'a str,
    /// All slices of the generation, by name: those of other nodes as well.
    pub slices: Vec<&'a ResourceSlice>,
    /// The devices of the slices of which the node can use some, in order, with their slices.
    pub devices: Vec<(&'a ResourceSlice, &'a Device)>,
    /// Whether slices of the generation are missing.
    pub is_incomplete: bool,
    /// Whether the slices contradict each other. Those of an incomplete pool may still become right.
    pub is_invalid: bool,
}

/// Whether a node can use devices by one of the three fields about nodes.
fn reaches(node: &Node, name: Option<&String>, selector: Option<&NodeSelector>, all: bool) -> bool {
    all || name == Some(&node.metadata.name) || selector.is_some_and(|selector| selects_node(selector, node))
}

fn slice_reaches(slice: &ResourceSlice, node: &Node) -> bool {
    let spec = &slice.spec;
    match spec.per_device_node_selection {
        true => spec.devices.iter().any(|device| device_reaches(slice, device, node)),
        false => reaches(node, spec.node_name.as_ref(), spec.node_selector.as_ref(), spec.all_nodes),
    }
}

/// Whether a node can use a device of a slice.
pub fn device_reaches(slice: &ResourceSlice, device: &Device, node: &Node) -> bool {
    match slice.spec.per_device_node_selection {
        true => reaches(node, device.node_name.as_ref(), device.node_selector.as_ref(), device.all_nodes),
        false => slice_reaches(slice, node),
    }
}

/// The pools of a node in the order in which they are searched: by driver and name, but those with binding conditions
/// last.
pub fn pools<'a>(devices: &'a Devices, node: &Node, version: KubernetesVersion) -> Vec<Pool<'a>> {
    let mut generations: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let counts = |slice: &&ResourceSlice| {
        slice_reaches(slice, node) || version < V1_37 && !slice.spec.shared_counters.is_empty()
    };
    for slice in devices.slices().filter(counts) {
        let pool = &slice.spec.pool;
        let newest = generations.entry((&slice.spec.driver, &pool.name)).or_insert(pool.generation);
        *newest = pool.generation.max(*newest);
    }
    let pool = |((driver, name), generation): ((&'a str, &'a str), i64)| {
        let is_of = |slice: &&ResourceSlice| {
            let pool = &slice.spec.pool;
            (slice.spec.driver.as_str(), pool.name.as_str(), pool.generation) == (driver, name, generation)
        };
        let mut slices: Vec<&ResourceSlice> = devices.slices().filter(is_of).collect();
        slices.sort_by_key(|slice| &slice.metadata.name);
        let usable = slices.iter().copied().filter(|slice| slice_reaches(slice, node));
        let devices = usable.flat_map(|slice| slice.spec.devices.iter().map(move |device| (slice, device)));
        let count = slices[0].spec.pool.resource_slice_count;
        Pool {
            driver,
            name,
            devices: devices.collect(),
            is_incomplete: slices.len() as i64 != count,
            is_invalid: slices.len() as i64 == count && is_invalid(&slices),
            slices,
        }
    };
    let mut pools: Vec<Pool> = generations.into_iter().map(pool).collect();
    // An older generation counts only when it is complete.
    let is_outdated = |pool: &Pool| {
        let generation = pool.slices[0].spec.pool.generation;
        devices.slices().any(|slice| {
            let newer = slice.spec.pool.generation > generation;
            newer && slice.spec.driver == pool.driver && slice.spec.pool.name == pool.name
        })
    };
    pools.retain(|pool| !(pool.is_incomplete && is_outdated(pool)));
    // Nothing is known of the devices of a pool that is not usable.
    pools.sort_by_key(|pool| {
        let is_usable = !pool.is_incomplete && !pool.is_invalid;
        is_usable && pool.devices.iter().any(|(_, device)| !device.binding_conditions.is_empty())
    });
    pools
}

/// Whether a name is there twice, or a device takes from counters that do not exist.
fn is_invalid(slices: &[&ResourceSlice]) -> bool {
    let devices = || slices.iter().flat_map(|slice| &slice.spec.devices);
    let sets: Vec<&CounterSet> = slices.iter().flat_map(|slice| &slice.spec.shared_counters).collect();
    let (mut names, mut set_names) = (BTreeSet::new(), BTreeSet::new());
    let has_counter =
        |set: &str, counter: &str| sets.iter().any(|s| s.name == set && s.counters.contains_key(counter));
    let is_known = |device: &Device| {
        device.consumes_counters.iter().all(|c| {
            sets.iter().any(|set| set.name == c.counter_set)
                && c.counters.keys().all(|counter| has_counter(&c.counter_set, counter))
        })
    };
    !devices().all(|device| names.insert(&device.name))
        || !sets.iter().all(|set| set_names.insert(&set.name))
        || !devices().all(is_known)
}
