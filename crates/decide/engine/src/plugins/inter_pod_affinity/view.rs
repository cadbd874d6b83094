//! The part of a view: the counters that the rule reads for one rule set. Those of topologies with one node per domain are
//! evaluated for each node, the others for each cell.

use berth_input::config::Plugin;
use berth_rules::Dialect;
use smallvec::SmallVec;

use super::super::rule::MAX_NODE_SCORE;
use super::existing::{exceeds_limit, existing_matchers};
use super::score::{difference, preference};
use crate::cycle::context::Context;
use crate::state::State;
use crate::state::counting::counter::{Counter, Tally};
use crate::state::counting::matcher::{ExistingTermKind, MatcherId, PreferenceOf};
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;

/// A counter: pods that match a matcher, or that own a term with it, in a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    kind: Kind,
    matcher: MatcherId,
    topology: TopologyId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Matching,
    Owners(ExistingTermKind),
}

impl Source {
    fn counter<'a>(&self, state: &'a State) -> Option<&'a Counter> {
        let matcher = state.matchers.get(self.matcher);
        match self.kind {
            Kind::Matching => matcher.matching_in(self.topology),
            Kind::Owners(kind) => matcher.owners_in(self.topology, kind),
        }
    }

    fn is_empty(&self, state: &State) -> bool {
        self.counter(state).is_none_or(Counter::is_empty)
    }

    fn tally_in(&self, state: &State, domain: Option<DomainId>) -> Tally {
        domain.and_then(|d| Some(self.counter(state)?.get(d))).unwrap_or_default()
    }
}

/// A counter that is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Preference {
    source: Source,
    by: By,
    factor: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The number of pods.
    Count,
    Presence,
    /// The sum of the weights.
    Weight,
}

impl Preference {
    fn score(&self, tally: Tally) -> i64 {
        self.factor
            * match self.by {
                By::Count => tally.count,
                By::Presence => i64::from(tally.count > 0),
                By::Weight => tally.weight,
            }
    }
}

/// A preference of existing pods that is scored where the pod makes the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Difference {
    /// Owners that do not match their own term, and those that do.
    owners: [Source; 2],
    matching: Source,
    factor: i64,
}

impl Difference {
    fn score(&self, tally: impl Fn(&Source) -> Tally) -> i64 {
        self.factor * difference(tally(&self.matching).count, |i| tally(&self.owners[i]).weight)
    }
}

/// Required anti-affinity with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    limit: u32,
    /// Of terms of existing pods; none for a term of the pod.
    owners: Option<Source>,
    matching: Source,
}

/// What a view keeps of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeFeatures {
    /// Raw score in topologies with one node per domain.
    pub(crate) score: i64,
    /// Bit i: required affinity term i is satisfied in a topology with one node per domain.
    pub(crate) affinity_terms: u64,
}

/// Required affinity terms are bits of [`NodeFeatures::affinity_terms`].
pub(super) const MAX_AFFINITY_TERMS: usize = 63;

/// All counters that inter-pod rules of one rule set read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InterPod {
    /// Required affinity. One of the topologies of each term has to match.
    affinity: Vec<SmallVec<[Source; 1]>>,
    /// The requirements of affinity that the pod satisfies itself: the bits of their terms, and the counters that are empty
    /// while the pod is the first of its group.
    own: SmallVec<[(u64, SmallVec<[Source; 1]>); 1]>,
    /// Required anti-affinity without a limit, the pod's own and that of existing pods: all of these have to be zero.
    anti_affinity: Vec<Source>,
    limits: Vec<Limit>,
    preferences: Vec<Preference>,
    differences: Vec<Difference>,
    /// Of the score; 0 without it.
    weight: i64,
}

impl InterPod {
    pub(crate) fn new(context: Context<'_>) -> InterPod {
        let Context { state, rule_set, cycle, profile } = context;
        let signature = state.signatures.get(cycle.signature);
        let source = |kind, matcher, topology| Source { kind, matcher, topology };
        let existing = || {
            existing_matchers(context).flat_map(|(id, matcher)| {
                let owners = matcher.owners.iter();
                owners
                    .map(move |owners| (owners.kind, source(Kind::Owners(owners.kind), id, owners.topology)))
            })
        };
        let mut rules = InterPod::default();
        if profile.profile.filter.contains(&Plugin::InterPodAffinity) {
            for term in &rule_set.required_affinity {
                let topologies = term.topologies.iter();
                rules.affinity.push(topologies.map(|t| source(Kind::Matching, term.matcher, *t)).collect());
            }
            let mut n_terms = 0;
            for terms in rule_set.affinity_requirements() {
                let bits = ((1 << terms.len()) - 1) << n_terms;
                n_terms += terms.len();
                if signature.matched.binary_search(&terms[0].matcher).is_ok() {
                    let group = terms.iter().flat_map(|term| {
                        term.group_topologies.iter().map(|t| source(Kind::Matching, term.matcher, *t))
                    });
                    rules.own.push((bits, group.collect()));
                }
            }
            for term in &rule_set.required_anti_affinity {
                let counted = term.topologies.iter().map(|t| source(Kind::Matching, term.matcher, *t));
                match term.limit {
                    0 => rules.anti_affinity.extend(counted),
                    limit => {
                        let limit = |matching| Limit { limit, owners: None, matching };
                        rules.limits.extend(counted.map(limit));
                    }
                }
            }
            for (kind, owners) in existing() {
                match kind.anti_affinity_limit() {
                    None => {}
                    Some(0) => rules.anti_affinity.push(owners),
                    Some(limit) => {
                        let matching = Source { kind: Kind::Matching, ..owners };
                        rules.limits.push(Limit { limit, owners: Some(owners), matching });
                    }
                }
            }
        }
        let args = &profile.profile.inter_pod_affinity;
        let scored = profile.profile.score.iter().find(|(p, _)| *p == Plugin::InterPodAffinity);
        rules.weight = scored.map_or(0, |(_, weight)| *weight);
        if scored.is_none() || (rule_set.preferred.is_empty() && args.ignore_preferred_terms_of_existing_pods)
        {
            return rules;
        }
        for term in &rule_set.preferred {
            let by = match term.dialect {
                Dialect::V1 => By::Count,
                Dialect::Proposal => By::Presence,
            };
            for topology in &term.topologies {
                let source = source(Kind::Matching, term.matcher, *topology);
                rules.preferences.push(Preference { source, by, factor: term.weight });
            }
        }
        for (kind, source) in existing() {
            let Some((factor, of)) = preference(kind, args) else { continue };
            match of {
                PreferenceOf::V1 => rules.preferences.push(Preference { source, by: By::Weight, factor }),
                PreferenceOf::Proposal { matches_itself: true } => {}
                PreferenceOf::Proposal { matches_itself: false } => rules.differences.push(Difference {
                    owners: [source, Source { kind: Kind::Owners(kind.of_owner(true)), ..source }],
                    matching: Source { kind: Kind::Matching, ..source },
                    factor,
                }),
            }
        }
        rules
    }

    /// Whether a view with `before` stays valid with `self`, which only adds counters without pods, in known topologies.
    pub(crate) fn extends(
        &self,
        before: &InterPod,
        state: &State,
        known: impl Fn(TopologyId) -> bool,
    ) -> bool {
        let harmless = |source: &Source| source.is_empty(state) && known(source.topology);
        self.affinity == before.affinity
            && self.own == before.own
            && self.anti_affinity.iter().all(|s| before.anti_affinity.contains(s) || harmless(s))
            && self
                .limits
                .iter()
                .all(|l| before.limits.contains(l) || l.owners.is_some_and(|owners| harmless(&owners)))
            && self.preferences.iter().all(|p| before.preferences.contains(p) || harmless(&p.source))
            && self
                .differences
                .iter()
                .all(|d| before.differences.contains(d) || d.owners.iter().all(harmless))
    }

    pub(crate) fn topologies(&self) -> impl Iterator<Item = TopologyId> + '_ {
        let affinity = self.affinity.iter().flatten();
        let preferences = self.preferences.iter().map(|p| &p.source);
        let differences = self.differences.iter().map(|d| &d.matching);
        let limits = self.limits.iter().map(|limit| &limit.matching);
        let counters = affinity.chain(&self.anti_affinity).chain(limits);
        counters.chain(preferences).chain(differences).map(|s| s.topology)
    }

    /// The counters of topologies with one node per domain.
    pub(crate) fn node_rules<'a>(&'a self, state: &'a State) -> NodeRules<'a> {
        let counter = |source: &Source| {
            let counter = (!state.topologies.is_shared(source.topology)).then(|| source.counter(state))??;
            (!counter.is_empty()).then_some((source.topology, counter))
        };
        NodeRules {
            state,
            affinity: self
                .affinity
                .iter()
                .map(|t| (&t[..], t.iter().filter_map(counter).collect()))
                .collect(),
            anti_affinity: self.anti_affinity.iter().filter_map(counter).collect(),
            limits: self
                .limits
                .iter()
                .filter_map(|limit| {
                    let owners = match &limit.owners {
                        Some(owners) => Some(counter(owners)?.1),
                        None => None,
                    };
                    Some((limit.limit, owners, counter(&limit.matching)?))
                })
                .collect(),
            preferences: self.preferences.iter().filter_map(|p| Some((counter(&p.source)?, p))).collect(),
            differences: self
                .differences
                .iter()
                .filter(|d| d.owners.iter().any(|owners| counter(owners).is_some()))
                .collect(),
        }
    }

    /// Bits of the required affinity terms of whose group the pod is the first now.
    pub(crate) fn terms_as_first(&self, state: &State) -> u64 {
        let own = self.own.iter().filter(|(_, group)| group.iter().all(|source| source.is_empty(state)));
        own.fold(0, |all, (bits, _)| all | bits)
    }

    /// Evaluates the topologies with several nodes per domain for a cell.
    pub(crate) fn check_cell(
        &self,
        state: &State,
        domain: impl Fn(TopologyId) -> Option<DomainId>,
    ) -> CellRules {
        let shared = |source: &&Source| state.topologies.is_shared(source.topology);
        let tally = |s: &Source| s.tally_in(state, domain(s.topology));
        let mut affinity_terms = 0;
        for (i, term) in self.affinity.iter().enumerate() {
            let satisfied = term.iter().filter(shared).any(|s| tally(s).count > 0);
            affinity_terms |= u64::from(satisfied) << i;
        }
        let mut limits = self.limits.iter().filter(|limit| shared(&&limit.matching));
        let preferences = self.preferences.iter().filter(|p| shared(&&p.source));
        let differences = self.differences.iter().filter(|d| shared(&&d.matching));
        CellRules {
            allowed: self.anti_affinity.iter().filter(shared).all(|s| tally(s).count == 0)
                && !limits
                    .any(|l| exceeds_limit(l.limit, l.owners.as_ref().map(tally), tally(&l.matching).count)),
            affinity_terms,
            score: preferences.map(|p| p.score(tally(&p.source))).sum::<i64>()
                + differences.map(|d| d.score(tally)).sum::<i64>(),
        }
    }

    /// The bits of all required affinity terms.
    pub(crate) fn all_affinity_terms(&self) -> u64 {
        (1 << self.affinity.len()) - 1
    }
}

/// The result of inter-pod rules for a cell.
pub(crate) struct CellRules {
    /// Whether no anti-affinity rejects it.
    pub(crate) allowed: bool,
    /// Bits of the required affinity terms that are satisfied.
    pub(crate) affinity_terms: u64,
    pub(crate) score: i64,
}

/// A counter with pods, and its topology.
type TopologyCounter<'a> = (TopologyId, &'a Counter);
type TopologyCounters<'a> = SmallVec<[TopologyCounter<'a>; 1]>;

/// The inter-pod rules that are evaluated for each node: their counters in topologies with one node per domain.
pub(crate) struct NodeRules<'a> {
    state: &'a State,
    /// Per required affinity term, its topologies and its counters.
    affinity: SmallVec<[(&'a [Source], TopologyCounters<'a>); 1]>,
    anti_affinity: SmallVec<[TopologyCounter<'a>; 2]>,
    /// Limits, each with its owners and the pods that match.
    limits: Vec<(u32, Option<&'a Counter>, TopologyCounter<'a>)>,
    preferences: SmallVec<[(TopologyCounter<'a>, &'a Preference); 2]>,
    differences: SmallVec<[&'a Difference; 1]>,
}

impl NodeRules<'_> {
    /// Whether the rules allow a node. Sets its features.
    pub(crate) fn allow(&self, node: NodeId, features: &mut NodeFeatures) -> bool {
        let domain = |topology| self.state.topologies.domain(topology, node);
        let tally = |(topology, counter): &TopologyCounter<'_>| {
            domain(*topology).map(|domain| counter.get(domain)).unwrap_or_default()
        };
        features.affinity_terms = 0;
        for (i, (sources, counted)) in self.affinity.iter().enumerate() {
            if !sources.iter().any(|s| domain(s.topology).is_some()) {
                return false;
            }
            let satisfied = counted.iter().any(|c| tally(c).count > 0);
            features.affinity_terms |= u64::from(satisfied) << i;
        }
        features.score = self.preferences.iter().map(|(counted, p)| p.score(tally(counted))).sum();
        let in_domain = |s: &Source| s.tally_in(self.state, domain(s.topology));
        features.score += self.differences.iter().map(|d| d.score(in_domain)).sum::<i64>();
        self.anti_affinity.iter().all(|c| tally(c).count == 0)
            && !self.limits.iter().any(|(limit, owners, matching)| {
                let owners = owners.map(|owners| tally(&(matching.0, owners)));
                exceeds_limit(*limit, owners, tally(matching).count)
            })
    }
}

/// The weighted scores of nodes for their raw scores.
pub(crate) struct Scores {
    weight: i64,
    min: i64,
    max: i64,
}

impl InterPod {
    /// `raw` are the raw scores of all feasible nodes.
    pub(crate) fn scores(&self, raw: impl Iterator<Item = i64> + Clone) -> Scores {
        let (min, max) = (raw.clone().min().unwrap_or(0), raw.max().unwrap_or(0));
        Scores { weight: self.weight, min, max }
    }
}

impl Scores {
    /// The lowest raw score becomes 0, the highest 100 times the weight.
    pub(crate) fn of(&self, raw: i64) -> i64 {
        if self.max == self.min {
            return 0;
        }
        let share = (raw - self.min) as f64 / (self.max - self.min) as f64;
        self.weight * (MAX_NODE_SCORE as f64 * share) as i64
    }
}
