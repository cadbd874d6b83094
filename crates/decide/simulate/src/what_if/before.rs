//! The state before the changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::object::NamespacedName;
use berth_engine::{Violation, ViolationKey};

use crate::simulation::{SimulatedPod, Simulation};

pub(super) struct Before {
    pub nodes: BTreeMap<NamespacedName, String>,
    pub unplaced: BTreeSet<NamespacedName>,
    /// The pods that were being deleted.
    deleting: BTreeSet<NamespacedName>,
    /// The pods that are shown under the names of those that they replace.
    names: HashMap<NamespacedName, NamespacedName>,
    /// The pods that do not run on the nodes that they name, as `namespace/name`.
    pub not_running: BTreeSet<String>,
    /// The rules that did not hold.
    pub broken: BTreeSet<ViolationKey>,
    /// Number of pods with such rules.
    pub n_with_broken_rules: usize,
}

impl Before {
    /// The name of a pod in outcomes: that of the pod that it replaces, if that one existed.
    pub fn name_of(&self, pod: &SimulatedPod) -> NamespacedName {
        let existed = |old: &&NamespacedName| self.nodes.contains_key(*old) || self.unplaced.contains(*old);
        let own = pod.pod.metadata.namespaced_name();
        let replaced = pod.replaces.as_ref().unwrap_or(&own);
        let replaced = self.names.get(replaced).unwrap_or(replaced);
        Some(replaced).filter(existed).cloned().unwrap_or(own)
    }

    /// The pods of the simulation keep the names that they are shown under, also when they are read again.
    pub fn keep_names(&mut self, simulation: &Simulation) {
        let names =
            simulation.pods().iter().map(|pod| (pod.pod.metadata.namespaced_name(), self.name_of(pod)));
        self.names = names.filter(|(own, shown)| own != shown).collect();
    }

    /// The pods that controllers have deleted since then, and that nothing replaces.
    pub fn deleted(&self, simulation: &Simulation, lost: &[(NamespacedName, String)]) -> Vec<NamespacedName> {
        let left = simulation.pods().iter().map(|pod| self.name_of(pod));
        let left: BTreeSet<_> = left.chain(simulation.ended().keys().cloned()).collect();
        let lost: BTreeSet<_> = lost.iter().map(|(name, _)| name).collect();
        // Pods that belong to a node go with it.
        let before = self.nodes.iter().filter(|(_, node)| simulation.has_node(node)).map(|(name, _)| name);
        let before: BTreeSet<_> = before.chain(&self.unplaced).collect();
        let gone = before.into_iter().filter(|name| !left.contains(*name) && !lost.contains(name));
        gone.filter(|name| !self.deleting.contains(*name)).cloned().collect()
    }

    pub fn of(simulation: &mut Simulation) -> Before {
        let violations = simulation.cluster().audit();
        let with_broken_rules: BTreeSet<_> = violations.iter().map(|v| (&v.namespace, &v.name)).collect();
        let n_with_broken_rules = with_broken_rules.len();
        let pods = || simulation.pods().iter().filter(|pod| !pod.pod.metadata.is_deleting());
        let running = simulation.pods().iter().filter_map(|pod| Some((pod, pod.node()?)));
        Before {
            deleting: simulation
                .pods()
                .iter()
                .filter(|pod| pod.pod.metadata.is_deleting())
                .map(|pod| pod.pod.metadata.namespaced_name())
                .collect(),
            names: HashMap::new(),
            nodes: running.map(|(pod, node)| (pod.pod.metadata.namespaced_name(), node.to_owned())).collect(),
            unplaced: pods()
                .filter(|pod| pod.is_unplaced())
                .map(|pod| pod.pod.metadata.namespaced_name())
                .collect(),
            not_running: simulation.not_running().into_iter().flat_map(|group| group.pods).collect(),
            broken: violations.iter().map(Violation::key).collect(),
            n_with_broken_rules,
        }
    }
}
