//! Compiling a pod's rules against the cluster's symbols, topologies and matchers.

use std::sync::Arc;

use berth_api::config::DEFAULT_SCHEDULER_NAME;
use berth_api::object::Pod;
use berth_api::rules::{Dialect, PodTerm, TopologyScope};
use smallvec::{SmallVec, smallvec};

use super::State;
use super::intern::Symbol;
use super::matcher::{ExistingTermKind, NamespaceMatcher, PodQuery};
use super::node::Resources;
use super::node_condition::{NodeMatcher, NodeSelectorMatcher};
use super::rule_set::{ExistingTerm, PreferredTerm, RequiredTerm, RuleAt, RuleSet, RuleSetId, RuleSetKey};
use super::selector::LabelMatcher;
use super::topology::TopologyId;
use super::workload::WorkloadSelectors;

impl State {
    /// The rule_set of a pod, made if need be.
    pub(crate) fn rule_set_of(&mut self, pod: &Pod) -> RuleSetId {
        let rules = self.rules_of(pod);
        let profile = self.profile_index(pod);
        let owner = pod.metadata.controller().filter(|o| {
            let defaults = profile.is_some_and(|i| !self.profiles[i].default_constraints.is_empty());
            defaults && rules.spread_constraints.is_empty() && WorkloadSelectors::counts(o)
        });
        let owner = owner.map(|o| (o.kind.clone(), o.name.clone()));
        let namespace = self.symbols.intern(&pod.metadata.namespace);
        let key = RuleSetKey { namespace, profile, rules, owner };
        match self.rule_sets.find(&key) {
            Some(id) => id,
            None => {
                let rule_set = self.compile_rule_set(key);
                self.rule_sets.insert(rule_set)
            }
        }
    }

    fn profile_index(&self, pod: &Pod) -> Option<usize> {
        let name = match pod.spec.scheduler_name.as_str() {
            "" => DEFAULT_SCHEDULER_NAME,
            name => name,
        };
        self.profiles.iter().position(|p| p.profile.scheduler_name == name)
    }

    fn compile_rule_set(&mut self, key: RuleSetKey) -> RuleSet {
        let rules = &key.rules;
        let symbols = &mut self.symbols;
        let requests = Resources::of_pod(symbols, &rules.requests);
        let images = rules.images.iter().map(|i| symbols.intern(i)).collect();
        let node_selector =
            rules.node_selector.iter().map(|(k, v)| (symbols.intern(k), symbols.intern(v))).collect();
        let required_node_affinity = rules
            .required_node_affinity
            .iter()
            .map(|r| NodeSelectorMatcher::compile(symbols, &r.terms))
            .collect();
        let preferred_node_affinity = rules
            .preferred_node_affinity
            .iter()
            .map(|t| NodeMatcher::all(symbols, &t.requirements))
            .collect();

        let mut existing_terms = Vec::new();
        let required_affinity = self.compile_required_affinity(&rules.required_affinity, &mut existing_terms);
        let executing_affinity = self.compile_executing_affinity(&rules.required_affinity);
        let required_anti_affinity = self.compile_required_anti_affinity(
            &rules.required_anti_affinity,
            key.namespace,
            &mut existing_terms,
        );
        let affinity = rules.preferred_affinity.iter().map(|p| (p.weight, &p.term));
        let anti_affinity = rules.preferred_anti_affinity.iter().map(|p| (-p.weight, &p.term));
        let preferred = affinity.chain(anti_affinity);
        let preferred = preferred
            .map(|(weight, term)| self.compile_preferred(weight, term, &mut existing_terms))
            .collect();
        let executing = RuleAt::executing(
            rules.required_node_affinity.iter().map(|r| r.required_during_execution),
            required_affinity.iter().map(|t| rules.required_affinity[t.index].required_during_execution),
            required_anti_affinity
                .iter()
                .map(|t| rules.required_anti_affinity[t.index].required_during_execution),
        );
        RuleSet {
            requests,
            images,
            node_selector,
            required_node_affinity,
            preferred_node_affinity,
            required_affinity,
            required_anti_affinity,
            preferred,
            existing_terms: existing_terms.into(),
            executing,
            executing_affinity,
            key: Arc::new(key),
        }
    }

    /// The terms share one matcher: kube-scheduler counts a pod for any of them only if it matches all.
    fn compile_required_affinity(
        &mut self,
        terms: &[PodTerm],
        existing_terms: &mut Vec<ExistingTerm>,
    ) -> Box<[RequiredTerm]> {
        let mut queries: SmallVec<[PodQuery; 1]> = SmallVec::new();
        let mut topologies = Vec::new();
        for term in terms {
            let query = self.query(term, false);
            // As a wish towards others each term acts alone, and one over all topologies counts a pod once.
            let combined = self.combined_topologies(&term.topology);
            let matcher = self.matcher(smallvec![query.clone()], [], combined.iter().map(|(t, _)| *t));
            existing_terms.extend(combined.into_iter().map(|(topology, sign)| ExistingTerm {
                matcher,
                topology,
                kind: ExistingTermKind::RequiredAffinity,
                weight: sign,
            }));
            topologies.push(self.single_topologies(&term.topology));
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        if terms.is_empty() {
            return Box::default();
        }
        let matcher = self.matcher(queries, topologies.iter().flatten().copied(), []);
        let term = |(index, topologies)| RequiredTerm { index, matcher, topologies };
        topologies.into_iter().enumerate().map(term).collect()
    }

    /// Those required during execution share a matcher of their own.
    fn compile_executing_affinity(&mut self, terms: &[PodTerm]) -> Box<[RequiredTerm]> {
        let executing = || terms.iter().enumerate().filter(|(_, term)| term.required_during_execution);
        let mut queries: SmallVec<[PodQuery; 1]> = SmallVec::new();
        for (_, term) in executing() {
            let query = self.query(term, false);
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        if queries.is_empty() {
            return Box::default();
        }
        let topologies: Vec<_> =
            executing().map(|(index, term)| (index, self.single_topologies(&term.topology))).collect();
        let matcher = self.matcher(queries, topologies.iter().flat_map(|(_, t)| t).copied(), []);
        let term = |(index, topologies)| RequiredTerm { index, matcher, topologies };
        topologies.into_iter().map(term).collect()
    }

    fn compile_required_anti_affinity(
        &mut self,
        terms: &[PodTerm],
        namespace: Symbol,
        existing_terms: &mut Vec<ExistingTerm>,
    ) -> Box<[RequiredTerm]> {
        let mut compiled = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            let exempting = self.exempts(term);
            if exempting && self.is_exempt(namespace) {
                continue;
            }
            let query = self.query(term, exempting);
            let topologies = self.single_topologies(&term.topology);
            let matcher =
                self.matcher(smallvec![query], topologies.iter().copied(), topologies.iter().copied());
            existing_terms.extend(topologies.iter().map(|topology| ExistingTerm {
                matcher,
                topology: *topology,
                kind: ExistingTermKind::RequiredAntiAffinity,
                weight: 1,
            }));
            compiled.push(RequiredTerm { index, matcher, topologies });
        }
        compiled.into()
    }

    fn compile_preferred(
        &mut self,
        weight: i64,
        term: &PodTerm,
        existing_terms: &mut Vec<ExistingTerm>,
    ) -> PreferredTerm {
        let query = self.query(term, false);
        let topologies = self.combined_topologies(&term.topology);
        let ids = topologies.iter().map(|(t, _)| *t);
        let matcher = self.matcher(smallvec![query], ids.clone(), ids);
        existing_terms.extend(topologies.iter().map(|(topology, sign)| ExistingTerm {
            matcher,
            topology: *topology,
            kind: ExistingTermKind::Preferred,
            weight: weight * sign,
        }));
        PreferredTerm { weight, matcher, topologies }
    }

    /// Whether exempt namespaces are outside a term of anti-affinity.
    pub(crate) fn exempts(&self, term: &PodTerm) -> bool {
        self.settings.extensions && (term.dialect == Dialect::Proposal || self.settings.exempt_from_v1)
    }

    fn query(&mut self, term: &PodTerm, without_exempt: bool) -> PodQuery {
        let mut names: Box<[Symbol]> = term.namespaces.names.iter().map(|n| self.symbols.intern(n)).collect();
        names.sort_unstable();
        let selector = LabelMatcher::compile(&mut self.symbols, &term.namespaces.selector);
        let labels = LabelMatcher::compile(&mut self.symbols, &term.selector);
        PodQuery {
            namespaces: NamespaceMatcher { names, selector },
            labels,
            live_only: false,
            without_exempt,
        }
    }

    fn topology_keys(&mut self, scope: &TopologyScope) -> Vec<Symbol> {
        let mut keys: Vec<_> = match scope {
            TopologyScope::Key(key) => vec![self.symbols.intern(key)],
            TopologyScope::All => {
                self.settings.all_topologies.iter().map(|k| self.symbols.intern(k)).collect()
            }
        };
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn single_topologies(&mut self, scope: &TopologyScope) -> SmallVec<[TopologyId; 1]> {
        self.topology_keys(scope).into_iter().map(|key| self.topology(vec![key])).collect()
    }

    /// The topologies, with signs, whose counts add up to the number of pods that share at least one
    /// domain of the scope with a node.
    fn combined_topologies(&mut self, scope: &TopologyScope) -> SmallVec<[(TopologyId, i64); 1]> {
        let keys = self.topology_keys(scope);
        let subsets = 1..1u32 << keys.len().min(MAX_ALL_TOPOLOGIES);
        let combine = |subset: u32| {
            let chosen: Vec<_> =
                keys.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1).map(|(_, k)| *k).collect();
            let sign = if chosen.len() % 2 == 1 { 1 } else { -1 };
            (self.topology(chosen), sign)
        };
        subsets.map(combine).collect()
    }
}

/// "All topologies" may stand for this many label keys at most: their combinations are counted.
pub const MAX_ALL_TOPOLOGIES: usize = 6;
