//! Storage classes, the CSI drivers of nodes, and free capacity.

use std::sync::Arc;

use berth_api::feature_gates::{FeatureGates, VersionChange};
use berth_api::object::volume::{CsiDriver, CsiNode, CsiStorageCapacity, NO_PROVISIONER, StorageClass};
use berth_api::syntax::quantity::Quantity;
use berth_rules::Selector;
use berth_rules::volume::InTreePlugin;

use crate::state::interned::intern::{Symbol, Symbols};
use crate::state::node::NodeRecord;
use crate::state::rule_set::selector::LabelMatcher;

/// A storage class. A user of its symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassRecord {
    pub(crate) name: Arc<str>,
    pub(crate) provisioner: Arc<str>,
    pub(crate) waits_for_first_consumer: bool,
    /// None for any node.
    pub(crate) allowed_topologies: Option<Arc<AllowedTopologies>>,
}

/// Node labels with one of several values: the requirements of a term are ANDed, the terms ORed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllowedTopologies(Box<[Box<[LabelValues]>]>);

type LabelValues = (Symbol, Box<[Symbol]>);

impl ClassRecord {
    pub(super) fn compile(symbols: &mut Symbols, class: &StorageClass) -> ClassRecord {
        let terms = class.allowed_topologies.iter().map(|term| {
            let requirements = term.match_label_expressions.iter();
            requirements
                .map(|r| (symbols.intern(&r.key), r.values.iter().map(|v| symbols.intern(v)).collect()))
                .collect()
        });
        let allowed_topologies =
            (!class.allowed_topologies.is_empty()).then(|| Arc::new(AllowedTopologies(terms.collect())));
        ClassRecord {
            name: class.metadata.name.as_str().into(),
            provisioner: class.provisioner.as_str().into(),
            waits_for_first_consumer: class.waits_for_first_consumer(),
            allowed_topologies,
        }
    }

    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let terms = self.allowed_topologies.iter().flat_map(|topologies| topologies.0.iter());
        terms.flatten().flat_map(|(key, values)| values.iter().copied().chain([*key]))
    }

    /// Whether volumes can be provisioned.
    pub(crate) fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && *self.provisioner != *NO_PROVISIONER
    }
}

impl AllowedTopologies {
    /// As in Kubernetes, a term without requirements allows no node.
    pub(crate) fn allow(&self, node: &NodeRecord) -> bool {
        let holds =
            |(key, values): &LabelValues| node.labels.get(*key).is_some_and(|value| values.contains(&value));
        self.0.iter().any(|term| !term.is_empty() && term.iter().all(holds))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CsiNodeRecord {
    /// The drivers, and how many volumes they can attach, if they are limited.
    drivers: Vec<(Box<str>, Option<i64>)>,
    migrated: Vec<InTreePlugin>,
}

impl CsiNodeRecord {
    pub(super) fn compile(node: &CsiNode) -> CsiNodeRecord {
        let drivers = node.spec.drivers.iter().map(|driver| {
            let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
            (driver.name.as_str().into(), count.map(i64::from))
        });
        CsiNodeRecord { drivers: drivers.collect(), migrated: InTreePlugin::migrated_on(node) }
    }

    pub(crate) fn limit(&self, driver: &str) -> Option<i64> {
        self.drivers.iter().rev().filter(|(name, _)| **name == *driver).find_map(|(_, count)| *count)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.drivers.iter().any(|(_, count)| count.is_some())
    }

    pub(crate) fn has_driver(&self, driver: &str) -> bool {
        self.drivers.iter().any(|(name, _)| **name == *driver)
    }

    /// Whether the CSI driver of an in-tree plugin attaches its volumes to the node. For most plugins there is no other
    /// way any more.
    pub(crate) fn attaches(&self, plugin: InTreePlugin) -> bool {
        plugin != InTreePlugin::Portworx || self.migrates(plugin)
    }

    /// Whether the node says that the CSI driver of an in-tree plugin serves its volumes.
    pub(crate) fn migrates(&self, plugin: InTreePlugin) -> bool {
        self.migrated.contains(&plugin)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriverRecord {
    /// It publishes its free capacity.
    pub(crate) tracks_capacity: bool,
    /// Pods with its volumes are kept from nodes without it.
    pub(crate) is_required: bool,
}

impl DriverRecord {
    pub(super) fn compile(driver: &CsiDriver) -> DriverRecord {
        DriverRecord {
            tracks_capacity: driver.spec.storage_capacity.unwrap_or_default(),
            is_required: driver.spec.prevent_pod_scheduling_if_missing.unwrap_or_default(),
        }
    }

    /// Whether a change to another record can make a node feasible.
    pub(super) fn restricts_more_than(self, other: DriverRecord) -> bool {
        (self.tracks_capacity && !other.tracks_capacity) || (self.is_required && !other.is_required)
    }
}

/// The free capacity for a class in a topology. A user of its symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CapacityRecord {
    pub(crate) class: Box<str>,
    /// What is free, in bytes; 0 if unknown.
    pub(crate) capacity: i64,
    /// The largest volume, in bytes; none if unknown.
    pub(crate) limit: Option<Quantity>,
    pub(super) topology: LabelMatcher,
}

/// An amount of storage as claims are compared with capacities.
pub(crate) fn compared(amount: Quantity, gates: FeatureGates) -> Quantity {
    match gates.has(VersionChange::ExactStorageCapacity) {
        true => amount,
        false => Quantity::from_units(amount.units()),
    }
}

impl CapacityRecord {
    pub(super) fn compile(
        symbols: &mut Symbols,
        capacity: &CsiStorageCapacity,
        gates: FeatureGates,
    ) -> CapacityRecord {
        let selector = Selector::parse(capacity.node_topology.as_ref()).unwrap_or(Selector::Nothing);
        CapacityRecord {
            class: capacity.storage_class_name.as_str().into(),
            capacity: capacity.capacity.map_or(0, |quantity| quantity.units()),
            limit: capacity.maximum_volume_size.or(capacity.capacity).map(|limit| compared(limit, gates)),
            topology: LabelMatcher::compile(symbols, &selector),
        }
    }

    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.topology.symbols()
    }

    pub(crate) fn is_accessible(&self, symbols: &Symbols, node: &NodeRecord) -> bool {
        self.topology.matches(symbols, &node.labels)
    }
}
