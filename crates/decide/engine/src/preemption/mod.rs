//! Preemption: which pods of lower priority to evict so that a pod fits, by the rules of
//! kube-scheduler's `DefaultPreemption`.
//!
//! Candidates are the nodes whose rejection is *unschedulable*, not *unresolvable*. All of them are considered:
//! kube-scheduler stops at a sample (`minCandidateNodesPercentage` and `minCandidateNodesAbsolute`, which are
//! read and change nothing here), and so may miss the best. Nothing is removed from the state: evictions are
//! hypothetical ([`crate::cycle::what_if`]). The nodes that reject the pod are followed by [`crate::view::rejections`], and what the
//! victims on each cost by [`Candidates`]: a preemption looks at what changed since the last one, and at the best nodes.
//!
//! Victims are on one node, as in kube-scheduler. If a profile says so, those on several nodes are searched for where that does
//! not help ([`across`]).

mod across;
mod budget;
mod candidates;
mod relations;
mod victims;

pub use budget::DisruptionBudget;
pub(crate) use candidates::Candidates;

use std::collections::BTreeMap;

use self::across::MAX_STEPS;
use self::budget::Budgets;
use self::candidates::NOT_HELPFUL;
use self::victims::{Found, NodeVictims, Search};
pub(crate) use self::victims::{depends_on_pods, pods_by_importance};
use crate::cycle::context::{Context, CycleState};
use crate::cycle::nomination::Nominations;
use crate::cycle::what_if::RelevantMatchers;
use crate::decision::Run;
use crate::plugins::{self, PreFilter};
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::PodId;
use crate::state::pod::Precedence;
use crate::state::pod::prepared::PreparedPod;
use crate::verdict::Status;
use crate::view::rejections::{RejectionView, RejectionViews, Rejections, fit_error};
use berth_api::object::NamespacedName;
use berth_input::config::Plugin;

/// Which running pods may have to leave for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Those that are evicted: of lower priority, if the profile and the policy of the pod allow it.
    Evicted,
    /// Those that are waited for: of lower or equal priority.
    Awaited,
}

/// What preemption can do for an unschedulable pod.
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
    fn no_candidate<'a>(n_nodes: usize, reasons: impl Iterator<Item = (&'a str, usize)>) -> Preemption {
        let mut histogram: BTreeMap<&str, usize> = BTreeMap::new();
        for (reason, n) in reasons {
            *histogram.entry(reason).or_default() += n;
        }
        Preemption::NoCandidate { reason: fit_error(n_nodes, histogram.into_iter()) }
    }

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
    /// The nodes of those victims that do not run on the node: members of groups that are disrupted as a whole, and victims of
    /// preemption across nodes.
    pub elsewhere: BTreeMap<NamespacedName, String>,
    /// The search across nodes ended at its limit: there may be fewer or less important victims.
    pub is_cut: bool,
}

/// Which pods have to leave so that this pod fits: [`Cluster::preempt`](crate::Cluster::preempt). `views` serve one kind
/// of leaving.
pub(crate) fn preempt(
    state: &State,
    views: &mut RejectionViews<Candidates>,
    nominations: &Nominations,
    pod: &PreparedPod,
    budgets: &[DisruptionBudget],
    leaving: Leaving,
) -> Preemption {
    let priority = match leaving {
        Leaving::Evicted if !is_enabled(state, pod) => return Preemption::NotNeeded,
        Leaving::Evicted if !pod.preempts => return Preemption::NotEligible(NotEligible::PolicyNever),
        Leaving::Evicted => pod.precedence.priority,
        Leaving::Awaited => pod.precedence.priority.saturating_add(1),
    };
    if state.nodes.len() == 0 {
        return Preemption::NotNeeded;
    }
    let cycle = CycleState::new(state, nominations, pod);
    let Some(context) = Context::new(state, &cycle) else { return Preemption::NotNeeded };
    let names = match plugins::pre_filter(context) {
        PreFilter::AllNodes => None,
        PreFilter::Nodes(_, names) => Some(names),
        PreFilter::Rejected(_) => {
            let all = [(NOT_HELPFUL, state.nodes.len())];
            return Preemption::no_candidate(state.nodes.len(), all.into_iter());
        }
    };
    let mut of_this_pod;
    let view = match views.view(context, nominations, pod) {
        Some(view) => view,
        None => {
            let rejections = Rejections::new(context, nominations, pod, names.as_deref());
            of_this_pod = RejectionView::new(rejections);
            &mut of_this_pod
        }
    };
    let RejectionView { rejections, derived: candidates, .. } = view;
    if rejections.n_feasible > 0 {
        return Preemption::NotNeeded;
    }
    let across = leaving == Leaving::Evicted && context.profile.profile.preempt_across_nodes;
    let nominated = nominated_node(state, nominations, pod);
    let is_waiting = |node| {
        // Not if the node has become one that no preemption helps with.
        let may_help = rejections.status(node) == Some(Status::Unschedulable);
        may_help && awaits_victims_on(state, nominations, pod, node)
            || across && across::awaits_victims(context, priority, node)
    };
    if nominated.is_some_and(is_waiting) {
        return Preemption::NotEligible(NotEligible::VictimsTerminating);
    }
    candidates.catch_up(state, rejections, priority, budgets);
    let (filters, relevant) = (plugins::filters(context), RelevantMatchers::new(context));
    let budgets = Budgets::new(state, budgets);
    let search =
        Search { context, filters: &filters, relevant: &relevant, budgets: &budgets, priority, leaving };
    if let Some((id, found)) = candidates.best(&search) {
        return Preemption::Victims(victims(state, nominations, pod, id, &found));
    }
    let across = across.then(|| across::find(&search, names.as_deref()));
    let is_cut = across.as_ref().is_some_and(across::Found::is_cut);
    if let Some((id, found)) = across.and_then(|found| found.best) {
        let victims = victims(state, nominations, pod, id, &found);
        return Preemption::Victims(Victims { is_cut, ..victims });
    }
    let found = Preemption::no_candidate(state.nodes.len(), candidates.reasons());
    match found {
        Preemption::NoCandidate { reason } if is_cut => {
            let limit = format!("The search across nodes was ended at its limit of {MAX_STEPS} steps.");
            Preemption::NoCandidate { reason: format!("{reason} {limit}") }
        }
        found => found,
    }
}

/// Whether a pod may be able to preempt others for a node: pods of lower priority run there, or may run anywhere.
pub(crate) fn may_preempt_on(state: &State, pod: &PreparedPod, node: NodeId) -> bool {
    let is_lower = |id: &PodId| state.pods.get(*id).precedence.priority < pod.precedence.priority;
    let profile = state.rule_sets.get(pod.rule_set).key.profile;
    let across_nodes = || profile.is_some_and(|i| state.profiles[i].profile.preempt_across_nodes);
    pod.preempts
        && is_enabled(state, pod)
        && (state.nodes.get(node).pods.iter().any(is_lower) || across_nodes())
}

pub(crate) fn is_enabled(state: &State, pod: &PreparedPod) -> bool {
    let profile = state.rule_sets.get(pod.rule_set).key.profile;
    profile.is_some_and(|i| state.profiles[i].profile.preemption)
}

/// Whether the claims of devices that victims leave are free for the pod.
pub(crate) fn frees_devices(state: &State, pod: &PreparedPod) -> bool {
    let profile = state.rule_sets.get(pod.rule_set).key.profile;
    profile.is_some_and(|i| state.profiles[i].profile.dynamic_resources.preempt_for_devices)
}

/// The victims on every node where preemption helps: each is evaluated in full.
pub(crate) fn candidates(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    budgets: &[DisruptionBudget],
) -> Vec<Victims> {
    let cycle = CycleState::new(state, nominations, pod);
    let budgets = Budgets::new(state, budgets);
    let Some(run) = Context::new(state, &cycle).map(Run::new) else { return Vec::new() };
    if !pod.preempts || !is_enabled(state, pod) || !run.feasible.is_empty() {
        return Vec::new();
    }
    let relevant = RelevantMatchers::new(run.context);
    let search = Search {
        context: run.context,
        filters: &run.filters,
        relevant: &relevant,
        budgets: &budgets,
        priority: pod.precedence.priority,
        leaving: Leaving::Evicted,
    };
    let helped = run.rejections().filter(|(_, rejection)| rejection.status == Status::Unschedulable);
    let found = helped.filter_map(|(id, _)| match search.on(id, None) {
        Found::Victims(found) => Some(victims(state, nominations, pod, id, &found)),
        _ => None,
    });
    found.collect()
}

/// Which pods of lower priority have to leave the node of a running pod so that what it requests fits there: of all rules, those about
/// resources count. None if it fits, if nothing helps, or if the pod may not preempt.
pub(crate) fn preempt_for_resize(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    budgets: &[DisruptionBudget],
) -> Option<Victims> {
    let running = state.pods.get(state.pods.find(pod.namespace, &pod.name)?);
    let id = running.node.filter(|_| pod.preempts && is_enabled(state, pod))?;
    let cycle = CycleState::new(state, nominations, pod);
    let context = Context::new(state, &cycle)?;
    let filters = plugins::filters_of(context, |plugin| plugin == Plugin::NodeResourcesFit);
    let relevant = RelevantMatchers::new(context);
    let budgets = Budgets::new(state, budgets);
    let (priority, leaving) = (pod.precedence.priority, Leaving::Evicted);
    let search =
        Search { context, filters: &filters, relevant: &relevant, budgets: &budgets, priority, leaving };
    let mut node = relevant.on(id);
    node.change(running.rule_set, running.signature, running.volumes.as_ref(), running.devices.as_ref(), -1);
    match search.on_changed(node, id, None) {
        Found::Victims(found) => Some(victims(state, nominations, pod, id, &found)),
        _ => None,
    }
}

fn nominated_node(state: &State, nominations: &Nominations, pod: &PreparedPod) -> Option<NodeId> {
    nominations.node(pod.namespace, &pod.name).and_then(|name| state.nodes.find(name))
}

/// Whether room is being made for a pod on the node that it is nominated to.
pub(crate) fn awaits_victims(state: &State, nominations: &Nominations, pod: &PreparedPod) -> bool {
    let is_elsewhere = |node| {
        let cycle = CycleState::new(state, nominations, pod);
        let context = Context::new(state, &cycle).filter(|c| c.profile.profile.preempt_across_nodes);
        context.is_some_and(|context| across::awaits_victims(context, pod.precedence.priority, node))
    };
    nominated_node(state, nominations, pod)
        .is_some_and(|node| awaits_victims_on(state, nominations, pod, node) || is_elsewhere(node))
}

/// Whether room is being made for a pod on a node: pods of lower priority are being preempted there, or it fits once the claims
/// of devices are deallocated whose pods are gone.
fn awaits_victims_on(state: &State, nominations: &Nominations, pod: &PreparedPod, node: NodeId) -> bool {
    let mut pods = state.nodes.get(node).pods.iter().map(|id| state.pods.get(*id).precedence);
    let is_victim = |p: Precedence| p.priority < pod.precedence.priority && p.being_preempted;
    pods.any(is_victim)
        || (pod.devices.is_some()
            && frees_devices(state, pod)
            && awaits_claims(state, nominations, pod, node))
}

fn awaits_claims(state: &State, nominations: &Nominations, pod: &PreparedPod, id: NodeId) -> bool {
    let cycle = CycleState::new(state, nominations, pod);
    let Some(context) = Context::new(state, &cycle) else { return false };
    let (filters, relevant) = (plugins::filters(context), RelevantMatchers::new(context));
    let mut node = relevant.on(id);
    node.without_gone();
    context.rejection(&filters, id).is_some() && filters.iter().all(|(_, filter)| filter.admits(node.node()))
}

fn victims(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    node: NodeId,
    found: &NodeVictims,
) -> Victims {
    let key = |namespace, name: &str| NamespacedName::new(state.symbols.text(namespace), name);
    let nominated = nominations.on(state.nodes.get(node).name);
    let lower = nominated.filter(|p| p.precedence.priority < pod.precedence.priority);
    let mut nominations: Vec<_> = lower.map(|p| key(p.namespace, &p.name)).collect();
    nominations.sort_unstable();
    let victims = || found.pods.iter().map(|id| state.pods.get(*id));
    let elsewhere = victims().filter_map(|p| Some((p, p.node.filter(|of| *of != node)?)));
    Victims {
        node: state.node_name(node).to_owned(),
        victims: victims().map(|p| key(p.namespace, &p.name)).collect(),
        n_pdb_violations: found.cost.n_pdb_violations,
        nominations,
        elsewhere: elsewhere
            .map(|(p, node)| (key(p.namespace, &p.name), state.node_name(node).to_owned()))
            .collect(),
        is_cut: false,
    }
}
