//! Why a change cannot be made.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_control::expand::ExpandError;
use berth_input::inventory::Inventory;

use super::MAX_STEPS;
use crate::simulation::SimulationError;
use crate::simulation::workloads::Workloads;

/// Why a change cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("the plan moves pods again and again: more than {MAX_STEPS} steps")]
    TooManySteps,
    #[error("{kind} {name} is not in the input")]
    NotFound {
        kind: &'static str,
        /// Its name, with the namespace if it has one.
        name: String,
        /// The names of the objects of this kind.
        known: Vec<String>,
    },
    #[error("no node has the label {key}={value}")]
    NoDomain {
        key: String,
        value: String,
        /// The values on the nodes.
        known: Vec<String>,
    },
    #[error("no node has the labels {labels}")]
    NoNodes { labels: String },
    #[error("Node {node} has no taint {taint}")]
    NoTaint {
        node: String,
        /// Key, or key and effect, of the taint.
        taint: String,
        /// The taints of the node.
        known: Vec<String>,
    },
    #[error(
        "{object} has no number of replicas: only Deployments, ReplicaSets, StatefulSets and ReplicationControllers have one"
    )]
    NoReplicas { object: String },
    #[error("{object} is controlled by {owner}: scale that")]
    Controlled {
        object: String,
        /// Kind and name of the controller.
        owner: String,
    },
    #[error("Pod {0} has no node: it cannot be evicted")]
    NotRunning(NamespacedName),
    #[error("Pod {pod} is on {node} and not on {from}, from where it moves: make the plan for this input")]
    NotFrom {
        pod: NamespacedName,
        node: String,
        /// The node at which the move begins.
        from: String,
    },
    #[error("Pod {0} cannot be moved: no controller creates it again on another node")]
    NotMovable(NamespacedName),
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// The cluster cannot be built with the changes before this one.
    #[error(transparent)]
    Before(Box<SimulationError>),
}

impl From<SimulationError> for ChangeError {
    fn from(error: SimulationError) -> ChangeError {
        ChangeError::Before(Box::new(error))
    }
}

impl ChangeError {
    /// The workload is not in the input.
    pub(crate) fn no_workload(inventory: &Inventory, kind: Kind, name: &NamespacedName) -> ChangeError {
        let of_kind = |(namespace, workload): (String, String)| {
            let (of, name) = workload.split_once(' ')?;
            (of == kind.name()).then(|| format!("{namespace}/{name}"))
        };
        let known = Workloads::of_all(inventory).into_iter().filter_map(of_kind).collect();
        ChangeError::NotFound { kind: kind.name(), name: name.to_string(), known }
    }
}
