//! Wake-up: which changes could lift a verdict.

use berth_api::config::Plugin;
use berth_api::object::TopologySpreadConstraint;
use berth_api::rules::WhenUnsatisfiable;
use rustc_hash::FxHashSet;

use crate::nomination::Nominated;
use crate::plugins::{self, Context, NodeRef, PreFilter};
use crate::state::class::{ClassId, RequiredTerm};
use crate::state::cluster::Cluster;
use crate::state::counter::Counter;
use crate::state::identity::IdentityId;
use crate::state::incoming::{Incoming, PreparedPod, Spread};
use crate::state::intern::Symbol;
use crate::state::matcher::{CarriedKind, Matcher, MatcherId};
use crate::state::topology::{DomainId, TopologyId};

/// A change of the cluster, as far as it could matter to a pod that waits.
///
/// The cluster notes changes itself while [`Cluster::note_changes`] is on.
#[derive(Clone, Debug)]
pub struct ClusterChange(pub(crate) Change);

#[derive(Clone, Debug)]
pub(crate) enum Change {
    NodeAdded(Symbol),
    NodeChanged(Symbol, NodeParts),
    NodeRemoved,
    PodCame(PodAt),
    PodWent(PodAt),
    NamespaceChanged(Symbol),
    /// Of services or owners, which default spread constraints use.
    SelectorChanged,
    NominationCleared(Symbol),
}

/// What of a node changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeParts {
    pub(crate) labels: bool,
    pub(crate) taints: bool,
    pub(crate) allocatable: bool,
    pub(crate) unschedulable: bool,
    /// Not a change: whether pods were on it.
    pub(crate) has_pods: bool,
}

impl NodeParts {
    /// Whether anything changed that rules look at.
    pub(crate) fn any(self) -> bool {
        self.labels || self.taints || self.allocatable || self.unschedulable
    }
}

/// A pod on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodAt {
    pub(crate) class: ClassId,
    pub(crate) identity: IdentityId,
    pub(crate) node: Symbol,
    /// The state of nodes at that time.
    pub(crate) places: u64,
}

impl ClusterChange {
    /// What happened, in the words of kube-scheduler's event labels.
    pub fn event(&self) -> &'static str {
        match self.0 {
            Change::NodeAdded(_) => "NodeAdd",
            Change::NodeChanged(_, parts) if parts.labels => "NodeLabelChange",
            Change::NodeChanged(_, parts) if parts.taints || parts.unschedulable => "NodeTaintChange",
            Change::NodeChanged(..) => "NodeAllocatableChange",
            Change::NodeRemoved => "NodeDelete",
            Change::PodCame(_) => "AssignedPodAdd",
            Change::PodWent(_) => "AssignedPodDelete",
            Change::NamespaceChanged(_) => "NamespaceUpdate",
            Change::SelectorChanged => "WorkloadUpdate",
            Change::NominationCleared(_) => "NominationCleared",
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
    asks: Option<Asks>,
}

/// What the pod's rules ask of the cluster.
#[derive(Clone, Debug)]
struct Asks {
    pod: PreparedPod,
    incoming: Incoming,
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
    /// Domains with a node that the pod's rules about nodes alone allow.
    domains: FxHashSet<DomainId>,
}

impl Cluster {
    /// From now on (`true`), notes every change for [`Cluster::take_changes`]; or stops doing so and forgets
    /// those noted. It is off at first.
    pub fn note_changes(&mut self, on: bool) {
        self.noted = on.then(Vec::new);
    }

    /// The changes noted since the last call, in order. They are to be taken regularly: they are kept until then.
    pub fn take_changes(&mut self) -> Vec<ClusterChange> {
        self.noted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note(&mut self, change: Change) {
        if let Some(noted) = &mut self.noted {
            noted.push(ClusterChange(change));
        }
    }

    /// What could lift the verdict on a pod, right after a decision that found no node for it. Looks at every
    /// node if the pod has rules about other pods.
    pub fn wake_conditions(&mut self, pod: &PreparedPod) -> WakeConditions {
        let incoming = Incoming { nominated: Nominated::default(), ..self.incoming(pod) };
        let Some(context) = self.context(&incoming).filter(|_| pod.gates.is_empty()) else {
            return WakeConditions { asks: None };
        };
        if matches!(plugins::pre_filter(context), PreFilter::Rejected(_)) {
            return WakeConditions { asks: None };
        }
        let filters = &context.profile.profile.filter;
        let terms = |terms: &[RequiredTerm]| {
            let asked = filters.contains(&Plugin::InterPodAffinity);
            let places = terms.iter().filter(|_| asked);
            places.flat_map(|t| t.topologies.iter().map(|topology| (t.matcher, *topology))).collect()
        };
        let hard = || {
            let asked = filters.contains(&Plugin::PodTopologySpread);
            let hard = |s: &&Spread| s.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
            incoming.spread.iter().filter(hard).filter(move |_| asked)
        };
        let spread = hard().filter_map(|s| Some((s.matcher?, s.topology))).collect();
        let allowed = context.domains_allowed([
            terms(&context.class.required_affinity),
            terms(&context.class.required_anti_affinity),
            spread,
        ]);
        let [affinity, anti_affinity, spread] = allowed;
        let has_hard_spread = hard().next().is_some();
        let (pod, places) = (pod.clone(), self.changes.places);
        let asks = Asks { pod, affinity, anti_affinity, spread, has_hard_spread, places, incoming };
        WakeConditions { asks: Some(asks) }
    }

    /// Whether a change may have made a node feasible for a pod that fitted nowhere when its conditions were
    /// taken. Never a false no; a yes is to be followed by a decision (or [`Cluster::fits_anywhere`]), and that by
    /// new conditions if there still is no node.
    ///
    /// The cluster is looked at as it is now, so ask when the change has just been made: what the rules make of
    /// the node concerned is asked exactly, and beyond that node only changes of counts that the pod's rules read
    /// matter, in domains that its rules about nodes allow.
    pub fn could_help(&self, conditions: &WakeConditions, change: &ClusterChange) -> bool {
        let Some(asks) = &conditions.asks else { return false };
        // Rules seen for the first time may have told pods apart that were alike.
        let identity = self.find_identity(asks.pod.namespace, asks.pod.terminating, &asks.pod.labels);
        let Some(context) = self.context(&asks.incoming).filter(|_| identity == Some(asks.incoming.identity))
        else {
            return true;
        };
        match change.0 {
            Change::NodeAdded(node) => asks.has_hard_spread || context.may_go_to(node),
            Change::NodeRemoved => asks.has_hard_spread,
            Change::NodeChanged(node, parts) => context.may_go_to(node) || asks.concern_node(context, parts),
            Change::PodWent(pod) => context.may_go_to(pod.node) || asks.concern_leaving(context, pod),
            Change::PodCame(pod) => asks.concern_coming(context, pod),
            Change::NamespaceChanged(namespace) => asks.concern_namespace(context, namespace),
            Change::SelectorChanged => context.has_default_hard_spread(),
            Change::NominationCleared(node) => context.may_go_to(node),
        }
    }
}

impl Context<'_> {
    /// Whether every rule but spreading lets the pod go to a node.
    fn may_go_to(self, node: Symbol) -> bool {
        let Some(id) = self.cluster.nodes.find(node) else { return false };
        let considered = match plugins::pre_filter(self) {
            PreFilter::Nodes(_, names) => names.iter().any(|name| name == self.cluster.symbols.text(node)),
            PreFilter::AllNodes | PreFilter::Rejected(_) => true,
        };
        let node = NodeRef::new(id, self.cluster.nodes.get(id));
        let asked = self.profile.profile.filter.iter().filter(|p| **p != Plugin::PodTopologySpread);
        considered && asked.filter_map(|p| plugins::filter(*p, self)).all(|filter| filter.admits(node))
    }

    /// For each list of questions, the domains in which there is a node that the rules about nodes alone allow.
    fn domains_allowed<const N: usize>(self, asked: [Vec<(MatcherId, TopologyId)>; N]) -> [Places; N] {
        let place = |(matcher, topology)| Place { matcher, topology, domains: FxHashSet::default() };
        let mut places = asked.map(|list| Places(list.into_iter().map(place).collect()));
        if places.iter().all(|p| p.0.is_empty()) {
            return places;
        }
        let about_nodes = |plugin: &&Plugin| {
            matches!(plugin, Plugin::NodeUnschedulable | Plugin::TaintToleration | Plugin::NodeAffinity)
        };
        let filters = self.profile.profile.filter.iter().filter(about_nodes);
        let filters: Vec<_> = filters.filter_map(|p| plugins::filter(*p, self)).collect();
        for (id, record) in self.cluster.nodes.iter() {
            let node = NodeRef::new(id, record);
            if !filters.iter().all(|f| f.admits(node)) {
                continue;
            }
            for place in places.iter_mut().flat_map(|p| &mut p.0) {
                place.domains.extend(self.cluster.topologies.domain(place.topology, id));
            }
        }
        places
    }

    /// Whether the profile's default spread constraints keep the pod off nodes.
    fn has_default_hard_spread(self) -> bool {
        let hard = |c: &TopologySpreadConstraint| c.when_unsatisfiable == "DoNotSchedule";
        self.class.rules().spread_constraints.is_empty() && self.profile.default_constraints.iter().any(hard)
    }
}

impl Asks {
    /// Whether a domain has a node that rules about nodes alone allow; yes if nodes have changed since that was
    /// found out, or the node has gone.
    fn allows(&self, cluster: &Cluster, place: &Place, node: Symbol) -> bool {
        let Some(id) = cluster.nodes.find(node).filter(|_| cluster.changes.places == self.places) else {
            return true;
        };
        cluster.topologies.domain(place.topology, id).is_some_and(|d| place.domains.contains(&d))
    }

    /// Whether running pods carry required anti-affinity that could be against the pod.
    fn is_shunned(&self, context: Context<'_>) -> bool {
        let cluster = context.cluster;
        let matched = &cluster.identities.get(context.incoming.identity).matched_by_existing;
        let carriers = matched.iter().flat_map(|m| &cluster.matchers.get(*m).carriers);
        let asked = context.profile.profile.filter.contains(&Plugin::InterPodAffinity);
        asked && carriers.into_iter().any(|(topology, _)| cluster.topologies.is_shared(*topology))
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
    fn concern_leaving(&self, context: Context<'_>, pod: PodAt) -> bool {
        let cluster = context.cluster;
        let matched = &cluster.identities.get(pod.identity).matched;
        let is_matched = |place: &&Place| matched.binary_search(&place.matcher).is_ok();
        // If nodes have changed since, the domains that it left may not be those that the node has now.
        let node = cluster.nodes.find(pod.node).filter(|_| cluster.changes.places == pod.places);
        // The node alone has been looked at: it is gone or not the same, or others share its domain.
        let reaches_others = |topology| node.is_none() || cluster.topologies.is_shared(topology);
        let still_counted = |counter: Option<&Counter>, topology| {
            let domain = node.and_then(|id| cluster.topologies.domain(topology, id));
            domain.zip(counter).is_some_and(|(domain, counter)| counter.get(domain).count > 0)
        };

        let mut spread = self.spread.0.iter().filter(is_matched);
        if spread.any(|p| reaches_others(p.topology) && self.allows(cluster, p, pod.node)) {
            return true;
        }
        let mut anti_affinity = self.anti_affinity.0.iter().filter(is_matched);
        if anti_affinity.any(|p| {
            let counter = cluster.matchers.get(p.matcher).matching_in(p.topology);
            reaches_others(p.topology)
                && !still_counted(counter, p.topology)
                && self.allows(cluster, p, pod.node)
        }) {
            return true;
        }
        // The pod may have become the first of its group.
        let nobody =
            |p: &Place| cluster.matchers.get(p.matcher).matching_in(p.topology).is_none_or(Counter::is_empty);
        if self.affinity.0.iter().any(|p| is_matched(&p)) && self.affinity.0.iter().all(nobody) {
            return true;
        }
        let shunned = &cluster.identities.get(context.incoming.identity).matched_by_existing;
        cluster.classes.get(pod.class).carried.iter().any(|carried| {
            carried.kind == CarriedKind::RequiredAntiAffinity
                && shunned.binary_search(&carried.matcher).is_ok()
                && reaches_others(carried.topology)
                && !still_counted(
                    cluster.matchers.get(carried.matcher).carriers_in(carried.topology),
                    carried.topology,
                )
        })
    }

    /// Whether a pod that came could make a node feasible: one that the pod is to be near, or one more where
    /// spreading had the fewest.
    fn concern_coming(&self, context: Context<'_>, pod: PodAt) -> bool {
        let cluster = context.cluster;
        let matched = &cluster.identities.get(pod.identity).matched;
        let is_matched = |place: &&Place| matched.binary_search(&place.matcher).is_ok();
        let near = |place: &Place| {
            if cluster.topologies.is_shared(place.topology) {
                self.allows(cluster, place, pod.node)
            } else {
                context.may_go_to(pod.node)
            }
        };
        self.affinity.0.iter().filter(is_matched).any(near) || self.spread.0.iter().any(|p| is_matched(&p))
    }

    /// Whether other labels of a namespace could change what terms match.
    fn concern_namespace(&self, context: Context<'_>, namespace: Symbol) -> bool {
        let matchers = &context.cluster.matchers;
        let looks = |m: MatcherId| matchers.get(m).looks_at_namespace_labels();
        let mut places = self.affinity.0.iter().chain(&self.anti_affinity.0);
        // Terms of running pods that the pod may have matched until now; they may have gone since.
        let shuns = |m: &Matcher| m.looks_at_namespace_labels() && !m.carriers.is_empty();
        places.any(|p| looks(p.matcher))
            || (namespace == self.pod.namespace && matchers.iter().any(|(_, m)| shuns(m)))
    }
}
