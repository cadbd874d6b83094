//! What the rules of one decision are prepared from, and the nodes that they evaluate.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cycle::nomination::{NominatedPods, Nominations};
use crate::device::{CycleDevices, DeviceDelta};
use crate::state::State;
use crate::state::counting::counter::Tally;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::TopologyId;
use crate::state::node::{NodeId, NodeRecord};
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::profile::ProfileState;
use crate::state::rule_set::spread::Spread;
use crate::state::rule_set::{RuleSet, RuleSetId};
use crate::state::volume::{PodVolumes, VolumeDelta};
use crate::volume::CycleVolumes;

/// The pod of one decision, resolved against the state as it is now.
#[derive(Clone, Debug)]
pub(crate) struct CycleState {
    pub(crate) rule_set: RuleSetId,
    pub(crate) signature: SignatureId,
    pub(crate) spread: Vec<Spread>,
    /// Whether the spread constraints are kube-scheduler's defaults.
    pub(crate) system_spread: bool,
    /// The node it names itself, if any.
    pub(crate) node_name: Option<Arc<str>>,
    /// Its volumes; none if it has none that matter.
    pub(crate) volumes: Option<Arc<CycleVolumes>>,
    /// Its claims of devices; none if it has none.
    pub(crate) devices: Option<Arc<CycleDevices>>,
    /// Nominated pods that it must leave room for.
    pub(crate) nominated: NominatedPods,
}

impl CycleState {
    pub(crate) fn new(state: &State, nominations: &Nominations, pod: &PreparedPod) -> CycleState {
        let nominated = nominations.against(pod);
        CycleState { nominated, ..CycleState::without_nominated(state, pod) }
    }

    pub(crate) fn without_nominated(state: &State, pod: &PreparedPod) -> CycleState {
        CycleState {
            rule_set: pod.rule_set,
            signature: state.decided_signature(pod),
            spread: state.spread_with_self(pod),
            system_spread: state.has_system_spread(pod),
            node_name: pod.node_name.clone(),
            volumes: pod.volumes.as_ref().map(|volumes| Arc::new(CycleVolumes::resolve(state, volumes))),
            devices: CycleDevices::of(state, pod),
            nominated: NominatedPods::default(),
        }
    }
}

/// What a rule is prepared from: the state and the pod to be placed.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) state: &'a State,
    pub(crate) cycle: &'a CycleState,
    pub(crate) rule_set: &'a RuleSet,
    pub(crate) profile: &'a ProfileState,
}

impl<'a> Context<'a> {
    /// None without a profile for the pod.
    pub(crate) fn new(state: &'a State, cycle: &'a CycleState) -> Option<Context<'a>> {
        let rule_set = state.rule_sets.get(cycle.rule_set);
        let profile = &state.profiles[rule_set.key.profile?];
        Some(Context { state, cycle, rule_set, profile })
    }

    /// By the first profile, where the pod's scheduler name has none.
    pub(crate) fn with_any_profile(state: &'a State, cycle: &'a CycleState) -> Option<Context<'a>> {
        let rule_set = state.rule_sets.get(cycle.rule_set);
        let profile = state.profiles.get(rule_set.key.profile.unwrap_or_default())?;
        Some(Context { state, cycle, rule_set, profile })
    }
}

/// A node as the rules see it.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'a> {
    pub(crate) id: NodeId,
    pub(crate) record: &'a NodeRecord,
    /// Where the node has other pods than the counters have counted.
    pub(crate) delta: Option<&'a CounterDelta>,
}

impl<'a> NodeRef<'a> {
    pub(crate) fn new(id: NodeId, record: &'a NodeRecord) -> NodeRef<'a> {
        NodeRef { id, record, delta: None }
    }

    /// Pods with volumes that it has more or less than the state says.
    pub(crate) fn volume_delta(&self) -> &'a [(Arc<PodVolumes>, i64)] {
        self.delta.map_or(&[], |delta| &delta.volumes)
    }

    /// Pods with claims of devices that it has more or less than the state says.
    pub(crate) fn device_delta(&self) -> Option<&'a DeviceDelta> {
        self.delta.map(|delta| &delta.devices)
    }

    pub(crate) fn n_pods(self) -> i64 {
        self.delta.map_or(self.record.pods.len() as i64, |delta| delta.n_pods)
    }

    /// Matching pods on it, beyond those counted.
    pub(crate) fn more_matching(self, matcher: MatcherId) -> i64 {
        self.delta.map_or(0, |delta| delta.matching(matcher))
    }

    /// Matching pods in its domain of a topology, beyond those counted.
    pub(crate) fn more_matching_in(self, state: &State, matcher: MatcherId, topology: TopologyId) -> i64 {
        self.in_domain(state, topology).map(|delta| delta.matching(matcher)).sum()
    }

    /// Pods in its domain that own a term of required anti-affinity with a limit, beyond those counted.
    pub(crate) fn more_owners_in(
        self,
        state: &State,
        matcher: MatcherId,
        topology: TopologyId,
        limit: u32,
    ) -> Tally {
        let owners = self.in_domain(state, topology).map(|delta| delta.owners(matcher, topology, limit));
        owners.fold(Tally::default(), |sum, tally| sum + tally)
    }

    /// The other nodes that have other pods than the counters have counted.
    pub(crate) fn elsewhere(self) -> impl Iterator<Item = (NodeId, &'a CounterDelta)> {
        self.delta.into_iter().flat_map(|delta| &delta.elsewhere).map(|(node, delta)| (*node, delta))
    }

    /// What differs on this node, and on the others of its domain.
    fn in_domain(self, state: &State, topology: TopologyId) -> impl Iterator<Item = &'a CounterDelta> {
        let domain = move |node| state.topologies.domain(topology, node);
        let others = self.elsewhere().filter(move |(node, _)| {
            let of_other = domain(*node);
            of_other.is_some() && of_other == domain(self.id)
        });
        self.delta.into_iter().chain(others.map(|(_, delta)| delta))
    }
}

/// By how much counts differ in the domains of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterDelta {
    pub(crate) matching: SmallVec<[(MatcherId, i64); 4]>,
    /// Pods with a term of required anti-affinity with a limit. The weight is the number of those that match it themselves.
    pub(crate) owners: SmallVec<[(MatcherId, TopologyId, u32, Tally); 2]>,
    /// Pods with volumes, if the pod to be placed has volumes.
    pub(crate) volumes: VolumeDelta,
    /// Pods with claims of devices, if the pod to be placed may preempt for devices.
    pub(crate) devices: DeviceDelta,
    /// Pods on the node, all of them.
    pub(crate) n_pods: i64,
    /// Counts of other nodes: of matching pods, owners and volumes alone.
    pub(crate) elsewhere: Vec<(NodeId, CounterDelta)>,
}

impl CounterDelta {
    pub(crate) fn matching(&self, matcher: MatcherId) -> i64 {
        self.matching.iter().find(|(m, _)| *m == matcher).map_or(0, |(_, n)| *n)
    }

    fn owners(&self, matcher: MatcherId, topology: TopologyId, limit: u32) -> Tally {
        let found = self.owners.iter().find(|(m, t, l, _)| (*m, *t, *l) == (matcher, topology, limit));
        found.map_or(Tally::default(), |(.., tally)| *tally)
    }
}
