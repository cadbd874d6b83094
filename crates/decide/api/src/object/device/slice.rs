//! Slices: the devices that drivers publish.

use berth_api_macros::object_type;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::{NodeSelector, ObjectMeta, time};
use crate::syntax::quantity::Quantity;

/// Devices of one pool of a driver.
#[object_type(Eq)]
pub struct ResourceSlice {
    pub metadata: ObjectMeta,
    pub spec: ResourceSliceSpec,
}

/// `spec` of a slice. Exactly one of `node_name`, `node_selector`, `all_nodes` and `per_device_node_selection` is set.
#[object_type(Eq)]
pub struct ResourceSliceSpec {
    /// The driver, a DNS subdomain.
    pub driver: String,
    /// The pool that the devices belong to.
    pub pool: ResourcePool,
    /// The node that the devices are local to.
    pub node_name: Option<String>,
    /// The nodes that can use the devices.
    pub node_selector: Option<NodeSelector>,
    /// Whether all nodes can use the devices.
    pub all_nodes: bool,
    /// Whether each device says itself which nodes can use it.
    pub per_device_node_selection: bool,
    /// The devices, in the order in which the allocator tries them.
    pub devices: Vec<Device>,
    /// Counters that partitions of a device share; a slice has either these or devices.
    pub shared_counters: Vec<CounterSet>,
}

/// A pool of a driver, whose slices are published as one.
#[object_type(Eq, Hash)]
pub struct ResourcePool {
    /// Name, unique among the pools of the driver.
    pub name: String,
    /// Number of the version of the pool. Slices of older generations are out of date.
    pub generation: i64,
    /// Number of slices that the pool has in this generation; with fewer, it is incomplete.
    pub resource_slice_count: i64,
}

/// Counters of a pool, by name.
#[object_type(Eq)]
pub struct CounterSet {
    /// Name, unique in the pool.
    pub name: String,
    pub counters: BTreeMap<String, Counter>,
}

/// An amount of a counter.
#[object_type(Eq)]
pub struct Counter {
    pub value: Quantity,
}

#[object_type(Eq)]
pub struct Device {
    /// Name, unique in the pool.
    pub name: String,
    /// Attributes by name; names without a domain belong to the driver's.
    pub attributes: BTreeMap<String, DeviceAttribute>,
    /// Capacities by name; names without a domain belong to the driver's.
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// What an allocation of the device takes from the shared counters.
    pub consumes_counters: Vec<DeviceCounterConsumption>,
    /// With `per_device_node_selection`: the node that the device is local to.
    pub node_name: Option<String>,
    /// With `per_device_node_selection`: the nodes that can use the device.
    pub node_selector: Option<NodeSelector>,
    /// With `per_device_node_selection`: whether all nodes can use the device.
    pub all_nodes: bool,
    pub taints: Vec<DeviceTaint>,
    /// Whether a claim with the device can only be used on the node that it was allocated for.
    pub binds_to_node: bool,
    /// The conditions in the claim's device status that must be true before the pod is bound.
    pub binding_conditions: Vec<String>,
    /// The conditions that end the attempt to bind the pod if one of them is true.
    pub binding_failure_conditions: Vec<String>,
    /// Whether several requests can share the device.
    pub allow_multiple_allocations: bool,
    /// What an allocation of the device takes of the allocatable resources of the node, by resource such as `cpu` (gate
    /// `DRANodeAllocatableResources`).
    pub node_allocatable_resource_mappings: BTreeMap<String, NodeAllocatableResourceMapping>,
}

/// How much of a resource of the node an allocation of a device takes.
#[object_type(Eq, Hash)]
pub struct NodeAllocatableResourceMapping {
    /// The capacity of the device whose consumed amount counts; absent for the device as a whole.
    pub capacity_key: Option<String>,
    /// The amount for a device, or for one unit of the capacity; absent for 1.
    pub allocation_multiplier: Option<Quantity>,
}

#[object_type(Eq)]
pub struct DeviceCapacity {
    /// The whole capacity.
    pub value: Quantity,
    /// How much of it one request can take from a device that several share.
    pub request_policy: Option<CapacityRequestPolicy>,
}

/// The amounts of a capacity that requests can take. `valid_values` and `valid_range` exclude each other.
#[object_type(Eq)]
pub struct CapacityRequestPolicy {
    /// What a request takes that does not say how much.
    pub default: Option<Quantity>,
    /// The amounts, in ascending order; a request is rounded up to the next one.
    pub valid_values: Vec<Quantity>,
    /// The range of the amounts.
    pub valid_range: Option<CapacityRequestPolicyRange>,
}

#[object_type(Eq)]
pub struct CapacityRequestPolicyRange {
    /// The smallest amount; smaller requests are rounded up to it.
    pub min: Option<Quantity>,
    /// The largest amount; absent for the whole capacity.
    pub max: Option<Quantity>,
    /// Requests are rounded up to the minimum and a multiple of this.
    pub step: Option<Quantity>,
}

/// What a device takes from a set of counters.
#[object_type(Eq)]
pub struct DeviceCounterConsumption {
    /// Name of the set, in the same pool.
    pub counter_set: String,
    pub counters: BTreeMap<String, Counter>,
}

#[object_type(Eq, Hash)]
pub struct DeviceTaint {
    pub key: String,
    pub value: String,
    /// `None`, `NoSchedule` or `NoExecute`.
    pub effect: String,
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

/// Such as `gpu.example.com/unhealthy:NoSchedule`.
impl fmt::Display for DeviceTaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceTaint { key, value, effect, .. } = self;
        if value.is_empty() { write!(f, "{key}:{effect}") } else { write!(f, "{key}={value}:{effect}") }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "AttributeFields", into = "AttributeFields")]
pub enum DeviceAttribute {
    Int(i64),
    Bool(bool),
    String(String),
    Version(String),
    /// None of these, as in a manifest that no API server accepts.
    #[default]
    Unset,
}

/// Its value; nothing if it has none.
impl fmt::Display for DeviceAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceAttribute::Int(value) => value.fmt(f),
            DeviceAttribute::Bool(value) => value.fmt(f),
            DeviceAttribute::String(value) | DeviceAttribute::Version(value) => f.write_str(value),
            DeviceAttribute::Unset => Ok(()),
        }
    }
}

/// A [`DeviceAttribute`] as it is written: one field is set.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct AttributeFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    int: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bool: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl From<AttributeFields> for DeviceAttribute {
    fn from(fields: AttributeFields) -> Self {
        let AttributeFields { int, bool, string, version } = fields;
        let int = int.map(DeviceAttribute::Int);
        int.or_else(|| bool.map(DeviceAttribute::Bool))
            .or_else(|| string.map(DeviceAttribute::String))
            .or_else(|| version.map(DeviceAttribute::Version))
            .unwrap_or_default()
    }
}

impl From<DeviceAttribute> for AttributeFields {
    fn from(attribute: DeviceAttribute) -> Self {
        let mut fields = AttributeFields::default();
        match attribute {
            DeviceAttribute::Int(int) => fields.int = Some(int),
            DeviceAttribute::Bool(bool) => fields.bool = Some(bool),
            DeviceAttribute::String(string) => fields.string = Some(string),
            DeviceAttribute::Version(version) => fields.version = Some(version),
            DeviceAttribute::Unset => {}
        }
        fields
    }
}
