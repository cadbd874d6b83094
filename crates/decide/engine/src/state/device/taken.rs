//! What the devices of assigned pods take of their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::syntax::quantity::Quantity;
use berth_input::journal::AssumedDevices;

use super::PodDevices;
use super::node_allocatable::TakenByClaim;
use crate::state::State;
use crate::state::interned::intern::Symbol;
use crate::state::node::{NodeId, Resources};

impl PodDevices {
    /// What its devices take beyond its requests: nothing of resources with pod-level requests. `symbol` gives the symbol of
    /// a resource other than CPU, memory and storage.
    pub(crate) fn beyond_requests<'a>(
        &self,
        taken: impl IntoIterator<Item = (&'a str, Quantity)>,
        mut symbol: impl FnMut(&str) -> Option<Symbol>,
    ) -> Resources {
        let mut sums: BTreeMap<&str, Quantity> = BTreeMap::new();
        for (name, amount) in taken {
            if !self.budget.iter().any(|(of_pod, _)| **of_pod == *name) {
                *sums.entry(name).or_default() += amount;
            }
        }
        let mut resources = Resources::default();
        for (name, amount) in sums {
            match name {
                "cpu" => resources.milli_cpu = amount.millis(),
                "memory" => resources.memory = amount.units(),
                "ephemeral-storage" => resources.ephemeral_storage = amount.units(),
                _ => resources.scalar.extend(symbol(name).map(|symbol| (symbol, amount.units()))),
            }
        }
        resources
    }

    /// The amounts that the devices of an assigned pod take.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.taken.iter().flat_map(|of_claim| &of_claim.resources).map(|(name, amount)| (&**name, *amount))
    }
}

impl State {
    /// Whether devices take allocatable resources of their node.
    pub(crate) fn devices_take_allocatable(&self) -> bool {
        self.settings.config.feature_gates.dra_node_allocatable_resources
    }

    /// What the devices of an assigned pod take beyond its requests.
    pub(crate) fn taken_by(&self, devices: Option<&PodDevices>) -> Option<Resources> {
        let devices = devices.filter(|of| !of.taken.is_empty() && self.devices_take_allocatable())?;
        Some(devices.beyond_requests(devices.taken(), |name| self.symbols.get(name)))
    }

    /// Adds (`sign` 1) or subtracts (−1) what the devices of a pod take of its node.
    pub(in crate::state) fn account_devices(&mut self, node: NodeId, devices: &PodDevices, sign: i64) {
        if devices.taken.is_empty() || !self.devices_take_allocatable() {
            return;
        }
        let symbols = &mut self.symbols;
        let symbol = |name: &str| match sign {
            1 => Some(symbols.intern(name)),
            _ => symbols.get(name),
        };
        let resources = devices.beyond_requests(devices.taken(), symbol);
        self.nodes.get_mut(node).account_devices(&resources, sign);
        if sign < 0 {
            self.symbols.release_all(resources.scalar.iter().map(|(name, _)| *name));
        }
    }

    /// Assumes what the devices of a pod take of the node that it is assigned to.
    pub(super) fn assume_taken(&mut self, assumed: &AssumedDevices) {
        let Some(id) = self.find_pod(assumed.pod.namespace(), assumed.pod.name()) else { return };
        let record = self.pods.get(id);
        let Some(devices) = record.devices.clone().filter(|of| *of.pod_uid == *assumed.uid) else { return };
        let taken = TakenByClaim::all(&assumed.devices.node_allocatable);
        if devices.taken == taken {
            return;
        }
        let node = record.node;
        let assumed = Arc::new(PodDevices { taken, ..(*devices).clone() });
        self.pods.get_mut(id).devices = Some(assumed.clone());
        if let Some(node) = node {
            self.account_devices(node, &devices, -1);
            self.account_devices(node, &assumed, 1);
            self.changes.push(node);
        }
    }
}
