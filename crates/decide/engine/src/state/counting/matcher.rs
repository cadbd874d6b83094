//! Pod matchers: which pods terms and constraints select, each selection once.
//!
//! Equal questions are one matcher, however many pods carry them. A matcher counts, per topology
//! domain, the pods that match it and the pods that carry a term with it; the inverted index finds the
//! matchers that a new pod's labels satisfy without testing every one.

use std::hash::Hash;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExistingTermKind {
    RequiredAntiAffinity,
    /// Required anti-affinity with this limit, which is not 0.
    LimitedAntiAffinity(u32),
    RequiredAffinity,
    /// Preferred affinity, and with a negative weight preferred anti-affinity.
    Preferred,
    /// Preferred anti-affinity, if a profile ignores that of existing pods.
    PreferredAntiAffinity,
}

impl ExistingTermKind {
    pub(crate) fn anti_affinity(limit: u32) -> ExistingTermKind {
        match limit {
            0 => ExistingTermKind::RequiredAntiAffinity,
            limit => ExistingTermKind::LimitedAntiAffinity(limit),
        }
    }

    /// The limit of required anti-affinity; none for other kinds.
    pub(crate) fn anti_affinity_limit(self) -> Option<u32> {
        match self {
            ExistingTermKind::RequiredAntiAffinity => Some(0),
            ExistingTermKind::LimitedAntiAffinity(limit) => Some(limit),
            _ => None,
        }
    }
}

/// Pods that carry a term, per domain of its topology.
#[derive(Clone, Default)]
pub(crate) struct TermOwners {
    pub(crate) required_anti_affinity: Counter,
    pub(crate) required_affinity: Counter,
    pub(crate) preferred: Counter,
    pub(crate) preferred_anti_affinity: Counter,
}

impl TermOwners {
    pub(crate) fn all(&self) -> [&Counter; 4] {
        [
            &self.required_anti_affinity,
            &self.required_affinity,
            &self.preferred,
            &self.preferred_anti_affinity,
        ]
    }
}

/// A counter in a topology, and the number of rules that read it. A user of the topology.
#[derive(Clone)]
pub(crate) struct TopologyCounter<C> {
    pub(crate) topology: TopologyId,
    /// Of [`Matcher::limited_owners`]; 0 for other counters.
    pub(crate) limit: u32,
    pub(crate) counter: C,
    n_users: u32,
}

/// The counters of one kind, one for each topology and limit.
pub(crate) type TopologyCounters<C> = SmallVec<[TopologyCounter<C>; 1]>;

/// Counts one more user of a counter; adds it, with one user, if it is the first.
pub(in crate::state) fn retain_counter<C: Default>(
    counters: &mut TopologyCounters<C>,
    topology: TopologyId,
    limit: u32,
) -> bool {
    let known = counters.iter_mut().find(|c| (c.topology, c.limit) == (topology, limit));
    let is_new = known.is_none();
    match known {
        Some(counter) => counter.n_users += 1,
        None => counters.push(TopologyCounter { topology, limit, counter: C::default(), n_users: 1 }),
    }
    is_new
}

/// Counts one user fewer; returns whether that was the last one, and the counter is removed.
pub(in crate::state) fn release_counter<C>(
    counters: &mut TopologyCounters<C>,
    topology: TopologyId,
    limit: u32,
) -> bool {
    let Some(i) = counters.iter().position(|c| (c.topology, c.limit) == (topology, limit)) else {
        return false;
    };
    counters[i].n_users -= 1;
    let is_unused = counters[i].n_users == 0;
    if is_unused {
        counters.swap_remove(i);
    }
    is_unused
}

/// A conjunction of questions (usually one), with its counters. A user of its symbols; it mentions its label keys.
#[derive(Clone)]
pub(crate) struct Matcher {
    pub(in crate::state) queries: SmallVec<[PodQuery; 1]>,
    /// Pods that match, per domain of each topology that rules ask about.
    pub(crate) matching: TopologyCounters<Counter>,
    /// Pods that own a term with this matcher, per domain of the term's topology.
    pub(crate) owners: TopologyCounters<TermOwners>,
    /// The owners of anti-affinity with a limit. The weight is the number of those that match the term themselves.
    pub(crate) limited_owners: TopologyCounters<Counter>,
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
    /// The key.
    Key(Symbol),
    /// There is none.
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
        self.matching.iter().find(|c| c.topology == topology).map(|c| &c.counter)
    }

    /// The counter of pods with a required anti-affinity term in a topology; none if no rule set has one.
    pub(crate) fn owners_in(&self, topology: TopologyId) -> Option<&Counter> {
        self.owners_by(topology).map(|owners| &owners.required_anti_affinity)
    }

    /// The counters of pods with a term in a topology; none if no rule has one.
    pub(crate) fn owners_by(&self, topology: TopologyId) -> Option<&TermOwners> {
        self.owners.iter().find(|c| c.topology == topology).map(|c| &c.counter)
    }

    /// The counter of owners of a kind of term in a topology; none if no rule set has one.
    pub(in crate::state) fn owners_mut(
        &mut self,
        kind: ExistingTermKind,
        topology: TopologyId,
    ) -> Option<&mut Counter> {
        if let ExistingTermKind::LimitedAntiAffinity(limit) = kind {
            let mut owners = self.limited_owners.iter_mut();
            return owners.find(|o| (o.topology, o.limit) == (topology, limit)).map(|o| &mut o.counter);
        }
        let owners = &mut self.owners.iter_mut().find(|o| o.topology == topology)?.counter;
        Some(match kind {
            ExistingTermKind::RequiredAntiAffinity => &mut owners.required_anti_affinity,
            ExistingTermKind::RequiredAffinity => &mut owners.required_affinity,
            ExistingTermKind::PreferredAntiAffinity => &mut owners.preferred_anti_affinity,
            ExistingTermKind::Preferred | ExistingTermKind::LimitedAntiAffinity(_) => &mut owners.preferred,
        })
    }

    /// The counter of owners of anti-affinity with a limit.
    pub(crate) fn limited_owners_in(&self, topology: TopologyId, limit: u32) -> Option<&Counter> {
        let mut owners = self.limited_owners.iter();
        owners.find(|o| (o.topology, o.limit) == (topology, limit)).map(|o| &o.counter)
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
        let (matching, owners, limited_owners) = Default::default();
        let matcher = Matcher { queries, matching, owners, limited_owners };
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
