//! Devices: the slices that drivers publish, classes, claims, what is allocated, and their indexes.
//!
//! Nothing here decides: [`crate::device`] resolves the claims of a pod at each decision and searches for devices. A change
//! of an object marks the nodes whose devices it concerns as changed.

mod assumed;
mod claim;
mod class;
mod group_claims;
mod index;
mod node_allocatable;
mod pod_devices;
mod pool;
mod release;
mod scope;
mod selector;
mod shape;
mod taint_rule;
mod taken;
mod update;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use berth_api::object::NamespacedName;
use berth_api::object::device::DeviceTaintRuleSpec;
use berth_input::journal::GroupClaims;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ids::NodeId;

pub(crate) use self::claim::{
    AllocatedDevice, Allocation, Alternative, ClaimRecord, ClaimRequest, ClaimSpec, Constraint, Consumer,
    CountMode, Readiness,
};
pub(crate) use self::class::ClassRecord;
pub(crate) use self::node_allocatable::{Mappings as NodeMappings, TakenByClaim};
pub(crate) use self::pod_devices::{ContainerResources, DeviceUsers, PodDevices, StatedClaim};
pub(crate) use self::pool::{Amounts, CounterSets, DeviceRecord, DeviceRest, DeviceUse, Pool, SliceRecord};
pub(crate) use self::release::ReleasedClaims;
pub(crate) use self::scope::NodeScope;
pub(crate) use self::selector::Selector;
pub(crate) use self::shape::Shape;
pub use self::work::DeviceWork;
pub(crate) use self::work::Meter;

/// The prefix of the extended resource that every class provides under its own name.
const CLASS_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// A pool of a driver: the names of both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolName {
    pub(crate) driver: Arc<str>,
    pub(crate) pool: Arc<str>,
}

/// Objects by name, and their indexes. Names are what users send: the hashers are keyed.
#[derive(Clone, Default)]
pub(crate) struct Devices {
    pools: BTreeMap<PoolName, Pool>,
    slices: HashMap<Box<str>, PoolName>,
    /// The pools with slices of one node, by the name of the node.
    pools_of_node: HashMap<Box<str>, BTreeSet<PoolName>>,
    /// The pools with slices that several nodes may use.
    shared_pools: BTreeSet<PoolName>,
    /// The nodes of pools that nodes share by their labels, and the state of nodes for which that was found out.
    nodes_of_shared: HashMap<PoolName, (u64, Arc<[NodeId]>)>,
    classes: HashMap<Arc<str>, Arc<ClassRecord>>,
    /// The classes that provide an extended resource, by its name.
    classes_of_resource: HashMap<Box<str>, BTreeSet<Arc<str>>>,
    claims: HashMap<NamespacedName, ClaimRecord>,
    /// The rules that give devices taints, by name; none without the gate.
    taint_rules: BTreeMap<Box<str>, DeviceTaintRuleSpec>,
    /// The PodGroups that share claims, by name.
    group_claims: HashMap<NamespacedName, GroupClaims>,
    /// The claims that the scheduler made for the extended resources of pods, by the uid of the pod.
    extended_claims: HashMap<Box<str>, BTreeSet<NamespacedName>>,
    /// What is assumed of the extended resources of pods until their claims are allocated, by the pod and its uid.
    assumed_extended: HashMap<(NamespacedName, Box<str>), Arc<Allocation>>,
    /// Equal specifications are one.
    specs: SharedValues<ClaimSpec>,
    shapes: SharedValues<Shape>,
    /// What of devices selectors do not see.
    rests: SharedValues<DeviceRest>,
    counter_sets: SharedValues<CounterSets>,
    selectors: HashMap<Arc<str>, Weak<Selector>>,
    /// Counter sets are read for every node: the pools with such sets that are not usable where they have no devices.
    faulty_pools: BTreeSet<PoolName>,
    /// Seconds since 1970, as far as the cluster was told.
    pub(crate) now: i64,
    /// Searches for devices that ended at their limit, also in copies of the state.
    pub(crate) n_cut_searches: Arc<AtomicU64>,
}

impl Devices {
    pub(crate) fn claim(&self, name: &NamespacedName) -> Option<&ClaimRecord> {
        self.claims.get(name)
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Arc<ClassRecord>> {
        self.classes.get(name)
    }

    /// The class that provides an extended resource. Of several with an equal name in the specification, that is the newest,
    /// then the first by name.
    pub(crate) fn class_of_resource(&self, resource: &str) -> Option<&Arc<ClassRecord>> {
        let by_name = resource.strip_prefix(CLASS_RESOURCE_PREFIX).and_then(|name| self.class(name));
        by_name.or_else(|| {
            let classes = self.classes_of_resource.get(resource)?.iter().filter_map(|name| self.class(name));
            classes.reduce(|best, class| if class.created > best.created { class } else { best })
        })
    }

    /// Whether any class exists: without one, no resource is provided by devices.
    pub(crate) fn has_classes(&self) -> bool {
        !self.classes.is_empty()
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.get(name)
    }

    /// The pools with counter sets that may be incomplete or invalid: they concern nodes without devices of theirs as well.
    pub(crate) fn faulty_pools(&self) -> impl Iterator<Item = (&PoolName, &Pool)> {
        self.faulty_pools.iter().filter_map(|name| self.pools.get_key_value(name))
    }

    /// The pools with slices that a node of this name may be able to use, by driver and pool.
    pub(crate) fn pools_near<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a PoolName, &'a Pool)> {
        let own = self.pools_of_node.get(node);
        let names: BTreeSet<&PoolName> = own.into_iter().flatten().chain(&self.shared_pools).collect();
        names.into_iter().filter_map(|name| self.pools.get_key_value(name))
    }

    pub(crate) fn device(
        &self,
        pool: &PoolName,
        slice: &str,
        name: &str,
    ) -> Option<(&SliceRecord, &DeviceRecord)> {
        let slice = &**self.pools.get(pool)?.slices.get(slice)?;
        slice.devices.iter().find(|device| *device.name == *name).map(|device| (slice, device))
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (&PoolName, &Pool)> {
        self.pools.iter()
    }

    /// The claims of each device that is allocated, also of those that share it, by name.
    pub(crate) fn claims_by_device(&self) -> HashMap<(PoolName, Arc<str>), Vec<NamespacedName>> {
        let mut by_device: HashMap<_, Vec<_>> = HashMap::new();
        for (name, claim) in &self.claims {
            for device in claim.allocation().into_iter().flat_map(|allocation| &allocation.devices) {
                by_device.entry((device.pool.clone(), device.device.clone())).or_default().push(name.clone());
            }
        }
        by_device.values_mut().for_each(|claims| claims.sort_unstable());
        by_device
    }

    /// The claims that have devices for themselves.
    pub(crate) fn holders(&self) -> HashMap<(PoolName, Arc<str>), NamespacedName> {
        let mut holders = HashMap::new();
        for (name, claim) in &self.claims {
            let devices = claim.allocation().into_iter().flat_map(|allocation| &allocation.devices);
            for device in devices.filter(|device| !device.is_admin && device.share.is_none()) {
                holders.insert((device.pool.clone(), device.device.clone()), name.clone());
            }
        }
        holders
    }

    /// The claim that the scheduler made for the extended resources of a pod, left over from an earlier attempt.
    pub(crate) fn extended_claim_of(&self, pod: &PodDevices) -> Option<(&NamespacedName, &ClaimRecord)> {
        let of_uid = self.extended_claims.get(&pod.pod_uid)?.iter();
        let mut found = of_uid.filter_map(|name| self.claims.get_key_value(name));
        found.find(|(_, claim)| claim.is_of(pod))
    }

    pub(super) fn table_sizes(&self) -> BTreeMap<&'static str, usize> {
        let used = self.pools.values().map(|pool| pool.used.len()).sum();
        [
            ("resource slices", self.slices.len()),
            ("pools of devices", self.pools.len()),
            ("nodes with devices", self.pools_of_node.len()),
            ("shared pools of devices", self.shared_pools.len()),
            ("device classes", self.classes.len()),
            ("resources of device classes", self.classes_of_resource.len()),
            ("resource claims", self.claims.len()),
            ("pod groups with claims", self.group_claims.len()),
            ("pods with claims for extended resources", self.extended_claims.len()),
            ("claims assumed for extended resources", self.assumed_extended.len()),
            ("allocated devices", used),
        ]
        .into()
    }
}

/// Values of which equal ones are kept once, by hash.
type SharedValues<T> = FxHashMap<u64, SmallVec<[Weak<T>; 1]>>;

/// The one that is kept of equal values.
fn shared<T: PartialEq>(table: &mut SharedValues<T>, hash: u64, value: T) -> Arc<T> {
    sweep(table);
    let alike = table.entry(hash).or_default();
    alike.retain(|known| known.strong_count() > 0);
    if let Some(known) = alike.iter().filter_map(Weak::upgrade).find(|known| **known == value) {
        return known;
    }
    let value = Arc::new(value);
    alike.push(Arc::downgrade(&value));
    value
}

/// Forgets values that nothing uses, once in a while: when the table has doubled.
fn sweep<T>(table: &mut SharedValues<T>) {
    if table.len() == table.capacity() {
        table.retain(|_, alike| {
            alike.retain(|known| known.strong_count() > 0);
            !alike.is_empty()
        });
    }
}

/// Nodes that a change concerns.
enum Concerned {
    Nodes(Arc<[NodeId]>),
    /// So many that each view of pods with claims looks at all nodes. Views of pods without claims would look at marked nodes as well.
    All,
}
