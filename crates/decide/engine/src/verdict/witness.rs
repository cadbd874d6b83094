//! Names for ids: the pods and domains that an answer names.

use std::cell::RefCell;

use berth_rules::PodTerm;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::pod::{PodId, PodRecord};
use crate::verdict::{TopologyPair, Witness};

/// Number of pods that an answer names; the others are counted.
const MAX_WITNESSES: usize = 5;

/// A domain that an answer names, and one of its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DomainOf {
    pub(crate) topology: TopologyId,
    pub(crate) domain: DomainId,
    pub(crate) node: NodeId,
}

/// The named witnesses, and the number of further ones.
pub(crate) type Witnesses = (Vec<Witness>, usize);

/// Witnesses of domains with several nodes: all nodes of a domain have the same.
#[derive(Default)]
pub(crate) struct WitnessCache {
    matching: RefCell<FxHashMap<(MatcherId, TopologyId, DomainId), Witnesses>>,
    owners: RefCell<FxHashMap<(MatcherId, u32, TopologyId, DomainId), OwnersAndTerms>>,
}

/// The pods that own terms, and the distinct terms with their paths.
pub(crate) type OwnersAndTerms = (Witnesses, Vec<(String, PodTerm)>);

impl WitnessCache {
    /// Pods in a domain that match: the first few by name, and the number of the others.
    pub(crate) fn pods_matching(&self, state: &State, matcher: MatcherId, of: DomainOf) -> Witnesses {
        if !state.topologies.is_shared(of.topology) {
            return state.pods_matching(matcher, of);
        }
        let mut known = self.matching.borrow_mut();
        let key = (matcher, of.topology, of.domain);
        known.entry(key).or_insert_with(|| state.pods_matching(matcher, of)).clone()
    }

    /// Pods in a domain that own a required anti-affinity term with this matcher and limit, and the distinct terms.
    pub(crate) fn anti_affinity_owners(
        &self,
        state: &State,
        matcher: MatcherId,
        limit: u32,
        of: DomainOf,
    ) -> OwnersAndTerms {
        if !state.topologies.is_shared(of.topology) {
            return state.anti_affinity_owners(matcher, limit, of);
        }
        let mut known = self.owners.borrow_mut();
        let key = (matcher, limit, of.topology, of.domain);
        known.entry(key).or_insert_with(|| state.anti_affinity_owners(matcher, limit, of)).clone()
    }
}

impl State {
    /// A topology and domain as a node label.
    pub(crate) fn topology_pair(
        &self,
        topology: TopologyId,
        domain: Option<DomainId>,
    ) -> Option<TopologyPair> {
        let key = self.topologies.key(topology)?;
        let value = domain.map(|d| self.symbols.text(crate::state::interned::intern::Symbol(d.0)).to_owned());
        Some(TopologyPair { key: self.symbols.text(key).to_owned(), value })
    }

    pub(crate) fn witness(&self, pod: PodId) -> Witness {
        let record = self.pods.get(pod);
        Witness {
            namespace: self.symbols.text(record.namespace).to_owned(),
            name: record.name.to_string(),
            node: self.symbols.text(record.node_name).to_owned(),
        }
    }

    fn pods_matching(&self, matcher: MatcherId, of: DomainOf) -> Witnesses {
        let matches = |p: &PodRecord| self.signatures.get(p.signature).matches(matcher);
        self.name_some(self.pods_in(of).filter(|(_, p)| matches(p)).map(|(id, _)| id))
    }

    fn anti_affinity_owners(&self, matcher: MatcherId, limit: u32, of: DomainOf) -> OwnersAndTerms {
        let mut pods = Vec::new();
        let mut terms: Vec<(String, PodTerm)> = Vec::new();
        for (id, pod) in self.pods_in(of) {
            let rule_set = self.rule_sets.get(pod.rule_set);
            let owns_term = rule_set.existing_terms.iter().any(|c| {
                c.kind.anti_affinity_limit() == Some(limit)
                    && c.matcher == matcher
                    && c.topology == of.topology
            });
            if !owns_term {
                continue;
            }
            pods.push(id);
            let own = rule_set.required_anti_affinity.iter();
            for required in own.filter(|r| (r.matcher, r.limit) == (matcher, limit)) {
                let term = &rule_set.rules().required_anti_affinity[required.index];
                if !terms.iter().any(|(path, _)| *path == term.path) {
                    terms.push((term.path.clone(), term.clone()));
                }
            }
        }
        (self.name_some(pods.into_iter()), terms)
    }

    pub(crate) fn pods_in(&self, of: DomainOf) -> impl Iterator<Item = (PodId, &PodRecord)> {
        let DomainOf { topology, domain, node } = of;
        // Where each domain is one node, there is no need to look for others.
        let only = (!self.topologies.is_shared(topology)).then(|| self.nodes.get(node));
        let all = only.is_none().then(|| self.nodes.iter()).into_iter().flatten();
        let shared = all.filter(move |(id, _)| self.topologies.domain(topology, *id) == Some(domain));
        let nodes = only.into_iter().chain(shared.map(|(_, node)| node));
        nodes.flat_map(|node| node.pods.iter().map(|pod| (*pod, self.pods.get(*pod))))
    }

    /// Names a few of these pods, and counts the others.
    pub(crate) fn name_some(&self, pods: impl Iterator<Item = PodId>) -> Witnesses {
        let mut first: SmallVec<[(&str, &str, PodId); MAX_WITNESSES + 1]> = SmallVec::new();
        let mut n_pods = 0;
        for id in pods {
            n_pods += 1;
            let pod = self.pods.get(id);
            let key = (self.symbols.text(pod.namespace), &*pod.name, id);
            if first.len() < MAX_WITNESSES || first.last().is_some_and(|last| key < *last) {
                let place = first.partition_point(|other| *other < key);
                first.insert(place, key);
                first.truncate(MAX_WITNESSES);
            }
        }
        let witnesses: Vec<_> = first.iter().map(|(.., id)| self.witness(*id)).collect();
        let more = n_pods - witnesses.len();
        (witnesses, more)
    }
}
