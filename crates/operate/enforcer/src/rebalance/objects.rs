//! The objects that plans are made of. The engine's state has their rules only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use berth_api::object::{Namespace, NamespacedName, Node, Pod, PodDisruptionBudget};
use berth_engine::Cluster;
use berth_input::config::DEFAULT_SCHEDULER_NAME;
use berth_mirror::Change;
use berth_rebalance::{Input, RunningPod};
use berth_rules::{KnownNamespaces, Selector};
use jiff::Timestamp;

use super::groups::Groups;
use crate::pods::Workload;

/// All nodes, and the pods that have not terminated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<NamespacedName, Arc<Pod>>,
    namespaces: BTreeMap<String, Namespace>,
    budgets: BTreeMap<NamespacedName, PodDisruptionBudget>,
    groups: Groups,
}

/// Which pods stay, and which have been moved by the plan already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exceptions {
    pub(crate) stays: HashMap<NamespacedName, String>,
    pub(crate) settled: HashSet<NamespacedName>,
}

impl Exceptions {
    /// Adds pods that stay for a reason.
    pub(crate) fn stay(&mut self, objects: &Objects, reason: impl Fn(&Pod) -> Option<String>) {
        let staying = objects.pods.iter().filter_map(|(name, pod)| Some((name.clone(), reason(pod)?)));
        self.stays.extend(staying);
    }
}

pub(crate) fn key(pod: &Pod) -> NamespacedName {
    NamespacedName::new(&pod.metadata.namespace, &pod.metadata.name)
}

impl Objects {
    /// Applies a change of the mirror. Returns whether a node changed in what plans depend on.
    pub(crate) fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::NodeApplied(node) => {
                let before = self.nodes.insert(node.metadata.name.clone(), Node::clone(node));
                return before.is_none_or(|before| {
                    (&before.metadata.labels, &before.spec, &before.status.allocatable)
                        != (&node.metadata.labels, &node.spec, &node.status.allocatable)
                });
            }
            Change::NodeDeleted(name) => return self.nodes.remove(name).is_some(),
            Change::PodApplied { pod, .. } => _ = self.pods.insert(key(pod), pod.clone()),
            Change::PodDeleted { pod, uid }
                if self.pods.get(pod).is_some_and(|known| known.metadata.uid == *uid) =>
            {
                self.pods.remove(pod);
            }
            Change::NamespaceApplied(namespace) => {
                self.namespaces.insert(namespace.metadata.name.clone(), Namespace::clone(namespace));
            }
            Change::NamespaceDeleted(name) => _ = self.namespaces.remove(name),
            Change::BudgetApplied(budget) => {
                let name = NamespacedName::new(&budget.metadata.namespace, &budget.metadata.name);
                self.budgets.insert(name, PodDisruptionBudget::clone(budget));
            }
            Change::BudgetDeleted(name) => _ = self.budgets.remove(name),
            other => self.groups.apply(other),
        }
        false
    }

    pub(crate) fn n_pods(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(crate) fn pod(&self, name: &NamespacedName) -> Option<&Arc<Pod>> {
        self.pods.get(name)
    }

    pub(crate) fn pods_of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.values().filter(move |pod| pod.metadata.is_controlled_by(owner))
    }

    /// Whether all pods of a workload run and are ready, of which one was created since a time.
    pub(crate) fn have_settled(&self, workload: &str, since: Timestamp) -> bool {
        let pods = || self.pods.values().filter(|pod| *Workload::of(pod).name == *workload);
        // API servers cut creation timestamps to seconds.
        let since = since.as_second();
        let is_new =
            |pod: &Arc<Pod>| pod.metadata.creation_timestamp.is_some_and(|at| at.as_second() >= since);
        pods().all(|pod| is_ready(pod) && !pod.metadata.is_deleting()) && pods().any(is_new)
    }

    /// A budget whose status is older than its pods: the disruption controller has still to count a pod that is ready, or to note that one
    /// that was evicted is gone.
    pub(crate) fn uncounted_budget(&self) -> Option<&NamespacedName> {
        let mut budgets = self.budgets.iter().filter(|(name, budget)| {
            let Some(current) = budget.status.current_healthy else { return false };
            let covers = Selector::parse(budget.spec.selector.as_ref()).unwrap_or(Selector::Nothing);
            let in_namespace = self.pods.values().filter(|pod| pod.metadata.namespace == name.namespace());
            let is_healthy = |pod: &&Arc<Pod>| {
                let labels = &pod.metadata.labels;
                is_ready(pod)
                    && !pod.metadata.is_deleting()
                    && covers.matches(|key| labels.get(key).map(String::as_str))
            };
            let n_healthy = i32::try_from(in_namespace.filter(is_healthy).count()).unwrap_or(i32::MAX);
            let is_gone = |pod: &String| !self.pods.contains_key(&NamespacedName::new(name.namespace(), pod));
            current < n_healthy || budget.status.disrupted_pods.keys().any(is_gone)
        });
        budgets.next().map(|(name, _)| name)
    }

    pub(crate) fn ask<T>(
        &self,
        cluster: Cluster,
        exceptions: &Exceptions,
        ask: impl FnOnce(Input<'_>) -> T,
    ) -> T {
        let Exceptions { stays, settled } = exceptions;
        let (running, pending): (Vec<_>, Vec<_>) =
            self.pods.iter().partition(|(_, pod)| !pod.spec.node_name.is_empty());
        let waiting = pending.into_iter().map(|(_, pod)| &**pod).filter(|pod| waits(pod)).collect();
        let pending = self.groups.pending(waiting, running.iter().map(|(_, pod)| &***pod), &cluster);
        let running = running.into_iter().map(|(key, pod)| RunningPod {
            pod,
            node: &pod.spec.node_name,
            stays: stays.get(key).map(String::as_str),
            is_settled: settled.contains(key),
        });
        ask(Input {
            cluster,
            nodes: &self.nodes,
            namespaces: &KnownNamespaces::new(self.namespaces.values()),
            running: running.collect(),
            pending,
            budgets: self.budgets.values().collect(),
            // The disruption controller has counted them.
            scales: &berth_rebalance::Scales::default(),
        })
    }
}

/// Whether the scheduler of a pod is one of these.
pub(super) fn is_of(pod: &Pod, schedulers: &[String]) -> bool {
    let name = match pod.spec.scheduler_name.as_str() {
        "" => DEFAULT_SCHEDULER_NAME,
        name => name,
    };
    schedulers.iter().any(|scheduler| scheduler == name)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    pod.status.phase == "Running" && !pod.is_unready()
}

/// Whether a pod without a node waits for one by itself.
fn waits(pod: &Pod) -> bool {
    pod.spec.scheduling_gates.is_empty() && !pod.metadata.is_deleting()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_plan_was_made_again_because_a_budget_had_not_counted_the_moved_pod() {
        let uncounted = |status: Value| {
            let mut objects = Objects::default();
            for name in ["web-1", "web-2"] {
                let pod = json!({"metadata": {"name": name, "namespace": "a", "labels": {"app": "web"}}, "status": {"phase": "Running"}});
                let pod: Pod = serde_json::from_value(pod).expect("a pod");
                objects.pods.insert(key(&pod), Arc::new(pod));
            }
            let budget = json!({"metadata": {"name": "web", "namespace": "a"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": status});
            let budget = serde_json::from_value(budget).expect("a budget");
            objects.apply(&Change::BudgetApplied(Box::new(budget)));
            objects.uncounted_budget().is_some()
        };
        assert!(uncounted(json!({"currentHealthy": 1, "disruptionsAllowed": 0})));
        assert!(uncounted(
            json!({"currentHealthy": 2, "disruptionsAllowed": 0, "disruptedPods": {"web-0": "2026-01-01T00:00:00Z"}})
        ));
        assert!(!uncounted(json!({"currentHealthy": 2, "disruptionsAllowed": 0})), "it allows nothing");
        assert!(!uncounted(json!({})), "no controller counts");
    }
}
