//! Slices: the devices that drivers publish.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::{NodeSelector, ObjectMeta, nullable, time};
use crate::syntax::quantity::Quantity;

/// Devices of one pool of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSlice {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: ResourceSliceSpec,
}

/// `spec` of a slice. Exactly one of `node_name`, `node_selector`, `all_nodes` and `per_device_node_selection` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    /// The driver, a DNS subdomain.
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    /// The pool that the devices belong to.
    #[serde(deserialize_with = "nullable")]
    pub pool: ResourcePool,
    /// The node that the devices are local to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The nodes that can use the devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// Whether all nodes can use the devices.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "std::ops::Not::not")]
    pub all_nodes: bool,
    /// Whether each device says itself which nodes can use it.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "std::ops::Not::not")]
    pub per_device_node_selection: bool,
    /// The devices, in the order in which the allocator tries them.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Counters that partitions of a device share; a slice has either these or devices.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub shared_counters: Vec<CounterSet>,
}

/// A pool of a driver, whose slices are published as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePool {
    /// Name, unique among the pools of the driver.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Number of the version of the pool. Slices of older generations are out of date.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
    /// Number of slices that the pool has in this generation; with fewer, it is incomplete.
    #[serde(deserialize_with = "nullable")]
    pub resource_slice_count: i64,
}

/// Counters of a pool, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterSet {
    /// Name, unique in the pool.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub counters: BTreeMap<String, Counter>,
}

/// An amount of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counter {
    #[serde(deserialize_with = "nullable")]
    pub value: Quantity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// Name, unique in the pool.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Attributes by name; names without a domain belong to the driver's.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, DeviceAttribute>,
    /// Capacities by name; names without a domain belong to the driver's.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// What an allocation of the device takes from the shared counters.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub consumes_counters: Vec<DeviceCounterConsumption>,
    /// With `per_device_node_selection`: the node that the device is local to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// With `per_device_node_selection`: the nodes that can use the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// With `per_device_node_selection`: whether all nodes can use the device.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "std::ops::Not::not")]
    pub all_nodes: bool,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<DeviceTaint>,
    /// Whether a claim with the device can only be used on the node that it was allocated for.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "std::ops::Not::not")]
    pub binds_to_node: bool,
    /// The conditions in the claim's device status that must be true before the pod is bound.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<String>,
    /// The conditions that end the attempt to bind the pod if one of them is true.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub binding_failure_conditions: Vec<String>,
    /// Whether several requests can share the device.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "std::ops::Not::not")]
    pub allow_multiple_allocations: bool,
    /// What an allocation of the device takes of the allocatable resources of the node, by resource such as `cpu` (gate
    /// `DRANodeAllocatableResources`).
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_allocatable_resource_mappings: BTreeMap<String, NodeAllocatableResourceMapping>,
}

/// How much of a resource of the node an allocation of a device takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAllocatableResourceMapping {
    /// The capacity of the device whose consumed amount counts; absent for the device as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_key: Option<String>,
    /// The amount for a device, or for one unit of the capacity; absent for 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_multiplier: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCapacity {
    /// The whole capacity.
    #[serde(deserialize_with = "nullable")]
    pub value: Quantity,
    /// How much of it one request can take from a device that several share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_policy: Option<CapacityRequestPolicy>,
}

/// The amounts of a capacity that requests can take. `valid_values` and `valid_range` exclude each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityRequestPolicy {
    /// What a request takes that does not say how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Quantity>,
    /// The amounts, in ascending order; a request is rounded up to the next one.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub valid_values: Vec<Quantity>,
    /// The range of the amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_range: Option<CapacityRequestPolicyRange>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityRequestPolicyRange {
    /// The smallest amount; smaller requests are rounded up to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Quantity>,
    /// The largest amount; absent for the whole capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Quantity>,
    /// Requests are rounded up to the minimum and a multiple of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Quantity>,
}

/// What a device takes from a set of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCounterConsumption {
    /// Name of the set, in the same pool.
    #[serde(deserialize_with = "nullable")]
    pub counter_set: String,
    #[serde(deserialize_with = "nullable")]
    pub counters: BTreeMap<String, Counter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaint {
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `None`, `NoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "nullable")]
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
