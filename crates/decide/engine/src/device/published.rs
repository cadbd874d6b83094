//! The devices that drivers publish, with what keeps each from being allocated: of a node, and counted by model.

use std::collections::{BTreeMap, HashMap};

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_api::syntax::quantity::Quantity;
use serde::Serialize;

use super::DevicesInUse;
use super::capacity::consumed;
use super::pools::{Condition, Counters, NodePool, pools_of, try_take, whole_pool};
use super::search::blocking_taints;
use crate::state::State;
use crate::state::device::{DeviceRecord, DeviceUse, NodeScope, Shape, SliceRecord};
use crate::state::node::NodeRecord;

/// The attributes by which drivers name their models.
const MODEL_ATTRIBUTES: [&str; 4] = ["type", "model", "productName", "profile"];

/// A device that a node can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedDevice {
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// Its name in the pool.
    pub name: String,
    /// Its attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// Its capacities.
    pub capacity: BTreeMap<String, Quantity>,
    /// The sets of shared counters that it takes from: it is a partition.
    pub counter_sets: Vec<String>,
    /// Whether several claims may have shares of it.
    pub is_shared: bool,
    /// The claims that have it, or a share of it.
    pub claims: Vec<NamespacedName>,
    /// Its taints that claims must tolerate, such as `gpu.example.com/unhealthy:NoSchedule`.
    pub taints: Vec<String>,
    /// Whether too little is left of the shared counters.
    pub lacks_counters: bool,
}

/// The devices of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevicesOfNode {
    /// In the order in which the scheduler tries them.
    pub devices: Vec<PublishedDevice>,
    /// The pools whose devices cannot be allocated, as `DRIVER/POOL`, and why.
    pub unusable_pools: Vec<(String, &'static str)>,
}

/// How many devices of a model there are, and how many claims for one of them fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceModel {
    /// The driver.
    pub driver: String,
    /// The attributes that name the model, without their domain.
    pub attributes: BTreeMap<String, String>,
    /// The capacities of each device.
    pub capacity: BTreeMap<String, Quantity>,
    /// Devices that nodes can use.
    pub n_devices: usize,
    /// Devices that are allocated.
    pub n_allocated: usize,
    /// Further claims for one such device that fit, if no other devices are allocated meanwhile.
    pub n_claims: usize,
}

impl Condition {
    /// Why devices of the pool cannot be allocated; none if they can.
    pub(super) fn problem(self) -> Option<&'static str> {
        match self {
            Condition::Usable => None,
            Condition::Incomplete => Some("is being updated: slices are missing"),
            Condition::Invalid => Some("is invalid: names or counters are not consistent"),
        }
    }
}

/// The driver, attributes and capacities.
type ModelKey<'a> = (&'a str, BTreeMap<String, String>, BTreeMap<String, Quantity>);

pub(crate) fn devices_of(state: &State, node: &NodeRecord) -> DevicesOfNode {
    let claims = state.devices.claims_by_device();
    let mut found = DevicesOfNode::default();
    let in_use = DevicesInUse::default();
    for pool in pools_of(state, node, &in_use) {
        let name = format!("{}/{}", pool.name.driver, pool.name.pool);
        found.unusable_pools.extend(pool.condition.problem().map(|why| (name, why)));
        for (slice, device) in devices_in(&pool) {
            if slice.scope == NodeScope::PerDevice && !device.scope.includes(&state.symbols, node) {
                continue;
            }
            let used = pool.used.get(&device.name);
            let claims = claims.get(&(pool.name.clone(), device.name.clone()));
            let mut left = pool.counters.clone();
            found.devices.push(PublishedDevice {
                driver: pool.name.driver.to_string(),
                pool: pool.name.pool.to_string(),
                name: device.name.to_string(),
                attributes: device
                    .shape
                    .attributes
                    .iter()
                    .map(|(key, of)| (key.clone(), of.to_string()))
                    .collect(),
                capacity: capacity_of(&device.shape),
                counter_sets: device.consumes.iter().map(|(set, _)| set.to_string()).collect(),
                is_shared: device.shape.allows_multiple,
                claims: claims.cloned().unwrap_or_default(),
                taints: blocking_taints(device).map(|taint| taint.to_string()).collect(),
                lacks_counters: used.is_none() && !try_take(&mut left, device),
            });
        }
    }
    found
}

/// The devices of all nodes by model, the order being that of drivers and models.
pub(crate) fn models(state: &State) -> Vec<DeviceModel> {
    let mut models = BTreeMap::new();
    let mut known_scopes: HashMap<&NodeScope, bool> = HashMap::new();
    let mut has_node = |scope| {
        *known_scopes.entry(scope).or_insert_with(|| match scope {
            NodeScope::Node(name) | NodeScope::SelectedNode(name) => state.find_node(name).is_some(),
            scope => state.nodes.iter().any(|(_, node)| scope.includes(&state.symbols, node)),
        })
    };
    let in_use = DevicesInUse::default();
    for pool in state.devices.pools().filter_map(|(name, pool)| whole_pool(name, pool, &in_use)) {
        let mut left: BTreeMap<ModelKey<'_>, Counters<'_>> = BTreeMap::new();
        for (slice, device) in devices_in(&pool) {
            if !has_node(if slice.scope == NodeScope::PerDevice { &device.scope } else { &slice.scope }) {
                continue;
            }
            let key: ModelKey<'_> = (&pool.name.driver, model_of(&device.shape), capacity_of(&device.shape));
            let model = models.entry(key.clone()).or_insert_with(|| DeviceModel {
                driver: key.0.to_owned(),
                attributes: key.1.clone(),
                capacity: key.2.clone(),
                n_devices: 0,
                n_allocated: 0,
                n_claims: 0,
            });
            let left = left.entry(key).or_insert_with(|| pool.counters.clone());
            let used = pool.used.get(&device.name);
            model.n_devices += 1;
            model.n_allocated += usize::from(used.is_some());
            model.n_claims += claims_that_fit(device, used, left, state.settings.config.feature_gates);
        }
    }
    models.into_values().collect()
}

/// How many claims for a device fit; takes the counters that they need.
fn claims_that_fit(
    device: &DeviceRecord,
    used: Option<&DeviceUse>,
    left: &mut Counters<'_>,
    gates: FeatureGates,
) -> usize {
    if blocking_taints(device).next().is_some() || used.is_some_and(|used| used.n_exclusive > 0) {
        return 0;
    }
    let capacity = &device.shape.capacity;
    let Some(share) = consumed(&BTreeMap::new(), &device.shape, gates) else { return 0 };
    let left_of = |name: &String| {
        let used = used.and_then(|used| used.consumed.get(name)).copied().unwrap_or_default();
        capacity.get(name).map_or(0, |of| (of.value - used).units())
    };
    let amounts = share.iter().filter(|(_, amount)| amount.units() > 0);
    let fit = amounts.map(|(name, amount)| left_of(name) / amount.units()).min().unwrap_or(1).max(0);
    let n_claims = match device.shape.allows_multiple {
        true => usize::try_from(fit).unwrap_or(0),
        false => 1,
    };
    // A device that others share takes from counters once.
    if n_claims > 0 && used.is_none() && !try_take(left, device) { 0 } else { n_claims }
}

fn devices_in<'a>(
    pool: &NodePool<'a>,
) -> impl Iterator<Item = (&'a SliceRecord, &'a DeviceRecord)> + use<'a> {
    pool.slices.clone().into_iter().flat_map(|slice| slice.devices.iter().map(move |device| (slice, device)))
}

fn model_of(shape: &Shape) -> BTreeMap<String, String> {
    let own = |name: &str| shape.attribute(&format!("{}/{name}", shape.driver));
    let named = MODEL_ATTRIBUTES.iter().filter_map(|name| Some(((*name).to_owned(), own(name)?.to_string())));
    named.collect()
}

fn capacity_of(shape: &Shape) -> BTreeMap<String, Quantity> {
    shape.capacity.iter().map(|(name, capacity)| (name.clone(), capacity.value)).collect()
}
