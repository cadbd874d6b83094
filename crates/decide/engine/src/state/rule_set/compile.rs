//! Compiling a pod's rules against the cluster's symbols, topologies and matchers.

use std::collections::BTreeSet;

use berth_api::object::Pod;
use berth_input::config::DEFAULT_SCHEDULER_NAME;
use berth_rules::{Dialect, PodRules, PodTerm, TopologyScope};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use crate::state::State;
use crate::state::counting::matcher::{
    ExistingTermKind, MatcherId, NamespaceMatcher, PodQuery, PreferenceOf,
};
use crate::state::counting::topology::TopologyId;
use crate::state::interned::intern::Symbol;
use crate::state::interned::uses::Use;
use crate::state::node::Resources;
use crate::state::node::condition::{NodeMatcher, NodeSelectorMatcher};
use crate::state::rule_set::selector::LabelMatcher;
use crate::state::rule_set::workload::WorkloadSelectors;
use crate::state::rule_set::{
    ExistingTerm, PreferredTerm, RequiredTerm, RuleAt, RuleSet, RuleSetId, RuleSetKey,
};

impl State {
    /// The rule set of a pod, with one more user.
    pub(in crate::state) fn rule_set_of(&mut self, pod: &Pod) -> RuleSetId {
        let rules = self.rules_of(pod);
        let profile = self.profile_index(pod);
        let owner = pod.metadata.controller().filter(|o| {
            let defaults = profile.is_some_and(|i| !self.profiles[i].default_constraints.is_empty());
            defaults && rules.spread_constraints.is_empty() && WorkloadSelectors::counts(o)
        });
        let owner = owner.map(|o| (o.kind.clone(), o.name.clone()));
        let namespace = self.symbols.intern(&pod.metadata.namespace);
        self.rule_set(RuleSetKey { namespace, profile, rules, owner })
    }

    /// The rule set of a key whose namespace it takes over, with one more user.
    pub(in crate::state) fn rule_set(&mut self, key: RuleSetKey) -> RuleSetId {
        match self.rule_sets.find(&key) {
            Some(id) => {
                self.symbols.release(key.namespace);
                self.rule_sets.retain(id);
                id
            }
            None => {
                let mut rule_set = self.compile_rule_set(key);
                self.mention_attributes(&mut rule_set);
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
        let images = rules.images.iter().chain(&rules.image_volumes).map(|i| symbols.intern(i)).collect();
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

        let mut draft = Draft::default();
        let required_affinity = self.compile_required_affinity(&rules.required_affinity, &mut draft);
        let required_anti_affinity = self.compile_required_anti_affinity(rules, key.namespace, &mut draft);
        let affinity = rules.preferred_affinity.iter().map(|p| (p.weight, &p.term));
        let anti_affinity = rules.preferred_anti_affinity.iter().map(|p| (-p.weight, &p.term));
        let preferred = affinity.chain(anti_affinity);
        let preferred =
            preferred.map(|(weight, term)| self.compile_preferred(weight, term, &mut draft)).collect();
        let executing = RuleAt::executing(
            rules.required_node_affinity.iter().map(|r| r.required_during_execution),
            required_affinity.iter().map(|t| rules.required_affinity[t.index].required_during_execution),
            required_anti_affinity
                .iter()
                .map(|t| rules.required_anti_affinity[t.index].required_during_execution),
        );
        let own = rules.spread_constraints.iter().cloned();
        let spread = own.map(|c| self.compile_spread(key.namespace, c, &mut draft.uses)).collect();
        RuleSet {
            requests,
            images,
            node_selector,
            required_node_affinity,
            preferred_node_affinity,
            required_affinity,
            required_anti_affinity,
            preferred,
            existing_terms: draft.existing_terms.into(),
            executing,
            spread,
            uses: draft.uses.into(),
            key,
        }
    }

    /// Terms of v1 share one matcher: kube-scheduler counts a pod for any of them only if it matches all. Each term of the
    /// proposals is a requirement by itself. As a preference of a running pod, each term acts alone.
    fn compile_required_affinity(&mut self, terms: &[PodTerm], draft: &mut Draft) -> Box<[RequiredTerm]> {
        let mut compiled: Vec<RequiredTerm> = Vec::with_capacity(terms.len());
        let (mut queries, mut seen) = (SmallVec::new(), FxHashSet::default());
        for (index, term) in terms.iter().enumerate() {
            let query = self.query(term, false);
            if term.dialect == Dialect::V1 {
                self.retain_query(&query);
                self.add_query(&mut queries, &mut seen, query.clone());
            }
            let topologies = self.topologies_of(&term.topology, &mut draft.uses);
            let kind = ExistingTermKind::RequiredAffinity;
            let mut group_topologies = topologies.clone();
            if term.dialect == Dialect::Proposal {
                group_topologies = smallvec![TopologyId::NODE];
                self.retain_query(&query);
                self.matcher(smallvec![query.clone()], [TopologyId::NODE], [], &mut draft.uses);
            }
            let matcher = self.preference(query, &topologies, term.dialect, kind, 1, draft);
            compiled.push(RequiredTerm { index, matcher, topologies, group_topologies, limit: 0 });
        }
        let n_v1 = terms.iter().take_while(|term| term.dialect == Dialect::V1).count();
        let of_v1 = &mut compiled[..n_v1];
        if !of_v1.is_empty() {
            let topologies = of_v1.iter().flat_map(|term| term.topologies.iter().copied());
            let matcher = self.matcher(queries, topologies.collect::<Vec<_>>(), [], &mut draft.uses);
            of_v1.iter_mut().for_each(|term| term.matcher = matcher);
        }
        compiled.into()
    }

    /// A preference of running pods, with the counters of its owners and of the pods that match.
    fn preference(
        &mut self,
        query: PodQuery,
        topologies: &[TopologyId],
        dialect: Dialect,
        kind: fn(PreferenceOf) -> ExistingTermKind,
        weight: i64,
        draft: &mut Draft,
    ) -> MatcherId {
        let of = PreferenceOf::all(dialect);
        let owners = topologies.iter().flat_map(|t| of.iter().map(move |of| (*t, kind(*of))));
        let matcher = self.matcher(smallvec![query], topologies.iter().copied(), owners, &mut draft.uses);
        draft.existing_terms.extend(topologies.iter().map(|topology| ExistingTerm {
            matcher,
            topology: *topology,
            kind: kind(of[0]),
            weight,
        }));
        matcher
    }

    fn compile_required_anti_affinity(
        &mut self,
        rules: &PodRules,
        namespace: Symbol,
        draft: &mut Draft,
    ) -> Box<[RequiredTerm]> {
        let mut compiled = Vec::new();
        for (index, term) in rules.required_anti_affinity.iter().enumerate() {
            let exempting = self.exempts(term);
            if exempting && self.is_exempt(namespace) {
                continue;
            }
            let mut query = self.query(term, exempting);
            self.exclude_tolerating(&mut query, namespace);
            if rules.is_relaxable(term) {
                self.exclude_relaxed(&mut query, term);
            }
            let topologies = self.topologies_of(&term.topology, &mut draft.uses);
            let limit = term.limit;
            let kind = ExistingTermKind::RequiredAntiAffinity(limit);
            let owners = topologies.iter().map(|topology| (*topology, kind));
            let matcher = self.matcher(smallvec![query], topologies.iter().copied(), owners, &mut draft.uses);
            draft.existing_terms.extend(topologies.iter().map(|topology| ExistingTerm {
                matcher,
                topology: *topology,
                kind,
                weight: 1,
            }));
            let group_topologies = SmallVec::new();
            compiled.push(RequiredTerm { index, matcher, topologies, group_topologies, limit });
        }
        compiled.into()
    }

    fn compile_preferred(&mut self, weight: i64, term: &PodTerm, draft: &mut Draft) -> PreferredTerm {
        let query = self.query(term, false);
        let topologies = self.topologies_of(&term.topology, &mut draft.uses);
        let kind = match weight < 0 && self.counts_preferred_anti_affinity_apart() {
            true => ExistingTermKind::PreferredAntiAffinity,
            false => ExistingTermKind::Preferred,
        };
        let matcher = self.preference(query, &topologies, term.dialect, kind, weight, draft);
        PreferredTerm { weight, dialect: term.dialect, matcher, topologies }
    }

    /// Whether a profile ignores preferred anti-affinity of existing pods: its owners then have a separate counter.
    pub(crate) fn counts_preferred_anti_affinity_apart(&self) -> bool {
        self.profiles
            .iter()
            .any(|p| p.profile.inter_pod_affinity.ignore_preferred_anti_affinity_of_existing_pods)
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

    /// Adds a query to a conjunction, unless it is there already. `seen` has the queries from the second one on.
    fn add_query(
        &mut self,
        queries: &mut SmallVec<[PodQuery; 1]>,
        seen: &mut FxHashSet<PodQuery>,
        query: PodQuery,
    ) {
        if seen.is_empty() {
            seen.extend(queries.iter().cloned());
        }
        if queries.is_empty() || seen.insert(query.clone()) {
            queries.push(query);
        } else {
            self.symbols.release_all(query.symbols());
        }
    }

    fn retain_query(&mut self, query: &PodQuery) {
        query.symbols().for_each(|symbol| self.symbols.retain(symbol));
    }

    fn topologies_of(&mut self, scope: &TopologyScope, uses: &mut Vec<Use>) -> SmallVec<[TopologyId; 1]> {
        let keys: BTreeSet<&str> = match scope {
            TopologyScope::Key(key) => [key.as_str()].into(),
            TopologyScope::All => self.settings.all_topologies.iter().map(String::as_str).collect(),
        };
        let mut keys: SmallVec<[Symbol; 4]> = keys.into_iter().map(|k| self.symbols.intern(k)).collect();
        keys.sort_unstable();
        keys.into_iter().map(|key| self.topology(key, uses)).collect()
    }

    /// The topology of a label key, which it takes over; added to `uses`.
    pub(in crate::state) fn topology(&mut self, key: Symbol, uses: &mut Vec<Use>) -> TopologyId {
        let id = match self.topologies.table.find(&Some(key)) {
            Some(id) => {
                self.symbols.release(key);
                self.topologies.table.retain(id);
                id
            }
            None => self.topologies.insert(key, self.nodes.iter().map(|(id, n)| (id, &n.labels))),
        };
        uses.push(Use::Topology(id));
        id
    }
}

/// What compiling a pod's rules collects.
#[derive(Default)]
struct Draft {
    existing_terms: Vec<ExistingTerm>,
    uses: Vec<Use>,
}

/// "All topologies" may stand for this many label keys at most.
pub const MAX_ALL_TOPOLOGIES: usize = 6;
