//! Rule sets: the rules of pods with the same rules in the same namespace, compiled once.

pub(in crate::state) mod compile;
pub(crate) mod default_spread;
pub(crate) mod profile;
pub(crate) mod selector;
pub(crate) mod spread;
pub(in crate::state) mod workload;

use berth_rules::{Dialect, PodRules, PodTerm};
use smallvec::SmallVec;

use self::spread::Spread;
use super::interned::intern::Symbol;
use super::interned::table::{Id, Keyed};
use super::interned::uses::Use;
use crate::state::counting::matcher::{ExistingTermKind, MatcherId};
use crate::state::counting::topology::TopologyId;
use crate::state::node::Resources;
use crate::state::node::condition::{NodeMatcher, NodeSelectorMatcher};

pub(crate) type RuleSetId = Id<RuleSet>;

/// What pods of one rule set have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuleSetKey {
    pub(crate) namespace: Symbol,
    /// Index of the profile; `None` if no profile has the pod's scheduler name.
    pub(crate) profile: Option<usize>,
    pub(crate) rules: PodRules,
    /// Kind and name of the controlling owner, where default spread constraints look at it.
    pub(crate) owner: Option<(String, String)>,
}

/// A required pod term: the pods it requires, and the topologies any of which may match.
#[derive(Clone, Debug)]
pub(crate) struct RequiredTerm {
    /// Index of the term in the pod's rules.
    pub(crate) index: usize,
    pub(crate) matcher: MatcherId,
    pub(crate) topologies: SmallVec<[TopologyId; 1]>,
    /// Of affinity: the topologies in which no pod may match for the rule of the first pod. In the proposals, pods on any node
    /// count ("no other such pods anywhere"); in v1, those on nodes with the topology key.
    pub(crate) group_topologies: SmallVec<[TopologyId; 1]>,
    /// Of anti-affinity: how many other matching pods may share a domain.
    pub(crate) limit: u32,
}

/// A preferred pod term. It counts in each of its topologies: for every matching pod in v1, once in the proposals.
#[derive(Clone, Debug)]
pub(crate) struct PreferredTerm {
    /// Negative for anti-affinity.
    pub(crate) weight: i64,
    pub(crate) dialect: Dialect,
    pub(crate) matcher: MatcherId,
    pub(crate) topologies: SmallVec<[TopologyId; 1]>,
}

/// A term as it acts on other pods: a place in the counters of its matcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExistingTerm {
    pub(crate) matcher: MatcherId,
    pub(crate) topology: TopologyId,
    pub(crate) kind: ExistingTermKind,
    pub(crate) weight: i64,
}

/// A rule_set with its rules compiled against the cluster's symbols, topologies and matchers.
#[derive(Clone)]
pub(crate) struct RuleSet {
    pub(crate) key: RuleSetKey,
    /// Matchers, counters and topologies that it uses.
    pub(super) uses: Box<[Use]>,
    pub(crate) requests: Resources,
    /// Of containers, then of volumes.
    pub(crate) images: Box<[Symbol]>,
    pub(crate) node_selector: Box<[(Symbol, Symbol)]>,
    pub(crate) required_node_affinity: Box<[NodeSelectorMatcher]>,
    pub(crate) preferred_node_affinity: Box<[NodeMatcher]>,
    /// First the terms of v1, which share a matcher.
    pub(crate) required_affinity: Box<[RequiredTerm]>,
    pub(crate) required_anti_affinity: Box<[RequiredTerm]>,
    pub(crate) preferred: Box<[PreferredTerm]>,
    pub(crate) existing_terms: Box<[ExistingTerm]>,
    /// The rules that are also required during execution.
    pub(crate) executing: Box<[RuleAt]>,
    pub(crate) spread: Box<[Spread]>,
}

impl Keyed for RuleSet {
    type Key = RuleSetKey;

    fn key(&self) -> &RuleSetKey {
        &self.key
    }
}

impl RuleSet {
    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let selector = self.node_selector.iter().flat_map(|(key, value)| [*key, *value]);
        let required = self.required_node_affinity.iter().flat_map(NodeSelectorMatcher::symbols);
        let preferred = self.preferred_node_affinity.iter().flat_map(NodeMatcher::symbols);
        let scalar = self.requests.scalar.iter().map(|(name, _)| *name);
        let own = self.images.iter().copied().chain([self.key.namespace]);
        own.chain(scalar).chain(selector).chain(required).chain(preferred)
    }

    /// The annotations and fields of nodes that it mentions, each with the epoch since when nodes know it.
    pub(super) fn attributes_mut(&mut self) -> impl Iterator<Item = (Symbol, &mut u32)> + '_ {
        let required = self.required_node_affinity.iter_mut().flat_map(NodeSelectorMatcher::attributes_mut);
        required.chain(self.preferred_node_affinity.iter_mut().flat_map(NodeMatcher::attributes_mut))
    }

    pub(crate) fn rules(&self) -> &PodRules {
        &self.key.rules
    }

    /// The requirements of required affinity: all terms of v1, and each term of the proposals.
    pub(crate) fn affinity_requirements(&self) -> impl Iterator<Item = &[RequiredTerm]> {
        let terms = &self.required_affinity;
        let dialect = |term: &RequiredTerm| self.rules().required_affinity[term.index].dialect;
        terms.chunk_by(move |a, b| dialect(a) == Dialect::V1 && dialect(b) == Dialect::V1)
    }

    /// The requirement that a term of required affinity is part of.
    pub(crate) fn affinity_requirement(&self, i: usize) -> &[RequiredTerm] {
        let index = self.required_affinity[i].index;
        let has_term = |terms: &&[RequiredTerm]| terms.iter().any(|term| term.index == index);
        self.affinity_requirements().find(has_term).unwrap_or_default()
    }
}

/// The place of a required rule among the compiled rules of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RuleAt {
    /// Index into the rule set's required node affinity.
    Node(u32),
    /// Index into the rule set's required pod affinity.
    Affinity(u32),
    /// Index into the rule set's required pod anti-affinity.
    AntiAffinity(u32),
}

impl RuleAt {
    /// The rules of a rule set that are also required during execution.
    pub(crate) fn executing(
        node_affinity: impl Iterator<Item = bool>,
        pod_affinity: impl Iterator<Item = bool>,
        pod_anti_affinity: impl Iterator<Item = bool>,
    ) -> Box<[RuleAt]> {
        fn at(
            executing: impl Iterator<Item = bool>,
            rule: fn(u32) -> RuleAt,
        ) -> impl Iterator<Item = RuleAt> {
            let executing = executing.enumerate().filter(|(_, executing)| *executing);
            executing.map(move |(i, _)| rule(i as u32))
        }
        let node_affinity = at(node_affinity, RuleAt::Node);
        let pod_affinity = at(pod_affinity, RuleAt::Affinity);
        node_affinity.chain(pod_affinity).chain(at(pod_anti_affinity, RuleAt::AntiAffinity)).collect()
    }

    pub(crate) fn path(self, rule_set: &RuleSet) -> &str {
        let rules = rule_set.rules();
        match self {
            RuleAt::Node(i) => &rules.required_node_affinity[i as usize].path,
            RuleAt::Affinity(i) => {
                &rules.required_affinity[rule_set.required_affinity[i as usize].index].path
            }
            RuleAt::AntiAffinity(i) => anti_affinity(rule_set, i).1.path.as_str(),
        }
    }

    pub(crate) fn anti_affinity(self, rule_set: &RuleSet) -> Option<&RequiredTerm> {
        match self {
            RuleAt::AntiAffinity(i) => rule_set.required_anti_affinity.get(i as usize),
            RuleAt::Node(_) | RuleAt::Affinity(_) => None,
        }
    }

    /// The rule of a rule set at a path, of those required during execution.
    pub(crate) fn find(rule_set: &RuleSet, path: &str) -> Option<RuleAt> {
        rule_set.executing.iter().copied().find(|rule| rule.path(rule_set) == path)
    }
}

pub(crate) fn anti_affinity(rule_set: &RuleSet, i: u32) -> (&RequiredTerm, &PodTerm) {
    let compiled = &rule_set.required_anti_affinity[i as usize];
    (compiled, &rule_set.rules().required_anti_affinity[compiled.index])
}
