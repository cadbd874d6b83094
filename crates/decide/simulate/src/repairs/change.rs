//! A repair, and the changes that it consists of.

use berth_engine::TopologyPair;
use serde::Serialize;
use serde_json::Value;

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

impl Repair {
    /// A repair that leaves the pod as it is.
    pub(super) fn new(changes: Vec<Change>, node: String, commands: Vec<String>) -> Repair {
        let cost = changes.iter().map(|change| change.cost(false)).sum();
        Repair { cost, changes, node, commands, patch: Vec::new() }
    }
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
    /// A required rule of the pod becomes a preferred one, or is removed if it has no preferred form.
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
        /// Labels with another value than that node has: the pod needs its own domain.
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
    pub(super) fn cost(&self, had: bool) -> u32 {
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
