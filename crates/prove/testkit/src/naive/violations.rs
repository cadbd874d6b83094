//! Violations: required rules of running pods that do not hold on their nodes. Each rule is evaluated in a world without
//! the pod.

use std::collections::BTreeSet;

use berth_api::object::{Node, Pod};
use berth_input::config::{Plugin, Profile};

use super::inter_pod_affinity::{breaks_anti_affinity, lacks_company};
use super::terms::{required_affinity, required_anti_affinity, required_node_selectors};
use super::{
    Options, Question, World, node_affinity, node_ports, resources_fit, taint_toleration, topology_spread,
};

/// A required rule of a running pod that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Broken {
    pub namespace: String,
    pub name: String,
    pub plugin: &'static str,
    /// Path of the rule, for rules between pods and those required during execution; empty for others.
    pub term: String,
    /// Whether it is required during execution.
    pub executing: bool,
}

/// The violations of rules that are required during execution.
pub fn broken_during_execution(world: &World, options: &Options) -> BTreeSet<Broken> {
    let mut all = broken(world, &Profile::default(), options);
    all.retain(|b| b.executing);
    all
}

/// All violations of required rules. Pods that are being deleted and pods on nodes that do not exist are ignored, and so
/// are rules of plugins that the profile disables, except those required during execution.
pub fn broken(world: &World, profile: &Profile, options: &Options) -> BTreeSet<Broken> {
    let mut all = BTreeSet::new();
    let mut without = world.clone();
    for (i, pod) in world.pods.iter().enumerate() {
        let node = world.nodes.iter().find(|n| n.metadata.name == pod.spec.node_name);
        let Some(node) = node.filter(|_| pod.metadata.deletion_timestamp.is_none()) else { continue };
        let mut unplaced = without.pods.remove(i);
        unplaced.spec.node_name.clear();
        judge(
            Question { world: &without, cycle: &without, pod: &unplaced, profile, options },
            node,
            pod,
            &mut all,
        );
        without.pods.insert(i, pod.clone());
    }
    all
}

fn judge(q: Question, node: &Node, pod: &Pod, all: &mut BTreeSet<Broken>) {
    let mut add = |plugin: Plugin, term: String, executing| {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        all.insert(Broken { namespace, name, plugin: plugin.name(), term, executing });
    };
    let enabled = |plugin| q.profile.filter.contains(&plugin);

    for selector in required_node_selectors(q.pod, q.options) {
        let executing = selector.executing;
        if executing && !node_affinity::node_matches(selector.dialect, &selector.selector, node) {
            add(Plugin::NodeAffinity, selector.path, true);
        }
    }
    if enabled(Plugin::NodeAffinity) && node_affinity::breaks_rules_of_scheduling(q, node) {
        add(Plugin::NodeAffinity, String::new(), false);
    }
    // Taints of other effects only keep new pods away.
    let mut executing = node.clone();
    executing.spec.taints.retain(|taint| taint.effect == "NoExecute");
    for (plugin, verdict) in [
        (Plugin::TaintToleration, taint_toleration::filter(q, &executing)),
        (Plugin::NodePorts, node_ports::filter(q, node)),
        (Plugin::NodeResourcesFit, resources_fit::filter(q, node)),
        (Plugin::PodTopologySpread, topology_spread::filter(q, node)),
    ] {
        if enabled(plugin) && verdict.is_err() {
            add(plugin, String::new(), false);
        }
    }
    let is_checked = |executing| executing || enabled(Plugin::InterPodAffinity);
    for term in required_affinity(q.pod, q.options) {
        if is_checked(term.executing) && lacks_company(q, node, &term) {
            add(Plugin::InterPodAffinity, term.path.clone(), term.executing);
        }
    }
    for term in required_anti_affinity(q.pod, q.options) {
        if is_checked(term.executing) && breaks_anti_affinity(q, node, &term) {
            add(Plugin::InterPodAffinity, term.path.clone(), term.executing);
        }
    }
}
