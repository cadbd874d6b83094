//! Events of scheduling attempts. A failure's event names its bottleneck, which is evaluated when there is time.

use std::collections::VecDeque;
use std::sync::Arc;

use berth_api::object::Pod;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference, cut};
use tokio::time::Instant;

use super::{GroupFailure, GroupKey, Scheduler};
use crate::queue::PodId;
use crate::status::ScheduledCondition;

/// Events that wait for their bottleneck; events beyond that are recorded without it.
const MAX_PENDING: usize = 256;
/// Bottlenecks take no more than this part of the time.
const EXPLAINING_SHARE: u32 = 20;
/// The longest message of a condition.
const MAX_MESSAGE_BYTES: usize = 4096;

/// An event that waits for its bottleneck.
struct PendingEvent {
    id: PodId,
    key: GroupKey,
    message: Arc<str>,
}

pub(super) struct FailureEvents {
    recorder: EventRecorder,
    pending: VecDeque<PendingEvent>,
    explain_not_before: Instant,
}

impl FailureEvents {
    pub(super) fn new(recorder: EventRecorder, now: Instant) -> FailureEvents {
        FailureEvents { recorder, pending: VecDeque::new(), explain_not_before: now }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.explain_not_before)
    }

    pub(super) fn n_dropped(&self) -> u64 {
        self.recorder.dropped()
    }

    pub(super) fn scheduled(&self, pod: &Pod, node: &str) {
        if !self.recorder.is_full(EventType::Normal) {
            let note = format!("Successfully assigned {} to {node}", pod.key());
            self.recorder.record(event(pod, EventType::Normal, "Scheduled", "Binding", note));
        }
    }

    pub(super) fn bind_failed(&self, pod: &Pod, error: String) {
        self.failed(pod, error);
    }

    pub(super) fn parked(&self, pod: &Pod, message: String) {
        self.failed(pod, message);
    }

    pub(super) fn relaxed(&self, pod: &Pod, note: String) {
        self.recorder.record(event(pod, EventType::Normal, "RulesRelaxed", "Scheduling", note));
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

    fn failed(&self, pod: &Pod, note: String) {
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

pub(super) fn pod_reference(pod: &Pod) -> ObjectReference {
    let metadata = &pod.metadata;
    ObjectReference::pod(&metadata.namespace, &metadata.name, &metadata.uid)
}

impl Scheduler {
    /// Reports a member of a pod group that is not placed. No bottleneck of the member alone is the reason.
    pub(super) fn report_group_failure(&mut self, id: PodId, failure: &GroupFailure) {
        if let Some(pod) = self.write_failure(id, failure)
            && !self.events.recorder.is_full(EventType::Warning)
        {
            self.events.unschedulable(&pod, &failure.message, None);
        }
    }

    /// Reports an unschedulable pod in its `PodScheduled` condition and in an event.
    pub(super) fn report_failure(&mut self, id: PodId, key: &GroupKey, failure: &GroupFailure) {
        let Some(pod) = self.write_failure(id, failure) else { return };
        let events = &mut self.events;
        if events.recorder.is_full(EventType::Warning) {
            return;
        }
        if failure.bottleneck.is_some() || events.pending.len() >= MAX_PENDING {
            events.unschedulable(&pod, &failure.message, failure.bottleneck.as_deref());
        } else {
            let message = failure.message.clone();
            events.pending.push_back(PendingEvent { id, key: key.clone(), message });
        }
    }

    fn write_failure(&mut self, id: PodId, failure: &GroupFailure) -> Option<Arc<Pod>> {
        let pod = self.pods.get(id)?.pod.clone();
        let nominated = self.cluster.nomination(&pod.metadata.namespace, &pod.metadata.name);
        let condition = ScheduledCondition {
            reason: failure.reason.as_str().to_owned(),
            observed_generation: pod.metadata.generation,
            message: cut(failure.message.to_string(), MAX_MESSAGE_BYTES),
            nominated_node: nominated.unwrap_or_default().to_owned(),
        };
        self.write_status(id, |status| *status = condition);
        Some(pod)
    }

    /// Evaluates the bottleneck of one pod, if there is time for it, and records its event.
    pub(super) fn explain_one(&mut self) {
        while let Some(next) = self.events.pending.front() {
            let began = Instant::now();
            let known = self.queue.failure(&next.key).and_then(|failure| failure.bottleneck.clone());
            if known.is_none() && began < self.events.explain_not_before {
                return;
            }
            let Some(event) = self.events.pending.pop_front() else { return };
            // A pod that was placed meanwhile needs no explanation.
            let Some(queued) = self.pods.get(event.id).filter(|q| q.binding.is_none()) else { continue };
            let pod = queued.pod.clone();
            let explain = || self.cluster.explain(&pod, queued.decided(), None).bottleneck_text();
            let bottleneck = known.clone().or_else(|| explain().map(Arc::from));
            self.events.unschedulable(&pod, &event.message, bottleneck.as_deref());
            if known.is_some() {
                continue;
            }
            if let Some(failure) = self.queue.failure_mut(&event.key) {
                failure.bottleneck = bottleneck;
            }
            self.events.explain_not_before = Instant::now() + began.elapsed() * EXPLAINING_SHARE;
        }
    }
}
