//! Events of scheduling attempts. A failure's event names its bottleneck, which is evaluated when there is time.

use std::collections::VecDeque;
use std::sync::Arc;

use berth_api::object::Pod;
use berth_api::work::WorkBudget;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference};
use berth_engine::Cluster;
use tokio::time::Instant;

use super::failure::{GroupFailure, GroupKey};
use super::queued_pods::QueuedPods;
use crate::queue::{PodId, Queue};

/// Events that wait for their bottleneck; events beyond that are recorded without it.
const MAX_PENDING: usize = 256;
/// Bottlenecks take no more than this part of the time.
const EXPLAINING_SHARE: u32 = 20;
/// Steps of work for one bottleneck: about a millisecond. The whole is what `berth explain` is for.
const BOTTLENECK_STEPS: u64 = 10_000;

/// An event that waits for its bottleneck.
struct PendingEvent {
    id: PodId,
    key: GroupKey,
    message: Arc<str>,
}

pub(crate) struct FailureEvents {
    recorder: EventRecorder,
    pending: VecDeque<PendingEvent>,
    explain_not_before: Instant,
}

impl FailureEvents {
    pub(crate) fn new(recorder: EventRecorder, now: Instant) -> FailureEvents {
        FailureEvents { recorder, pending: VecDeque::new(), explain_not_before: now }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.explain_not_before)
    }

    pub(crate) fn n_dropped(&self) -> u64 {
        self.recorder.dropped()
    }

    pub(crate) fn scheduled(&self, pod: &Pod, node: &str) {
        if !self.recorder.is_full(EventType::Normal) {
            let note = format!("Successfully assigned {} to {node}", pod.key());
            self.recorder.record(event(pod, EventType::Normal, "Scheduled", "Binding", note));
        }
    }

    /// Reports an unschedulable pod of a group. The event names the bottleneck of the group, if it is known or there is
    /// time to evaluate it.
    pub(crate) fn failed_in_group(&mut self, id: PodId, pod: &Pod, key: &GroupKey, failure: &GroupFailure) {
        if self.recorder.is_full(EventType::Warning) {
            return;
        }
        if failure.bottleneck.is_some() || self.pending.len() >= MAX_PENDING {
            self.unschedulable(pod, &failure.message, failure.bottleneck.as_deref());
        } else {
            let message = failure.message.clone();
            self.pending.push_back(PendingEvent { id, key: key.clone(), message });
        }
    }

    /// Reports a member of a pod group that is not placed. No bottleneck of the member alone is the reason.
    pub(crate) fn member_failed(&self, pod: &Pod, failure: &GroupFailure) {
        if !self.recorder.is_full(EventType::Warning) {
            self.unschedulable(pod, &failure.message, None);
        }
    }

    /// Evaluates the bottleneck of one pod, if there is time for it, and records its event.
    pub(crate) fn explain_one(
        &mut self,
        queue: &mut Queue<GroupKey, GroupFailure>,
        pods: &QueuedPods,
        cluster: &Cluster,
    ) {
        while let Some(next) = self.pending.front() {
            let began = Instant::now();
            let evaluated = queue.failure(&next.key).and_then(|failure| failure.bottleneck.clone());
            if evaluated.is_none() && began < self.explain_not_before {
                return;
            }
            let Some(event) = self.pending.pop_front() else { return };
            // A pod that was placed meanwhile needs no explanation.
            let Some(queued) = pods.get(event.id).filter(|q| q.binding.is_none()) else { continue };
            let find = || {
                cluster.device_work().allow(BOTTLENECK_STEPS, BOTTLENECK_STEPS);
                cluster.bottleneck(queued.decided(), &WorkBudget::new(BOTTLENECK_STEPS))
            };
            let bottleneck = evaluated.clone().or_else(|| find().map(Arc::from));
            self.unschedulable(&queued.pod, &event.message, bottleneck.as_deref());
            if evaluated.is_some() {
                continue;
            }
            if let Some(failure) = queue.failure_mut(&event.key) {
                failure.bottleneck = bottleneck;
            }
            self.explain_not_before = Instant::now() + began.elapsed() * EXPLAINING_SHARE;
        }
    }

    pub(crate) fn relaxed(&self, pod: &Pod, note: String) {
        self.recorder.record(event(pod, EventType::Normal, "RulesRelaxed", "Scheduling", note));
    }

    /// Reports a pod whose devices are not ready on its node yet.
    pub(crate) fn waits_for_devices(&self, pod: &Pod, node: &str) {
        let note = format!("waiting for binding conditions for device on node {node}");
        self.recorder.record(event(pod, EventType::Normal, "BindingConditionsPending", "Scheduling", note));
    }

    fn unschedulable(&self, pod: &Pod, message: &str, bottleneck: Option<&str>) {
        self.failed(
            pod,
            match bottleneck {
                Some(bottleneck) => format!("{message} Bottleneck: {bottleneck}"),
                None => message.to_owned(),
            },
        );
    }

    pub(crate) fn failed(&self, pod: &Pod, note: String) {
        self.recorder.record(event(pod, EventType::Warning, "FailedScheduling", "Scheduling", note));
    }
}

fn event(
    pod: &Pod,
    event_type: EventType,
    reason: &'static str,
    action: &'static str,
    note: String,
) -> NewEvent {
    let controller = Some(pod.spec.scheduler_name.clone());
    NewEvent { regarding: pod_reference(pod), related: None, event_type, reason, action, note, controller }
}

pub(crate) fn pod_reference(pod: &Pod) -> ObjectReference {
    let metadata = &pod.metadata;
    ObjectReference::pod(&metadata.namespace, &metadata.name, &metadata.uid)
}
