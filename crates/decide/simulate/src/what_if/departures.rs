//! Pods that leave the cluster with the changes.

use std::collections::HashMap;

use berth_api::object::{NamespacedName, Node, Pod};
use berth_input::inventory::Inventory;

use crate::simulation::workloads::Workloads;
use crate::simulation::{Eviction, Fate};

/// Pods that leave the cluster or their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures {
    /// Pods without a controller, and why they are gone.
    pub(super) lost: Vec<(NamespacedName, String)>,
    /// Pods that a controller deleted because it has too many.
    pub(super) scaled_down: Vec<NamespacedName>,
    /// Evictions, which budgets may refuse: they are made when all objects have changed.
    pub(super) evictions: Vec<Eviction>,
}

impl Departures {
    /// The selected pods on a node are to be evicted. `why` is the message for pods without a controller.
    pub(super) fn evict(
        &mut self,
        inventory: &Inventory,
        node: &str,
        why: &str,
        is_selected: impl Fn(&Pod) -> bool,
    ) {
        let pods = inventory.pods.iter().map(|entry| &entry.object);
        let runs = |pod: &&Pod| {
            pod.spec.node_name == node
                && !pod.awaits_node_admission()
                && !pod.is_terminal()
                && is_selected(pod)
        };
        self.evictions.extend(pods.filter(runs).map(|pod| Eviction {
            pod: pod.metadata.namespaced_name(),
            node: node.to_owned(),
            why: why.to_owned(),
        }));
    }

    /// The selected pods leave these nodes. `why` is the message for pods without a controller.
    pub(super) fn leave(
        &mut self,
        inventory: &mut Inventory,
        nodes: &[Node],
        why: &str,
        is_selected: impl Fn(&Pod) -> bool,
    ) {
        let nodes: HashMap<&str, &Node> = nodes.iter().map(|n| (n.metadata.name.as_str(), n)).collect();
        let workloads = Workloads::new(inventory);
        inventory.pods.retain_mut(|entry| {
            let pod = &mut entry.object;
            let Some(node) = nodes.get(pod.spec.node_name.as_str()) else { return true };
            // Pods that run have been admitted; the others arrive after the changes.
            if pod.awaits_node_admission() || !is_selected(pod) {
                return true;
            }
            match Fate::of(pod) {
                Fate::Gone => return false,
                Fate::Lost => {
                    if !pod.is_terminal() {
                        self.lost.push((pod.metadata.namespaced_name(), why.to_owned()));
                    }
                    return false;
                }
                Fate::Recreated if pod.is_terminal() => return false,
                Fate::Recreated => {
                    workloads.recreate(pod, Some(node));
                }
            }
            true
        });
    }
}
