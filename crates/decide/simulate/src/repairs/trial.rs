//! A pod in a cluster that is changed and restored.

use std::collections::{BTreeMap, HashSet};

use berth_api::object::{Node, PodDisruptionBudget, RuntimeClass};
use berth_api::syntax::shell::Command;
use berth_api::work::WorkBudget;
use berth_control::budget::Scales;
use berth_engine::{Cluster, PreparedPod, Verdict, ViolationKey};
use berth_input::policy::PlacementPolicy;
use berth_rules::{KnownNamespaces, PodRules};

use jiff::Timestamp;

use super::commands;
use crate::simulation::workloads::Workloads;
use crate::simulation::{Devices, Pods, SimulatedPod, UpdateRule};

/// An unschedulable pod, in a cluster that is changed and restored.
pub(super) struct Trial<'a> {
    pub(super) cluster: &'a mut Cluster,
    pub(super) nodes: &'a BTreeMap<String, Node>,
    /// All pods, running and pending.
    pub(super) pods: &'a Pods,
    pub(super) namespaces: &'a KnownNamespaces,
    pub(super) budgets: &'a [PodDisruptionBudget],
    pub(super) scales: &'a Scales,
    pub(super) policies: &'a [PlacementPolicy],
    pub(super) runtime_classes: &'a [RuntimeClass],
    pub(super) devices: &'a mut Devices,
    pub(super) workloads: &'a Workloads,
    pub(super) pod: &'a SimulatedPod,
    pub(super) now: Timestamp,
    /// Only this node is changed, or gets the pod.
    pub(super) only: Option<&'a str>,
    /// Loops over the rules of the pod, its verdicts and the nodes count in it.
    pub(super) budget: &'a WorkBudget,
}

/// What is known of the pod before anything is changed.
pub(super) struct Problem {
    pub(super) prepared: PreparedPod,
    pub(super) rules: PodRules,
    /// The nodes to be considered, with every reason against them.
    pub(super) rejecting: Vec<(String, Vec<Verdict>)>,
    /// Rules required during execution that are broken already.
    pub(super) broken: HashSet<ViolationKey>,
}

impl<'a> Trial<'a> {
    /// What keeps the pod off the nodes; none if that is too much to find out.
    pub(super) fn problem(&mut self) -> Option<Problem> {
        let broken = self.cluster.violations().iter().map(|v| v.key()).collect();
        self.problem_beside(&broken)
    }

    /// The same with rules that are broken already.
    pub(super) fn problem_beside(&mut self, broken: &HashSet<ViolationKey>) -> Option<Problem> {
        let prepared = self.cluster.prepare(&self.pod.pod);
        let rejecting = match self.only {
            None => self.cluster.rejecting_nodes(&prepared, self.budget).ok()?,
            Some(only) => {
                self.budget.spend(1).ok()?;
                let verdicts = self.cluster.verdicts_on(&prepared, only);
                if verdicts.is_empty() { Vec::new() } else { vec![(only.to_owned(), verdicts)] }
            }
        };
        let rules = self.cluster.rules_of(&self.pod.pod);
        Some(Problem { rules, prepared, rejecting, broken: broken.clone() })
    }

    /// Another pod, or other nodes, in the same cluster.
    pub(super) fn with<'b>(
        &'b mut self,
        pod: &'b SimulatedPod,
        nodes: &'b BTreeMap<String, Node>,
        only: Option<&'b str>,
    ) -> Trial<'b>
    where
        'a: 'b,
    {
        Trial { cluster: self.cluster, devices: self.devices, pod, nodes, only, ..*self }
    }

    /// The running pods of the pod's workload: a change of its template restarts them.
    pub(super) fn n_of_workload(&self) -> usize {
        let is_of = |other: &&SimulatedPod| {
            other.was_running
                && other.node().is_some()
                && other.workload.is_some()
                && (&other.workload, &other.pod.metadata.namespace)
                    == (&self.pod.workload, &self.pod.pod.metadata.namespace)
        };
        self.pods.iter().filter(is_of).count()
    }

    /// The command after which the pending pod has a changed template, where the controller of its workload does not replace it.
    pub(super) fn deletion(&self) -> Option<Command> {
        let (pod, workload) = (&self.pod.pod, self.pod.workload.as_deref()?);
        let rule = self.workloads.update_rule(&pod.metadata.namespace, workload);
        let is_replaced = match workload.split(' ').next()? {
            "StatefulSet" => rule.is_some_and(UpdateRule::replaces_unready),
            "DaemonSet" => rule.is_none_or(UpdateRule::replaces_unready),
            kind => !["ReplicaSet", "ReplicationController"].contains(&kind),
        };
        (!is_replaced).then(|| commands::delete_pod(pod))
    }

    /// Where the pod, or a changed form of it, is placed.
    pub(super) fn place_of(&mut self, pod: &PreparedPod) -> Option<String> {
        match self.only {
            Some(only) => self.cluster.fits_on(pod, only).then(|| only.to_owned()),
            None => self.cluster.decide(pod).node().map(str::to_owned),
        }
    }

    /// Whether, with the pod on the node, no rule required during execution is broken that held before.
    pub(super) fn breaks_nothing(&mut self, problem: &Problem, node: &str) -> bool {
        self.cluster.assume(&problem.prepared, node);
        let broken = self.cluster.violations();
        self.cluster.forget(&problem.prepared);
        broken.iter().all(|violation| problem.broken.contains(&violation.key()))
    }
}
