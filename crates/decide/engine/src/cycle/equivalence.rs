//! Which pods get the same decision.

use std::sync::Arc;

use crate::state::State;
use crate::state::device::PodDevices;
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::RuleSetId;
use crate::state::volume::PodVolumes;

/// Pods with equal values fare equally for as long as nothing changes: they get the same decision, the same
/// message, the same preemption and the same wake-up conditions.
///
/// A value is stale once [`Cluster::signature_epoch`](crate::Cluster::signature_epoch) has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Equivalence {
    rule_set: RuleSetId,
    signature: SignatureId,
    priority: i32,
    preempts: bool,
    gates: Vec<String>,
    volumes: Option<Arc<PodVolumes>>,
    pub(crate) devices: Option<Arc<PodDevices>>,
}

impl Equivalence {
    pub(crate) fn of(state: &State, pod: &PreparedPod) -> Equivalence {
        Equivalence {
            rule_set: pod.rule_set,
            signature: state.decided_signature(pod),
            priority: pod.precedence.priority,
            preempts: pod.preempts,
            gates: pod.gates.clone(),
            volumes: pod.volumes.clone(),
            devices: pod.devices.clone().filter(|devices| devices.concern(state)),
        }
    }
}
