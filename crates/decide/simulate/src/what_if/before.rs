//! The state before the changes.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::NamespacedName;
use berth_engine::{Violation, ViolationKey};

use crate::simulation::{SimulatedPod, Simulation};

/// The state before the changes.
pub(super) struct Before {
    /// The nodes of the pods.
    pub nodes: BTreeMap<NamespacedName, String>,
    /// The pods without a node.
    pub unplaced: BTreeSet<NamespacedName>,
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
        let replaced = pod.replaces.as_ref().filter(existed);
        replaced.cloned().unwrap_or_else(|| pod.pod.metadata.namespaced_name())
    }

    pub fn of(simulation: &mut Simulation) -> Before {
        let violations = simulation.cluster().audit();
        let with_broken_rules: BTreeSet<_> = violations.iter().map(|v| (&v.namespace, &v.name)).collect();
        let n_with_broken_rules = with_broken_rules.len();
        let pods = || simulation.pods().iter().filter(|pod| !pod.pod.metadata.is_deleting());
        let running = simulation.pods().iter().filter_map(|pod| Some((pod, pod.node()?)));
        Before {
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
