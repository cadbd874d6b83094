//! Pod matchers: which pods terms and constraints select, each selection once.
//!
//! Equal questions are one matcher, however many pods carry them. A matcher counts, per topology
//! domain, the pods that match it and the pods that carry a term with it; the inverted index finds the
//! matchers that a new pod's labels satisfy without testing every one.

use std::hash::Hash;

use berth_rules::Dialect;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::state::counting::counter::Counter;
use crate::state::counting::topology::TopologyId;
use crate::state::interned::intern::{Labels, Symbol, Symbols};
use crate::state::interned::table::{Id, Keyed, Table};
use crate::state::namespace::Namespaces;
use crate::state::rule_set::selector::{LabelMatcher, LabelRequirement};

pub(crate) type MatcherId = Id<Matcher>;

/// The namespaces a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceMatcher {
    /// Sorted.
    pub(crate) names: Box<[Symbol]>,
    pub(crate) selector: LabelMatcher,
}

/// Which side of a rule is evaluated. It matters only for namespaces that do not exist as objects:
/// kube-scheduler lists the namespaces for the terms of the pod it places, but reads an unknown
/// namespace as one without labels for the terms of running pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Running pods are matched against a term of the incoming pod.
    TermOfIncoming,
    /// The incoming pod is matched against a term of running pods.
    TermOfExisting,
}

/// One question: labels and namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodQuery {
    pub(crate) namespaces: NamespaceMatcher,
    pub(crate) labels: LabelMatcher,
    /// Pods being deleted do not match (spread constraints).
    pub(crate) live_only: bool,
    /// Pods in exempt namespaces do not match (anti-affinity of the proposal).
    pub(crate) without_exempt: bool,
}

/// A pod that a matcher may match.
pub(crate) struct Candidate<'a> {
    pub(crate) namespace: Symbol,
    pub(crate) labels: &'a Labels,
    pub(crate) terminating: bool,
    pub(crate) exempt: bool,
}

impl PodQuery {
    pub(in crate::state) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let NamespaceMatcher { names, selector } = &self.namespaces;
        names.iter().copied().chain(selector.symbols()).chain(self.labels.symbols())
    }

    fn matches(
        &self,
        symbols: &Symbols,
        namespaces: &Namespaces,
        pod: &Candidate<'_>,
        direction: Direction,
    ) -> bool {
        if (self.live_only && pod.terminating) || (self.without_exempt && pod.exempt) {
            return false;
        }
        self.matches_namespace(symbols, namespaces, pod.namespace, direction)
            && self.labels.matches(symbols, pod.labels)
    }

    fn matches_namespace(
        &self,
        symbols: &Symbols,
        namespaces: &Namespaces,
        namespace: Symbol,
        direction: Direction,
    ) -> bool {
        let NamespaceMatcher { names, selector } = &self.namespaces;
        if selector.is_everything() || names.binary_search(&namespace).is_ok() {
            return true;
        }
        if selector.is_nothing() {
            return false;
        }
        match (namespaces.labels(namespace), direction) {
            (Some(labels), _) => selector.matches(symbols, labels),
            (None, Direction::TermOfIncoming) => false,
            (None, Direction::TermOfExisting) => selector.matches(symbols, &Labels::default()),
        }
    }
}

/// The kinds of terms that running pods act on others with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ExistingTermKind {
    /// Required anti-affinity with a limit, which is 0 where it has none.
    RequiredAntiAffinity(u32),
    RequiredAffinity(PreferenceOf),
    /// Preferred affinity, and with a negative weight preferred anti-affinity.
    Preferred(PreferenceOf),
    /// Preferred anti-affinity, if a profile ignores that of existing pods.
    PreferredAntiAffinity(PreferenceOf),
}

/// The dialect of a running pod's preference. One of v1 counts for every pod that it matches, one of the proposals only for
/// the first in a domain: that pod makes the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PreferenceOf {
    V1,
    /// The proposals; of pods that match their own term, or of pods that do not.
    Proposal {
        matches_itself: bool,
    },
}

impl PreferenceOf {
    /// Those that the owners of a term are counted by.
    pub(crate) fn all(dialect: Dialect) -> &'static [PreferenceOf] {
        use PreferenceOf::{Proposal, V1};
        match dialect {
            Dialect::V1 => &[V1],
            Dialect::Proposal => &[Proposal { matches_itself: false }, Proposal { matches_itself: true }],
        }
    }
}

impl ExistingTermKind {
    /// The limit of required anti-affinity; none for other kinds.
    pub(crate) fn anti_affinity_limit(self) -> Option<u32> {
        match self {
            ExistingTermKind::RequiredAntiAffinity(limit) => Some(limit),
            _ => None,
        }
    }

    /// The preference; none for required anti-affinity.
    pub(crate) fn preference_mut(&mut self) -> Option<&mut PreferenceOf> {
        match self {
            ExistingTermKind::RequiredAntiAffinity(_) => None,
            ExistingTermKind::RequiredAffinity(of)
            | ExistingTermKind::Preferred(of)
            | ExistingTermKind::PreferredAntiAffinity(of) => Some(of),
        }
    }

    /// Whether owners that match their own term are counted apart.
    pub(in crate::state) fn looks_at_owner(mut self) -> bool {
        self.anti_affinity_limit().is_some_and(|limit| limit > 0)
            || matches!(self.preference_mut(), Some(PreferenceOf::Proposal { .. }))
    }

    /// The kind by which owners are counted that match their own term, or do not.
    pub(crate) fn of_owner(mut self, matches_itself: bool) -> ExistingTermKind {
        if let Some(of @ PreferenceOf::Proposal { .. }) = self.preference_mut() {
            *of = PreferenceOf::Proposal { matches_itself };
        }
        self
    }
}

/// A counter in a topology, and the number of rules that read it. A user of the topology.
#[derive(Clone)]
pub(crate) struct TopologyCounter<K> {
    pub(crate) topology: TopologyId,
    pub(crate) kind: K,
    pub(crate) counter: Counter,
    n_users: u32,
}

/// One counter for each topology and kind, sorted by these.
pub(crate) type TopologyCounters<K> = SmallVec<[TopologyCounter<K>; 1]>;

/// Where a counter is, or would be.
pub(in crate::state) fn position<K: Copy + Ord>(
    counters: &TopologyCounters<K>,
    topology: TopologyId,
    kind: K,
) -> Result<usize, usize> {
    counters.binary_search_by_key(&(topology, kind), |c| (c.topology, c.kind))
}

/// Counts one more user of a counter; adds it, with one user, if it is the first.
pub(in crate::state) fn retain_counter<K: Copy + Ord>(
    counters: &mut TopologyCounters<K>,
    topology: TopologyId,
    kind: K,
) -> bool {
    let known = position(counters, topology, kind);
    match known {
        Ok(i) => counters[i].n_users += 1,
        Err(i) => {
            counters.insert(i, TopologyCounter { topology, kind, counter: Counter::default(), n_users: 1 });
        }
    }
    known.is_err()
}

/// Counts one user fewer; returns whether that was the last one, and the counter is removed.
pub(in crate::state) fn release_counter<K: Copy + Ord>(
    counters: &mut TopologyCounters<K>,
    topology: TopologyId,
    kind: K,
) -> bool {
    let Ok(i) = position(counters, topology, kind) else { return false };
    counters[i].n_users -= 1;
    let is_unused = counters[i].n_users == 0;
    if is_unused {
        counters.remove(i);
    }
    is_unused
}

/// A conjunction of questions (usually one), with its counters. A user of its symbols; it mentions its label keys.
#[derive(Clone)]
pub(crate) struct Matcher {
    pub(in crate::state) queries: SmallVec<[PodQuery; 1]>,
    /// Pods that match, per domain of each topology that rules ask about.
    pub(crate) matching: TopologyCounters<()>,
    /// Pods that own a term with this matcher, per domain of the term's topology. The weight of required anti-affinity with a
    /// limit is the number of those that match the term themselves.
    pub(crate) owners: TopologyCounters<ExistingTermKind>,
}

impl Keyed for Matcher {
    type Key = [PodQuery];

    fn key(&self) -> &[PodQuery] {
        &self.queries
    }
}

/// The requirement of a matcher that both indexes go by: one that the labels of a matching pod must show.
#[derive(Clone, Copy)]
pub(in crate::state) enum Anchor<'a> {
    /// The key with one of the values.
    Pairs(Symbol, &'a [Symbol]),
    Key(Symbol),
    None,
}

impl Matcher {
    pub(crate) fn matches(
        &self,
        symbols: &Symbols,
        namespaces: &Namespaces,
        pod: &Candidate<'_>,
        direction: Direction,
    ) -> bool {
        self.queries.iter().all(|q| q.matches(symbols, namespaces, pod, direction))
    }

    /// Whether a change of namespace labels can change what it matches.
    pub(crate) fn looks_at_namespace_labels(&self) -> bool {
        self.queries
            .iter()
            .any(|q| !q.namespaces.selector.is_nothing() && !q.namespaces.selector.is_everything())
    }

    /// The counter of matching pods in a topology; none if no rule reads it.
    pub(crate) fn matching_in(&self, topology: TopologyId) -> Option<&Counter> {
        position(&self.matching, topology, ()).ok().map(|i| &self.matching[i].counter)
    }

    /// The counter of owners of a kind of term in a topology; none if no rule set has one.
    pub(crate) fn owners_in(&self, topology: TopologyId, kind: ExistingTermKind) -> Option<&Counter> {
        position(&self.owners, topology, kind).ok().map(|i| &self.owners[i].counter)
    }

    pub(in crate::state) fn owners_mut(
        &mut self,
        topology: TopologyId,
        kind: ExistingTermKind,
    ) -> Option<&mut Counter> {
        position(&self.owners, topology, kind).ok().map(|i| &mut self.owners[i].counter)
    }

    /// The owners of required anti-affinity, with their limits.
    pub(crate) fn anti_affinity(&self) -> impl Iterator<Item = (TopologyId, u32, &Counter)> {
        self.owners.iter().filter_map(|o| Some((o.topology, o.kind.anti_affinity_limit()?, &o.counter)))
    }

    pub(in crate::state) fn requirements(&self) -> impl Iterator<Item = &LabelRequirement> {
        self.queries.iter().flat_map(|q| q.labels.requirements())
    }

    /// The one with the fewest values is best.
    pub(in crate::state) fn anchor(&self) -> Anchor<'_> {
        let rank = |r: &LabelRequirement| match r {
            LabelRequirement::In(_, values) => Some(values.len()),
            LabelRequirement::NotIn(..) | LabelRequirement::DoesNotExist(_) => None,
            _ => Some(usize::MAX),
        };
        let ranked = self.requirements().filter_map(|r| Some((rank(r)?, r)));
        match ranked.min_by_key(|(rank, _)| *rank) {
            Some((_, LabelRequirement::In(key, values))) => Anchor::Pairs(*key, values),
            Some((_, requirement)) => Anchor::Key(requirement.key()),
            None => Anchor::None,
        }
    }
}

/// All matchers, and the inverted index over them.
#[derive(Clone, Default)]
pub(crate) struct Matchers {
    pub(in crate::state) table: Table<Matcher>,
    by_pair: FxHashMap<(Symbol, Symbol), Vec<MatcherId>>,
    by_key: FxHashMap<Symbol, Vec<MatcherId>>,
    unanchored: Vec<MatcherId>,
    /// Number of those that a change of namespace labels can concern.
    pub(in crate::state) n_with_namespace_labels: usize,
}

impl Matchers {
    pub(crate) fn get(&self, id: MatcherId) -> &Matcher {
        self.table.get(id)
    }

    pub(crate) fn any(&self, test: impl Fn(&Matcher) -> bool) -> bool {
        self.table.iter().any(|(_, matcher)| test(matcher))
    }

    pub(in crate::state) fn insert(&mut self, queries: SmallVec<[PodQuery; 1]>) -> MatcherId {
        let (matching, owners) = Default::default();
        let matcher = Matcher { queries, matching, owners };
        self.n_with_namespace_labels += usize::from(matcher.looks_at_namespace_labels());
        let id = self.table.insert(matcher);
        match self.table.get(id).anchor() {
            Anchor::Pairs(key, values) => {
                values.iter().for_each(|value| self.by_pair.entry((key, *value)).or_default().push(id));
            }
            Anchor::Key(key) => self.by_key.entry(key).or_default().push(id),
            Anchor::None => self.unanchored.push(id),
        }
        id
    }

    /// Counts one user fewer; returns the matcher if that was the last one.
    pub(in crate::state) fn release(&mut self, id: MatcherId) -> Option<Matcher> {
        fn remove<K: Eq + Hash>(index: &mut FxHashMap<K, Vec<MatcherId>>, key: K, id: MatcherId) {
            if let Some(ids) = index.get_mut(&key) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    index.remove(&key);
                }
            }
        }
        let matcher = self.table.release(id)?;
        self.n_with_namespace_labels -= usize::from(matcher.looks_at_namespace_labels());
        match matcher.anchor() {
            Anchor::Pairs(key, values) => {
                values.iter().for_each(|value| remove(&mut self.by_pair, (key, *value), id));
            }
            Anchor::Key(key) => remove(&mut self.by_key, key, id),
            Anchor::None => self.unanchored.retain(|other| *other != id),
        }
        Some(matcher)
    }

    /// The matchers that may match a pod with these labels: a superset found by its labels alone.
    fn candidates(&self, labels: &Labels) -> impl Iterator<Item = MatcherId> + '_ {
        let pairs = labels.iter().collect::<SmallVec<[_; 8]>>();
        let found = pairs.into_iter().flat_map(|(key, value)| {
            let by_pair = self.by_pair.get(&(key, value)).into_iter().flatten();
            by_pair.chain(self.by_key.get(&key).into_iter().flatten())
        });
        found.chain(&self.unanchored).copied()
    }

    /// The matchers that match a pod, sorted.
    pub(in crate::state) fn matching(
        &self,
        symbols: &Symbols,
        namespaces: &Namespaces,
        pod: &Candidate<'_>,
        direction: Direction,
    ) -> Vec<MatcherId> {
        let matches = |id: &MatcherId| self.get(*id).matches(symbols, namespaces, pod, direction);
        let mut found: Vec<_> = self.candidates(pod.labels).filter(matches).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
