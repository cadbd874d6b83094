//! Where the members of a group go by its topology: the domains of each level are tried as placements.
//!
//! If all members share a domain, it is the one with the best score, as kube-scheduler scores placements: the number of members
//! placed, and how much of the nodes is then in use. All placements count; those that cannot be better than one that was found are not
//! tried. Members that need not share a domain are given as few domains as possible: the one that takes most of them, then the one
//! that takes most of the others, and at last the best of those that take the rest.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_rules::PodRequests;
use rustc_hash::FxHashSet;

use super::alike::{self, are_equal, kept_apart_in};
use super::domain::{Domain, Free, Least, domains};
use super::member::Member;
use super::search::{ALL_DOMAINS, BUDGET, Search, first_descent};
use super::{Deciding, Group, GroupLevel, MemberFailure};
use crate::decision::Outcome;
use crate::plugins::placement::{Amounts, PlacementScorer};
use crate::state::pod::prepared::PreparedPod;

/// The highest score of a plugin for a placement.
const MAX_SCORE: i64 = 100;

/// Members with what was decided about them.
pub(super) struct Found {
    /// By index in the group, in the order of decision.
    pub(super) outcomes: Vec<(usize, Outcome)>,
    /// The domain of the first level, if the members share one.
    pub(super) domain: Option<Arc<str>>,
    n_domains: Vec<usize>,
}

impl Found {
    fn placed(&self) -> impl Iterator<Item = usize> + Clone {
        self.outcomes.iter().filter(|(_, outcome)| outcome.node().is_some()).map(|(i, _)| *i)
    }

    /// Keeps a multiple of a number of members.
    fn keep_multiple_of(&mut self, n: usize) {
        let n_kept = self.placed().count() / n * n;
        let placed = self.outcomes.iter_mut().filter(|(_, outcome)| outcome.node().is_some());
        for (_, outcome) in placed.skip(n_kept) {
            let message =
                format!("its group is placed in slices of {n} pods, and this one does not fill another");
            *outcome = Outcome::Unschedulable { message, plugins: Vec::new() };
        }
    }
}

/// A level, and those that are finer.
type Levels<'l, 'a> = (&'l GroupLevel<'a>, &'l [GroupLevel<'a>]);

/// A domain that was tried.
struct Candidate {
    domain: Domain,
    found: Found,
    n_placed: usize,
    /// By how much of the nodes is in use.
    usage: i64,
}

/// Steps of the budget of a command, page or attempt that an evaluation takes.
const STEPS: u64 = 50;

/// The search of a group.
pub(super) struct Placing<'a, 'b> {
    by: &'a mut Deciding<'b>,
    group: &'a Group<'a>,
    scorer: Option<PlacementScorer>,
    /// Of the attempts that were explained, the one in which most members had a node.
    furthest: Option<MemberFailure>,
    /// One that got further: the number of members that had a node; the members, how many are needed, and their domain.
    unexplained: Option<(usize, Vec<usize>, usize, Domain)>,
    /// The evaluations that are left for all domains together.
    budget: usize,
    /// A search ended at its limit of evaluations.
    pub(super) is_cut: bool,
}

impl<'a, 'b> Placing<'a, 'b> {
    pub(super) fn new(by: &'a mut Deciding<'b>, group: &'a Group<'a>) -> Placing<'a, 'b> {
        let scorer = PlacementScorer::new(by.state, group.members);
        Placing { by, group, scorer, furthest: None, unexplained: None, budget: ALL_DOMAINS, is_cut: false }
    }

    /// Places members, by index in the group and in the order of decision: at least `min` of them.
    pub(super) fn place(
        &mut self,
        members: &[usize],
        min: usize,
        levels: &[GroupLevel<'a>],
        within: &Domain,
    ) -> Option<Found> {
        let Some((level, finer)) = levels.split_first() else { return self.search(members, min, within) };
        if level.rule.required {
            return self.in_one(members, min, (level, finer), within);
        }
        // What a slice needs is no preference.
        let has_slices = levels.iter().any(|level| level.rule.multiple_of > 1);
        self.in_one(members, members.len(), (level, finer), within)
            .or_else(|| self.in_several(members, min, (level, finer), within))
            .or_else(|| if has_slices { None } else { self.search(members, min, within) })
    }

    /// Places members in a domain, without a look at finer levels.
    pub(super) fn search(&mut self, members: &[usize], min: usize, domain: &Domain) -> Option<Found> {
        if let Some(placed) = self.place_alike(members, domain) {
            let n_placed = placed.len();
            if n_placed == members.len() {
                let outcomes = members.iter().copied().zip(placed).collect();
                return Some(Found { outcomes, domain: None, n_domains: Vec::new() });
            }
            if n_placed < min {
                if self.n_furthest().is_none_or(|furthest| n_placed > furthest) {
                    self.unexplained = Some((n_placed, members.to_vec(), min, domain.clone()));
                }
                return None;
            }
        }
        self.search_any(members, min, domain)
    }

    /// The same for members of any kind.
    fn search_any(&mut self, members: &[usize], min: usize, domain: &Domain) -> Option<Found> {
        // Members go to the nodes of a constraint; their spread constraints count those of other domains as well.
        let all_nodes = Domain::all_nodes();
        let restricting = if domain.is_constraint { &all_nodes } else { domain };
        let searched = Member::all(self.by.state, self.group.members, members, restricting);
        let descent = first_descent(members.len());
        let work = self.by.state.settings.device_work.clone();
        // What comes after it finds some: other domains, and the search for victims.
        let allowed = usize::try_from(work.left() / (2 * STEPS)).unwrap_or(usize::MAX);
        let budget = descent.max(self.budget.min(BUDGET).min(allowed));
        let (found, left) = Search::new(self.by, searched, domain, min, budget).run();
        let beyond = (budget - left).saturating_sub(descent);
        self.budget = self.budget.saturating_sub(beyond);
        work.spend(STEPS * beyond as u64);
        #[cfg(test)]
        tests::N_EVALUATED.set(tests::N_EVALUATED.get() + budget - left);
        match found {
            Ok(outcomes) => {
                let outcomes = members.iter().copied().zip(outcomes).collect();
                Some(Found { outcomes, domain: None, n_domains: Vec::new() })
            }
            Err(failure) => {
                self.is_cut |= failure.is_cut;
                self.by.state.n_cut_group_searches += u64::from(failure.is_cut);
                if self.furthest.as_ref().is_none_or(|furthest| furthest.n_placed < failure.n_placed) {
                    let placed =
                        failure.placed.iter().map(|(at, node)| (members[*at], node.clone())).collect();
                    let label = domain.labels.last();
                    self.furthest = Some(MemberFailure {
                        member: members[failure.member],
                        domain: label.map(|(_, value)| value.to_string()),
                        topology_key: label.map(|(key, _)| key.to_string()),
                        placed,
                        ..*failure
                    });
                }
                None
            }
        }
    }

    /// So many members had a node in the attempt that got furthest.
    fn n_furthest(&self) -> Option<usize> {
        let unexplained = self.unexplained.as_ref().map(|(n, ..)| *n);
        self.furthest.as_ref().map(|furthest| furthest.n_placed).max(unexplained)
    }

    /// The attempt in which most members had a node.
    pub(super) fn furthest(mut self) -> Option<MemberFailure> {
        if let Some((_, members, min, domain)) = self.unexplained.take() {
            self.search_any(&members, min, &domain);
        }
        self.furthest
    }

    /// Where members go that are equal, in a domain that decides by its nodes alone.
    fn place_alike(&self, members: &[usize], domain: &Domain) -> Option<Vec<Outcome>> {
        let nodes = domain.nodes.as_deref().filter(|_| domain.is_constraint)?;
        let Deciding { state, nominations, .. } = &*self.by;
        let mut pods = members.iter().map(|i| &self.group.members[*i]);
        if !are_equal(state, pods.clone()) {
            return None;
        }
        alike::place(state, nominations, pods.next()?, members.len(), nodes)
    }

    /// Places at least `min` members in one domain: in the one that needs the fewest domains of the finer levels, then by score.
    fn in_one(
        &mut self,
        members: &[usize],
        min: usize,
        (level, finer): Levels<'_, 'a>,
        within: &Domain,
    ) -> Option<Found> {
        let min = min.next_multiple_of(level.rule.multiple_of.max(1));
        let mut domains = self.domains(level, within);
        if let Some(value) = level.value {
            domains.retain(|domain| domain.value().is_some_and(|own| **own == *value));
        }
        let (least, requests) = (self.least(members), self.requests(members));
        let optimum = |placing: &Self, domain: &Domain| MAX_SCORE + placing.usage(domain, &requests);
        domains.sort_by_cached_key(|domain| Reverse(optimum(self, domain)));
        let mut tried: Vec<Candidate> = Vec::new();
        for domain in domains {
            let is_best = |candidate: &Candidate| {
                let lowest = MAX_SCORE * candidate.n_placed as i64 / members.len() as i64 + candidate.usage;
                (lowest, Reverse(candidate.domain.value()))
                    > (optimum(self, &domain), Reverse(domain.value()))
            };
            // Scores are shares of the most members that any domain takes.
            let is_most_known = tried.iter().any(|candidate| candidate.n_placed == members.len());
            if finer.is_empty() && is_most_known && tried.iter().any(is_best) {
                break;
            }
            let is_too_small =
                |room: usize| room < min && self.n_furthest().is_some_and(|furthest| furthest >= room);
            if is_too_small(domain.sums.free.room(least)) || is_too_small(self.room(&domain, least)) {
                continue;
            }
            tried.extend(self.candidate(members, min, (level, finer), domain));
        }
        let most = tried.iter().map(|candidate| candidate.n_placed).max()?;
        let score = |c: &Candidate| MAX_SCORE * c.n_placed as i64 / most as i64 + c.usage;
        tried.retain(|candidate| finer.is_empty() || candidate.n_placed == most);
        let rank = |c: &Candidate| (c.found.n_domains.clone(), Reverse(score(c)), c.domain.value().cloned());
        let Candidate { domain, mut found, .. } = tried.into_iter().min_by_key(rank)?;
        found.domain = domain.value().cloned();
        found.n_domains.insert(0, 1);
        Some(found)
    }

    /// What a domain takes: at least `min` members and one.
    fn candidate(
        &mut self,
        members: &[usize],
        min: usize,
        (level, finer): Levels<'_, 'a>,
        domain: Domain,
    ) -> Option<Candidate> {
        let mut found = self.place(members, min, finer, &domain)?;
        found.keep_multiple_of(level.rule.multiple_of.max(1));
        let placed: Vec<usize> = found.placed().collect();
        let (n_placed, usage) = (placed.len(), self.usage(&domain, &self.requests(&placed)));
        (n_placed >= min.max(1)).then_some(Candidate { domain, found, n_placed, usage })
    }

    /// Places at least `min` members in as few domains as possible.
    fn in_several(
        &mut self,
        members: &[usize],
        min: usize,
        (level, finer): Levels<'_, 'a>,
        within: &Domain,
    ) -> Option<Found> {
        let mut remaining = members.to_vec();
        let mut domains = self.domains(level, within);
        let mut parts: Vec<Candidate> = Vec::new();
        while !remaining.is_empty() {
            let Some(part) = self.largest(&remaining, (level, finer), &mut domains) else { break };
            self.assign(&part, true);
            let taken: FxHashSet<usize> = part.found.placed().collect();
            remaining.retain(|i| !taken.contains(i));
            parts.push(part);
        }
        parts.iter().rev().for_each(|part| self.assign(part, false));
        let n_placed: usize = parts.iter().map(|part| part.n_placed).sum();
        let last = parts.last_mut().filter(|_| n_placed >= min)?;
        let rest = last.found.outcomes.extract_if(.., |(_, outcome)| outcome.node().is_none());
        let rest: Vec<_> = rest.collect();
        let mut n_domains = vec![parts.len()];
        for at in 0..finer.len() {
            n_domains.push(parts.iter().filter_map(|part| part.found.n_domains.get(at)).sum());
        }
        let placed = parts.into_iter().flat_map(|part| part.found.outcomes);
        let placed = placed.filter(|(_, outcome)| outcome.node().is_some());
        let outcomes = placed.chain(rest).collect();
        Some(Found { outcomes, domain: None, n_domains })
    }

    /// The domain that takes most members, and the best of them; it is taken out of the list.
    fn largest(
        &mut self,
        members: &[usize],
        (level, finer): Levels<'_, 'a>,
        domains: &mut Vec<Domain>,
    ) -> Option<Candidate> {
        let least = self.least(members);
        domains.sort_by_cached_key(|domain| Reverse(domain.sums.free.room(least)));
        let is_own = |domain: &Domain| level.value.is_some() && domain.value().map(|v| &**v) == level.value;
        let mut best: Option<(bool, Candidate)> = None;
        let mut left = Vec::new();
        for domain in domains.drain(..) {
            let own = is_own(&domain);
            let takes_fewer = |room: usize| {
                let room = room.min(members.len());
                best.as_ref().is_some_and(|(is_own, best)| (own, room) < (*is_own, best.n_placed))
            };
            if takes_fewer(domain.sums.free.room(least)) || takes_fewer(self.room(&domain, least)) {
                left.push(domain);
                continue;
            }
            let Some(candidate) = self.candidate(members, 0, (level, finer), domain.clone()) else {
                continue;
            };
            let rank =
                |own: bool, c: &Candidate| (own, c.n_placed, c.usage, Reverse(c.domain.value().cloned()));
            let is_better =
                best.as_ref().is_none_or(|(is_own, best)| rank(own, &candidate) > rank(*is_own, best));
            if is_better {
                left.extend(best.replace((own, candidate)).map(|(_, worse)| worse.domain));
            } else {
                left.push(domain);
            }
        }
        *domains = left;
        best.map(|(_, candidate)| candidate)
    }

    fn assign(&mut self, part: &Candidate, on: bool) {
        self.assign_all(&part.found.outcomes, on);
    }

    pub(super) fn assign_all(&mut self, outcomes: &[(usize, Outcome)], on: bool) {
        for (i, outcome) in outcomes {
            self.by.assign(&self.group.members[*i], outcome, on);
        }
    }

    /// The domains of a level by name, with their nodes.
    pub(super) fn domains(&mut self, level: &GroupLevel<'a>, within: &Domain) -> Vec<Domain> {
        let (key, scorer) = (&level.rule.key, self.scorer.as_ref());
        match within.nodes {
            None => self.by.domains.domains(self.by.state, key, scorer),
            Some(_) => domains(self.by.state, key, within, true, scorer),
        }
    }

    fn requests(&self, members: &[usize]) -> Amounts {
        let scorer = self.scorer.as_ref();
        scorer.map(|scorer| scorer.requests(members.iter().copied())).unwrap_or_default()
    }

    fn usage(&self, domain: &Domain, requests: &Amounts) -> i64 {
        self.scorer.as_ref().map_or(0, |scorer| scorer.score(&domain.sums.usage, requests))
    }

    /// The least that each of some members requests.
    fn least(&self, members: &[usize]) -> Least {
        let state = &*self.by.state;
        let requests = members.iter().map(|i| {
            let pod: &PreparedPod = &self.group.members[*i];
            &state.rule_sets.get(pod.rule_set).rules().requests
        });
        let least = |amount: fn(&PodRequests) -> i64| requests.clone().map(amount).min().unwrap_or(0);
        let mut pods = members.iter().map(|i| &self.group.members[*i]);
        let apart = are_equal(state, pods.clone()).then(|| pods.next()).flatten().and_then(|pod| {
            let mut topologies = kept_apart_in(state, pod);
            topologies.find(|(topology, limit)| *limit == 0 && !state.topologies.is_shared(*topology))
        });
        let apart = apart.map(|(topology, _)| topology);
        Least { milli_cpu: least(|r| r.milli_cpu), memory: least(|r| r.memory), apart }
    }

    /// So many members fit at most, by the resources of the nodes.
    fn room(&self, domain: &Domain, each: Least) -> usize {
        let nodes = domain.nodes.iter().flat_map(|nodes| nodes.iter());
        let state = &*self.by.state;
        let room = nodes.map(|id| {
            let is_alone = each.apart.is_some_and(|t| state.topologies.domain(t, *id).is_some());
            Free::of(state.nodes.get(*id)).room(each).min(if is_alone { 1 } else { usize::MAX })
        });
        room.fold(0, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use berth_api::object::group::TopologyLevel;
    use berth_testkit::text;

    use super::*;
    use crate::{Cluster, GroupOutcome, Settings};

    thread_local! {
        pub(super) static N_EVALUATED: Cell<usize> = const { Cell::new(0) };
    }

    /// Two of the large pods fit on a node. That the last one does not fit in a rack shows only after all arrangements of the others,
    /// and not by the room for the smallest pod.
    #[test]
    fn searches_in_many_domains_share_one_limit() {
        let node = |rack: usize, i: usize| format!("node n{rack}{i} rack=r{rack} cpu={}m\n", 7000 + rack);
        let nodes = (0..8).flat_map(|rack| (0..8).map(move |i| node(rack, i)));
        let pods = (0..17).map(|i| format!("pod default/p{i:02} cpu={}m\n", 3000 + i));
        let small = "pod default/small cpu=1m\n".to_owned();
        let world = text::world(&nodes.chain([small]).chain(pods).collect::<String>());
        let mut cluster = Cluster::new(Settings::default());
        world.nodes.iter().for_each(|node| cluster.set_node(node));
        let members: Vec<_> = world.pods.iter().map(|pod| cluster.prepare(pod)).collect();
        let rule = TopologyLevel::required("example.com/rack");
        let levels = [GroupLevel { rule: &rule, value: None }];
        let group = Group { members: &members, min: 18, levels: &levels, composite: None };
        let GroupOutcome::Unplaced(failure) = cluster.place_group(&group) else { panic!("they do not fit") };
        assert!(failure.is_cut);
        let n_evaluated = N_EVALUATED.get();
        assert!((2 * BUDGET..=ALL_DOMAINS + BUDGET).contains(&n_evaluated), "{n_evaluated}");
        assert_eq!(cluster.device_work().n_spent() / STEPS / BUDGET as u64, 3);

        // All groups together.
        cluster.device_work().allow(60_000_000, 100_000_000);
        for _ in 0..20 {
            let GroupOutcome::Unplaced(failure) = cluster.place_group(&group) else {
                panic!("they do not fit")
            };
            assert!(failure.is_cut && failure.n_placed > 10, "{failure:?}");
        }
        let n_all = N_EVALUATED.get() - n_evaluated;
        assert!(n_all < 2_000_000 + 20 * 8 * first_descent(18), "{n_all}");
    }
}
