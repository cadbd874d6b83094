//! What a scheduler does between two decisions: assuming, forgetting, and asking about single nodes.

use berth_api::object::Pod;

use crate::plugins::{self, Context, NodeRef, PreFilter};
use crate::state::class::ClassId;
use crate::state::cluster::Cluster;
use crate::state::identity::IdentityId;
use crate::state::incoming::PreparedPod;
use crate::state::node::NodeId;
use crate::verdict::Verdict;

/// Pods with equal values fare equally for as long as nothing changes: they get the same decision, the same
/// message, the same preemption and the same wake-up conditions.
///
/// A value holds until rules seen for the first time tell pods apart that were alike: take it anew
/// ([`Cluster::equivalence`] is cheap) when pods are grouped anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Equivalence {
    class: ClassId,
    identity: IdentityId,
    priority: i32,
    preempts: bool,
    gates: Vec<String>,
}

impl Cluster {
    /// What of a pod the decision depends on.
    pub fn equivalence(&mut self, pod: &PreparedPod) -> Equivalence {
        let identity = self.identity_of(pod.namespace, pod.terminating, &pod.labels);
        let (class, priority, preempts) = (pod.class, pod.standing.priority, pod.preempts);
        Equivalence { class, identity, priority, preempts, gates: pod.gates.clone() }
    }

    /// A number that grows whenever rules seen for the first time may tell pods apart that were alike: as long as
    /// it stays, so do equivalences.
    pub fn distinctions(&self) -> usize {
        self.mentioned.len()
    }

    /// Assigns a pod to a node before the API server knows, as if it ran there. Tells whether the node is
    /// known, so that the pod counts. A later [`Cluster::set_pod`] of the same namespace and name confirms it.
    pub fn assume(&mut self, pod: &PreparedPod, node: &str) -> bool {
        let node = self.symbols.intern(node);
        self.assign(pod, node)
    }

    /// Takes an assumed pod back, because it could not be bound.
    pub fn forget(&mut self, pod: &PreparedPod) {
        if let Some(id) = self.pods.find(pod.namespace, &pod.name) {
            self.remove_record(id);
        }
    }

    /// The node a pod is assigned to (or assumed on); none if it is not in the cluster's state.
    pub fn node_of(&self, namespace: &str, name: &str) -> Option<&str> {
        let pod = self.pods.find(self.symbols.get(namespace)?, name)?;
        Some(self.symbols.text(self.pods.get(pod).node_name))
    }

    /// Whether a pod fits on one node now.
    pub fn fits_on(&mut self, pod: &PreparedPod, node: &str) -> bool {
        let Some(node) = self.symbols.get(node).and_then(|name| self.nodes.find(name)) else { return false };
        let incoming = self.incoming(pod);
        self.context(&incoming).is_some_and(|context| context.admits(node))
    }

    /// Every reason against a pod on one node now, told in full; none if it fits there or the node is not known.
    pub fn verdicts_on(&mut self, pod: &PreparedPod, node: &str) -> Vec<Verdict> {
        let Some(id) = self.symbols.get(node).and_then(|name| self.nodes.find(name)) else {
            return Vec::new();
        };
        let incoming = self.incoming(pod);
        let Some(context) = self.context(&incoming) else { return Vec::new() };
        let node = NodeRef::new(id, self.nodes.get(id));
        plugins::filters(context).iter().flat_map(|(_, filter)| filter.verdicts(node)).collect()
    }

    /// Whether a pod fits on any node now. By the view of its class this costs what changed since the class was
    /// last asked about; only pods that no view fits are asked about node by node.
    pub fn fits_anywhere(&mut self, pod: &PreparedPod) -> bool {
        pod.gates.is_empty() && self.decide_prepared(pod).node().is_some()
    }

    /// In a few words, what stands most in the way of a pod that fits nowhere, for events: the term, how many
    /// nodes it excludes, and the pods that are the reason. At most [`MAX_BOTTLENECK`] bytes; none if nothing
    /// stands in the way. It looks at every rule on every node, as [`Cluster::explain`] does.
    pub fn bottleneck(&mut self, pod: &Pod) -> Option<String> {
        let explanation = self.explain(pod);
        if explanation.outcome.node().is_some() {
            return None;
        }
        let text = explanation.bottleneck()?.in_short(explanation.n_nodes);
        Some(shortened(text, MAX_BOTTLENECK))
    }
}

/// [`Cluster::bottleneck`] gives no longer texts, in bytes.
pub const MAX_BOTTLENECK: usize = 512;

fn shortened(mut text: String, most: usize) -> String {
    const CUT: &str = "...";
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - CUT.len()));
        text.push_str(CUT);
    }
    text
}

impl Context<'_> {
    /// Whether every rule lets the pod go to a node, with the pods nominated to it and without.
    pub(crate) fn admits(self, id: NodeId) -> bool {
        let record = self.cluster.nodes.get(id);
        let considered = match plugins::pre_filter(self) {
            PreFilter::AllNodes => true,
            PreFilter::Nodes(_, names) => names.iter().any(|n| n == self.cluster.symbols.text(record.name)),
            PreFilter::Rejected(_) => false,
        };
        if !considered {
            return false;
        }
        let filters = plugins::filters(self);
        filters.iter().all(|(_, filter)| filter.admits(NodeRef::new(id, record)))
            && self.rejection_with_nominated(&filters, &self.incoming.nominated, id).is_none()
    }
}
