//! Requests in flight, and their results, which the scheduler's task receives through a channel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_api::object::{GroupKey, NamespacedName, Pod};
use berth_client::call::CallError;
use berth_client::events::ObjectReference;
use berth_mirror::{ClaimState, DeviceClaimState, VolumeState};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::pod_status::{ScheduledCondition, Victim};
use crate::queue::PodId;

pub(crate) enum Completion {
    /// With the time that the requests took.
    Binding {
        binding: Binding,
        result: BindResult,
        took: Duration,
    },
    VolumesWritten {
        id: PodId,
        /// That of the binding.
        abandoned: Arc<AtomicBool>,
        result: Result<VolumesWritten, WriteError>,
    },
    /// The claims after the requests.
    DevicesWritten {
        id: PodId,
        result: Result<Vec<(NamespacedName, DeviceClaimState)>, WriteError>,
    },
    /// What was written for a pod is taken back. With the versions of the claims that remain.
    DevicesRolledBack {
        id: PodId,
        versions: Vec<(NamespacedName, u64)>,
    },
    /// A claim that was written does not exist any more, and no watch has shown it.
    ClaimGone {
        claim: NamespacedName,
    },
    /// What PostFilter does about a claim for a pod is done.
    ClaimFreed {
        id: PodId,
        claim: NamespacedName,
        result: Result<(), CallError>,
    },
    Status {
        id: PodId,
        written: ScheduledCondition,
        result: Result<Option<u64>, CallError>,
    },
    /// How many of its victims are evicted, and why the next is not.
    Eviction {
        eviction: Eviction,
        n_evicted: usize,
        failed: Option<CallError>,
    },
    PodGroupStatus {
        key: GroupKey,
        result: Result<(), CallError>,
    },
}

pub(crate) type CompletionSender = mpsc::UnboundedSender<Completion>;
/// As many completions as requests may be in flight.
pub(crate) type Completions = mpsc::UnboundedReceiver<Completion>;

#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) id: PodId,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    /// The paths of the rules that were relaxed, separated by commas.
    pub(crate) relaxed: Option<Box<str>>,
    /// Set when the node is deleted: then nothing is sent.
    pub(crate) abandoned: Arc<AtomicBool>,
}

#[derive(Debug)]
pub(crate) enum BindResult {
    /// The pod is bound to the node.
    Bound,
    /// Another scheduler bound the pod, to another node.
    Elsewhere(Box<Pod>),
    Deleted,
    /// Nothing was sent: the node was deleted, or this process lost the leadership.
    NotSent,
    /// The pod is not bound.
    Failed(CallError),
    /// Its volumes or its claims of devices are not bound, for this reason; nothing was sent for the pod.
    ClaimsFailed(String),
}

/// The objects after the requests that start the binding of a pod's volumes.
#[derive(Debug, Default)]
pub(crate) struct VolumesWritten {
    pub(crate) claims: Vec<(NamespacedName, ClaimState)>,
    pub(crate) volumes: Vec<(String, VolumeState)>,
}

/// Why volumes or claims of devices are not being bound. What was written before stays for volumes, and is taken back for devices.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The attempt was abandoned, or this process lost the leadership.
    #[error("not sent")]
    NotSent,
    /// A request failed, or an object has changed since the decision.
    #[error("{0}")]
    Failed(String),
}

impl From<CallError> for WriteError {
    fn from(error: CallError) -> Self {
        WriteError::Failed(error.message())
    }
}

/// Victims to be evicted for a pod.
#[derive(Clone)]
pub(crate) struct Eviction {
    /// None: for the resize of a running pod.
    pub(crate) id: Option<PodId>,
    pub(crate) pod: Arc<Pod>,
    /// The PodGroup that the victims are evicted for, if the pod is one of several members.
    pub(crate) group: Option<ObjectReference>,
    /// The node that the pod is nominated to, or runs on.
    pub(crate) node: Arc<str>,
    pub(crate) victims: Vec<Victim>,
    /// When the victims were chosen; the evictions of one preemption have the same time.
    pub(crate) chosen_at: Instant,
}
