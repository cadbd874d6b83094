//! What may leave so that a pod fits on one node, and what leaves in the branch of the search that is looked at.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::relations::{Domains, Relation, Relations};
use super::super::victims::{Search, Unit, name};
use crate::cycle::what_if::NodeWhatIf;
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::{Likeness, PodId};

/// Pods that may leave at once.
pub(super) struct Candidate {
    pub(super) unit: Unit,
    pub(super) relation: Relation,
    /// Whether the node has more room without it.
    pub(super) makes_room: bool,
    /// For each pod the budgets that protect it.
    pub(super) budgets: SmallVec<[Protection; 1]>,
    /// Candidates of one class can stand in for each other.
    class: usize,
}

/// Budgets by number, with the disruptions that they allow.
pub(super) type Protection = SmallVec<[(usize, i32); 1]>;

/// What candidates of one class have in common.
type Class = (Likeness, Option<NodeId>, Domains, Relation, Protection);

impl Candidate {
    /// What may leave for a node, the most important first.
    pub(super) fn find(
        search: &Search<'_>,
        relations: &Relations<'_>,
        id: NodeId,
        local: &[PodId],
        far: &[(PodId, NodeId, Relation)],
    ) -> Vec<Candidate> {
        let state = search.context.state;
        let is_lower = |pod| state.pods.get(pod).precedence.priority < search.priority;
        let record = state.nodes.get(id);
        let n_nominated = search.context.cycle.nominated.on(state, id).len();
        let lacks_pods = (record.pods.len() + n_nominated) as i64 + 1 > record.allocatable.pods;
        let (mut candidates, mut by_group) = (Vec::<Candidate>::new(), FxHashMap::default());
        let on_node = local.iter().map(|pod| (*pod, relations.with_its_node(state.pods.get(*pod), id)));
        let elsewhere = far.iter().filter(|(_, node, _)| *node != id).map(|(pod, _, of)| (*pod, *of));
        for (pod, relation) in on_node.chain(elsewhere) {
            let unit = match search.group(pod) {
                Some(group) => {
                    if let Some(at) = by_group.get(&group) {
                        let candidate: &mut Candidate = &mut candidates[*at];
                        candidate.relation = candidate.relation.and(relation);
                        continue;
                    }
                    let unit = search.unit_of_group(group, id);
                    if unit.pods().any(|pod| !is_lower(pod)) {
                        continue;
                    }
                    by_group.insert(group, candidates.len());
                    unit
                }
                None if state.pods.get(pod).node == Some(id) => {
                    Unit { here: SmallVec::from([pod]), elsewhere: Vec::new() }
                }
                None => Unit { here: SmallVec::new(), elsewhere: vec![pod] },
            };
            let makes_room =
                !unit.here.is_empty() && (lacks_pods || unit.here.iter().any(|pod| uses_node(state, *pod)));
            let protecting = |pod| {
                let budgets = search.budgets.protecting(state, state.pods.get(pod));
                budgets.map(|(i, budget)| (i, budget.disruptions_allowed)).collect()
            };
            let budgets = unit.pods().map(protecting).collect();
            candidates.push(Candidate { unit, relation, makes_room, budgets, class: 0 });
        }
        candidates.sort_by_cached_key(|candidate| {
            (candidate.unit.importance(state), candidate.unit.pods().next().map(|pod| name(state, pod)))
        });
        classify(search, relations, id, &mut candidates);
        candidates
    }

    pub(super) fn is_protected(&self) -> bool {
        self.budgets.iter().any(|of_pod| !of_pod.is_empty())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Open,
    Leaves,
    /// In this branch: those in which it leaves have been tried.
    Stays,
}

/// The search on one node. The most important candidates come first.
pub(super) struct Choices<'a> {
    pub(super) id: NodeId,
    pub(super) order: u32,
    pub(super) node: NodeWhatIf<'a>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) chosen: Vec<Choice>,
    /// By class, how many candidates stay for good.
    n_staying: Vec<usize>,
    pub(super) n_leaving: usize,
}

impl<'a> Choices<'a> {
    pub(super) fn new(
        id: NodeId,
        order: u32,
        node: NodeWhatIf<'a>,
        candidates: Vec<Candidate>,
    ) -> Choices<'a> {
        let n_classes = candidates.iter().map(|candidate| candidate.class + 1).max().unwrap_or(0);
        let (chosen, n_staying) = (vec![Choice::Open; candidates.len()], vec![0; n_classes]);
        Choices { id, order, node, candidates, chosen, n_staying, n_leaving: 0 }
    }

    pub(super) fn leaving(&self) -> impl Iterator<Item = &Candidate> {
        let chosen = self.candidates.iter().zip(&self.chosen);
        chosen.filter(|(_, choice)| **choice == Choice::Leaves).map(|(candidate, _)| candidate)
    }

    /// Whether a candidate may leave: a less important one of its class would leave instead.
    pub(super) fn is_open(&self, i: usize) -> bool {
        self.chosen[i] == Choice::Open && self.n_staying[self.candidates[i].class] == 0
    }

    /// Those that may leave, the least important first, at last those that a budget protects.
    pub(super) fn open(&self, is_meant: impl Fn(&Candidate) -> bool) -> Vec<usize> {
        let all = (0..self.candidates.len()).rev();
        let open = all.filter(|i| is_meant(&self.candidates[*i]) && self.is_open(*i));
        let (protected, mut open): (Vec<_>, Vec<_>) = open.partition(|i| self.candidates[*i].is_protected());
        open.extend(protected);
        open
    }

    /// All that match a requirement of affinity and have not left; none if there are none, or one of them stays.
    pub(super) fn all(&self, affinity: u64) -> Option<Vec<usize>> {
        let all = (0..self.candidates.len()).filter(|i| {
            self.candidates[*i].relation.affinity & affinity != 0 && self.chosen[*i] != Choice::Leaves
        });
        let all: Vec<_> = all.collect();
        (!all.is_empty() && all.iter().all(|i| self.is_open(*i))).then_some(all)
    }

    pub(super) fn n_pods(&self, candidates: &[usize]) -> usize {
        candidates.iter().map(|i| self.candidates[*i].unit.pods().count()).sum()
    }

    /// Those that leave if at most so many pods of these stay, and the least important of a class leave first.
    pub(super) fn without_spare(&self, open: &[usize], n_spare: usize) -> Vec<usize> {
        let mut n_left: FxHashMap<usize, usize> = FxHashMap::default();
        for i in open {
            *n_left.entry(self.candidates[*i].class).or_default() += self.n_pods(&[*i]);
        }
        let leaves = |i: &&usize| {
            let n_left = n_left.entry(self.candidates[**i].class).or_default();
            let leaves = *n_left > n_spare;
            *n_left -= self.n_pods(&[**i]);
            leaves
        };
        open.iter().filter(leaves).copied().collect()
    }

    /// Whether a candidate stays for good in what is tried next.
    pub(super) fn stay(&mut self, i: usize, stays: bool) {
        let before = std::mem::replace(&mut self.chosen[i], if stays { Choice::Stays } else { Choice::Open });
        let class = &mut self.n_staying[self.candidates[i].class];
        *class = *class + usize::from(stays) - usize::from(before == Choice::Stays);
    }
}

/// Whether a pod takes more of its node than a place among the pods.
fn uses_node(state: &State, pod: PodId) -> bool {
    let pod = state.pods.get(pod);
    let compiled = state.rule_sets.get(pod.rule_set);
    let requests = &compiled.requests;
    (requests.milli_cpu, requests.memory, requests.ephemeral_storage) != (0, 0, 0)
        || !requests.scalar.is_empty()
        || !compiled.rules().host_ports.is_empty()
        || pod.volumes.is_some()
        || pod.devices.is_some()
}

/// Finds the candidates of which the less important always leaves first: no rule, and no count of a budget, tells them apart.
fn classify(search: &Search<'_>, relations: &Relations<'_>, id: NodeId, candidates: &mut [Candidate]) {
    let state = search.context.state;
    let mut classes: FxHashMap<Class, usize> = FxHashMap::default();
    // With overlapping budgets, the number of violations depends on the order of the pods.
    let overlap = candidates.iter().flat_map(|candidate| &candidate.budgets).any(|of_pod| of_pod.len() > 1);
    for (i, candidate) in candidates.iter_mut().enumerate() {
        let mut pods = candidate.unit.pods();
        let (first, others) = (pods.next().map(|pod| (pod, state.pods.get(pod))), pods.next());
        let key = first.filter(|(pod, record)| {
            others.is_none()
                && search.group(*pod).is_none()
                && record.volumes.is_none()
                && record.devices.is_none()
                && (!overlap || candidate.budgets[0].is_empty())
        });
        candidate.class = match key.and_then(|(_, record)| Some((record, record.node?))) {
            Some((record, node)) => {
                let (domains, place) = relations.place(node);
                let place = if node == id { Some(id) } else { place };
                let key =
                    (record.likeness(), place, domains, candidate.relation, candidate.budgets[0].clone());
                *classes.entry(key).or_insert(i)
            }
            None => i,
        };
    }
}
