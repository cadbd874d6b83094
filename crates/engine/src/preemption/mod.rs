//! Preemption: which pods of lower priority to evict so that a pod fits, by the rules of
//! kube-scheduler's `DefaultPreemption`.
//!
//! Candidates are the nodes whose rejection is *unschedulable*, not *unresolvable*. All of them are considered:
//! kube-scheduler stops at a sample (`minCandidateNodesPercentage` and `minCandidateNodesAbsolute`, which are
//! read and change nothing here), and so may miss the best. Nothing is removed from the state: evictions are
//! hypothetical ([`crate::what_if`]).

mod budget;
mod victims;

pub use budget::DisruptionBudget;

use std::collections::BTreeMap;

use self::budget::Budgets;
use self::victims::{Cost, Found, NodeVictims, Search};
use crate::context::{Context, CycleState};
use crate::decision::Run;
use crate::nomination::Nominations;
use crate::plugins::PreFilter;
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::prepared::PreparedPod;
use crate::verdict::Status;
use crate::what_if::RelevantMatchers;
use berth_api::object::NamespacedName;

/// What preemption can do for a pod that fits nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// The pod fits once these are evicted.
    Victims(Victims),
    /// The pod may not preempt.
    NotEligible(NotEligible),
    /// No eviction makes it fit.
    NoCandidate {
        /// Why, in kube-scheduler's words.
        reason: String,
    },
    /// There is nothing to do: the cluster has no nodes, the pod fits as it is, or its profile has
    /// `DefaultPreemption` disabled.
    NotNeeded,
}

impl Preemption {
    /// What kube-scheduler appends to the decision's message, after a space: `preemption: ...`.
    pub fn message(&self) -> Option<String> {
        match self {
            Preemption::Victims(_) | Preemption::NotNeeded => None,
            Preemption::NotEligible(why) => Some(format!("preemption: {}", why.reason())),
            Preemption::NoCandidate { reason } => Some(format!("preemption: {reason}")),
        }
    }
}

/// Why a pod may not preempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEligible {
    /// `spec.preemptionPolicy` is `Never`.
    PolicyNever,
    /// On the node that it is nominated to, victims are terminating.
    VictimsTerminating,
}

impl NotEligible {
    /// kube-scheduler's words.
    pub fn reason(self) -> &'static str {
        match self {
            NotEligible::PolicyNever => "not eligible due to preemptionPolicy=Never.",
            NotEligible::VictimsTerminating => "not eligible due to a terminating pod on the nominated node.",
        }
    }
}

/// The pods to be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victims {
    /// The node that the pod then fits on.
    pub node: String,
    /// The most important pod first; at least one.
    pub victims: Vec<NamespacedName>,
    /// How many of them are protected by a budget that does not allow it.
    pub n_pdb_violations: usize,
    /// Pods of lower priority that are nominated to the node: clear their nominations, and decide them again.
    pub nominations: Vec<NamespacedName>,
}

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Which pods have to be evicted so that this pod fits: [`Cluster::preempt`](crate::Cluster::preempt).
pub(crate) fn preempt(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    budgets: &[DisruptionBudget],
) -> Preemption {
    let profile = state.rule_sets.get(pod.rule_set).key.profile;
    if profile.is_none_or(|i| !state.profiles[i].profile.preemption) {
        return Preemption::NotNeeded;
    }
    if !pod.preempts {
        return Preemption::NotEligible(NotEligible::PolicyNever);
    }
    let cycle = CycleState::new(state, nominations, pod);
    let budgets = Budgets::new(budgets);
    let run = Context::new(state, &cycle).map(Run::new);
    let Some(run) = run.filter(|run| run.feasible.is_empty()) else { return Preemption::NotNeeded };
    if state.nodes.len() == 0 {
        return Preemption::NotNeeded;
    }
    let candidates: BTreeMap<NodeId, Status> =
        run.rejections().map(|(id, rejection)| (id, rejection.status)).collect();
    if waits_for_victims(state, nominations, pod, &candidates) {
        return Preemption::NotEligible(NotEligible::VictimsTerminating);
    }
    let mut helped: Vec<_> =
        candidates.into_iter().filter(|(_, s)| *s == Status::Unschedulable).map(|(id, _)| id).collect();
    if matches!(run.pre_filter, PreFilter::Rejected(_)) {
        helped.clear();
    }

    let relevant = RelevantMatchers::new(run.context);
    let search = Search {
        context: run.context,
        filters: &run.filters,
        relevant: &relevant,
        budgets: &budgets,
        priority: pod.precedence.priority,
    };
    let mut best: Option<(Cost, &str, NodeVictims)> = None;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let unhelped = state.nodes.len() - helped.len();
    for id in helped {
        match search.on(id, best.as_ref().map(|(cost, ..)| cost)) {
            Found::Victims(found) => {
                let name = run.node_name(id);
                if best.as_ref().is_none_or(|(cost, first, _)| (found.cost, name) < (*cost, *first)) {
                    best = Some((found.cost, name, found));
                }
            }
            Found::Dearer => {}
            Found::NoVictims => *reasons.entry(NO_VICTIMS.to_owned()).or_default() += 1,
            Found::StillRejected(rejection) => {
                for reason in rejection.reasons {
                    *reasons.entry(reason.into_owned()).or_default() += 1;
                }
            }
        }
    }
    if let Some((cost, node, NodeVictims { pods, .. })) = best {
        return Preemption::Victims(victims(state, nominations, pod, node, &pods, cost.n_pdb_violations));
    }
    if unhelped > 0 {
        *reasons.entry(NOT_HELPFUL.to_owned()).or_default() += unhelped;
    }
    let mut reasons: Vec<_> = reasons.into_iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    reasons.sort_unstable();
    let reason = format!("0/{} nodes are available: {}.", state.nodes.len(), reasons.join(", "));
    Preemption::NoCandidate { reason }
}

/// The victims on every node where preemption helps.
pub(crate) fn candidates(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    budgets: &[DisruptionBudget],
) -> Vec<Victims> {
    let cycle = CycleState::new(state, nominations, pod);
    let budgets = Budgets::new(budgets);
    let Some(run) = Context::new(state, &cycle).map(Run::new) else { return Vec::new() };
    if !pod.preempts || !run.feasible.is_empty() {
        return Vec::new();
    }
    let relevant = RelevantMatchers::new(run.context);
    let search = Search {
        context: run.context,
        filters: &run.filters,
        relevant: &relevant,
        budgets: &budgets,
        priority: pod.precedence.priority,
    };
    let helped = run.rejections().filter(|(_, rejection)| rejection.status == Status::Unschedulable);
    let found = helped.filter_map(|(id, _)| match search.on(id, None) {
        Found::Victims(found) => {
            let NodeVictims { pods, cost } = found;
            Some(victims(state, nominations, pod, run.node_name(id), &pods, cost.n_pdb_violations))
        }
        _ => None,
    });
    found.collect()
}

/// Whether room is being made for the pod already: on the node it is nominated to, pods of lower priority are
/// being preempted. Not so if that node has become one that no preemption helps with.
fn waits_for_victims(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    rejected: &BTreeMap<NodeId, Status>,
) -> bool {
    let node = nominations.node(pod.namespace, &pod.name).and_then(|name| state.nodes.find(name));
    let Some(node) = node.filter(|id| rejected.get(id) == Some(&Status::Unschedulable)) else {
        return false;
    };
    state
        .nodes
        .get(node)
        .pods
        .iter()
        .map(|id| state.pods.get(*id).precedence)
        .any(|precedence| precedence.priority < pod.precedence.priority && precedence.being_preempted)
}

fn victims(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    node: &str,
    pods: &[crate::state::pod::PodId],
    n_pdb_violations: usize,
) -> Victims {
    let key = |namespace, name: &str| NamespacedName::new(state.symbols.text(namespace), name);
    let nominated = state.symbols.get(node).map_or(&[][..], |node| nominations.on(node));
    let lower = nominated.iter().filter(|p| p.precedence.priority < pod.precedence.priority);
    let mut nominations: Vec<_> = lower.map(|p| key(p.namespace, &p.name)).collect();
    nominations.sort_unstable();
    let victims = pods.iter().map(|id| state.pods.get(*id)).map(|p| key(p.namespace, &p.name));
    Victims { node: node.to_owned(), victims: victims.collect(), n_pdb_violations, nominations }
}
