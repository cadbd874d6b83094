//! The pods that would have to leave one node.

use std::cmp::Ordering;
use std::cmp::Reverse;

use berth_input::config::Plugin;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Leaving;
use super::budget::{Budgets, Used};
use crate::cycle::context::Context;
use crate::cycle::what_if::{NodeWhatIf, RelevantMatchers};
use crate::plugins::{self, Filters, Reads};
use crate::state::State;
use crate::state::group::GroupId;
use crate::state::node::NodeId;
use crate::state::pod::{PodId, PodRecord};
use crate::verdict::Rejection;

/// What is the same for all nodes.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) context: Context<'a>,
    pub(super) filters: &'a Filters<'a>,
    pub(super) relevant: &'a RelevantMatchers<'a>,
    pub(super) budgets: &'a Budgets<'a>,
    /// Pods below this priority may be preempted.
    pub(super) priority: i32,
    /// Whether pods are evicted, and take those with them that are disrupted together with them.
    pub(super) leaving: Leaving,
}

/// What is evicted at once: a pod, or the members of a group that is disrupted as a whole.
#[derive(Default)]
pub(super) struct Unit {
    /// Those on the node that is looked at. The others do not make room there, but cost as well.
    pub(super) here: SmallVec<[PodId; 1]>,
    pub(super) elsewhere: Vec<PodId>,
}

impl Unit {
    pub(super) fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.here.iter().chain(&self.elsewhere).copied()
    }

    /// Higher priority first, then groups before pods, more pods, and the earlier start; names settle the rest. Of a group without
    /// a priority, the most important pod counts.
    pub(super) fn importance(&self, state: &State) -> (Reverse<i32>, Reverse<usize>, i64) {
        let precedence = || self.pods().map(|id| state.pods.get(id).precedence);
        let priority = precedence().map(|p| p.priority).max().unwrap_or(i32::MIN);
        let is_group = self.pods().next().is_some_and(|pod| state.ranks_as_group(pod));
        let n_pods = if is_group { 1 + self.pods().count() } else { 0 };
        (Reverse(priority), Reverse(n_pods), precedence().map(|p| p.started).min().unwrap_or(i64::MAX))
    }
}

/// What is found out about one node.
pub(super) enum Found {
    /// These have to be evicted.
    Victims(NodeVictims),
    /// It costs more than the best so far: at least this.
    Dearer(Cost),
    /// No pod can be evicted.
    NoVictims,
    /// The pod does not fit even without all of them.
    StillRejected(Rejection),
}

/// The victims on one node, the most important first.
pub(super) struct NodeVictims {
    pub(super) pods: Vec<PodId>,
    pub(super) cost: Cost,
    /// By all pods of lower priority, victims or not.
    pub(super) used: Used,
}

/// What removing pods costs, by kube-scheduler's criteria in their order: lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    pub(super) n_pdb_violations: usize,
    highest_priority: i64,
    /// Each priority counts from the lowest there is, so that fewer pods are better at any priority.
    sum_of_priorities: i64,
    n_victims: usize,
    /// Of the victims of the highest priority, the start of the one that runs longest: the later, the better.
    earliest_start: Reverse<i64>,
}

impl Cost {
    pub(super) const NOTHING: Cost = Cost {
        n_pdb_violations: 0,
        highest_priority: i64::MIN,
        sum_of_priorities: 0,
        n_victims: 0,
        earliest_start: Reverse(i64::MAX),
    };

    /// A lower bound of the cost on a node: that of the least important pod alone. None without a pod of lower
    /// priority.
    pub(super) fn at_least(state: &State, node: NodeId, priority: i32) -> Option<Cost> {
        let pods = state.nodes.get(node).pods.iter().map(|pod| (pod, state.pods.get(*pod).precedence));
        let lower = pods.filter(|(_, precedence)| precedence.priority < priority);
        let (pod, _) = lower.min_by_key(|(_, p)| (p.priority, Reverse(p.started)))?;
        let mut cost = Cost::NOTHING;
        cost.add(state, *pod, false);
        Some(cost)
    }

    /// A lower bound of what it costs with more victims.
    fn with_any_start(self) -> Cost {
        Cost { earliest_start: Reverse(i64::MAX), ..self }
    }

    pub(super) fn add(&mut self, state: &State, pod: PodId, violates: bool) {
        let precedence = state.pods.get(pod).precedence;
        let priority = i64::from(precedence.priority);
        self.n_pdb_violations += usize::from(violates);
        if priority > self.highest_priority {
            self.highest_priority = priority;
            self.earliest_start = Reverse(precedence.started);
        } else if priority == self.highest_priority {
            self.earliest_start = self.earliest_start.max(Reverse(precedence.started));
        }
        self.sum_of_priorities += priority - i64::from(i32::MIN);
        self.n_victims += 1;
    }

    /// Whether more victims can only make it dearer than another.
    fn exceeds(&self, other: &Cost) -> bool {
        let growing = |c: &Cost| (c.n_pdb_violations, c.highest_priority, c.sum_of_priorities, c.n_victims);
        growing(self) > growing(other)
    }
}

/// Higher priority first, then the earlier start; names settle the rest.
pub(super) fn by_importance(state: &State, a: &PodRecord, b: &PodRecord) -> Ordering {
    let text = |namespace| state.symbols.text(namespace);
    let rank = |p: &PodRecord| (Reverse(p.precedence.priority), p.precedence.started);
    rank(a).cmp(&rank(b)).then_with(|| (text(a.namespace), &a.name).cmp(&(text(b.namespace), &b.name)))
}

/// Pods by the importance of what leaves at once: single pods, and groups that are disrupted as a whole.
pub(crate) fn pods_by_importance(state: &State, pods: impl Iterator<Item = PodId>) -> Vec<PodId> {
    let mut units: Vec<Unit> = Vec::new();
    let mut of_group: FxHashMap<GroupId, usize> = FxHashMap::default();
    for pod in pods {
        let n = units.len();
        let group = state.groups.as_a_whole(state.pods.get(pod).group);
        let at = group.map_or(n, |group| *of_group.entry(group).or_insert(n));
        match units.get_mut(at) {
            Some(unit) => unit.here.push(pod),
            None => units.push(Unit { here: SmallVec::from([pod]), elsewhere: Vec::new() }),
        }
    }
    for unit in &mut units {
        unit.here.sort_by_cached_key(|id| name(state, *id));
    }
    units.sort_by_cached_key(|unit| (unit.importance(state), unit.here.first().map(|id| name(state, *id))));
    units.iter().flat_map(Unit::pods).collect()
}

pub(super) fn name(state: &State, pod: PodId) -> (&str, &str) {
    let pod = state.pods.get(pod);
    (state.symbols.text(pod.namespace), &pod.name)
}

impl Search<'_> {
    /// Which pods would have to leave a node: all of lower priority, but as many as possible are reprieved, first
    /// those that a budget protects, then the others, each time the most important first.
    pub(super) fn on(&self, id: NodeId, best: Option<&Cost>) -> Found {
        self.on_changed(self.relevant.on(id), id, best)
    }

    /// The same, of a node as it would be.
    pub(super) fn on_changed(&self, mut node: NodeWhatIf<'_>, id: NodeId, best: Option<&Cost>) -> Found {
        let state = self.context.state;
        let mut units = self.units(id);
        if units.is_empty() {
            return Found::NoVictims;
        }
        for pod in units.iter().flat_map(|unit| &unit.here) {
            self.change(&mut node, *pod, -1);
        }
        if let Some(rejection) = self.rejection(&mut node, |_| true) {
            return Found::StillRejected(rejection);
        }
        units.sort_by_cached_key(|unit| {
            (unit.importance(state), unit.here.first().map(|id| name(state, *id)))
        });
        let pods: Vec<_> = units.iter().flat_map(Unit::pods).collect();
        let (violations, used) = self.budgets.violations(state, &pods);
        let mut first = 0;
        let of_unit = |unit: &Unit| {
            let of_unit = &violations[first..first + unit.pods().count()];
            first += of_unit.len();
            of_unit
        };
        let violations: Vec<&[bool]> = units.iter().map(of_unit).collect();
        let depends_on_pods = |plugin| depends_on_pods(self.context, plugin);
        let (mut victims, mut cost) = (Vec::new(), Cost::NOTHING);
        for protected in [true, false] {
            for (unit, violations) in
                units.iter().zip(&violations).filter(|(_, v)| v.contains(&true) == protected)
            {
                unit.here.iter().for_each(|pod| self.change(&mut node, *pod, 1));
                if self.rejection(&mut node, depends_on_pods).is_some() {
                    unit.here.iter().for_each(|pod| self.change(&mut node, *pod, -1));
                    for (pod, violates) in unit.pods().zip(*violations) {
                        victims.push(pod);
                        cost.add(state, pod, *violates);
                    }
                    if best.is_some_and(|best| cost.exceeds(best)) {
                        return Found::Dearer(cost.with_any_start());
                    }
                }
            }
        }
        if victims.is_empty() {
            return Found::NoVictims;
        }
        victims.sort_unstable_by(|a, b| by_importance(state, state.pods.get(*a), state.pods.get(*b)));
        Found::Victims(NodeVictims { pods: victims, cost, used })
    }

    /// What may be evicted from a node. A group that is disrupted as a whole leaves only if all of its pods may.
    fn units(&self, id: NodeId) -> Vec<Unit> {
        let state = self.context.state;
        let is_lower = |id: &PodId| state.pods.get(*id).precedence.priority < self.priority;
        let mut units: Vec<Unit> = Vec::new();
        for pod in state.nodes.get(id).pods.iter().filter(|id| is_lower(id)) {
            let Some(group) = self.group(*pod) else {
                units.push(Unit { here: SmallVec::from([*pod]), elsewhere: Vec::new() });
                continue;
            };
            // Once for each group: at its first pod.
            let unit = self.unit_of_group(group, id);
            if unit.here.first() == Some(pod) && unit.pods().all(|id| is_lower(&id)) {
                units.push(unit);
            }
        }
        units
    }

    /// The group that leaves with a pod, if it is disrupted as a whole.
    pub(super) fn group(&self, pod: PodId) -> Option<GroupId> {
        let state = self.context.state;
        state.groups.as_a_whole(state.pods.get(pod).group).filter(|_| self.leaving == Leaving::Evicted)
    }

    /// All pods of a group, by name.
    pub(super) fn unit_of_group(&self, group: GroupId, id: NodeId) -> Unit {
        let state = self.context.state;
        let mut members: Vec<PodId> = state.groups.members(group).collect();
        members.sort_by_cached_key(|id| name(state, *id));
        let is_here = |member: &PodId| state.pods.get(*member).node == Some(id);
        let (here, elsewhere): (Vec<_>, Vec<_>) = members.into_iter().partition(is_here);
        Unit { here: here.into(), elsewhere }
    }

    pub(super) fn change(&self, node: &mut NodeWhatIf<'_>, pod: PodId, sign: i64) {
        let pod = self.context.state.pods.get(pod);
        node.change(pod.rule_set, pod.signature, pod.volumes.as_ref(), pod.devices.as_ref(), sign);
    }

    /// The first rejection of the node, with the pods nominated to it and then without.
    pub(super) fn rejection(
        &self,
        node: &mut NodeWhatIf<'_>,
        relevant: impl Fn(Plugin) -> bool + Copy,
    ) -> Option<Rejection> {
        let filters = || self.filters.iter().filter(|(plugin, _)| relevant(*plugin));
        if node.change_nominated(1) {
            let rejection = filters().find_map(|(_, filter)| filter.check(node.node()));
            node.change_nominated(-1);
            if rejection.is_some() {
                return rejection;
            }
        }
        let rejected = filters().find(|(_, filter)| !filter.admits(node.node()));
        rejected.and_then(|(_, filter)| filter.check(node.node()))
    }
}

/// Whether a rule can change its mind about a node when pods leave it or come back: it reads which pods run.
pub(crate) fn depends_on_pods(context: Context<'_>, plugin: Plugin) -> bool {
    plugins::rule(plugin).is_some_and(|rule| rule.reads.any_of(Reads::PODS))
        || (plugin == Plugin::DynamicResources
            && (context.preempts_for_devices() || context.takes_allocatable()))
}
