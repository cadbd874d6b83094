//! What a rule of placement is: what it declares, and what it is prepared to for one pod.
//!
//! A rule is prepared once per decision, and then filters ([`Filter`]) or scores ([`Scorer`]) single nodes. The rules have the
//! names and the arithmetic of kube-scheduler's plugins, integer truncations included.

use berth_input::config::Plugin;
use smallvec::SmallVec;

use super::hints::{AnyChange, Hints};
use crate::cycle::context::{Context, NodeRef};
use crate::state::counting::topology::TopologyId;
use crate::state::node::NodeId;
use crate::state::rule_set::RuleSet;
use crate::verdict::{Rejection, Verdict, ViolatedRule};

/// The best score of a node by one rule, before its weight.
pub(crate) const MAX_NODE_SCORE: i64 = 100;

/// A rule of placement. The registry has one line for each.
pub(crate) trait Rule {
    /// The plugin that enables it in a profile.
    const PLUGIN: Plugin;

    /// What its filter and its scorer read to decide about a node. Views, queueing hints and preemption evaluate a rule again
    /// only if something changed that it reads. A test changes everything else.
    const READS: Reads;

    /// How the raw scores of the feasible nodes become 0 to [`MAX_NODE_SCORE`].
    const NORMALIZATION: Normalization = Normalization::None;

    /// What the audit of running pods reports where the filter rejects the node that a pod runs on; none if it does not
    /// evaluate the filter. Rules between pods are evaluated term by term instead.
    const VIOLATION: Option<ViolatedRule> = None;

    /// Looks at the pod before nodes are filtered.
    fn pre_filter(_context: Context<'_>) -> PreFilter {
        PreFilter::AllNodes
    }

    /// Prepares the filter; none if it cannot reject the pod.
    fn filter<'a>(_context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        None
    }

    /// The filter that decides whether a change of one node helps; none where preparing it costs more than an unsuccessful retry.
    fn filter_of_changed_node<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        Self::filter(context)
    }

    /// Looks at the pod before nodes are scored.
    ///
    /// # Errors
    /// The rule cannot score this pod; the text is kube-scheduler's.
    fn pre_score(_context: Context<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Prepares the scorer; none if it does not concern the pod, as kube-scheduler skips it then. Only rules that read
    /// [`Reads::COUNTERS`] may look at the feasible nodes: views have no list of them.
    fn scorer<'a>(_context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        None
    }

    /// Whether a view can follow the rule for pods of a rule set. Other pods are decided node by node. A rule that reads counters
    /// has to bring its part of a view.
    fn fits_a_view(_rule_set: &RuleSet) -> bool {
        !Self::READS.any_of(Reads::COUNTERS)
    }

    /// The changes that could help a rejected pod, beyond those that follow from what the rule reads of a node.
    fn hints(_context: Context<'_>) -> Option<Box<dyn Hints>> {
        Self::READS.any_of(Reads::COUNTERS).then(|| Box::new(AnyChange) as Box<dyn Hints>)
    }
}

/// What a rule reads. There is no value for "nothing": a rule that reads nothing of a node cannot distinguish nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reads(u8);

impl Reads {
    /// Taints, cordon, allocatable resources and declared features of the node. Most nodes of a cluster are equal in these.
    pub(crate) const NODE_CLASS: Reads = Reads(1);
    /// Requests, host ports and number of the pods on the node.
    pub(crate) const NODE_USAGE: Reads = Reads(1 << 1);
    /// Images of the node, and how many nodes of the cluster have them.
    pub(crate) const IMAGES: Reads = Reads(1 << 2);
    /// Name and labels of the node, with the annotations and fields that rules mention.
    pub(crate) const NODE_LABELS: Reads = Reads(1 << 3);
    /// Counts of pods in topology domains: they change without a change of the node.
    pub(crate) const COUNTERS: Reads = Reads(1 << 4);
    /// Volumes, claims, classes, CSI nodes and capacities.
    pub(crate) const VOLUMES: Reads = Reads(1 << 5);
    /// The volumes and claims that running pods use.
    pub(crate) const VOLUMES_IN_USE: Reads = Reads(1 << 6);
    /// Devices, their classes, claims, and what is allocated to these.
    pub(crate) const DEVICES: Reads = Reads(1 << 7);

    /// What nodes that are equal have in common: views keep the results of rules that read nothing else.
    pub(crate) const EQUAL_NODES: Reads = Reads::NODE_CLASS.and(Reads::NODE_USAGE).and(Reads::IMAGES);
    /// What a node is, whatever runs on it.
    pub(crate) const NODE: Reads = Reads::NODE_CLASS.and(Reads::NODE_LABELS);
    /// What depends on the pods that run.
    pub(crate) const PODS: Reads = Reads::NODE_USAGE.and(Reads::COUNTERS).and(Reads::VOLUMES_IN_USE);

    /// Both.
    pub(crate) const fn and(self, other: Reads) -> Reads {
        Reads(self.0 | other.0)
    }

    /// Whether it has a part of another.
    pub(crate) const fn any_of(self, other: Reads) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether another has all parts of it.
    pub(crate) const fn only(self, other: Reads) -> bool {
        self.0 & !other.0 == 0
    }
}

/// How raw scores become 0 to [`MAX_NODE_SCORE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Normalization {
    /// They are in the range.
    None,
    /// kube-scheduler's default: the highest raw score becomes [`MAX_NODE_SCORE`].
    Highest,
    /// The same, with lower raw scores better.
    HighestReversed,
    /// By [`Scorer::normalize`]. In views the rule's part does it, or pods whose scores differ have no view.
    OfScorer,
}

impl Normalization {
    /// The score of a node for a raw score, if `max` is the highest of all nodes.
    pub(crate) const fn of_highest(self, raw: i64, max: i64) -> i64 {
        let share = if max == 0 { raw } else { MAX_NODE_SCORE * raw / max };
        match self {
            Normalization::HighestReversed => MAX_NODE_SCORE - share,
            _ => share,
        }
    }
}

/// A filter, prepared for one pod.
pub(crate) trait Filter {
    /// The rejection of the node, in kube-scheduler's words; none if the node is admitted.
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection>;

    /// Whether the node is admitted: [`Filter::check`] without the words.
    fn admits(&self, node: NodeRef<'_>) -> bool {
        self.check(node).is_none()
    }

    /// Whether a rejection can be an error, which ends the decision.
    fn can_fail(&self) -> bool {
        false
    }

    /// The topologies with several nodes per domain in which the rule counts pods.
    fn shared_topologies(&self) -> SmallVec<[TopologyId; 2]> {
        SmallVec::new()
    }

    /// Appends what the rule reads of counts that change without a change of the node: where these values stay equal,
    /// equal nodes get equal results, also if they lose or gain up to `max_pods` pods. They are equal for all nodes
    /// with the same domains in the shared topologies.
    fn inputs(&self, _node: NodeId, _max_pods: i64, _inputs: &mut Vec<i64>) {}

    /// Every single term of the rule, whether or not it rejects a node.
    fn terms(&self) -> Vec<TermInfo>;

    /// Number of things that [`Filter::verdicts`] compares, at most: what is proportional to the size of the pod or node.
    fn n_compared(&self, _node: NodeRef<'_>) -> usize {
        1
    }

    /// Every single reason against the node, in detail.
    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict>;

    /// Those reasons that concern a pod that runs on the node: all, unless some only keep new pods away.
    fn verdicts_for_running(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        self.verdicts(node)
    }
}

/// One requirement of a rule: its path in the pod and a short text.
pub(crate) struct TermInfo {
    pub(crate) term: String,
    pub(crate) detail: String,
}

/// A scorer, prepared for one pod.
pub(crate) trait Scorer {
    fn score(&self, node: NodeRef<'_>) -> i64;

    /// Turns raw scores of the feasible nodes into 0 to [`MAX_NODE_SCORE`], for [`Normalization::OfScorer`].
    fn normalize(&self, _nodes: &[NodeId], _scores: &mut [i64]) {}

    /// The parts of the raw score: a text and a value each.
    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)>;
}

/// The result of the rules that look at the pod before the nodes are filtered.
pub(crate) enum PreFilter {
    AllNodes,
    /// Only the nodes with these names are filtered: the plugin has excluded the others.
    Nodes(Plugin, Vec<String>),
    /// The pod is rejected on every node.
    Rejected(Rejection),
}
