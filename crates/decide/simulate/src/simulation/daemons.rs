//! DaemonSets follow the changes of nodes.

use std::collections::HashSet;

use berth_api::object::{NamespacedName, Node, Pod};
use berth_api::read::SourceLocation;
use berth_control::expand::{expand, target_node};
use berth_input::inventory::{Entry, Inventory, WorkloadSpec};

use super::admission::Classes;
use super::pod::SimulatedPod;
use super::state::Simulation;
use super::steps::Eviction;
use super::unadmitted::UnadmittedState;

impl Simulation {
    /// Nodes have changed: the DaemonSets of the input create their pods there. Returns the pods that they delete, or create no more.
    pub(crate) fn follow_daemons(&mut self, inventory: &Inventory, nodes: &[Node]) -> Vec<Eviction> {
        let pods = &self.pods;
        self.rollouts.iter_mut().for_each(|rollout| rollout.follow(nodes, pods));
        let sets = inventory.workloads.iter().filter(|entry| {
            let name = entry.object.metadata().namespaced_name();
            let rolls_out = |kind| self.rollouts.iter().any(|of| (of.kind, &of.name) == (kind, &name));
            matches!(entry.object.spec, WorkloadSpec::DaemonSet(_)) && !rolls_out(entry.object.kind())
        });
        let mut workloads: Vec<_> = sets.cloned().collect();
        if workloads.is_empty() {
            return Vec::new();
        }
        workloads.iter_mut().for_each(|entry| entry.object.replaced = None);
        fn entry<T>(object: T) -> Entry<T> {
            Entry { object, raw: None, source: SourceLocation::file("changed"), order: 0 }
        }
        let names: HashSet<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        let on_node = self.pods.iter().filter(|pod| {
            pod.pod.belongs_to_node() && target_node(&pod.pod).is_some_and(|node| names.contains(node))
        });
        let is_missing = |pod: &&SimulatedPod| pod.is_unadmitted(UnadmittedState::NotCreated);
        let (missing, present): (Vec<_>, Vec<_>) = on_node.partition(is_missing);
        let mut of_node = Inventory::default();
        of_node.pods = present.into_iter().map(|pod| entry(pod.pod.clone())).collect();
        let owner = |pod: &Pod| {
            let node = target_node(pod).unwrap_or_default().to_owned();
            pod.metadata.controller().map(|owner| (owner.name.clone(), node))
        };
        let mut missing: Vec<_> =
            missing.into_iter().map(|pod| (owner(&pod.pod), pod.pod.metadata.namespaced_name())).collect();
        missing.retain(|(of, name)| {
            let mut sets = workloads.iter().map(|entry| entry.object.metadata());
            sets.any(|set| {
                set.namespace == name.namespace() && of.as_ref().is_some_and(|of| of.0 == set.name)
            })
        });
        (of_node.nodes, of_node.workloads) = (nodes.iter().cloned().map(entry).collect(), workloads);
        // The objects were expanded when the simulation was built.
        let Ok(expansion) = expand(&of_node) else { return Vec::new() };
        let (classes, policies) = (Classes::of(inventory), self.policies_of(inventory));
        for mut pod in expansion.pods.into_iter().map(|created| created.pod) {
            let is_same = |(of, name): &(Option<(String, String)>, NamespacedName)| {
                *of == owner(&pod) && name.namespace() == pod.metadata.namespace
            };
            if let Some(at) = missing.iter().position(is_same) {
                missing.remove(at);
                continue;
            }
            let (node, metadata) = (target_node(&pod).unwrap_or_default().to_owned(), &mut pod.metadata);
            if self.position(&metadata.namespace, &metadata.name).is_some() {
                metadata.name = format!("{}-{node}", metadata.name);
            }
            if self.admits_template(&mut pod, &classes, &policies) {
                self.make_claims(&mut pod);
                self.create_daemon(pod);
            }
        }
        let leaving = expansion.deleted.into_iter().chain(missing.into_iter().map(|(_, name)| name));
        let leaving = leaving.map(|pod| {
            let object = self.pod(pod.namespace(), pod.name()).and_then(|pod| target_node(&pod.pod));
            Eviction { node: object.unwrap_or_default().to_owned(), pod, why: String::new() }
        });
        leaving.collect()
    }
}
