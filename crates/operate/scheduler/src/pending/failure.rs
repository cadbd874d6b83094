//! Why pods are unschedulable.

use std::sync::Arc;

use berth_engine::{Equivalence, WakeConditions};
use berth_input::config::Plugin;
use tokio::time::Instant;

use crate::pod_status::FailureReason;
use crate::queue::PodId;

/// Pods with equal keys have one failure. A pod that preempted others, or has rules that time relaxes, is alone with its
/// failure. Behind a pointer: each entry of the queue has room for two.
pub(crate) type GroupKey = Arc<(Equivalence, Option<PodId>)>;

/// Why no node fits the pods of a group, and what could change that.
#[derive(Clone)]
pub(crate) struct GroupFailure {
    pub(crate) reason: FailureReason,
    pub(crate) message: Arc<str>,
    /// The plugins that reject the pods, and their profile.
    pub(crate) plugins: Arc<[Plugin]>,
    pub(crate) profile: Arc<str>,
    /// What excludes most nodes, once that was evaluated.
    pub(crate) bottleneck: Option<Arc<str>>,
    /// A change that could help one of these could help.
    pub(crate) wake: Vec<WakeConditions>,
    /// [`Cluster::signature_epoch`](berth_engine::Cluster::signature_epoch) when the group was formed.
    pub(crate) epoch: usize,
    /// The group is not evaluated again before; and whether there is a reason to do so then.
    pub(crate) look_again: Option<Instant>,
    pub(crate) is_due: bool,
}

impl GroupFailure {
    pub(crate) fn new(
        reason: FailureReason,
        message: String,
        plugins: Vec<Plugin>,
        profile: &str,
        wake: Vec<WakeConditions>,
        epoch: usize,
    ) -> GroupFailure {
        GroupFailure {
            reason,
            message: message.into(),
            plugins: plugins.into(),
            profile: profile.into(),
            bottleneck: None,
            wake,
            epoch,
            look_again: None,
            is_due: false,
        }
    }
}
