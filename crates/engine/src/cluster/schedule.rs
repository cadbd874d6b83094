//! Schedule: where a pod goes, why not elsewhere, and what could change that.

use berth_api::object::Pod;

use super::Cluster;
use crate::blast_radius::{BlastRadius, blast_radius};
use crate::context::{Context, CycleState, NodeRef};
use crate::decision::{self, Evaluation, Outcome};
use crate::equivalence::Equivalence;
use crate::explain::{Explanation, explain};
use crate::node_admission::{NodeRejection, node_admission};
use crate::plugins;
use crate::preemption::{DisruptionBudget, Preemption, preempt};
use crate::state::prepared::PreparedPod;
use crate::verdict::Verdict;
use crate::wake::{ClusterChange, WakeConditions};

impl Cluster {
    /// Prepares a pod: its rules are parsed and compiled, and those seen for the first time are registered.
    ///
    /// The result can be decided and placed any number of times, whatever happens to the cluster
    /// meanwhile.
    pub fn prepare(&mut self, pod: &Pod) -> PreparedPod {
        let prepared = self.state.prepare(pod);
        self.updated();
        prepared
    }

    /// Decides where a pod goes. The cluster is not changed except for rules it learns.
    pub fn decide(&mut self, pod: &Pod) -> Outcome {
        let pod = self.prepare(pod);
        self.decide_prepared(&pod)
    }

    /// Decides, and if a node is found assigns the pod to it.
    pub fn place(&mut self, pod: &Pod) -> Outcome {
        let pod = self.prepare(pod);
        self.place_prepared(&pod)
    }

    /// [`Cluster::decide`] for a pod prepared for this cluster.
    pub fn decide_prepared(&self, pod: &PreparedPod) -> Outcome {
        decision::decide(&self.state, &mut self.views(), &self.nominations, pod)
    }

    /// [`Cluster::place`] for a pod prepared for this cluster.
    pub fn place_prepared(&mut self, pod: &PreparedPod) -> Outcome {
        let outcome = self.decide_prepared(pod);
        if let Outcome::Placed { node, .. } = &outcome {
            self.assume(pod, node);
        }
        outcome
    }

    /// Decides, and reports what was found on every node.
    pub fn evaluate(&mut self, pod: &Pod) -> Evaluation {
        let pod = self.prepare(pod);
        decision::evaluate(&self.state, &self.nominations, &pod)
    }

    /// Whether a pod fits on any node now. By the view of its rules this costs what changed since they were
    /// last asked about; only pods that no view fits are asked about node by node.
    pub fn fits_anywhere(&self, pod: &PreparedPod) -> bool {
        pod.gates.is_empty() && self.decide_prepared(pod).node().is_some()
    }

    /// Whether a pod fits on one node now.
    pub fn fits_on(&self, pod: &PreparedPod, node: &str) -> bool {
        let Some(node) = self.state.find_node(node) else { return false };
        let cycle = CycleState::new(&self.state, &self.nominations, pod);
        Context::new(&self.state, &cycle).is_some_and(|context| context.admits(node))
    }

    /// Every reason against a pod on one node now, in full; none if it fits there or the node is not known.
    pub fn verdicts_on(&self, pod: &PreparedPod, node: &str) -> Vec<Verdict> {
        let Some(id) = self.state.find_node(node) else { return Vec::new() };
        let cycle = CycleState::new(&self.state, &self.nominations, pod);
        let Some(context) = Context::new(&self.state, &cycle) else { return Vec::new() };
        let node = NodeRef::new(id, self.state.nodes.get(id));
        plugins::filters(context).iter().flat_map(|(_, filter)| filter.verdicts(node)).collect()
    }

    /// Whether a node admits a pod that is bound to it. The state is not changed; if the state has the pod already,
    /// the pod does not conflict with itself.
    ///
    /// What counts is what the cluster was given: the node with its labels, taints and allocatable, the pods that
    /// the node has admitted and that have not ended, and the namespaces with their labels, if terms select by them.
    /// A node agent may keep a cluster for its own node alone or one for many nodes. It makes one difference:
    /// a pod with required-during-execution affinity to its own kind may start where no pod of its kind runs on
    /// any node that is known, as the first of its group.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn node_admission(&mut self, pod: &Pod, node_name: &str) -> Result<(), NodeRejection> {
        let prepared = self.prepare(pod);
        node_admission(&self.state, &prepared, node_name)
    }

    /// Explains a pod: a pending one, or one that is assigned already, which is then evaluated as if it
    /// were not assigned.
    pub fn explain(&mut self, pod: &Pod) -> Explanation {
        self.explain_on(pod, None)
    }

    /// As [`Cluster::explain`]; with a node, the groups of nodes hold that node alone. Terms are told for all
    /// nodes either way.
    pub fn explain_on(&mut self, pod: &Pod, node: Option<&str>) -> Explanation {
        let mut prepared = self.prepare(pod);
        prepared.node_name = None;
        // The pod comes back in the end: no change is recorded.
        let recorded = self.state.replace_recorded(None);
        let assigned = self.node_of(&pod.metadata.namespace, &pod.metadata.name).map(str::to_owned);
        self.forget(&prepared);
        let explanation = explain(&self.state, &self.nominations, pod, &prepared, node);
        if let Some(node) = assigned {
            self.assume(&prepared, &node);
        }
        self.state.replace_recorded(recorded);
        explanation
    }

    /// A summary of what excludes most nodes for a pod that fits nowhere, for events: the term, how many
    /// nodes it excludes, and the pods that are the reason. At most [`MAX_BOTTLENECK`](crate::MAX_BOTTLENECK) bytes; none if no rule
    /// excludes a node. It evaluates every rule on every node, as [`Cluster::explain`] does.
    pub fn bottleneck(&mut self, pod: &Pod) -> Option<String> {
        self.explain(pod).bottleneck_text()
    }

    /// What required anti-affinity of a pod would block for others by symmetry: per term, the domains of nodes that
    /// the pod may go to. The state is not changed. A pod without such terms costs nothing; others cost a look at every
    /// node for each term.
    pub fn blast_radius(&mut self, pod: &Pod) -> BlastRadius {
        let prepared = self.prepare(pod);
        if self.state.rule_sets.get(prepared.rule_set).required_anti_affinity.is_empty() {
            return BlastRadius::default();
        }
        let outcome = self.decide_prepared(&prepared);
        blast_radius(&self.state, &prepared, outcome.node())
    }

    /// What of a pod the decision depends on.
    pub fn equivalence(&self, pod: &PreparedPod) -> Equivalence {
        Equivalence::of(&self.state, pod)
    }

    /// Which pods have to be evicted so that this pod fits; for a pod whose decision found no node.
    ///
    /// Of the nodes that need the fewest violations of `budgets`, the victims' highest priority is to be lowest,
    /// then the sum of their priorities, then their number; then the one whose most important victims started
    /// last, then the first by name. A pod that is nominated ([`Cluster::nominate`]) to a node where pods are
    /// already being removed does not preempt again. The state of the cluster is not changed.
    pub fn preempt(&self, pod: &PreparedPod, budgets: &[DisruptionBudget]) -> Preemption {
        preempt(&self.state, &self.nominations, pod, budgets)
    }

    /// What could make a pod schedulable, right after a decision that found no node for it. Looks at every
    /// node if the pod has rules about other pods.
    pub fn wake_conditions(&self, pod: &PreparedPod) -> WakeConditions {
        WakeConditions::of(&self.state, pod)
    }

    /// Whether a change may have made a node feasible for a pod that fitted nowhere when its conditions were
    /// taken. Never a false no; after a yes, decide again (or ask [`Cluster::fits_anywhere`]), and take
    /// new conditions if there still is no node.
    ///
    /// The cluster is read as it is now, so ask when the change has just been made: what the rules make of
    /// the node concerned is evaluated exactly, and beyond that node only changes of counts that the pod's rules read
    /// matter, in domains that its rules about nodes allow.
    pub fn could_help(&self, conditions: &WakeConditions, change: &ClusterChange) -> bool {
        conditions.could_be_met_by(&self.state, change)
    }
}
