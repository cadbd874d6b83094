//! Pods that leave the cluster with the changes.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{NamespacedName, Pod, Taint};
use berth_control::taints::{Stay, is_eviction, stay};

use crate::simulation::{
    BlockedEviction, Contact, Eviction, NAMES_UNREACHABLE, SimulatedPod, Simulation, TOLERATES, unreachable,
};

/// Pods that leave the cluster or their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures {
    /// Pods without a controller, and why they are gone.
    pub(super) lost: Vec<(NamespacedName, String)>,
    /// Nodes that are to be removed.
    pub(super) nodes: Vec<String>,
    /// Nodes that are to lose contact, for so many seconds.
    pub(super) unreachable: Vec<(String, Option<i64>)>,
    /// Nodes that have lost it, with the same.
    pub(super) without_contact: BTreeMap<String, Option<i64>>,
    /// Taints of nodes that evict pods.
    pub(super) tainted: Vec<(String, Taint)>,
    /// Pods that leave their nodes, whatever budgets say.
    pub(super) leaving: Vec<Eviction>,
    /// Pods that are moved, and where to.
    pub(super) moves: Vec<(NamespacedName, String)>,
    /// Evictions, which budgets may refuse: they are tried again until they succeed, or the drain is given up.
    pub(super) evictions: Vec<Eviction>,
    /// Those that budgets have refused to the end.
    pub(super) blocked: Vec<BlockedEviction>,
    /// Those that budgets refuse so far.
    pub(super) refused: Vec<BlockedEviction>,
    /// Those that budgets had refused when the next change came.
    pub(super) delayed: Vec<BlockedEviction>,
}

impl Departures {
    /// A node is removed, and its drain ends.
    pub(super) fn lose(&mut self, node: String) {
        self.evictions.retain(|eviction| eviction.node != node);
        self.refused.retain(|eviction| eviction.node != node);
        self.without_contact.remove(&node);
        self.nodes.push(node);
    }

    /// Why a pod does not run although it has a node: that has lost contact, and nothing replaces the pod.
    pub(super) fn stranded(&self, pod: &SimulatedPod, simulation: &Simulation) -> Option<&'static str> {
        let node = pod.node()?;
        let seconds = *self.without_contact.get(node)?;
        let evicts = simulation.node(node)?.spec.taints.iter().any(is_eviction);
        match unreachable(&pod.pod, seconds, evicts, simulation.cluster.settings().config.feature_gates) {
            Contact::OfNode => None,
            _ if pod.pod.awaits_node_admission() => Some(NAMES_UNREACHABLE),
            Contact::Lost(why) => Some(why),
            Contact::Stays(why) => Some(why),
            Contact::Recreated => Some(TOLERATES),
        }
    }

    /// Why a pod does not stay on its node: it is placed there again whenever a taint has evicted it, as kube-scheduler does not ask for how
    /// long a toleration holds.
    pub(super) fn returns(&self, pod: &SimulatedPod, simulation: &Simulation) -> Option<String> {
        let node = pod.node().filter(|_| !pod.pod.belongs_to_node())?;
        let taints = &simulation.node(node)?.spec.taints;
        let (gates, tolerations) =
            (simulation.cluster.settings().config.feature_gates, &pod.pod.spec.tolerations);
        self.tainted.iter().filter(|(of, taint)| of == node && taints.contains(taint)).find_map(|(_, taint)| {
            let seconds = match stay(tolerations, taint, gates) {
                Stay::Forever => return None,
                Stay::Seconds(seconds) => seconds,
                Stay::No => 0,
            };
            let key = &taint.key;
            Some(format!("is evicted from {node} and placed there again and again: it tolerates the taint {key} for {seconds} s"))
        })
    }

    /// The drain of a node ends, as far as it is.
    pub(super) fn give_up(&mut self, node: &str) {
        self.evictions.retain(|eviction| eviction.node != node);
        self.blocked.extend(self.refused.extract_if(.., |eviction| eviction.node == node));
    }

    /// The next change comes, whatever is refused.
    pub(super) fn note_delayed(&mut self) {
        self.delayed.extend(self.refused.iter().cloned());
    }

    /// The evictions that were refused, and those that were refused at first and succeeded after later changes, each pod once.
    pub(super) fn all_blocked(&mut self) -> (Vec<BlockedEviction>, Vec<BlockedEviction>) {
        let key = |eviction: &BlockedEviction| {
            (eviction.namespace.clone(), eviction.name.clone(), eviction.node.clone())
        };
        let mut all = std::mem::take(&mut self.blocked);
        all.append(&mut self.refused);
        let mut delayed = std::mem::take(&mut self.delayed);
        for evictions in [&mut all, &mut delayed] {
            evictions.sort_by_key(key);
            evictions.dedup_by_key(|eviction| key(eviction));
        }
        let blocked: BTreeSet<_> = all.iter().map(key).collect();
        delayed.retain(|eviction| !blocked.contains(&key(eviction)));
        (all, delayed)
    }

    /// The selected pods on nodes are to be evicted. `why` is the message for pods without a controller.
    pub(super) fn evict(
        &mut self,
        simulation: &Simulation,
        why: &str,
        is_selected: impl Fn(&Pod, &str) -> bool,
    ) {
        self.evictions.extend(on_nodes(simulation, why, is_selected));
    }

    /// The same, whatever budgets say.
    pub(super) fn leave(
        &mut self,
        simulation: &Simulation,
        why: &str,
        is_selected: impl Fn(&Pod, &str) -> bool,
    ) {
        self.leaving.extend(on_nodes(simulation, why, is_selected));
    }
}

/// In the order of an API server's list, in which `kubectl drain` evicts.
fn on_nodes(simulation: &Simulation, why: &str, is_selected: impl Fn(&Pod, &str) -> bool) -> Vec<Eviction> {
    let on_nodes = simulation.pods().iter().filter_map(|pod| Some((&pod.pod, pod.node()?)));
    let selected = on_nodes.filter(|(pod, node)| is_selected(pod, node));
    let evictions = selected.map(|(pod, node)| Eviction {
        pod: pod.metadata.namespaced_name(),
        node: node.to_owned(),
        why: why.to_owned(),
    });
    let mut evictions: Vec<_> = evictions.collect();
    evictions.sort_by(|a, b| a.pod.cmp(&b.pod));
    evictions
}
