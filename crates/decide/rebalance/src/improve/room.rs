//! Room for pending pods: the reasons against a pod on a node say which pods have to go from there, or to come. The nodes where fewest
//! have to are tried first. The members of a group get room one after the other.

use std::collections::HashSet;

use berth_api::object::Pod;
use berth_engine::{Counts, Outcome, PreparedPod, Status, TopologyPair, Verdict};
use berth_input::config::Plugin;
use berth_rules::{PodRules, Selector};

use crate::board::{Board, PLACEMENT_STEPS, name};
use crate::waiting::take_back;

/// The largest number of pods that move for one pending pod.
const MAX_MOVES: usize = 8;
/// How many more moves than each reason alone needs are tried on a node.
const MAX_MORE: usize = 2;
/// Number of nodes that are tried for a pod that moves besides the first choice of the scheduler.
const MAX_TARGETS: usize = 4;
/// Number of nodes that are tried for a pending pod.
const MAX_NODES: usize = 200;
/// Number of moves that are tried for one node and number of moves.
const MAX_TRIES: usize = 100;
/// Number of moves that are tried for a pending pod.
const MAX_ALL_TRIES: usize = 2_000;

/// Makes room for each pending pod, and for each group, that finds no node.
pub(super) fn for_pending(board: &mut Board<'_>) {
    for unit in 0..board.waiting.units.len() {
        if !board.spend(PLACEMENT_STEPS * board.waiting.n_pods()) {
            return;
        }
        let outcomes = board.waiting.place(board.moves.cluster());
        board.waiting.take_back(board.moves.cluster(), &outcomes);
        if outcomes[unit].iter().any(|outcome| matches!(outcome, Outcome::Unschedulable { .. })) {
            board.attempt(|board| for_unit(board, unit));
        }
    }
}

fn for_unit(board: &mut Board<'_>, unit: usize) {
    let pods = board.waiting.units[unit].pods.clone();
    let is_single = pods.len() == 1;
    let mut placed = Vec::with_capacity(pods.len());
    for (pod, prepared) in &pods {
        let mut outcome = board.moves.cluster().place(prepared);
        if matches!(outcome, Outcome::Unschedulable { .. }) && Search::of(board, pod, prepared).run(is_single)
        {
            outcome = board.moves.cluster().place(prepared);
        }
        placed.push(outcome);
    }
    take_back(board.moves.cluster(), pods.iter().map(|(_, pod)| pod).zip(&placed));
}

struct Search<'s, 'a> {
    board: &'s mut Board<'a>,
    pod: &'s PreparedPod,
    rules: PodRules,
    tries: usize,
}

impl<'s, 'a> Search<'s, 'a> {
    fn of(board: &'s mut Board<'a>, pod: &Pod, prepared: &'s PreparedPod) -> Search<'s, 'a> {
        let rules = board.moves.cluster().rules_of(pod);
        Search { board, pod: prepared, rules, tries: 0 }
    }

    /// Moves the fewest pods after which the pending one fits on a node. With `is_all` the values must be lower then: it is all that
    /// waits for this room.
    fn run(mut self, is_all: bool) -> bool {
        let before = is_all.then(|| self.board.values());
        let Board { moves, work, .. } = &mut *self.board;
        let rejecting = moves.cluster().rejecting_nodes(self.pod, work);
        let sites = rejecting.into_iter().flatten().filter_map(|(name, verdicts)| {
            let node = self.board.moves.position_of(&name)?;
            Some((self.least(node, &verdicts).filter(|least| *least <= MAX_MOVES)?, node))
        });
        let mut sites: Vec<(usize, usize)> = sites.collect();
        sites.sort_unstable();
        sites.truncate(MAX_NODES);
        let mut left = MAX_ALL_TRIES;
        for n_moves in 1..=MAX_MOVES {
            let tried = sites.iter().filter(|(least, _)| (*least..=*least + MAX_MORE).contains(&n_moves));
            for (_, node) in tried {
                if self.board.work.is_spent() {
                    return false;
                }
                let name = self.board.moves.nodes()[*node].clone();
                let n_steps = self.board.n_steps();
                self.tries = MAX_TRIES.min(left);
                left -= self.tries;
                let is_free = self.free(*node, &name, n_moves)
                    && before.as_ref().is_none_or(|before| self.board.values() < *before);
                if is_free {
                    return true;
                }
                left += self.tries;
                self.board.undo_to(n_steps);
            }
        }
        false
    }

    /// Makes at most so many moves after which the pod fits on the node.
    fn free(&mut self, node: usize, name: &str, n_moves: usize) -> bool {
        self.board.spend(PLACEMENT_STEPS);
        let verdicts = self.board.moves.cluster().verdicts_on(self.pod, name);
        let Some(verdict) = verdicts.first() else { return true };
        if self.least(node, &verdicts).is_none_or(|least| least > n_moves) {
            return false;
        }
        let n_steps = self.board.n_steps();
        for pod in self.candidates(node, verdict, n_moves) {
            for to in self.targets(pod, node, verdict) {
                if self.tries == 0 || self.board.work.is_spent() {
                    return false;
                }
                self.tries -= 1;
                if self.board.apply(pod, to) && self.free(node, name, n_moves - 1) {
                    return true;
                }
                self.board.undo_to(n_steps);
            }
        }
        false
    }

    /// How many pods have to move at least; none if no moves lift all reasons.
    fn least(&self, node: usize, verdicts: &[Verdict]) -> Option<usize> {
        let each = verdicts.iter().map(|verdict| self.least_for(node, verdict));
        each.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    fn least_for(&self, node: usize, verdict: &Verdict) -> Option<usize> {
        if verdict.topology.as_ref().is_some_and(|pair| pair.value.is_none()) {
            return None;
        }
        let count = |n: i64| usize::try_from(n.max(1)).ok();
        match (&verdict.counts, verdict.plugin) {
            (Some(Counts::Resource { resource, requested, used, allocatable }), _) => {
                if verdict.status == Status::UnschedulableAndUnresolvable {
                    return None;
                }
                let on_node = self.board.movable_on[node].iter();
                let mut amounts: Vec<i64> = on_node.map(|pod| self.amount(*pod, resource)).collect();
                amounts.sort_unstable_by(|a, b| b.cmp(a));
                let mut missing = requested + used - allocatable;
                let enough = amounts.into_iter().position(|amount| {
                    missing -= amount;
                    missing <= 0
                });
                enough.map(|at| at + 1)
            }
            (Some(Counts::AntiAffinity { matching, limit }), _) => count(matching - i64::from(*limit)),
            (Some(Counts::ExistingAntiAffinity { owners }), _) => count(*owners),
            (Some(_), _) | (None, Plugin::VolumeRestrictions) => Some(1),
            (None, Plugin::NodePorts) => Some((verdict.witnesses.len() + verdict.more_witnesses).max(1)),
            (None, _) => None,
        }
    }

    fn amount(&self, pod: usize, resource: &str) -> i64 {
        if resource == "pods" { 1 } else { self.board.moves.requested(pod, resource) }
    }

    /// The pods of which one has to move for a reason, those that move first; of pods that are the same here, one.
    fn candidates(&self, node: usize, verdict: &Verdict, n_moves: usize) -> Vec<usize> {
        let board = &*self.board;
        let on_node = || board.movable_on[node].iter().copied();
        let mut pods: Vec<usize> = match &verdict.counts {
            Some(Counts::Resource { resource, requested, used, allocatable }) => {
                let amount = |pod: &usize| self.amount(*pod, resource);
                let most = on_node().map(|pod| amount(&pod)).max().unwrap_or(0);
                // The moves after it may be of the largest pods.
                let least = requested + used - allocatable - most.saturating_mul(n_moves as i64 - 1);
                on_node().filter(|pod| amount(pod) >= least.max(1)).collect()
            }
            Some(Counts::AntiAffinity { .. } | Counts::Affinity { .. } | Counts::Spread { .. }) => {
                let Some(selector) = self.selector_of(verdict.term.as_deref()) else { return Vec::new() };
                let matching = board.movable_of.iter().filter(|class| {
                    let metadata = class.first().map(|pod| &board.pods[*pod].pod.metadata);
                    metadata.is_some_and(|metadata| selector.matches(|key| metadata.label(key)))
                });
                let is_here = |pod: &usize| is_in(board, board.node_of(*pod), verdict.topology.as_ref());
                // What is to come is elsewhere, what is to go is here; any pod may lower a skew.
                let may_help = |pod: &usize| match &verdict.counts {
                    Some(Counts::Affinity { .. }) => !is_here(pod),
                    Some(Counts::AntiAffinity { .. }) => is_here(pod),
                    _ => true,
                };
                matching.flatten().copied().filter(may_help).collect()
            }
            Some(Counts::Volumes { .. } | Counts::Devices { .. }) => {
                on_node().filter(|pod| board.pods[*pod].has_own_claims()).collect()
            }
            Some(Counts::ExistingAntiAffinity { .. } | Counts::ExistingLimit { .. }) | None => {
                let on_its_node = verdict.witnesses.iter().filter_map(|witness| {
                    let on_node = &board.movable_on[board.moves.position_of(&witness.node)?];
                    let is =
                        |pod: &&usize| name(board.pods[**pod].pod) == (&witness.namespace, &witness.name);
                    on_node.iter().find(is).copied()
                });
                on_its_node.collect()
            }
        };
        board.spend(board.movable_of.len() + pods.len());
        let rank = |pod: &usize| (board.pods[*pod].rank(), *pod);
        pods.sort_by_key(rank);
        let mut seen = HashSet::new();
        pods.retain(|pod| {
            let info = &board.pods[*pod];
            let is_single = info.has_own_claims().then_some(*pod);
            seen.insert((
                board.node_of(*pod),
                board.moves.class_of(*pod),
                info.requests,
                &info.budgets,
                is_single,
            ))
        });
        pods
    }

    /// The nodes that are tried for a pod: where the scheduler would put it, and those with most room. Affinity needs it in the domain,
    /// other rules elsewhere.
    fn targets(&mut self, pod: usize, node: usize, verdict: &Verdict) -> Vec<usize> {
        let comes = matches!(verdict.counts, Some(Counts::Affinity { .. }));
        let from = self.board.node_of(pod);
        let first = self.board.moves.first_choice(pod);
        let board = &*self.board;
        let is_target = |to: &usize| {
            let is_here = match &verdict.topology {
                None => *to == node,
                topology => is_in(board, *to, topology.as_ref()),
            };
            *to != from && is_here == comes
        };
        let first = first.filter(is_target);
        let others = (0..board.movable_on.len()).filter(|to| Some(*to) != first && is_target(to));
        first.into_iter().chain(board.roomiest(others, MAX_TARGETS)).collect()
    }

    /// The selector of a rule of the pending pod.
    fn selector_of(&self, path: Option<&str>) -> Option<&Selector> {
        let terms = self.rules.required_affinity.iter().chain(&self.rules.required_anti_affinity);
        let terms = terms.map(|term| (&term.path, &term.selector));
        let constraints = self.rules.spread_constraints.iter().map(|of| (&of.path, &of.selector));
        terms.chain(constraints).find(|(own, _)| Some(own.as_str()) == path).map(|(_, selector)| selector)
    }
}

fn is_in(board: &Board<'_>, node: usize, domain: Option<&TopologyPair>) -> bool {
    domain.is_some_and(|pair| board.label(node, &pair.key) == pair.value.as_deref())
}
