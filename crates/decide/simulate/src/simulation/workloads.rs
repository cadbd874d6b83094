//! The workload of each pod.

use std::collections::{BTreeSet, HashMap, HashSet};

use berth_api::object::{Node, ObjectMeta, OwnerReference, Pod};
use berth_api::read::Kind;
use berth_control::cron_job;
use berth_input::inventory::{Inventory, Workload};

use super::departure::recreate;
use super::rollout::UpdateRule;

/// Namespace, and kind and name such as `Deployment web`.
type Key = (String, String);

#[derive(Clone, Default, PartialEq)]
pub struct Workloads {
    /// Workloads that no other workload owns, in input order.
    pub(super) top_level: Vec<Key>,
    /// The same, to look them up.
    known: HashSet<Key>,
    /// The owner of each other workload: the Deployment of a ReplicaSet.
    owner_of: HashMap<Key, String>,
    /// The nodes that pod templates name, by top-level workload.
    template_nodes: HashMap<Key, String>,
    /// How those that roll out a new template do it.
    update_rules: HashMap<Key, UpdateRule>,
}

impl Workloads {
    /// Finds the owners among the workloads of an input.
    pub fn new(inventory: &Inventory) -> Workloads {
        let mut workloads = Workloads::default();
        for workload in inventory.workloads.iter().map(|entry| &entry.object) {
            let metadata = workload.metadata();
            let key = (metadata.namespace.clone(), name(workload));
            match owning_workload(metadata) {
                Some(owner) => {
                    workloads.owner_of.insert(key, format!("{} {}", owner.kind, owner.name));
                }
                None => {
                    if let Some(node) = workload.template_node_name() {
                        workloads.template_nodes.insert(key.clone(), node.to_owned());
                    }
                    if matches!(workload.kind(), Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet) {
                        workloads.update_rules.insert(key.clone(), UpdateRule::of(workload));
                    }
                    workloads.known.insert(key.clone());
                    workloads.top_level.push(key);
                }
            }
        }
        workloads
    }

    /// The workloads of an input that no other workload owns, also those of which it has only pods.
    pub(crate) fn of_all(inventory: &Inventory) -> BTreeSet<Key> {
        let workloads = Workloads::new(inventory);
        let pods = inventory.pods.iter().map(|entry| &entry.object);
        let of_pods = pods.filter_map(|pod| Some((pod.metadata.namespace.clone(), workloads.owner(pod)?)));
        let mut all: BTreeSet<Key> = of_pods.collect();
        all.extend(workloads.top_level);
        all
    }

    /// Whether no other workload owns this one: a Deployment its ReplicaSet, or a CronJob its Job.
    pub fn is_top_level(&self, workload: &Workload) -> bool {
        self.known.contains(&(workload.metadata().namespace.clone(), name(workload)))
    }

    /// How the workload replaces its pods, if it rolls out new templates.
    pub(crate) fn update_rule(&self, namespace: &str, workload: &str) -> Option<&UpdateRule> {
        self.update_rules.get(&(namespace.to_owned(), workload.to_owned()))
    }

    /// The node that the pods of a top-level workload name, whatever creates them.
    pub(crate) fn template_node(&self, namespace: &str, workload: Option<&str>) -> Option<&str> {
        // Few workloads name a node.
        if self.template_nodes.is_empty() {
            return None;
        }
        let key = (namespace.to_owned(), workload?.to_owned());
        self.template_nodes.get(&key).map(String::as_str)
    }

    /// Makes a running pod the one that its controller creates in its place: pending, or on its way to the node that the template
    /// names.
    pub(crate) fn recreate(&self, pod: &mut Pod, node: Option<&Node>) {
        recreate(pod, node);
        let named = self.template_node(&pod.metadata.namespace, self.owner(pod).as_deref());
        pod.spec.node_name = named.unwrap_or_default().to_owned();
    }

    /// The top-level workload of a pod. If the input lacks the ReplicaSet or Job in between, its name gives the
    /// Deployment, or the CronJob if that is in the input.
    pub fn owner(&self, pod: &Pod) -> Option<String> {
        // No kind has a space: the name begins after it.
        let owner = pod.metadata.controller().filter(|owner| !owner.kind.contains(' '))?;
        let key = (pod.metadata.namespace.clone(), format!("{} {}", owner.kind, owner.name));
        if let Some(owner) = self.owner_of.get(&key) {
            return Some(owner.clone());
        }
        if self.known.contains(&key) {
            return Some(key.1);
        }
        let top_level = match owner.kind.as_str() {
            "ReplicaSet" => pod.deployment().map(|deployment| format!("Deployment {deployment}")),
            "Job" => cron_job::of_job(&owner.name).and_then(|cron_job| {
                let cron_job = (key.0.clone(), format!("CronJob {cron_job}"));
                self.known.contains(&cron_job).then_some(cron_job.1)
            }),
            _ => None,
        };
        top_level.or(Some(key.1))
    }
}

/// The Deployment of a ReplicaSet, or the CronJob of a Job.
pub(crate) fn owning_workload(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.controller().filter(|owner| matches!(owner.kind.as_str(), "Deployment" | "CronJob"))
}

/// `Deployment web`.
pub(crate) fn name(workload: &Workload) -> String {
    format!("{} {}", workload.kind().name(), workload.metadata().name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_with_a_space_was_taken_for_another_kind_and_a_part_of_the_name() {
        let owner = |kind: &str, name: &str| {
            let owners = serde_json::json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
            let pod =
                serde_json::json!({"metadata": {"name": "p", "namespace": "n", "ownerReferences": owners}});
            Workloads::default().owner(&serde_json::from_value::<Pod>(pod).unwrap())
        };
        assert_eq!(owner("Deployment web", "x"), None);
        assert_eq!(owner("Deployment", "web x").as_deref(), Some("Deployment web x"));
    }
}
