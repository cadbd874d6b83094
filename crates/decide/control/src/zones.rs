//! The rate at which pods are evicted from nodes that are not ready, by the state of their zone.
//!
//! The controller evicts the pods of a few failed nodes soon. If half of a zone fails at once, moving all pods costs
//! more than waiting. If every zone is down, the controller's own connection has most likely failed.

use std::collections::HashMap;

use berth_api::object::ObjectMeta;
use berth_api::syntax::labels::{REGION, ZONE};

/// Region and zone of a node; both empty without the labels.
pub fn zone_of(node: &ObjectMeta) -> (&str, &str) {
    let label = |key| node.label(key).unwrap_or_default();
    (label(REGION), label(ZONE))
}

/// The options of the node controller about evictions. The defaults are those of kube-controller-manager.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRates {
    /// Nodes per second, in each zone, whose pods are evicted because the node is not ready.
    pub normal: f64,
    /// The same in zones where many nodes are not ready. Small zones then evict nothing.
    pub secondary: f64,
    /// Fraction of a zone's nodes (at least three nodes) that counts as many.
    pub unhealthy_zone_threshold: f64,
    /// A zone with up to this number of nodes is small.
    pub large_cluster_size_threshold: usize,
}

impl Default for EvictionRates {
    fn default() -> Self {
        let (unhealthy_zone_threshold, large_cluster_size_threshold) = (0.55, 50);
        EvictionRates { normal: 0.1, secondary: 0.01, unhealthy_zone_threshold, large_cluster_size_threshold }
    }
}

/// The nodes of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zone {
    pub n_nodes: usize,
    pub n_not_ready: usize,
}

impl Zone {
    pub fn is_down(&self) -> bool {
        self.n_nodes > 0 && self.n_not_ready == self.n_nodes
    }
}

impl EvictionRates {
    /// Nodes of a zone per second.
    pub fn of(&self, zone: Zone) -> f64 {
        let share = zone.n_not_ready as f64 / zone.n_nodes.max(1) as f64;
        let are_many = zone.n_not_ready > 2 && share >= self.unhealthy_zone_threshold && !zone.is_down();
        match are_many {
            false => self.normal,
            true if zone.n_nodes > self.large_cluster_size_threshold => self.secondary,
            true => 0.0,
        }
    }
}

/// The zones of a cluster, of which some nodes are lost.
#[derive(Default)]
pub struct Zones<'a> {
    positions: HashMap<(&'a str, &'a str), usize>,
    zones: Vec<Zone>,
    of: HashMap<&'a str, usize>,
}

impl<'a> Zones<'a> {
    pub fn new(nodes: impl Iterator<Item = &'a ObjectMeta>) -> Zones<'a> {
        let mut zones = Zones::default();
        for node in nodes {
            let next = zones.zones.len();
            let at = *zones.positions.entry(zone_of(node)).or_insert(next);
            if at == next {
                zones.zones.push(Zone::default());
            }
            zones.zones[at].n_nodes += 1;
            zones.of.insert(&node.name, at);
        }
        zones
    }

    /// Which zones evict pods, sooner or later, if these nodes are not ready: says so of a node.
    pub fn evicting<'n>(&self, not_ready: impl Iterator<Item = &'n str>) -> impl Fn(&str) -> bool {
        let mut zones = self.zones.clone();
        for at in not_ready.filter_map(|node| self.of.get(node)) {
            zones[*at].n_not_ready += 1;
        }
        let are_all_down = zones.iter().all(Zone::is_down);
        let rates = EvictionRates::default();
        move |node| !are_all_down && self.of.get(node).is_some_and(|at| rates.of(zones[*at]) > 0.0)
    }
}
