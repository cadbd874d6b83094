//! Preemption across nodes, an extension: victims on any nodes, where those of one node do not help.
//!
//! The filters decide: a node is feasible if they admit the pod there without the victims. The search begins with the pods that
//! reject the pod from the node regardless of other pods, and continues with what rejects the pod next: one of the pods that count for
//! that rule has to leave as well, so these are tried one after another, and what was tried stays in the other branches. A branch
//! ends where it costs more than the best victims so far. The result is the cheapest of all sets of victims on all nodes, unless
//! the search reaches its limit.

mod choices;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use berth_input::config::Plugin;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::choices::{Candidate, Choice, Choices};
use super::budget::{Used, use_one};
use super::relations::{Domains, Relation, Relations, bit};
use super::victims::{Cost, NodeVictims, Search, Unit, by_importance};
use crate::cycle::context::{Context, NodeRef};
use crate::cycle::what_if::RelevantMatchers;
use crate::plugins::{self, Filters, HardConstraints, Reads};
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::{PodId, PodRecord};
use crate::verdict::Status;

/// Steps after which a search ends: a pod that leaves a node hypothetically, or a node that is evaluated, is one.
pub(super) const MAX_STEPS: usize = 1 << 18;

/// What a search has found.
pub(super) struct Found {
    /// A node with the victims that make it feasible.
    pub(super) best: Option<(NodeId, NodeVictims)>,
    n_steps: usize,
}

impl Found {
    /// Whether the search ended at its limit: there may be cheaper victims.
    pub(super) fn is_cut(&self) -> bool {
        self.n_steps >= MAX_STEPS
    }
}

/// Whether pods of lower priority are being preempted that have to do with a node for the pod, wherever they run. Not if the node
/// rejects the pod whatever runs there.
pub(super) fn awaits_victims(context: Context<'_>, priority: i32, node: NodeId) -> bool {
    let relations = Relations::new(context);
    let domains = relations.domains(node);
    let is_victim = |pod: &PodRecord| {
        let is_meant = pod.precedence.being_preempted && pod.precedence.priority < priority;
        let from = pod.node.filter(|_| is_meant);
        from.is_some_and(|from| from == node || !relations.with_domains(pod, from, &domains).is_none())
    };
    admits_by_itself(&plugins::filters_of(context, reads_node_alone), context.state, node)
        && context.state.pods.iter().any(|(_, pod)| is_victim(pod))
}

fn reads_node_alone(plugin: Plugin) -> bool {
    plugins::rule(plugin).is_some_and(|rule| rule.reads.only(Reads::NODE))
}

/// Whether the rules that read nodes alone admit the pod, whatever runs anywhere.
fn admits_by_itself(filters: &Filters<'_>, state: &State, node: NodeId) -> bool {
    let mut of_node = filters.iter().filter(|(plugin, _)| reads_node_alone(*plugin));
    of_node.all(|(_, filter)| filter.admits(NodeRef::new(node, state.nodes.get(node))))
}

/// The cheapest victims for a pod that preemption on one node does not help. `names`: the only nodes that it may go to.
pub(super) fn find(search: &Search<'_>, names: Option<&[String]>) -> Found {
    let relations = Relations::new(search.context);
    if relations.are_none() {
        return Found { best: None, n_steps: 0 };
    }
    let relevant = RelevantMatchers::exact(search.context);
    let search = &Search { relevant: &relevant, ..*search };
    let mut trial = Trial {
        search,
        relations: &relations,
        spread: HardConstraints::new(search.context),
        n_steps: 0,
        best: None,
    };
    for node in trial.nodes(names) {
        if trial.is_cut() {
            break;
        }
        if trial.best.as_ref().is_none_or(|best| (node.at_least, node.order) < (best.cost, best.order)) {
            trial.search_on(&node);
        }
    }
    let state = search.context.state;
    let best = trial.best.map(|Best { node, mut pods, cost, .. }| {
        pods.sort_unstable_by(|a, b| by_importance(state, state.pods.get(*a), state.pods.get(*b)));
        (node, NodeVictims { pods, cost, used: Used::new() })
    });
    Found { best, n_steps: trial.n_steps }
}

/// A node on which victims may help.
struct Target {
    node: NodeId,
    /// By name.
    order: u32,
    /// Whether it has room for the pod as it is.
    has_room: bool,
    /// What its victims cost at least.
    at_least: Cost,
    far: Rc<Far>,
}

/// The pods that have to do with the nodes in some domains, with their nodes. Those on a node itself are left out there.
struct Far {
    pods: Vec<(PodId, NodeId, Relation)>,
    at_least: Cost,
}

struct Best {
    cost: Cost,
    order: u32,
    node: NodeId,
    chosen: Vec<Choice>,
    pods: Vec<PodId>,
}

/// What has to change so that a node is feasible.
enum Obstacle {
    Nothing,
    /// One of these has to leave at least; none of them would help.
    OneOf(Vec<usize>),
    AllOf(Vec<Vec<usize>>),
}

struct Trial<'a> {
    search: &'a Search<'a>,
    relations: &'a Relations<'a>,
    spread: HardConstraints<'a>,
    n_steps: usize,
    best: Option<Best>,
}

/// Whether a rule looks at one node alone, with the pods there.
fn is_local(plugin: Plugin) -> bool {
    !matches!(plugin, Plugin::InterPodAffinity | Plugin::PodTopologySpread | Plugin::VolumeRestrictions)
}

impl<'a> Trial<'a> {
    fn state(&self) -> &'a State {
        self.search.context.state
    }

    fn is_cut(&self) -> bool {
        self.n_steps >= MAX_STEPS
    }

    fn is_lower(&self, pod: PodId) -> bool {
        self.state().pods.get(pod).precedence.priority < self.search.priority
    }

    /// The nodes on which victims may help: those first whose victims may cost least, then those with room.
    fn nodes(&mut self, names: Option<&[String]>) -> Vec<Target> {
        let state = self.state();
        let lower = |pod: &PodRecord| pod.precedence.priority < self.search.priority;
        let pods = self.relations.pods(lower);
        let mut by_domains: FxHashMap<Domains, Rc<Far>> = FxHashMap::default();
        let mut targets = Vec::new();
        for (node, _) in state.nodes.iter() {
            let is_meant = names.is_none_or(|names| names.iter().any(|name| name == state.node_name(node)));
            if !is_meant || !admits_by_itself(self.search.filters, state, node) {
                continue;
            }
            let domains = self.relations.domains(node);
            let far = by_domains.entry(domains).or_insert_with_key(|domains| {
                self.n_steps += pods.len() / 64;
                Rc::new(self.far(&pods, domains))
            });
            // Without affinity, fewer pods on one node are always better: preemption there has been tried.
            if far.pods.is_empty() && !self.relations.has_affinity() {
                continue;
            }
            let mut as_it_is = self.search.relevant.on(node);
            let has_room = self.search.rejection(&mut as_it_is, is_local).is_none();
            let (order, far) = (state.name_order.of(node), far.clone());
            targets.push(Target { node, order, has_room, at_least: far.at_least, far });
        }
        targets.sort_by_key(|target| (target.at_least, !target.has_room, target.order));
        targets
    }

    fn far(&self, pods: &[(PodId, NodeId)], domains: &Domains) -> Far {
        let state = self.state();
        let related = pods.iter().filter_map(|(pod, node)| {
            let relation = self.relations.with_domains(state.pods.get(*pod), *node, domains);
            (!relation.is_none()).then_some((*pod, *node, relation))
        });
        let pods: Vec<_> = related.collect();
        let mut leaving: Vec<_> =
            pods.iter().filter(|(.., relation)| relation.rejects).map(|(pod, ..)| *pod).collect();
        leaving.sort_unstable_by(|a, b| by_importance(state, state.pods.get(*a), state.pods.get(*b)));
        let (violations, _) = self.search.budgets.violations(state, &leaving);
        let mut at_least = Cost::NOTHING;
        leaving.into_iter().zip(violations).for_each(|(pod, violates)| at_least.add(state, pod, violates));
        Far { pods, at_least }
    }

    fn search_on(&mut self, target: &Target) {
        let (state, search, id) = (self.state(), self.search, target.node);
        let mut node = search.relevant.on(id);
        let local = state.nodes.get(id).pods.iter().copied().filter(|pod| self.is_lower(*pod));
        let local: Vec<PodId> = local.collect();
        self.n_steps += 1 + local.len() + target.far.pods.len();
        if !target.has_room {
            local.iter().for_each(|pod| search.change(&mut node, *pod, -1));
            let has_room = search.rejection(&mut node, is_local).is_none();
            local.iter().for_each(|pod| search.change(&mut node, *pod, 1));
            if !has_room {
                return;
            }
        }
        let candidates = Candidate::find(search, self.relations, id, &local, &target.far.pods);
        let mut choices = Choices::new(id, target.order, node, candidates);
        for i in 0..choices.candidates.len() {
            if choices.candidates[i].relation.rejects {
                self.change(&mut choices, i, -1);
            }
        }
        self.extend(&mut choices);
    }

    /// Lets a candidate leave (−1) or return (1).
    fn change(&mut self, choices: &mut Choices<'a>, i: usize, sign: i64) {
        let Unit { here, elsewhere } = &choices.candidates[i].unit;
        here.iter().for_each(|pod| self.search.change(&mut choices.node, *pod, sign));
        for pod in elsewhere.iter().map(|pod| self.state().pods.get(*pod)) {
            if let Some(node) = pod.node {
                choices.node.change_elsewhere(node, pod, sign);
            }
        }
        let n = here.len() + elsewhere.len();
        choices.n_leaving = choices.n_leaving.saturating_add_signed(-(sign as isize) * n as isize);
        choices.chosen[i] = if sign < 0 { Choice::Leaves } else { Choice::Open };
        self.n_steps += n;
    }

    /// Tries all continuations of what leaves so far.
    fn extend(&mut self, choices: &mut Choices<'a>) {
        let cost = self.cost(choices);
        if self.is_cut() || !self.is_better(choices, cost) {
            return;
        }
        self.n_steps += 1 + choices.n_leaving + choices.candidates.len() / 16;
        match self.obstacle(choices) {
            Obstacle::Nothing => {
                self.found(choices, cost);
                self.spare(choices);
            }
            Obstacle::OneOf(helpers) => {
                for i in &helpers {
                    if choices.is_open(*i) && !self.is_cut() {
                        self.change(choices, *i, -1);
                        self.extend(choices);
                        self.change(choices, *i, 1);
                        choices.stay(*i, true);
                    }
                }
                helpers.into_iter().for_each(|i| choices.stay(i, false));
            }
            Obstacle::AllOf(sets) => {
                for set in sets {
                    if self.is_cut() || !self.may_leave(choices, &set) {
                        continue;
                    }
                    set.iter().for_each(|i| self.change(choices, *i, -1));
                    self.extend(choices);
                    set.iter().for_each(|i| self.change(choices, *i, 1));
                }
            }
        }
    }

    /// Whether it costs less than the best victims so far if these leave as well.
    fn may_leave(&self, choices: &mut Choices<'_>, set: &[usize]) -> bool {
        set.iter().for_each(|i| choices.chosen[*i] = Choice::Leaves);
        let cost = self.cost(choices);
        let is_better = self.is_better(choices, cost);
        set.iter().for_each(|i| choices.chosen[*i] = Choice::Open);
        is_better
    }

    fn cost(&self, choices: &Choices<'_>) -> Cost {
        let (mut cost, mut used) = (Cost::NOTHING, Used::new());
        for candidate in choices.leaving() {
            for (pod, budgets) in candidate.unit.pods().zip(&candidate.budgets) {
                let mut violates = false;
                for (i, allowed) in budgets {
                    violates |= use_one(&mut used, *i) > *allowed;
                }
                cost.add(self.state(), pod, violates);
            }
        }
        cost
    }

    /// Whether what leaves is better than the best victims so far. More victims are never better than fewer of them.
    fn is_better(&self, choices: &Choices<'_>, cost: Cost) -> bool {
        let Some(best) = &self.best else { return true };
        // At equal costs on one node, the more important of two pods stays.
        let of_other = |(a, b): (&Choice, &Choice)| {
            let (a, b) = (*a == Choice::Leaves, *b == Choice::Leaves);
            (a != b).then_some(b)
        };
        let spares = || choices.chosen.iter().zip(&best.chosen).find_map(of_other).unwrap_or(false);
        (cost, choices.order) < (best.cost, best.order)
            || ((cost, choices.order) == (best.cost, best.order) && spares())
    }

    fn found(&mut self, choices: &Choices<'_>, cost: Cost) {
        if choices.n_leaving > 0 && self.is_better(choices, cost) {
            let pods = choices.leaving().flat_map(|candidate| candidate.unit.pods()).collect();
            let chosen = choices.chosen.clone();
            self.best = Some(Best { cost, order: choices.order, node: choices.id, chosen, pods });
        }
    }

    /// Better victims at once: those stay that need not leave, first those that a budget protects, the most important first.
    fn spare(&mut self, choices: &mut Choices<'a>) {
        let candidates = &choices.candidates;
        let need_not = |i: &usize| choices.chosen[*i] == Choice::Leaves && !candidates[*i].relation.rejects;
        let mut leaving: Vec<_> = (0..candidates.len()).filter(need_not).collect();
        leaving.sort_by_key(|i| !candidates[*i].is_protected());
        let mut spared = Vec::new();
        for i in leaving {
            self.change(choices, i, 1);
            self.n_steps += 1;
            match self.is_feasible(choices) {
                true => spared.push(i),
                false => self.change(choices, i, -1),
            }
        }
        if !spared.is_empty() {
            let cost = self.cost(choices);
            self.found(choices, cost);
        }
        spared.into_iter().for_each(|i| self.change(choices, i, -1));
    }

    fn is_feasible(&self, choices: &mut Choices<'a>) -> bool {
        self.search.rejection(&mut choices.node, |_| true).is_none()
    }

    fn obstacle(&mut self, choices: &mut Choices<'a>) -> Obstacle {
        let search = self.search;
        let of_affinity = search.rejection(&mut choices.node, |plugin| plugin == Plugin::InterPodAffinity);
        match of_affinity.map(|rejection| rejection.status) {
            // No pod in its domain matches, or none does any more: it may only be the first of its group.
            Some(Status::UnschedulableAndUnresolvable) => {
                let sets = (0..self.relations.n_affinity()).filter_map(|of| choices.all(bit(of)));
                return Obstacle::AllOf(sets.collect());
            }
            Some(_) => return Obstacle::OneOf(choices.open(|candidate| candidate.relation.is_limited)),
            None => {}
        }
        let of_spread = search.rejection(&mut choices.node, |plugin| plugin == Plugin::PodTopologySpread);
        match of_spread.map(|rejection| rejection.status) {
            Some(Status::Unschedulable) => return self.spread_obstacle(choices),
            Some(_) => return Obstacle::OneOf(Vec::new()),
            None => {}
        }
        let is_other = |plugin| !matches!(plugin, Plugin::InterPodAffinity | Plugin::PodTopologySpread);
        if search.rejection(&mut choices.node, is_other).is_none() {
            return Obstacle::Nothing;
        }
        let open: Vec<_> = (0..choices.candidates.len())
            .filter(|i| choices.is_open(*i) && choices.candidates[*i].makes_room)
            .collect();
        open.iter().for_each(|i| self.change(choices, *i, -1));
        let helps = search.rejection(&mut choices.node, is_other).is_none();
        open.iter().for_each(|i| self.change(choices, *i, 1));
        match helps {
            true => Obstacle::OneOf(choices.open(|candidate| candidate.makes_room)),
            false => Obstacle::OneOf(Vec::new()),
        }
    }

    /// What has to leave for the spread constraints that reject the node.
    fn spread_obstacle(&self, choices: &mut Choices<'a>) -> Obstacle {
        let mut excess = SmallVec::new();
        if choices.node.change_nominated(1) {
            excess = self.spread.excess(choices.node.node());
            choices.node.change_nominated(-1);
        }
        if excess.is_empty() {
            excess = self.spread.excess(choices.node.node());
        }
        let mut tightest: Option<(usize, Vec<usize>)> = None;
        for (constraint, n) in excess {
            let open = choices.open(|candidate| candidate.relation.spread & bit(constraint) != 0);
            let n_needed = usize::try_from(n).unwrap_or_default();
            let Some(n_spare) = choices.n_pods(&open).checked_sub(n_needed) else {
                return Obstacle::OneOf(Vec::new());
            };
            if tightest.as_ref().is_none_or(|(known, _)| n_spare < *known) {
                tightest = Some((n_spare, open));
            }
        }
        let Some((n_spare, open)) = tightest else { return Obstacle::OneOf(Vec::new()) };
        // Of a class with more pods than are to spare, some leave in any case: the least important ones.
        let needed = choices.without_spare(&open, n_spare);
        if needed.is_empty() { Obstacle::OneOf(open) } else { Obstacle::AllOf(vec![needed]) }
    }
}
