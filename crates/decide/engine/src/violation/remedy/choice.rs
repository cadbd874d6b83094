//! Victim selection for broken anti-affinity.
//!
//! For every broken term its owner is evicted, unless enough of the pods that conflict with it have lower priority: then
//! those are evicted, the first in eviction order, that exceed the limit of the term in a domain. Without a limit these
//! are all. Owners are considered in eviction order. A pod that turns out to be unnecessary, because other evictions are
//! enough, stays.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Pending, PodName, Rank, name_of};
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::pod::PodId;
use crate::verdict::witness::DomainOf;

/// Why a pod is not evicted.
#[derive(Clone, Debug)]
pub(super) enum Stuck {
    /// Pods like it are never evicted.
    Never(String),
    /// No node is feasible for its replacement.
    Nowhere,
}

/// The selected victims, and what happens to terms whose owner stays.
#[derive(Default)]
pub(super) struct Choice {
    /// Victims, in the order of [`Rank`].
    pub(super) victims: Vec<PodId>,
    /// By index of the term among those pending.
    pub(super) answers: FxHashMap<usize, Answer>,
}

/// What happens to a term whose owner is not evicted.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// These are evicted.
    Others(Vec<PodName>),
    /// These would have to be evicted, and have no feasible node.
    Blocked(Vec<PodName>),
    /// The conflicting pods are being deleted.
    Waits(PodName),
    /// No pod can be evicted.
    Stuck(String),
}

type Place = (MatcherId, TopologyId, DomainId);

/// Pods in a domain that match a term.
#[derive(Default)]
struct ConflictingPods {
    /// The most important first.
    pods: Vec<PodId>,
    /// One that is being deleted.
    leaving: Option<PodId>,
    /// Indices of the terms that conflict with them.
    terms: Vec<usize>,
}

pub(super) struct Conflicts<'a> {
    state: &'a State,
    pending: &'a [Pending],
    intruders: &'a FxHashSet<PodId>,
    stuck: &'a dyn Fn(PodId) -> Option<Stuck>,
    groups: Vec<ConflictingPods>,
    /// The groups that conflict with each term.
    of_term: FxHashMap<usize, Vec<usize>>,
    of_owner: FxHashMap<PodId, Vec<usize>>,
    of_pod: FxHashMap<PodId, Vec<usize>>,
}

impl<'a> Conflicts<'a> {
    /// Looks up the pods that conflict with these broken terms.
    pub(super) fn new(
        state: &'a State,
        pending: &'a [Pending],
        terms: &[usize],
        intruders: &'a FxHashSet<PodId>,
        stuck: &'a dyn Fn(PodId) -> Option<Stuck>,
    ) -> Conflicts<'a> {
        let (groups, of_term, of_owner, of_pod) = Default::default();
        let mut conflicts = Conflicts { state, pending, intruders, stuck, groups, of_term, of_owner, of_pod };
        let mut known: FxHashMap<Place, usize> = FxHashMap::default();
        for term in terms {
            conflicts.of_owner.entry(pending[*term].pod).or_default().push(*term);
            let pod = state.pods.get(pending[*term].pod);
            let Some(node) = pod.node else { continue };
            let rule_set = state.rule_sets.get(pod.rule_set);
            let Some(compiled) = pending[*term].rule.anti_affinity(rule_set) else { continue };
            for topology in &compiled.topologies {
                let Some(domain) = state.topologies.domain(*topology, node) else { continue };
                let place = (compiled.matcher, *topology, domain);
                let group = *known.entry(place).or_insert_with(|| {
                    let of = DomainOf { topology: *topology, domain, node };
                    conflicts.gather(compiled.matcher, of)
                });
                conflicts.groups[group].terms.push(*term);
                conflicts.of_term.entry(*term).or_default().push(group);
            }
        }
        conflicts
    }

    fn gather(&mut self, matcher: MatcherId, of: DomainOf) -> usize {
        let (state, intruders) = (self.state, self.intruders);
        let mut group = ConflictingPods::default();
        for (id, pod) in state.pods_in(of).filter(|(_, pod)| state.is_matched(pod.likeness(), matcher)) {
            if pod.terminating {
                group.leaving.get_or_insert(id);
            } else {
                group.pods.push(id);
                self.of_pod.entry(id).or_default().push(self.groups.len());
            }
        }
        let importance = |id: &PodId| (!intruders.contains(id), Rank::of(state, *id));
        group.pods.sort_by_cached_key(|id| std::cmp::Reverse(importance(id)));
        self.groups.push(group);
        self.groups.len() - 1
    }

    fn names(&self, pods: impl IntoIterator<Item = PodId>) -> Vec<PodName> {
        pods.into_iter().map(|pod| name_of(self.state, pod)).collect()
    }

    /// The groups that conflict with a term, one for each domain.
    fn groups_of(&self, term: usize) -> impl Iterator<Item = &ConflictingPods> {
        self.of_term.get(&term).into_iter().flatten().map(|group| &self.groups[*group])
    }

    /// Pods of a group that conflict with a term and stay, the most important first.
    fn others<'b>(
        &'b self,
        group: &'b ConflictingPods,
        term: usize,
        victims: &'b FxHashSet<PodId>,
    ) -> impl Iterator<Item = PodId> + 'b {
        let owner = self.pending[term].pod;
        group.pods.iter().copied().filter(move |pod| *pod != owner && !victims.contains(pod))
    }

    /// How many pods of a group may stay.
    fn limit(&self, term: usize) -> usize {
        let Pending { pod, rule, .. } = &self.pending[term];
        let rule_set = self.state.rule_sets.get(self.state.pods.get(*pod).rule_set);
        rule.anti_affinity(rule_set).map_or(0, |compiled| compiled.limit as usize)
    }

    /// Selects the victims; `terms` are in the order of their owners' ranks.
    pub(super) fn choose(&self, terms: &[usize]) -> Choice {
        let mut victims = FxHashSet::default();
        let mut answers = FxHashMap::default();
        for term in terms {
            if !victims.contains(&self.pending[*term].pod)
                && let Some(answer) = self.choose_for(*term, &mut victims)
            {
                answers.insert(*term, answer);
            }
        }
        let mut ranked: Vec<PodId> = victims.iter().copied().collect();
        ranked.sort_by_cached_key(|id| Rank::of(self.state, *id));
        for pod in ranked.iter().rev() {
            if !self.is_needed(*pod, &victims, &answers) {
                victims.remove(pod);
            }
        }
        ranked.retain(|pod| victims.contains(pod));
        for term in terms.iter().filter(|t| !victims.contains(&self.pending[**t].pod)) {
            answers.entry(*term).or_insert_with(|| {
                let pods = self.groups_of(*term).flat_map(|group| group.pods.iter().copied());
                let mut gone: Vec<PodId> = pods.filter(|pod| victims.contains(pod)).collect();
                gone.sort_unstable();
                gone.dedup();
                Answer::Others(self.names(gone))
            });
        }
        Choice { victims: ranked, answers }
    }

    /// Selects the owner of a term, or pods that conflict with it; returns what it is if none can be evicted.
    fn choose_for(&self, term: usize, victims: &mut FxHashSet<PodId>) -> Option<Answer> {
        let owner = self.pending[term].pod;
        match self.excess(term, victims) {
            Excess::Evict(pods) if pods.is_empty() => {
                let mut leaving = self.groups_of(term).filter_map(|group| group.leaving);
                return leaving.next().map(|pod| Answer::Waits(name_of(self.state, pod)));
            }
            Excess::Evict(pods) => {
                victims.extend(pods);
                return None;
            }
            Excess::Blocked(pods) => return Some(Answer::Blocked(self.names(pods))),
            Excess::OfOwner => {}
        }
        match (self.stuck)(owner) {
            None => {
                victims.insert(owner);
                None
            }
            Some(Stuck::Nowhere) => Some(Answer::Blocked(self.names([owner]))),
            Some(Stuck::Never(why)) => Some(Answer::Stuck(why)),
        }
    }

    /// Which of the pods that conflict with a term exceed its limit.
    fn excess(&self, term: usize, victims: &FxHashSet<PodId>) -> Excess {
        let priority =
            |id: PodId| (!self.intruders.contains(&id), self.state.pods.get(id).precedence.priority);
        let is_lower = |pod: &PodId| priority(*pod) < priority(self.pending[term].pod);
        let limit = self.limit(term);
        let (mut evicted, mut blocked) = (FxHashSet::default(), Vec::new());
        for group in self.groups_of(term) {
            // The most important come first: one of them decides it nearly always.
            if self.others(group, term, victims).take_while(|pod| !is_lower(pod)).nth(limit).is_some() {
                return Excess::OfOwner;
            }
            let others: Vec<PodId> =
                self.others(group, term, victims).filter(|pod| !evicted.contains(pod)).collect();
            let mut n_excess = others.len().saturating_sub(limit);
            let mut nowhere = Vec::new();
            for pod in others.into_iter().rev().filter(is_lower) {
                match (n_excess, (self.stuck)(pod)) {
                    (0, _) => break,
                    (_, None) => {
                        evicted.insert(pod);
                        n_excess -= 1;
                    }
                    // It may have a feasible node later.
                    (_, Some(Stuck::Nowhere)) => nowhere.push(pod),
                    (_, Some(Stuck::Never(_))) => {}
                }
            }
            if n_excess > nowhere.len() {
                return Excess::OfOwner;
            }
            if n_excess > 0 {
                blocked.extend(nowhere);
            }
        }
        blocked.sort_unstable();
        blocked.dedup();
        if blocked.is_empty() { Excess::Evict(evicted) } else { Excess::Blocked(blocked) }
    }

    /// Whether a term would stay broken if the pod stayed.
    fn is_needed(&self, pod: PodId, victims: &FxHashSet<PodId>, answers: &FxHashMap<usize, Answer>) -> bool {
        let mut owned = self.of_owner.get(&pod).into_iter().flatten();
        owned.any(|term| {
            let mut groups = self.groups_of(*term);
            groups.any(|group| self.others(group, *term, victims).nth(self.limit(*term)).is_some())
        }) || self.of_pod.get(&pod).into_iter().flatten().any(|group| {
            let group = &self.groups[*group];
            group.terms.iter().any(|term| {
                let owner = self.pending[*term].pod;
                let is_kept = owner != pod && !victims.contains(&owner) && !answers.contains_key(term);
                // With it, one more than the others would conflict.
                let limit = self.limit(*term);
                is_kept && (limit == 0 || self.others(group, *term, victims).nth(limit - 1).is_some())
            })
        })
    }
}

/// What exceeds the limit of a broken term, besides earlier victims.
enum Excess {
    /// These, or none.
    Evict(FxHashSet<PodId>),
    /// Pods some of which would have to be evicted, and have no feasible node.
    Blocked(Vec<PodId>),
    /// Pods that are not evicted for it: only the owner can be.
    OfOwner,
}
