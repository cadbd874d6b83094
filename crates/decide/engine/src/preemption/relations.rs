//! Which running pods a pod's rules look at on other nodes than the one it goes to.

use berth_input::config::Plugin;
use berth_rules::WhenUnsatisfiable;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::cycle::context::Context;
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::pod::{PodId, PodRecord};
use crate::state::rule_set::RequiredTerm;
use crate::state::rule_set::spread::Spread;
use crate::state::volume::ClaimKey;

/// The rules of a pod, and those of running pods about it, that count pods in domains.
pub(super) struct Relations<'a> {
    context: Context<'a>,
    anti_affinity: &'a [RequiredTerm],
    /// Terms of required anti-affinity of running pods that match the pod.
    existing: &'a [MatcherId],
    limited: Vec<(MatcherId, TopologyId)>,
    /// The requirements of affinity that the pod matches itself: it may be the first of its group.
    affinity: Vec<MatcherId>,
    has_affinity: bool,
    /// The hard constraints, at their positions.
    spread: Vec<&'a Spread>,
    /// Claims that one pod at a time may use.
    claims: &'a [ClaimKey],
    /// The topologies with several nodes per domain in which these rules count pods.
    shared: Vec<TopologyId>,
    /// Whether there are others.
    has_unshared: bool,
}

/// The domains of a node in the shared topologies.
pub(super) type Domains = SmallVec<[Option<DomainId>; 4]>;

/// What a running pod has to do with a node for the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Relation {
    /// While it runs, the node is rejected, whatever other pods there are.
    pub(super) rejects: bool,
    /// It counts towards a limit of anti-affinity.
    pub(super) is_limited: bool,
    /// The hard spread constraints that count it, a bit each; all beyond the 63rd share one.
    pub(super) spread: u64,
    /// The requirements of affinity that it matches, wherever it is, likewise.
    pub(super) affinity: u64,
}

impl Relation {
    pub(super) fn is_none(self) -> bool {
        self == Relation::default()
    }

    pub(super) fn and(self, other: Relation) -> Relation {
        Relation {
            rejects: self.rejects || other.rejects,
            is_limited: self.is_limited || other.is_limited,
            spread: self.spread | other.spread,
            affinity: self.affinity | other.affinity,
        }
    }
}

pub(super) fn bit(position: usize) -> u64 {
    1 << position.min(63)
}

impl<'a> Relations<'a> {
    pub(super) fn new(context: Context<'a>) -> Relations<'a> {
        let Context { state, cycle, rule_set, profile } = context;
        let filters = |plugin| profile.profile.filter.contains(&plugin);
        let own = state.signatures.get(cycle.signature);
        let (between_pods, spreads) = (filters(Plugin::InterPodAffinity), filters(Plugin::PodTopologySpread));
        let affinity: &[RequiredTerm] = if between_pods { &rule_set.required_affinity } else { &[] };
        let mut relations = Relations {
            context,
            anti_affinity: if between_pods { &rule_set.required_anti_affinity } else { &[] },
            existing: if between_pods { &own.matched_by_existing } else { &[] },
            limited: Vec::new(),
            affinity: Vec::new(),
            has_affinity: !affinity.is_empty(),
            spread: Vec::new(),
            claims: &[],
            shared: Vec::new(),
            has_unshared: false,
        };
        if relations.has_affinity {
            let matchers = rule_set.affinity_requirements().filter_map(|terms| Some(terms.first()?.matcher));
            relations.affinity = matchers.filter(|matcher| own.matches(*matcher)).collect();
        }
        if spreads {
            let is_hard = |s: &&Spread| s.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
            relations.spread = cycle.spread.iter().filter(is_hard).collect();
        }
        if let Some(volumes) = cycle.volumes.as_deref().filter(|_| filters(Plugin::VolumeRestrictions)) {
            relations.claims = &volumes.one_pod_claims;
        }
        let mut topologies: Vec<_> = relations.spread.iter().map(|s| s.topology).collect();
        let terms = relations.anti_affinity.iter();
        topologies.extend(terms.chain(affinity).flat_map(|term| term.topologies.clone()));
        for matcher in relations.existing {
            for (topology, limit, owners) in state.matchers.get(*matcher).anti_affinity() {
                if !owners.is_empty() {
                    topologies.push(topology);
                    relations.limited.extend((limit > 0).then_some((*matcher, topology)));
                }
            }
        }
        topologies.sort_unstable();
        topologies.dedup();
        let n = topologies.len();
        topologies.retain(|topology| state.topologies.is_shared(*topology));
        relations.has_unshared = topologies.len() < n;
        relations.shared = topologies;
        relations
    }

    /// Whether nothing beyond a node decides whether the pod fits there.
    pub(super) fn are_none(&self) -> bool {
        self.shared.is_empty() && !self.has_unshared && self.claims.is_empty()
    }

    pub(super) fn has_affinity(&self) -> bool {
        self.has_affinity
    }

    pub(super) fn n_affinity(&self) -> usize {
        self.affinity.len()
    }

    pub(super) fn domains(&self, node: NodeId) -> Domains {
        self.shared.iter().map(|topology| self.context.state.topologies.domain(*topology, node)).collect()
    }

    /// Where a pod counts, apart from the node that the pod goes to: what makes two pods of the same rules differ.
    pub(super) fn place(&self, node: NodeId) -> (Domains, Option<NodeId>) {
        (self.domains(node), self.has_unshared.then_some(node))
    }

    pub(super) fn with_domains(&self, pod: &PodRecord, node: NodeId, domains: &Domains) -> Relation {
        self.relation(pod, |topology| {
            let position = self.shared.binary_search(&topology).ok();
            let domain = position.and_then(|position| domains[position]);
            domain.is_some() && domain == self.context.state.topologies.domain(topology, node)
        })
    }

    pub(super) fn with_its_node(&self, pod: &PodRecord, node: NodeId) -> Relation {
        self.relation(pod, |topology| self.context.state.topologies.domain(topology, node).is_some())
    }

    pub(super) fn pods(&self, is_meant: impl Fn(&PodRecord) -> bool) -> Vec<(PodId, NodeId)> {
        let state = self.context.state;
        let mut known = FxHashMap::default();
        let mut pods = Vec::new();
        for (id, node) in state.nodes.iter() {
            for pod in &node.pods {
                let record = state.pods.get(*pod);
                let is_related = *known
                    .entry(record.likeness())
                    .or_insert_with(|| !self.relation(record, |topology| self.is_shared(topology)).is_none());
                if (is_related || self.uses_claims(record)) && is_meant(record) {
                    pods.push((*pod, id));
                }
            }
        }
        pods
    }

    fn is_shared(&self, topology: TopologyId) -> bool {
        self.shared.binary_search(&topology).is_ok()
    }

    fn uses_claims(&self, pod: &PodRecord) -> bool {
        let volumes = pod.volumes.as_ref();
        volumes.is_some_and(|volumes| self.claims.iter().any(|claim| volumes.n_uses(claim) > 0))
    }

    fn relation(&self, pod: &PodRecord, shares: impl Fn(TopologyId) -> bool) -> Relation {
        let state: &State = self.context.state;
        let signature = state.signatures.get(pod.signature);
        let mut relation = Relation { rejects: self.uses_claims(pod), ..Relation::default() };
        for term in self.anti_affinity.iter().filter(|term| signature.matches(term.matcher)) {
            if term.topologies.iter().any(|topology| shares(*topology)) {
                relation.rejects |= term.limit == 0;
                relation.is_limited |= term.limit > 0;
            }
        }
        for term in &state.rule_sets.get(pod.rule_set).existing_terms {
            let Some(limit) = term.kind.anti_affinity_limit() else { continue };
            if self.existing.binary_search(&term.matcher).is_ok() && shares(term.topology) {
                relation.rejects |= limit == 0;
                relation.is_limited |= limit > 0;
            }
        }
        let mut limited = self.limited.iter();
        relation.is_limited |=
            limited.any(|(matcher, topology)| signature.matches(*matcher) && shares(*topology));
        for (i, spread) in self.spread.iter().enumerate() {
            if spread.matcher.is_some_and(|m| signature.matches(m)) && shares(spread.topology) {
                relation.spread |= bit(i);
            }
        }
        for (i, matcher) in self.affinity.iter().enumerate() {
            if signature.matches(*matcher) {
                relation.affinity |= bit(i);
            }
        }
        relation
    }
}
