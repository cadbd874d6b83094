//! The nodes on which evictions may help, by what they cost.
//!
//! A node starts with a lower bound: the cost of its least important pod. Victims are searched for in the order of the
//! bounds until a node is first whose cost is known. Most often that is the first node looked at, and a cost stays known
//! until the node changes.

use std::collections::BTreeSet;

use super::budget::{DisruptionBudget, Used};
use super::victims::{Cost, Found, NodeVictims, Search};
use crate::state::State;
use crate::state::node::NodeId;
use crate::verdict::{Rejection, Status};
use crate::view::rejections::Rejections;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
pub(super) const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// What is known of preemption on each node, for pods of one rule set, signature and priority.
#[derive(Default)]
pub(crate) struct Candidates {
    /// Indexed by node id.
    nodes: Vec<Node>,
    /// Cost, place in the order of names, and id of the nodes where preemption helps or may help.
    by_cost: BTreeSet<(Cost, u32, NodeId)>,
    /// Different rejections without the pods of lower priority, with the number of nodes.
    still_rejected: Vec<(Rejection, usize)>,
    n_not_helpful: usize,
    n_without_victims: usize,
    /// Those that the costs were found with.
    budgets: Vec<DisruptionBudget>,
}

#[derive(Default)]
struct Node {
    order: u32,
    result: Result,
}

#[derive(Default)]
enum Result {
    /// The node does not exist.
    #[default]
    Absent,
    NotHelpful,
    NoVictims,
    StillRejected(usize),
    AtLeast(Cost),
    /// It costs this, with the use of budgets by pods of lower priority.
    Costs(Cost, Used),
}

impl Candidates {
    /// Takes over the nodes that were evaluated, and budgets.
    pub(super) fn catch_up(
        &mut self,
        state: &State,
        rejections: &mut Rejections,
        priority: i32,
        budgets: &[DisruptionBudget],
    ) {
        for id in rejections.take_evaluated() {
            let result = match rejections.status(id) {
                _ if state.nodes.find_by_id(id).is_none() => Result::Absent,
                Some(Status::Unschedulable) => {
                    Cost::at_least(state, id, priority).map_or(Result::NoVictims, Result::AtLeast)
                }
                _ => Result::NotHelpful,
            };
            let order = if matches!(result, Result::Absent) { 0 } else { state.name_order.of(id) };
            self.set(id, order, result);
        }
        if self.budgets != budgets {
            self.change_budgets(state, priority, budgets);
        }
    }

    /// Forgets the costs that the change of budgets makes wrong.
    fn change_budgets(&mut self, state: &State, priority: i32, budgets: &[DisruptionBudget]) {
        let (before, now) = (std::mem::take(&mut self.budgets), budgets);
        let same_pods = before.len() == now.len()
            && before.iter().zip(now).all(|(before, now)| before.protects_the_same(now));
        let violated = |budgets: &[DisruptionBudget], (i, used): &(usize, i32)| {
            (*used).saturating_sub(budgets[*i].disruptions_allowed.max(0)).max(0)
        };
        let is_same =
            |used: &Used| same_pods && used.iter().all(|used| violated(&before, used) == violated(now, used));
        let wrong = |node: &Node| matches!(&node.result, Result::Costs(_, used) if !is_same(used));
        let wrong: Vec<_> =
            (0..).zip(&self.nodes).filter(|(_, n)| wrong(n)).map(|(i, _)| NodeId(i)).collect();
        for id in wrong {
            let bound = Cost::at_least(state, id, priority).map_or(Result::NoVictims, Result::AtLeast);
            self.set(id, self.nodes[id.0 as usize].order, bound);
        }
        self.budgets = if same_pods {
            let mut budgets = before;
            for (budget, now) in budgets.iter_mut().zip(now) {
                budget.disruptions_allowed = now.disruptions_allowed;
            }
            budgets
        } else {
            now.to_vec()
        };
    }

    /// The best node with its victims; none if preemption helps on no node.
    pub(super) fn best(&mut self, search: &Search<'_>) -> Option<(NodeId, NodeVictims)> {
        let mut best: Option<(Cost, NodeVictims, NodeId)> = None;
        loop {
            let (_, order, id) = *self.by_cost.first()?;
            if let Result::Costs(..) = self.nodes[id.0 as usize].result {
                if let Some((_, victims, _)) = best.take_if(|(.., found)| *found == id) {
                    return Some((id, victims));
                }
                let Found::Victims(victims) = search.on(id, None) else { return None };
                return Some((id, victims));
            }
            let result = match search.on(id, best.as_ref().map(|(cost, ..)| cost)) {
                Found::Victims(found) => {
                    let (cost, used) = (found.cost, found.used.clone());
                    if best.as_ref().is_none_or(|(best, ..)| cost < *best) {
                        best = Some((cost, found, id));
                    }
                    Result::Costs(cost, used)
                }
                Found::Dearer(cost) => Result::AtLeast(cost),
                Found::NoVictims => Result::NoVictims,
                Found::StillRejected(rejection) => Result::StillRejected(self.intern(rejection)),
            };
            self.set(id, order, result);
        }
    }

    /// Why preemption does not help, with the number of nodes, once no node is left where it may help.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (&str, usize)> {
        let still = self.still_rejected.iter();
        let still = still.flat_map(|(rejection, n)| rejection.reasons.iter().map(|reason| (&**reason, *n)));
        let others = [(NO_VICTIMS, self.n_without_victims), (NOT_HELPFUL, self.n_not_helpful)];
        still.chain(others).filter(|(_, n)| *n > 0)
    }

    fn intern(&mut self, rejection: Rejection) -> usize {
        let known = self.still_rejected.iter().position(|(known, _)| *known == rejection);
        known.unwrap_or_else(|| {
            self.still_rejected.push((rejection, 0));
            self.still_rejected.len() - 1
        })
    }

    fn set(&mut self, id: NodeId, order: u32, result: Result) {
        let index = id.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, Node::default);
        }
        let Node { order: order_before, result: before } = std::mem::take(&mut self.nodes[index]);
        match before {
            Result::Absent => {}
            Result::NotHelpful => self.n_not_helpful -= 1,
            Result::NoVictims => self.n_without_victims -= 1,
            Result::StillRejected(i) => self.still_rejected[i].1 -= 1,
            Result::AtLeast(cost) | Result::Costs(cost, _) => {
                self.by_cost.remove(&(cost, order_before, id));
            }
        }
        match &result {
            Result::Absent => {}
            Result::NotHelpful => self.n_not_helpful += 1,
            Result::NoVictims => self.n_without_victims += 1,
            Result::StillRejected(i) => self.still_rejected[*i].1 += 1,
            Result::AtLeast(cost) | Result::Costs(cost, _) => {
                self.by_cost.insert((*cost, order, id));
            }
        }
        self.nodes[index] = Node { order, result };
    }
}
