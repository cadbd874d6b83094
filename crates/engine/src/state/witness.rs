//! Names for numbers: which pods and domains an answer speaks of.

use berth_api::rules::PodTerm;

use super::cluster::Cluster;
use super::matcher::{CarriedKind, MatcherId};
use super::pod::{PodId, PodRecord};
use super::topology::{DomainId, TopologyId};
use crate::verdict::{TopologyPair, Witness};

/// This many pods are named in an answer; the rest are counted.
const MAX_WITNESSES: usize = 5;

impl Cluster {
    /// A topology and domain as a node label. Topologies of several keys have no such form.
    pub(crate) fn topology_pair(
        &self,
        topology: TopologyId,
        domain: Option<DomainId>,
    ) -> Option<TopologyPair> {
        let [key] = *self.topologies.keys(topology) else { return None };
        let value = domain.map(|d| self.symbols.text(super::intern::Symbol(d.0)).to_owned());
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

    /// Pods in a domain that satisfy a matcher: the first few by name, and how many more.
    pub(crate) fn pods_matching(
        &self,
        matcher: MatcherId,
        topology: TopologyId,
        domain: DomainId,
    ) -> (Vec<Witness>, usize) {
        let matches = |p: &PodRecord| self.identities.get(p.identity).matched.binary_search(&matcher).is_ok();
        self.name_some(self.pods_in(topology, domain).filter(|(_, p)| matches(p)).map(|(id, _)| id))
    }

    /// Pods in a domain that carry a required anti-affinity term with this matcher, and the distinct terms
    /// by the path at which they stand.
    pub(crate) fn pods_carrying_anti_affinity(
        &self,
        matcher: MatcherId,
        topology: TopologyId,
        domain: DomainId,
    ) -> (Vec<Witness>, usize, Vec<(String, PodTerm)>) {
        let mut pods = Vec::new();
        let mut terms: Vec<(String, PodTerm)> = Vec::new();
        for (id, pod) in self.pods_in(topology, domain) {
            let class = self.classes.get(pod.class);
            let carries = class.carried.iter().any(|c| {
                c.kind == CarriedKind::RequiredAntiAffinity && c.matcher == matcher && c.topology == topology
            });
            if !carries {
                continue;
            }
            pods.push(id);
            for required in class.required_anti_affinity.iter().filter(|r| r.matcher == matcher) {
                let term = &class.rules().required_anti_affinity[required.index];
                if !terms.iter().any(|(path, _)| *path == term.path) {
                    terms.push((term.path.clone(), term.clone()));
                }
            }
        }
        let (witnesses, more) = self.name_some(pods.into_iter());
        (witnesses, more, terms)
    }

    fn pods_in(&self, topology: TopologyId, domain: DomainId) -> impl Iterator<Item = (PodId, &PodRecord)> {
        let nodes =
            self.nodes.iter().filter(move |(id, _)| self.topologies.domain(topology, *id) == Some(domain));
        nodes.flat_map(|(_, node)| node.pods.iter().map(|pod| (*pod, self.pods.get(*pod))))
    }

    fn name_some(&self, pods: impl Iterator<Item = PodId>) -> (Vec<Witness>, usize) {
        let mut witnesses: Vec<_> = pods.map(|p| self.witness(p)).collect();
        witnesses.sort_unstable();
        let more = witnesses.len().saturating_sub(MAX_WITNESSES);
        witnesses.truncate(MAX_WITNESSES);
        (witnesses, more)
    }
}
