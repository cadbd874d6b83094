//! What the mirror reports.

use std::sync::Arc;

use berth_api::object::group::{CompositePodGroup, GroupKey, PodGroup};
use berth_api::object::{Namespace, NamespacedName, Node, Pod, PodDisruptionBudget};
use berth_client::WatchFailure;

use crate::device_entry::DeviceClaimState;
use crate::pod_ref::PodRef;
use crate::source::Source;
use crate::volume_entry::{ClaimState, VolumeState};

/// What an event changed. The engine's state has it already.
#[derive(Debug)]
pub enum Change {
    NodeApplied(Box<Node>),
    NodeDeleted(String),
    /// A pod that has not terminated, with or without a node.
    PodApplied {
        /// The pod as reported.
        pod: Arc<Pod>,
        /// Whether it is new, or a field relevant to placement changed.
        is_changed: bool,
    },
    /// A pod has a node, which is not where the state has it, and is otherwise unchanged. Only pods that
    /// [`MirrorOptions::keeps`](crate::MirrorOptions::keeps) are reported so; [`Mirror::bind_pod`](crate::Mirror::bind_pod) is to be called with the pod.
    PodBoundElsewhere(PodRef),
    /// A pod was deleted, or has terminated.
    PodDeleted {
        pod: NamespacedName,
        uid: String,
    },
    /// A namespace was added, or its labels changed.
    NamespaceApplied(Box<Namespace>),
    NamespaceDeleted(String),
    BudgetApplied(Box<PodDisruptionBudget>),
    BudgetDeleted(NamespacedName),
    PodGroupApplied(GroupKey, Box<PodGroup>),
    PodGroupDeleted(GroupKey),
    /// A CompositePodGroup was added or changed; none: it was deleted.
    CompositePodGroup(NamespacedName, Option<Box<CompositePodGroup>>),
    /// An owner of pods was added or deleted, or the number of pods that it has at one time changed.
    GroupOwnerChanged(GroupKey, Option<usize>),
    ClaimApplied(NamespacedName, ClaimState),
    ClaimDeleted(NamespacedName),
    VolumeApplied(String, VolumeState),
    VolumeDeleted(String),
    /// A claim of devices was added or changed.
    DeviceClaimApplied(NamespacedName, DeviceClaimState),
    DeviceClaimDeleted(NamespacedName),
    /// A list of a source is complete.
    Listed(Source),
    /// A source may [not be read](crate::Mirror::unreadable), or is listed after it might not.
    Readability(Source),
    /// The mirror cannot continue: there are too many objects, or one of the required sources may not be read.
    Failed(WatchFailure),
    /// All sources are listed; again after each list that replaced another.
    Complete,
    /// A drift check repaired the state. The repairs are also reported as changes.
    Drift(DriftReport),
}

/// What a drift check repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriftReport {
    pub n_nodes: usize,
    pub n_pods: usize,
    /// Pods that the state had and the component did not.
    pub n_missing: usize,
}
