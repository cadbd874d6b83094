//! Wake-up: which changes could lift a verdict.

use std::borrow::Cow;
use std::sync::Arc;

use berth_api::config::Plugin;
use berth_api::object::TopologySpreadConstraint;
use berth_api::rules::WhenUnsatisfiable;
use rustc_hash::FxHashSet;

use crate::context::CycleState;
use crate::context::{Context, NodeRef};
use crate::plugins::{self, PreFilter, exceeds_limit};
use crate::state::State;
use crate::state::change::{Change, NodeParts, PodAt, VolumeChange};
use crate::state::counter::{Counter, Tally};
use crate::state::matcher::{ExistingTermKind, Matcher, MatcherId};
use crate::state::prepared::PreparedPod;
use crate::state::rule_set::RequiredTerm;
use crate::state::spread::Spread;
use crate::state::topology::{DomainId, TopologyId};
use crate::state::volume::{ClaimKey, ClaimRecord};
use crate::volume::CycleVolumes;

/// A change of the cluster, as far as it could matter to a pod that waits.
///
/// The cluster records changes itself while [`Cluster::record_changes`](crate::Cluster::record_changes) is on.
#[derive(Clone, Debug)]
pub struct ClusterChange(Recorded);

#[derive(Clone, Debug)]
enum Recorded {
    State(Change),
    NominationCleared(Arc<str>),
}

impl From<Change> for ClusterChange {
    fn from(change: Change) -> ClusterChange {
        ClusterChange(Recorded::State(change))
    }
}

impl ClusterChange {
    pub(crate) fn nomination_cleared(node: Arc<str>) -> ClusterChange {
        ClusterChange(Recorded::NominationCleared(node))
    }

    /// What happened, in the words of kube-scheduler's event labels.
    pub fn event(&self) -> &'static str {
        let change = match &self.0 {
            Recorded::State(change) => change,
            Recorded::NominationCleared(_) => return "NominationCleared",
        };
        match change {
            Change::NodeAdded(_) => "NodeAdd",
            Change::NodeChanged(_, parts) if parts.labels => "NodeLabelChange",
            Change::NodeChanged(_, parts) if parts.taints || parts.unschedulable => "NodeTaintChange",
            Change::NodeChanged(_, parts) if parts.declared_features => "NodeDeclaredFeatureChange",
            Change::NodeChanged(..) => "NodeAllocatableChange",
            Change::NodeRemoved => "NodeDelete",
            Change::PodAttached(_) => "AssignedPodAdd",
            Change::PodDetached(_) => "AssignedPodDelete",
            Change::NamespaceChanged(_) => "NamespaceUpdate",
            Change::SelectorChanged => "WorkloadUpdate",
            Change::Volume(change) => match change {
                VolumeChange::Volume { .. } => "PvUpdate",
                VolumeChange::Claim { .. } | VolumeChange::InUse(_) => "PvcUpdate",
                VolumeChange::Class(_) => "StorageClassUpdate",
                VolumeChange::CsiNode(_) => "CSINodeUpdate",
                VolumeChange::DriverChanged(_) => "CSIDriverUpdate",
                VolumeChange::Capacity(_) => "CSIStorageCapacityUpdate",
                VolumeChange::Detached(_) => "VolumeAttachmentDelete",
            },
        }
    }
}

/// What could lift the verdict on a pod that fits nowhere.
///
/// They stay right whatever happens to the cluster afterwards, but may grow coarser: take new ones after every
/// decision that found no node.
#[derive(Clone, Debug)]
pub struct WakeConditions {
    /// None if only a change of the pod itself helps.
    requirements: Option<Requirements>,
}

/// What the pod's rules require of the cluster.
#[derive(Clone, Debug)]
struct Requirements {
    pod: PreparedPod,
    cycle: CycleState,
    /// Required affinity: pods to be near.
    affinity: Places,
    /// Required anti-affinity: pods to be away from.
    anti_affinity: Places,
    /// Pods that hard spread constraints count.
    spread: Places,
    has_hard_spread: bool,
    /// The state of nodes when the domains were gathered.
    places: u64,
}

/// Pods that match, where it matters.
#[derive(Clone, Debug, Default)]
struct Places(Vec<Place>);

#[derive(Clone, Debug)]
struct Place {
    matcher: MatcherId,
    topology: TopologyId,
    /// Of anti-affinity.
    limit: u32,
    /// Domains with a node that the pod's rules about nodes alone allow.
    domains: FxHashSet<DomainId>,
}

impl WakeConditions {
    /// Those of a pod whose decision has just found no node.
    pub(crate) fn of(state: &State, pod: &PreparedPod) -> WakeConditions {
        let cycle = CycleState::without_nominated(state, pod);
        let Some(context) = Context::new(state, &cycle).filter(|_| pod.gates.is_empty()) else {
            return WakeConditions { requirements: None };
        };
        // Changes of volume objects can help a pod with volumes that is rejected everywhere.
        if pod.volumes.is_none() && matches!(plugins::pre_filter(context), PreFilter::Rejected(_)) {
            return WakeConditions { requirements: None };
        }
        let filters = &context.profile.profile.filter;
        let terms = |terms: &[RequiredTerm]| {
            let asked = filters.contains(&Plugin::InterPodAffinity);
            let places = terms.iter().filter(|_| asked);
            places.flat_map(|t| t.topologies.iter().map(|topology| (t.matcher, *topology, t.limit))).collect()
        };
        let hard = || {
            let asked = filters.contains(&Plugin::PodTopologySpread);
            let hard = |s: &&Spread| s.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
            cycle.spread.iter().filter(hard).filter(move |_| asked)
        };
        let spread = hard().filter_map(|s| Some((s.matcher?, s.topology, 0))).collect();
        let allowed = context.domains_allowed([
            terms(&context.rule_set.required_affinity),
            terms(&context.rule_set.required_anti_affinity),
            spread,
        ]);
        let [affinity, anti_affinity, spread] = allowed;
        let has_hard_spread = hard().next().is_some();
        let (pod, places) = (pod.clone(), state.changes.places);
        let requirements =
            Requirements { pod, affinity, anti_affinity, spread, has_hard_spread, places, cycle };
        WakeConditions { requirements: Some(requirements) }
    }

    /// [`Cluster::could_help`](crate::Cluster::could_help).
    pub(crate) fn could_be_met_by(&self, state: &State, change: &ClusterChange) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        // Rules seen for the first time may distinguish pods that were alike.
        let signature = state.decided_signature(&requirements.pod);
        let volumes = requirements.pod.volumes.as_ref();
        let cycle = match volumes.map(|volumes| Arc::new(CycleVolumes::resolve(state, volumes))) {
            None => Cow::Borrowed(&requirements.cycle),
            volumes => Cow::Owned(CycleState { volumes, ..requirements.cycle.clone() }),
        };
        let Some(context) = Context::new(state, &cycle).filter(|_| signature == requirements.cycle.signature)
        else {
            return true;
        };
        let change = match &change.0 {
            Recorded::State(change) => change,
            Recorded::NominationCleared(node) => return context.may_go_to(node),
        };
        match change {
            Change::NodeAdded(node) => requirements.has_hard_spread || context.may_go_to(node),
            Change::NodeRemoved => requirements.has_hard_spread,
            Change::NodeChanged(node, parts) => {
                context.may_go_to(node) || requirements.concern_node(context, *parts)
            }
            Change::PodDetached(pod) => {
                context.may_go_to(&pod.node)
                    || requirements.concern_leaving(context, pod)
                    || context.shares_claims_with(pod)
            }
            Change::PodAttached(pod) => {
                // A volume that is attached to the node already does not count for the pod.
                let may_share = pod.volumes.is_some() && context.cycle.volumes.is_some();
                requirements.concern_coming(context, pod) || (may_share && context.may_go_to(&pod.node))
            }
            Change::NamespaceChanged(namespace) => requirements.concern_namespace(context, namespace),
            Change::SelectorChanged => context.has_default_hard_spread(),
            Change::Volume(change) => context.concerns_volumes(change),
        }
    }
}

impl Context<'_> {
    /// Whether every rule but spreading lets the pod go to a node.
    fn may_go_to(self, node: &str) -> bool {
        let Some(id) = self.state.find_node(node) else { return false };
        let considered = match plugins::pre_filter(self) {
            PreFilter::Nodes(_, names) => names.iter().any(|name| name == node),
            PreFilter::AllNodes | PreFilter::Rejected(_) => true,
        };
        let node = NodeRef::new(id, self.state.nodes.get(id));
        let asked = self.profile.profile.filter.iter().filter(|p| **p != Plugin::PodTopologySpread);
        considered && asked.filter_map(|p| plugins::filter(*p, self)).all(|filter| filter.admits(node))
    }

    /// Whether a pod used claims that only one pod may use at a time.
    fn shares_claims_with(self, pod: &PodAt) -> bool {
        let Some((own, theirs)) = self.cycle.volumes.as_ref().zip(pod.volumes.as_ref()) else { return false };
        own.one_pod_claims.iter().any(|claim| theirs.n_uses(claim) > 0)
    }

    /// Whether a change of a volume object is about the claims of the pod. These are kube-scheduler's queueing hints,
    /// except that volumes and classes which none of the claims could use are left out.
    fn concerns_volumes(self, change: &VolumeChange) -> bool {
        let Some(volumes) = &self.cycle.volumes else { return false };
        let state = self.state;
        let mut claims = volumes.pod.claims.iter().map(|used| (&used.key, state.volumes.claim(&used.key)));
        let named = |key: &ClaimKey, namespace: &str, name: &str| {
            (state.symbols.text(key.0), &*key.1) == (namespace, name)
        };
        match change {
            VolumeChange::Claim { namespace, name } => claims.any(|(key, _)| named(key, namespace, name)),
            VolumeChange::Volume { name, class, claim } => claims.any(|(key, record)| {
                let is_for = claim.as_ref().is_some_and(|(namespace, name)| named(key, namespace, name));
                let could_be = |record: &ClaimRecord| {
                    *record.volume == **name || (claim.is_none() && *record.class == **class)
                };
                is_for || record.is_none_or(could_be)
            }),
            VolumeChange::Class(class) | VolumeChange::Capacity(class) => {
                claims.any(|(_, record)| record.is_none_or(|record| *record.class == **class))
            }
            VolumeChange::DriverChanged(driver) => claims.any(|(_, record)| {
                let class = record.and_then(|record| state.volumes.class(&record.class));
                class.is_none_or(|class| class.provisioner == *driver)
            }),
            VolumeChange::CsiNode(node) | VolumeChange::Detached(node) | VolumeChange::InUse(node) => {
                self.may_go_to(node)
            }
        }
    }

    /// For each list of questions, the domains in which there is a node that the rules about nodes alone allow.
    fn domains_allowed<const N: usize>(self, asked: [Vec<(MatcherId, TopologyId, u32)>; N]) -> [Places; N] {
        let place =
            |(matcher, topology, limit)| Place { matcher, topology, limit, domains: FxHashSet::default() };
        let mut places = asked.map(|list| Places(list.into_iter().map(place).collect()));
        if places.iter().all(|p| p.0.is_empty()) {
            return places;
        }
        let about_nodes = |plugin: &&Plugin| {
            matches!(plugin, Plugin::NodeUnschedulable | Plugin::TaintToleration | Plugin::NodeAffinity)
        };
        let filters = self.profile.profile.filter.iter().filter(about_nodes);
        let filters: Vec<_> = filters.filter_map(|p| plugins::filter(*p, self)).collect();
        for (id, record) in self.state.nodes.iter() {
            let node = NodeRef::new(id, record);
            if !filters.iter().all(|f| f.admits(node)) {
                continue;
            }
            for place in places.iter_mut().flat_map(|p| &mut p.0) {
                place.domains.extend(self.state.topologies.domain(place.topology, id));
            }
        }
        places
    }

    /// Whether the profile's default spread constraints keep the pod off nodes.
    fn has_default_hard_spread(self) -> bool {
        let hard = |c: &TopologySpreadConstraint| c.when_unsatisfiable == "DoNotSchedule";
        self.rule_set.rules().spread_constraints.is_empty()
            && self.profile.default_constraints.iter().any(hard)
    }
}

impl Requirements {
    /// Whether a domain has a node that rules about nodes alone allow; yes if nodes have changed since that was
    /// found out, or the node was removed.
    fn allows(&self, state: &State, place: &Place, node: &str) -> bool {
        let Some(id) = state.find_node(node).filter(|_| state.changes.places == self.places) else {
            return true;
        };
        state.topologies.domain(place.topology, id).is_some_and(|d| place.domains.contains(&d))
    }

    /// Whether running pods carry required anti-affinity that could be against the pod.
    fn is_shunned(&self, context: Context<'_>) -> bool {
        let state = context.state;
        let matched = &state.signatures.get(context.cycle.signature).matched_by_existing;
        let mut topologies = matched.iter().flat_map(|m| {
            let Matcher { owners, limited_owners, .. } = state.matchers.get(*m);
            owners.iter().map(|o| o.topology).chain(limited_owners.iter().map(|o| o.topology))
        });
        let asked = context.profile.profile.filter.contains(&Plugin::InterPodAffinity);
        asked && topologies.any(|topology| state.topologies.is_shared(topology))
    }

    /// Whether a change of a node could make another one feasible: its pods count in other domains now, or it counts
    /// for spreading as it did not before.
    fn concern_node(&self, context: Context<'_>, parts: NodeParts) -> bool {
        let by_pods =
            || !self.affinity.0.is_empty() || !self.anti_affinity.0.is_empty() || self.is_shunned(context);
        (self.has_hard_spread && (parts.labels || parts.taints))
            || (parts.labels && parts.has_pods && by_pods())
    }

    /// Whether a pod that left could make another node feasible than the one it left.
    fn concern_leaving(&self, context: Context<'_>, pod: &PodAt) -> bool {
        let state = context.state;
        let matched = &state.signatures.get(pod.signature).matched;
        let is_matched = |place: &&Place| matched.binary_search(&place.matcher).is_ok();
        // If nodes have changed since, the domains that it left may not be those that the node has now.
        let node = state.find_node(&pod.node).filter(|_| state.changes.places == pod.places);
        // The node alone has been looked at: it was removed or is not the same, or others share its domain.
        let reaches_others = |topology| node.is_none() || state.topologies.is_shared(topology);
        let tally = |counter: Option<&Counter>, topology| {
            let domain = node.and_then(|id| state.topologies.domain(topology, id));
            domain.zip(counter).map_or(Tally::default(), |(domain, counter)| counter.get(domain))
        };

        let mut spread = self.spread.0.iter().filter(is_matched);
        if spread.any(|p| reaches_others(p.topology) && self.allows(state, p, &pod.node)) {
            return true;
        }
        let mut anti_affinity = self.anti_affinity.0.iter().filter(is_matched);
        if anti_affinity.any(|p| {
            let counter = state.matchers.get(p.matcher).matching_in(p.topology);
            reaches_others(p.topology)
                && tally(counter, p.topology).count <= i64::from(p.limit)
                && self.allows(state, p, &pod.node)
        }) {
            return true;
        }
        // The pod may have become the first of its group.
        let unmatched =
            |p: &Place| state.matchers.get(p.matcher).matching_in(p.topology).is_none_or(Counter::is_empty);
        if self.affinity.0.iter().any(|p| is_matched(&p)) && self.affinity.0.iter().all(unmatched) {
            return true;
        }
        let shunned = &state.signatures.get(context.cycle.signature).matched_by_existing;
        let mut own = state.rule_sets.get(pod.rule_set).existing_terms.iter();
        own.any(|term| {
            term.kind == ExistingTermKind::RequiredAntiAffinity
                && shunned.binary_search(&term.matcher).is_ok()
                && reaches_others(term.topology)
                && tally(state.matchers.get(term.matcher).owners_in(term.topology), term.topology).count == 0
        }) || shunned.iter().any(|id| {
            // An owner of a limited term left, or a pod that counts for it.
            let counts = matched.binary_search(id).is_ok();
            let matcher = state.matchers.get(*id);
            matcher.limited_owners.iter().any(|owners| {
                let topology = owners.topology;
                let kind = ExistingTermKind::LimitedAntiAffinity(owners.limit);
                let mut own = state.rule_sets.get(pod.rule_set).existing_terms.iter();
                let n_matching = tally(matcher.matching_in(topology), topology).count;
                (counts || own.any(|t| (t.matcher, t.topology, t.kind) == (*id, topology, kind)))
                    && reaches_others(topology)
                    && !exceeds_limit(owners.limit, Some(tally(Some(&owners.counter), topology)), n_matching)
            })
        })
    }

    /// Whether a pod that came could make a node feasible: one that the pod is to be near, or one more where
    /// spreading had the fewest.
    fn concern_coming(&self, context: Context<'_>, pod: &PodAt) -> bool {
        let state = context.state;
        let matched = &state.signatures.get(pod.signature).matched;
        let is_matched = |place: &&Place| matched.binary_search(&place.matcher).is_ok();
        let near = |place: &Place| {
            if state.topologies.is_shared(place.topology) {
                self.allows(state, place, &pod.node)
            } else {
                context.may_go_to(&pod.node)
            }
        };
        self.affinity.0.iter().filter(is_matched).any(near) || self.spread.0.iter().any(|p| is_matched(&p))
    }

    /// Whether other labels of a namespace could change what terms match.
    fn concern_namespace(&self, context: Context<'_>, namespace: &str) -> bool {
        let matchers = &context.state.matchers;
        let looks = |m: MatcherId| matchers.get(m).looks_at_namespace_labels();
        let mut places = self.affinity.0.iter().chain(&self.anti_affinity.0);
        // Terms of running pods that the pod may have matched until now; they may have been removed since.
        let shuns = |m: &Matcher| m.looks_at_namespace_labels() && !m.owners.is_empty();
        // With a limit, it matters as well which other pods match.
        let limits = |m: &Matcher| m.looks_at_namespace_labels() && !m.limited_owners.is_empty();
        places.any(|p| looks(p.matcher))
            || matchers.any(limits)
            || (context.state.symbols.text(self.pod.namespace) == namespace && matchers.any(shuns))
    }
}
