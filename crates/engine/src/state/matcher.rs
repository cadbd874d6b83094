//! Pod matchers: the questions "which pods" that terms and constraints ask, each asked once.
//!
//! Equal questions are one matcher, however many pods carry them. A matcher counts, per topology
//! domain, the pods that match it and the pods that carry a term with it; the inverted index finds the
//! matchers that a new pod's labels satisfy without testing every one.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::counter::Counter;
use super::intern::{Labels, Symbol, Symbols};
use super::namespace::Namespaces;
use super::selector::{LabelMatcher, LabelRequirement};
use super::topology::TopologyId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MatcherId(pub(crate) u32);

/// The namespaces a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceMatcher {
    /// Sorted.
    pub(crate) names: Box<[Symbol]>,
    pub(crate) selector: LabelMatcher,
}

/// Which side of a rule is asked about. It matters only for namespaces that do not exist as objects:
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

/// What a matcher is asked about.
pub(crate) struct Candidate<'a> {
    pub(crate) namespace: Symbol,
    pub(crate) labels: &'a Labels,
    pub(crate) terminating: bool,
    pub(crate) exempt: bool,
}

impl PodQuery {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingTermKind {
    RequiredAntiAffinity,
    RequiredAffinity,
    /// Preferred affinity, and with a negative weight preferred anti-affinity.
    Preferred,
}

/// Pods that carry a term, per domain of its topology.
#[derive(Default)]
pub(crate) struct TermOwners {
    pub(crate) required_anti_affinity: Counter,
    pub(crate) required_affinity: Counter,
    pub(crate) preferred: Counter,
}

impl TermOwners {
    pub(crate) fn of(&mut self, kind: ExistingTermKind) -> &mut Counter {
        match kind {
            ExistingTermKind::RequiredAntiAffinity => &mut self.required_anti_affinity,
            ExistingTermKind::RequiredAffinity => &mut self.required_affinity,
            ExistingTermKind::Preferred => &mut self.preferred,
        }
    }
}

/// A conjunction of questions (usually one), with its counters.
pub(crate) struct Matcher {
    queries: SmallVec<[PodQuery; 1]>,
    /// Pods that match, per domain of each topology somebody asks about.
    pub(crate) matching: SmallVec<[(TopologyId, Counter); 1]>,
    /// Pods that carry a term with this matcher, per domain of the term's topology.
    pub(crate) owners: SmallVec<[(TopologyId, TermOwners); 1]>,
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

    /// The counter of matching pods in a topology that was asked for when the matcher was registered.
    pub(crate) fn matching_in(&self, topology: TopologyId) -> Option<&Counter> {
        self.matching.iter().find(|(t, _)| *t == topology).map(|(_, c)| c)
    }

    /// The counter of pods with a required anti-affinity term in a topology; none if nobody ever had one.
    pub(crate) fn owners_in(&self, topology: TopologyId) -> Option<&Counter> {
        let owners = self.owners.iter().find(|(t, _)| *t == topology);
        owners.map(|(_, owners)| &owners.required_anti_affinity)
    }

    fn requirements(&self) -> impl Iterator<Item = &LabelRequirement> {
        self.queries.iter().flat_map(|q| q.labels.requirements())
    }

    /// The requirement that the inverted index files the matcher under: one that a matching pod's labels
    /// must show, and best the one with the fewest values.
    fn anchor(&self) -> Option<&LabelRequirement> {
        let rank = |r: &LabelRequirement| match r {
            LabelRequirement::In(_, values) => Some(values.len()),
            LabelRequirement::Exists(_) | LabelRequirement::Gt(..) | LabelRequirement::Lt(..) => {
                Some(usize::MAX)
            }
            LabelRequirement::NotIn(..) | LabelRequirement::DoesNotExist(_) => None,
        };
        self.requirements().filter_map(|r| Some((rank(r)?, r))).min_by_key(|(rank, _)| *rank).map(|(_, r)| r)
    }
}

/// All matchers, and the inverted index over them.
#[derive(Default)]
pub(crate) struct Matchers {
    all: Vec<Matcher>,
    by_queries: HashMap<SmallVec<[PodQuery; 1]>, MatcherId>,
    by_pair: FxHashMap<(Symbol, Symbol), Vec<MatcherId>>,
    by_key: FxHashMap<Symbol, Vec<MatcherId>>,
    unanchored: Vec<MatcherId>,
}

impl Matchers {
    /// The matcher of these questions, and whether it is new.
    pub(crate) fn intern(&mut self, queries: SmallVec<[PodQuery; 1]>) -> (MatcherId, bool) {
        if let Some(id) = self.by_queries.get(&queries) {
            return (*id, false);
        }
        let id = MatcherId(self.all.len() as u32);
        let matcher =
            Matcher { queries: queries.clone(), matching: SmallVec::new(), owners: SmallVec::new() };
        match matcher.anchor() {
            Some(LabelRequirement::In(key, values)) => {
                for value in values {
                    self.by_pair.entry((*key, *value)).or_default().push(id);
                }
            }
            Some(requirement) => self.by_key.entry(requirement.key()).or_default().push(id),
            None => self.unanchored.push(id),
        }
        self.all.push(matcher);
        self.by_queries.insert(queries, id);
        (id, true)
    }

    pub(crate) fn get(&self, id: MatcherId) -> &Matcher {
        &self.all[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: MatcherId) -> &mut Matcher {
        &mut self.all[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (MatcherId, &Matcher)> {
        self.all.iter().enumerate().map(|(i, m)| (MatcherId(i as u32), m))
    }

    /// The matchers that may match a pod with these labels: a superset found by its labels alone.
    pub(crate) fn candidates(&self, labels: &Labels) -> impl Iterator<Item = MatcherId> + '_ {
        let pairs = labels.iter().collect::<SmallVec<[_; 8]>>();
        let found = pairs.into_iter().flat_map(|(key, value)| {
            let by_pair = self.by_pair.get(&(key, value)).into_iter().flatten();
            by_pair.chain(self.by_key.get(&key).into_iter().flatten())
        });
        found.chain(&self.unanchored).copied()
    }

    /// The matchers that match a pod, sorted.
    pub(crate) fn matching(
        &self,
        symbols: &Symbols,
        namespaces: &Namespaces,
        pod: &Candidate<'_>,
        direction: Direction,
    ) -> Vec<MatcherId> {
        let matches = |id: &MatcherId| self.get(*id).matches(symbols, namespaces, pod, direction);
        let mut found: Vec<_> = self.candidates(pod.labels).filter(matches).collect();
        found.sort_unstable();
        found
    }
}
