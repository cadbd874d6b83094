//! Wake-up: which changes could lift a verdict.
#![allow(dead_code, reason = "the conditions are made finer in a moment")]

use crate::state::class::ClassId;
use crate::state::cluster::Cluster;
use crate::state::identity::IdentityId;
use crate::state::incoming::PreparedPod;
use crate::state::intern::Symbol;

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
}

/// A pod on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodAt {
    pub(crate) class: ClassId,
    pub(crate) identity: IdentityId,
    pub(crate) node: Symbol,
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
/// They stay right whatever happens to the cluster afterwards, but grow coarser: take new ones after every
/// decision that found no node.
#[derive(Clone, Debug)]
pub struct WakeConditions {
    /// Nothing but a change of the pod itself (or of its namespace's settings) helps.
    never: bool,
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

    /// What could lift the verdict on a pod, right after a decision that found no node for it.
    pub fn wake_conditions(&mut self, pod: &PreparedPod) -> WakeConditions {
        WakeConditions { never: !pod.gates.is_empty() || pod.unknown_scheduler.is_some() }
    }

    /// Whether a change may have made a node feasible for a pod that fitted nowhere when its conditions were
    /// taken. Never a false no; a yes is to be followed by a decision (or [`Cluster::fits_anywhere`]).
    ///
    /// To be asked soon after the change: the cluster is looked at as it is now.
    pub fn could_help(&self, conditions: &WakeConditions, change: &ClusterChange) -> bool {
        let _ = change;
        !conditions.never
    }
}
