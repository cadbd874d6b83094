//! Repairs: changes after which a pod fits that fits on no node.
//!
//! Each kind of change has a file. It looks for the cheapest change of its kind, applies it to the state of the
//! cluster, asks the engine, and undoes it. What is returned has been verified in this way: the pod fits, every moved
//! pod fits where it goes, and no rule required during execution is broken that holds now.
//!
//! Costs rank the kinds by what they disturb: fields of a node cost 1 each (2 where a label is lost), a replica more of
//! another workload 5, a moved pod 10, less of a requested resource 15, a relaxed rule 20, a node 100.

mod add_node;
mod commands;
mod core;
mod moves;
mod node;
mod patch;
mod requests;
mod rules;
mod scale;

use std::collections::{BTreeMap, HashSet};

use berth_api::object::{Node, Pod};
use berth_api::rules::PodRules;
use berth_engine::{
    Cluster, DisruptionBudget, Explanation, Outcome, PreparedPod, TopologyPair, Verdict, ViolationKey,
};
use serde::Serialize;
use serde_json::Value;

use crate::simulation::SimulatedPod;

pub use self::core::CoreTerm;
pub(crate) use self::core::unsatisfiable_core;

/// Changes after which a pod fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// The sum of the costs of the changes; see `docs/repairs.md`.
    pub cost: u32,
    /// The changes. All of them are needed.
    pub changes: Vec<Change>,
    /// The node on which the pod fits then.
    pub node: String,
    /// Commands that make the changes, as far as kubectl can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The changes of the pod as a JSON patch (RFC 6902).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<Value>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// The node is no longer cordoned.
    Uncordon {
        /// Name of the node.
        node: String,
    },
    /// The node loses a taint.
    RemoveTaint {
        /// Name of the node.
        node: String,
        /// `key=value:Effect`, or `key:Effect`.
        taint: String,
    },
    /// The node gets a label, or another value of it.
    SetLabel {
        /// Name of the node.
        node: String,
        /// Key of the label.
        key: String,
        /// The new value.
        value: String,
    },
    /// The node loses a label.
    RemoveLabel {
        /// Name of the node.
        node: String,
        /// Key of the label.
        key: String,
    },
    /// A workload gets one more pod.
    Scale {
        /// The namespace.
        namespace: String,
        /// Such as `Deployment web`.
        workload: String,
        /// The number of its pods then.
        replicas: usize,
    },
    /// A pod moves: it is evicted, and what takes its place fits on the other node.
    Move {
        /// Namespace of the pod.
        namespace: String,
        /// Its name.
        name: String,
        /// The node it runs on.
        from: String,
        /// A node where it fits then.
        to: String,
    },
    /// A container requests less of a resource.
    RequestLess {
        /// Name of the container.
        container: String,
        /// Name of the resource.
        resource: String,
        /// The request now.
        from: String,
        /// The largest request with which the pod fits.
        to: String,
    },
    /// A required rule of the pod becomes a preferred one, or goes if it has no preferred form.
    Relax {
        /// Its path in the pod.
        term: String,
    },
    /// The pod tolerates a taint.
    Tolerate {
        /// `key=value:Effect`, or `key:Effect`.
        taint: String,
    },
    /// The pod no longer requests a host port.
    FreeHostPort {
        /// The port.
        port: i32,
    },
    /// The scheduling gates are removed.
    RemoveGates {
        /// Their names.
        gates: Vec<String>,
    },
    /// A node more.
    AddNode {
        /// The node that it resembles in its allocatable resources, labels and taints.
        like: String,
        /// Labels with another value than that node has: the pod needs a domain of its own.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        in_new_domain: Vec<TopologyPair>,
    },
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Uncordon { node } => write!(f, "uncordon {node}"),
            Change::RemoveTaint { node, taint } => write!(f, "remove the taint {taint} of {node}"),
            Change::SetLabel { node, key, value } => write!(f, "set the label {key}={value} on {node}"),
            Change::RemoveLabel { node, key } => write!(f, "remove the label {key} of {node}"),
            Change::Scale { namespace, workload, replicas } => {
                write!(f, "scale {workload} in {namespace} to {replicas}")
            }
            Change::Move { namespace, name, from, to } => {
                write!(f, "move {namespace}/{name} from {from} to {to}")
            }
            Change::RequestLess { container, resource, from, to } => {
                write!(f, "request {to} {resource} instead of {from} in container {container}")
            }
            Change::Relax { term } => write!(f, "prefer instead of require {term}"),
            Change::Tolerate { taint } => write!(f, "tolerate the taint {taint}"),
            Change::FreeHostPort { port } => write!(f, "do not request the host port {port}"),
            Change::RemoveGates { gates } => write!(f, "remove the scheduling gates {}", gates.join(", ")),
            Change::AddNode { like, in_new_domain } => {
                write!(f, "add a node like {like}")?;
                let mut keys = in_new_domain.iter().map(|pair| &pair.key);
                keys.try_for_each(|key| write!(f, ", with a new value of the label {key}"))
            }
        }
    }
}

impl Change {
    /// What it disturbs. `had` tells whether the node had the label that is set.
    fn cost(&self, had: bool) -> u32 {
        match self {
            Change::SetLabel { .. } if had => 2,
            Change::RemoveLabel { .. } => 2,
            Change::Uncordon { .. } | Change::RemoveTaint { .. } | Change::SetLabel { .. } => 1,
            Change::RemoveGates { .. } => 1,
            Change::Scale { .. } => 5,
            Change::Move { .. } => 10,
            Change::RequestLess { .. } => 15,
            Change::Relax { .. } | Change::Tolerate { .. } | Change::FreeHostPort { .. } => 20,
            Change::AddNode { .. } => 100,
        }
    }
}

/// A pod that fits nowhere, in a cluster that is changed and restored.
pub(crate) struct Trial<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) nodes: &'a BTreeMap<String, Node>,
    /// All pods, running and pending.
    pub(crate) pods: &'a [SimulatedPod],
    pub(crate) budgets: &'a [DisruptionBudget],
    /// The pod.
    pub(crate) pod: &'a SimulatedPod,
    /// Only this node is changed, or gets the pod.
    pub(crate) only: Option<&'a str>,
}

/// What is known of the pod before anything is changed.
struct Problem {
    prepared: PreparedPod,
    rules: PodRules,
    /// The nodes to be considered, with every reason against them.
    rejecting: Vec<(String, Vec<Verdict>)>,
    /// Rules required during execution that are broken already.
    broken: HashSet<ViolationKey>,
}

impl Trial<'_> {
    /// The cheapest repair of each kind, the cheapest first.
    pub(crate) fn repairs(mut self, explanation: &Explanation) -> Vec<Repair> {
        if let Outcome::Gated { gates } = &explanation.outcome {
            return self.without_gates(gates).into_iter().collect();
        }
        if !matches!(explanation.outcome, Outcome::Unschedulable { .. }) {
            return Vec::new();
        }
        let prepared = self.cluster.prepare(&self.pod.pod);
        let mut rejecting = self.cluster.rejecting_nodes(&prepared);
        rejecting.retain(|(node, _)| self.only.is_none_or(|only| only == node));
        let broken = self.cluster.violations().iter().map(|v| v.key()).collect();
        let problem = Problem { rules: self.cluster.rules_of(&self.pod.pod), prepared, rejecting, broken };
        let mut found = Vec::new();
        found.extend(self.change_node(&problem));
        found.extend(self.scale(&problem));
        found.extend(self.move_pods(&problem));
        found.extend(self.request_less(&problem));
        found.extend(self.relax_rules(&problem));
        found.extend(self.add_node(&problem));
        found.sort_by_key(|repair| repair.cost);
        found
    }

    fn without_gates(&mut self, gates: &[String]) -> Option<Repair> {
        let mut pod = self.pod.pod.clone();
        pod.spec.scheduling_gates.clear();
        let node = self.place_of(&pod)?;
        let change = Change::RemoveGates { gates: gates.to_vec() };
        let patch = vec![serde_json::json!({"op": "remove", "path": "/spec/schedulingGates"})];
        let commands = vec![commands::patch_pod(&pod, &patch)];
        Some(Repair { cost: change.cost(false), changes: vec![change], node, commands, patch })
    }

    /// Where a changed form of the pod is placed.
    fn place_of(&mut self, pod: &Pod) -> Option<String> {
        let prepared = self.cluster.prepare(pod);
        match self.only {
            Some(only) => self.cluster.fits_on(&prepared, only).then(|| only.to_owned()),
            None => self.cluster.decide(&prepared).node().map(str::to_owned),
        }
    }

    /// Whether, with the pod on the node, no rule required during execution is broken that held before.
    fn breaks_nothing(&mut self, problem: &Problem, node: &str) -> bool {
        self.cluster.assume(&problem.prepared, node);
        let broken = self.cluster.violations();
        self.cluster.forget(&problem.prepared);
        broken.iter().all(|violation| problem.broken.contains(&violation.key()))
    }
}
