//! The state before the changes.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::NamespacedName;
use berth_engine::{Violation, ViolationKey};

use crate::simulation::Simulation;

/// The state before the changes.
pub(super) struct Before {
    /// The nodes of the pods.
    pub nodes: BTreeMap<NamespacedName, String>,
    /// The rules that did not hold.
    pub broken: BTreeSet<ViolationKey>,
}

impl Before {
    pub fn of(simulation: &mut Simulation) -> Before {
        let running = simulation.pods().iter().filter_map(|pod| Some((pod, pod.node()?)));
        let nodes =
            running.map(|(pod, node)| (pod.pod.metadata.namespaced_name(), node.to_owned())).collect();
        let broken = simulation.cluster().audit().iter().map(Violation::key).collect();
        Before { nodes, broken }
    }
}
