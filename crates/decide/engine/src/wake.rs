//! Wake-up: which changes could help an unschedulable pod, from the queueing hints of the rules.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::device::CycleDevices;
use crate::plugins::{self, Hints, PreFilter, QueueingHint, Reads};
use crate::preemption;
use crate::state::State;
use crate::state::change::{Change, DeviceChange, VolumeChange};
use crate::state::pod::prepared::PreparedPod;
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
            Change::Device(change) => match change {
                DeviceChange::Slice => "ResourceSliceUpdate",
                DeviceChange::Class => "DeviceClassUpdate",
                DeviceChange::Claim { .. } => "ResourceClaimUpdate",
            },
        }
    }
}

/// What could help an unschedulable pod.
///
/// They stay right whatever happens to the cluster afterwards, but may grow coarser: take new ones after every
/// decision that found no node.
#[derive(Clone, Debug)]
pub struct WakeConditions {
    /// None if only a change of the pod itself helps.
    requirements: Option<Requirements>,
    /// Whether the pod was rejected before any node was asked, as for a claim that does not exist.
    is_rejected_everywhere: bool,
}

/// What the rules of the pod require of the cluster.
#[derive(Clone, Debug)]
struct Requirements {
    pod: PreparedPod,
    cycle: CycleState,
    hints: Arc<[Box<dyn Hints>]>,
}

impl WakeConditions {
    /// Those of a pod whose decision has just found no node.
    pub(crate) fn of(state: &State, pod: &PreparedPod) -> WakeConditions {
        let cycle = CycleState::without_nominated(state, pod);
        let Some(context) = Context::new(state, &cycle).filter(|_| pod.gates.is_empty()) else {
            return WakeConditions { requirements: None, is_rejected_everywhere: true };
        };
        // Changes of volumes and devices can help a pod that is rejected everywhere because of them.
        let has_objects = pod.volumes.is_some() || cycle.devices.is_some();
        let is_rejected_everywhere = matches!(plugins::pre_filter(context), PreFilter::Rejected(_));
        if !has_objects && is_rejected_everywhere {
            return WakeConditions { requirements: None, is_rejected_everywhere };
        }
        let hints = context.gather_hints().into();
        let requirements = Some(Requirements { pod: pod.clone(), cycle, hints });
        WakeConditions { requirements, is_rejected_everywhere }
    }

    /// Whether the pod was rejected before any node was asked: a change that could help changes its message also where it does not help.
    pub fn is_rejected_everywhere(&self) -> bool {
        self.is_rejected_everywhere
    }

    /// [`Cluster::could_help`](crate::Cluster::could_help).
    pub(crate) fn could_be_met_by(&self, state: &State, change: &ClusterChange) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        // Rules seen for the first time may distinguish pods that were alike.
        let signature = state.decided_signature(&requirements.pod);
        let volumes = &requirements.pod.volumes;
        let volumes = volumes.as_ref().map(|volumes| Arc::new(CycleVolumes::resolve(state, volumes)));
        let devices = CycleDevices::of(state, &requirements.pod);
        let cycle = match volumes.is_none() && devices.is_none() {
            true => Cow::Borrowed(&requirements.cycle),
            false => Cow::Owned(CycleState { volumes, devices, ..requirements.cycle.clone() }),
        };
        let Some(context) = Context::new(state, &cycle).filter(|_| signature == requirements.cycle.signature)
        else {
            return true;
        };
        let change = match &change.0 {
            Recorded::State(change) => change,
            Recorded::NominationCleared(node) => return context.may_go_to(node, &requirements.pod),
        };
        let of_rules = requirements.hints.iter().map(|hints| hints.hint(context, change));
        match of_rules.max().max(Some(context.hint_of_reads(change))) {
            None | Some(QueueingHint::Skip) => false,
            Some(QueueingHint::CheckNode) => {
                node_of(change).is_some_and(|node| context.may_go_to(node, &requirements.pod))
            }
            Some(QueueingHint::Queue) => true,
        }
    }
}

fn node_of(change: &Change) -> Option<&str> {
    match change {
        Change::NodeAdded(node) | Change::NodeChanged(node, _) => Some(node),
        Change::PodAttached(pod) | Change::PodDetached(pod) => Some(&pod.node),
        Change::Volume(change) => match change {
            VolumeChange::CsiNode(node) | VolumeChange::Detached(node) | VolumeChange::InUse(node) => {
                Some(node)
            }
            VolumeChange::Volume { .. }
            | VolumeChange::Claim { .. }
            | VolumeChange::Class(_)
            | VolumeChange::DriverChanged(_)
            | VolumeChange::Capacity(_) => None,
        },
        Change::NodeRemoved | Change::NamespaceChanged(_) | Change::SelectorChanged | Change::Device(_) => {
            None
        }
    }
}

impl Context<'_> {
    /// The hints of the rules of the profile, with the domains in which they matter.
    fn gather_hints(self) -> Vec<Box<dyn Hints>> {
        let rules = || plugins::filtering(self.profile);
        let mut hints: Vec<_> = rules().filter_map(|rule| (rule.hints)(self)).collect();
        let mut places: Vec<_> = hints.iter_mut().flat_map(|hints| hints.places()).collect();
        places.retain(|places| !places.is_empty());
        if !places.is_empty() {
            let of_nodes = rules().filter(|rule| rule.reads.only(Reads::NODE));
            let filters: Vec<_> = of_nodes.filter_map(|rule| (rule.filter)(self)).collect();
            for (id, record) in self.state.nodes.iter() {
                if filters.iter().all(|filter| filter.admits(NodeRef::new(id, record))) {
                    places.iter_mut().for_each(|places| places.add_node(self.state, id));
                }
            }
        }
        hints
    }

    /// The hint that follows from what the rules of the profile read.
    fn hint_of_reads(self, change: &Change) -> QueueingHint {
        let read = |parts| plugins::filtering(self.profile).any(|rule| rule.reads.any_of(parts));
        match change {
            Change::NodeAdded(_) | Change::NodeChanged(..) | Change::PodDetached(_) => {
                QueueingHint::CheckNode
            }
            // A volume that is attached to the node already does not count for the pod.
            Change::PodAttached(pod) if pod.volumes.is_some() && self.cycle.volumes.is_some() => {
                if read(Reads::VOLUMES_IN_USE) { QueueingHint::CheckNode } else { QueueingHint::Skip }
            }
            Change::Volume(change) if read(Reads::VOLUMES.and(Reads::VOLUMES_IN_USE)) => {
                plugins::volume_hint(self, change)
            }
            _ => QueueingHint::Skip,
        }
    }

    /// Whether every rule lets the pod go to a node, but for those that are too expensive to ask, and for those about pods where
    /// it could preempt others.
    fn may_go_to(self, node: &str, pod: &PreparedPod) -> bool {
        let Some(id) = self.state.find_node(node) else { return false };
        let considered = match plugins::pre_filter(self) {
            PreFilter::Nodes(_, names) => names.iter().any(|name| name == node),
            PreFilter::AllNodes | PreFilter::Rejected(_) => true,
        };
        let may_preempt = preemption::may_preempt_on(self.state, pod, id);
        let node = NodeRef::new(id, self.state.nodes.get(id));
        let rules = plugins::filtering(self.profile)
            .filter(|rule| !(may_preempt && preemption::depends_on_pods(self, rule.plugin)));
        let mut filters = rules.filter_map(|rule| (rule.filter_of_changed_node)(self));
        considered && filters.all(|filter| filter.admits(node))
    }
}
