//! Who goes where pods must not be together.
//!
//! For every broken term the pod that carries it goes, unless all pods in its way are of lower priority: then they
//! go. TermOwners are looked at in the order in which pods would go, and a pod that turns out to be unnecessary in the
//! end, because others go that would have been enough, stays.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Pending, PodName, Rank, name_of};
use crate::state::State;
use crate::state::matcher::MatcherId;
use crate::state::pod::PodId;
use crate::state::topology::{DomainId, TopologyId};
use crate::witness::DomainOf;

/// Why a pod does not go.
#[derive(Clone, Debug)]
pub(super) enum Stuck {
    /// Pods like it are never evicted.
    Never(String),
    /// It has no place to go to.
    Nowhere,
}

/// What is found out about the terms.
#[derive(Default)]
pub(super) struct Choice {
    /// Who goes, in the order of [`Rank`].
    pub(super) going: Vec<PodId>,
    /// By index of the term among those pending.
    pub(super) answers: FxHashMap<usize, Answer>,
}

/// What becomes of a term whose carrier does not go.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// These go.
    Others(Vec<PodName>),
    /// These would have to go, and have no place to go to.
    Blocked(Vec<PodName>),
    /// Those in its way are being deleted.
    Waits(PodName),
    /// Nobody can go.
    Stuck(String),
}

type Place = (MatcherId, TopologyId, DomainId);

/// Pods in a domain that match a term.
#[derive(Default)]
struct Crowd {
    /// The most important first.
    pods: Vec<PodId>,
    /// One that is being deleted.
    leaving: Option<PodId>,
    /// Indices of the terms that must not be with them.
    terms: Vec<usize>,
}

pub(super) struct Conflicts<'a> {
    state: &'a State,
    pending: &'a [Pending],
    stuck: &'a dyn Fn(PodId) -> Option<Stuck>,
    crowds: Vec<Crowd>,
    /// The crowds that each term looks at.
    of_term: FxHashMap<usize, Vec<usize>>,
    /// The terms that a pod carries.
    of_carrier: FxHashMap<PodId, Vec<usize>>,
    /// The crowds that a pod is in.
    of_pod: FxHashMap<PodId, Vec<usize>>,
}

impl<'a> Conflicts<'a> {
    /// Looks up who is in the way of these broken terms.
    pub(super) fn new(
        state: &'a State,
        pending: &'a [Pending],
        terms: &[usize],
        stuck: &'a dyn Fn(PodId) -> Option<Stuck>,
    ) -> Conflicts<'a> {
        let (crowds, of_term, of_carrier, of_pod) = Default::default();
        let mut conflicts = Conflicts { state, pending, stuck, crowds, of_term, of_carrier, of_pod };
        let mut known: FxHashMap<Place, usize> = FxHashMap::default();
        for term in terms {
            conflicts.of_carrier.entry(pending[*term].pod).or_default().push(*term);
            let pod = state.pods.get(pending[*term].pod);
            let Some(node) = pod.node else { continue };
            let rule_set = state.rule_sets.get(pod.rule_set);
            let Some(compiled) = pending[*term].rule.anti_affinity(rule_set) else { continue };
            for topology in &compiled.topologies {
                let Some(domain) = state.topologies.domain(*topology, node) else { continue };
                let place = (compiled.matcher, *topology, domain);
                let crowd = *known.entry(place).or_insert_with(|| {
                    let of = DomainOf { topology: *topology, domain, node };
                    conflicts.gather(compiled.matcher, of)
                });
                conflicts.crowds[crowd].terms.push(*term);
                conflicts.of_term.entry(*term).or_default().push(crowd);
            }
        }
        conflicts
    }

    fn gather(&mut self, matcher: MatcherId, of: DomainOf) -> usize {
        let state = self.state;
        let mut crowd = Crowd::default();
        for (id, pod) in state.pods_in(of).filter(|(_, pod)| state.is_matched(pod, matcher)) {
            if pod.terminating {
                crowd.leaving.get_or_insert(id);
            } else {
                crowd.pods.push(id);
                self.of_pod.entry(id).or_default().push(self.crowds.len());
            }
        }
        crowd.pods.sort_by_cached_key(|id| std::cmp::Reverse(Rank::of(state, *id)));
        self.crowds.push(crowd);
        self.crowds.len() - 1
    }

    fn names(&self, pods: impl IntoIterator<Item = PodId>) -> Vec<PodName> {
        pods.into_iter().map(|pod| name_of(self.state, pod)).collect()
    }

    /// Pods in the way of a term that stay.
    fn others<'b>(&'b self, term: usize, going: &'b FxHashSet<PodId>) -> impl Iterator<Item = PodId> + 'b {
        let carrier = self.pending[term].pod;
        let crowds = self.of_term.get(&term).into_iter().flatten();
        let pods = crowds.flat_map(|crowd| self.crowds[*crowd].pods.iter().copied());
        pods.filter(move |pod| *pod != carrier && !going.contains(pod))
    }

    /// Chooses who goes for the terms; `terms` are in the order of their carriers' ranks.
    pub(super) fn choose(&self, terms: &[usize]) -> Choice {
        let mut going = FxHashSet::default();
        let mut answers = FxHashMap::default();
        for term in terms {
            if !going.contains(&self.pending[*term].pod)
                && let Some(answer) = self.choose_for(*term, &mut going)
            {
                answers.insert(*term, answer);
            }
        }
        let mut ranked: Vec<PodId> = going.iter().copied().collect();
        ranked.sort_by_cached_key(|id| Rank::of(self.state, *id));
        for pod in ranked.iter().rev() {
            if !self.is_needed(*pod, &going, &answers) {
                going.remove(pod);
            }
        }
        ranked.retain(|pod| going.contains(pod));
        for term in terms.iter().filter(|t| !going.contains(&self.pending[**t].pod)) {
            answers.entry(*term).or_insert_with(|| {
                let crowds = self.of_term.get(term).into_iter().flatten();
                let pods = crowds.flat_map(|crowd| self.crowds[*crowd].pods.iter().copied());
                let mut gone: Vec<PodId> = pods.filter(|pod| going.contains(pod)).collect();
                gone.sort_unstable();
                gone.dedup();
                Answer::Others(self.names(gone))
            });
        }
        Choice { going: ranked, answers }
    }

    /// Lets the carrier of a term go, or those in its way; what it is if nobody can.
    fn choose_for(&self, term: usize, going: &mut FxHashSet<PodId>) -> Option<Answer> {
        let carrier = self.pending[term].pod;
        let priority = |id: PodId| self.state.pods.get(id).precedence.priority;
        // The most important come first: one of them settles it nearly always.
        if self.others(term, going).all(|other| priority(other) < priority(carrier)) {
            let mut others: Vec<PodId> = self.others(term, going).collect();
            others.sort_unstable();
            others.dedup();
            if others.is_empty() {
                let crowds = self.of_term.get(&term).into_iter().flatten();
                let mut leaving = crowds.filter_map(|crowd| self.crowds[*crowd].leaving);
                return leaving.next().map(|pod| Answer::Waits(name_of(self.state, pod)));
            }
            let stuck: Vec<_> =
                others.iter().filter_map(|other| Some((*other, (self.stuck)(*other)?))).collect();
            if stuck.is_empty() {
                going.extend(others);
                return None;
            }
            // A pod that never goes will not make room for anybody; one that only has no place now may yet.
            if stuck.iter().all(|(_, why)| matches!(why, Stuck::Nowhere)) {
                return Some(Answer::Blocked(self.names(stuck.into_iter().map(|(pod, _)| pod))));
            }
        }
        match (self.stuck)(carrier) {
            None => {
                going.insert(carrier);
                None
            }
            Some(Stuck::Nowhere) => Some(Answer::Blocked(self.names([carrier]))),
            Some(Stuck::Never(why)) => Some(Answer::Stuck(why)),
        }
    }

    /// Whether a term would stay broken if the pod stayed.
    fn is_needed(&self, pod: PodId, going: &FxHashSet<PodId>, answers: &FxHashMap<usize, Answer>) -> bool {
        let carries = self.of_carrier.get(&pod).into_iter().flatten();
        let mut own = carries.flat_map(|term| self.others(*term, going));
        let of_others = || {
            let crowds = self.of_pod.get(&pod).into_iter().flatten();
            let mut terms = crowds.flat_map(|crowd| &self.crowds[*crowd].terms);
            terms.any(|term| {
                let carrier = self.pending[*term].pod;
                carrier != pod && !going.contains(&carrier) && !answers.contains_key(term)
            })
        };
        own.next().is_some() || of_others()
    }
}
