//! What is done with a pending pod in all its aspects at once.

use std::sync::Arc;

use berth_api::object::{NamespacedName, Pod};
use berth_client::events::cut;
use berth_mirror::Needs;
use rustc_hash::FxHashSet;
use tokio::time::Instant;

use super::failure::{GroupFailure, GroupKey};
use super::failure_events::FailureEvents;
use super::queued_pods::{QueuedPod, QueuedPods};
use super::status_writer::StatusWriter;
use crate::metrics::Metrics;
use crate::pod_status::{FailureReason, ScheduledCondition};
use crate::queue::{PodId, Queue};
use crate::state::State;

/// The longest message of a condition.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The pods that wait for a node.
pub(crate) struct PendingPods {
    pub(crate) queue: Queue<GroupKey, GroupFailure>,
    pub(crate) pods: QueuedPods,
    pub(crate) statuses: StatusWriter,
    pub(crate) events: FailureEvents,
    pub(crate) metrics: Arc<Metrics>,
    /// Pods that came with a list that is not complete.
    pub(crate) listed: Vec<PodId>,
}

impl PendingPods {
    /// Adds a pod that is new to the scheduler. It has no place in the queue yet.
    pub(crate) fn add(&mut self, state: &mut State, pod: Arc<Pod>) -> PodId {
        let excess = state.limits.excess(&pod);
        let prepared = state.prepare(&pod, excess.is_some());
        let nominated = &pod.status.nominated_node_name;
        if !nominated.is_empty() && state.holds_room(&pod) {
            state.cluster.nominate(&prepared, nominated);
        }
        let id = self.pods.add(QueuedPod::new(pod, prepared, excess, Instant::now()));
        if !state.mirror.is_complete() {
            self.listed.push(id);
        }
        id
    }

    /// The entry in the queue by which a pod is decided: its own, or that of its group.
    pub(crate) fn entry_of(&self, id: PodId) -> PodId {
        self.pods.get(id).and_then(|queued| queued.group).unwrap_or(id)
    }

    /// Pods of a list come by name. They arrived in the order of their creation; within a second, in the order of their
    /// versions.
    pub(crate) fn order_listed(&mut self) {
        let age = |id: &PodId| {
            let metadata = &self.pods.get(*id)?.pod.metadata;
            Some((metadata.creation_timestamp, metadata.resource_version.parse::<u64>().ok(), *id))
        };
        let mut listed: Vec<_> =
            std::mem::take(&mut self.listed).into_iter().filter_map(|id| age(&id)).collect();
        listed.sort_unstable();
        // A group arrived with the first of its members.
        let mut seen = FxHashSet::default();
        let entries =
            listed.into_iter().map(|(.., id)| self.entry_of(id)).filter(|entry| seen.insert(*entry));
        let entries: Vec<_> = entries.collect();
        self.queue.arrived_in_order(entries.into_iter());
    }

    /// An entry is to be decided again.
    pub(crate) fn activate(&mut self, entry: PodId, now: Instant) {
        self.queue.release_group(entry, now);
        self.queue.activate(entry, now);
    }

    /// As [`PendingPods::activate`], counted with the event that causes it.
    pub(crate) fn activate_for(&mut self, event: &'static str, entry: PodId, now: Instant) {
        self.activate(entry, now);
        self.metrics.queued("active", event);
    }

    /// Wakes a group of unschedulable pods because of an event.
    pub(crate) fn wake(&mut self, key: &GroupKey, event: &'static str, now: Instant) {
        if self.queue.wake(key, now).is_some() {
            self.metrics.queued("active", event);
        }
    }

    /// Parks a pod with more than it may carry, or that needs what may not be read, until that changes: like a pod with scheduling gates, it is not decided. Returns whether it is parked.
    pub(crate) fn park_if_undecidable(&mut self, state: &State, id: PodId) -> bool {
        let Some(queued) = self.pods.get(id) else { return false };
        let excess = queued.excess.as_ref().map(|excess| {
            let most = state.limits.max_entries;
            format!("{excess}, more than {most} (option --max-rule-entries of the scheduler)")
        });
        let unreadable = || {
            let needs = || Needs::of(&queued.pod, &state.cluster);
            state.mirror.unreadable_for(needs).map(str::to_owned)
        };
        let Some(why) = excess.or_else(unreadable) else { return false };
        let (pod, now) = (queued.pod.clone(), Instant::now());
        let message = format!("{why}: the pod is not scheduled");
        tracing::info!(pod = pod.key(), "{message}");
        self.queue.gate(id, now);
        self.metrics.queued("gated", "ScheduleAttemptFailure");
        self.write_status(id, |status| status.fail(FailureReason::Unschedulable, &message));
        self.events.failed(&pod, message);
        true
    }

    /// Changes the wanted status of a pod; the write is queued.
    pub(crate) fn write_status(&mut self, id: PodId, change: impl FnOnce(&mut ScheduledCondition)) {
        self.statuses.write(&mut self.pods, id, change);
    }

    /// Reports a member of a pod group that is not placed.
    pub(crate) fn report_member_failure(&mut self, state: &State, id: PodId, failure: &GroupFailure) {
        if let Some(pod) = self.write_failure(state, id, failure) {
            self.events.member_failed(&pod, failure);
        }
    }

    /// Reports an unschedulable pod in its `PodScheduled` condition and in an event.
    pub(crate) fn report_failure(
        &mut self,
        state: &State,
        id: PodId,
        key: &GroupKey,
        failure: &GroupFailure,
    ) {
        if let Some(pod) = self.write_failure(state, id, failure) {
            self.events.failed_in_group(id, &pod, key, failure);
        }
    }

    fn write_failure(&mut self, state: &State, id: PodId, failure: &GroupFailure) -> Option<Arc<Pod>> {
        let pod = self.pods.get(id)?.pod.clone();
        let condition = ScheduledCondition {
            reason: failure.reason.as_str().to_owned(),
            observed_generation: pod.metadata.generation,
            message: cut(failure.message.to_string(), MAX_MESSAGE_BYTES),
            nominated_node: state.nomination(&pod).unwrap_or_default().to_owned(),
        };
        self.write_status(id, |status| *status = condition);
        Some(pod)
    }

    /// Clears nominations that give way to a pod of higher priority. Their pods are decided again.
    pub(crate) fn clear_nominations(&mut self, state: &mut State, pods: &[NamespacedName]) {
        let now = Instant::now();
        for nominated in pods {
            let (namespace, name) = (nominated.namespace(), nominated.name());
            state.cluster.clear_nomination(namespace, name);
            let uid = state.mirror.uid(namespace, name);
            if let Some(other) = uid.and_then(|uid| self.pods.id(&uid)) {
                self.write_status(other, |status| status.nominated_node.clear());
                self.activate(self.entry_of(other), now);
            }
        }
    }

    /// Takes over a nomination that another component set or cleared in the status of a pod in the queue. Returns whether
    /// there was one.
    pub(crate) fn nominated_elsewhere(&mut self, state: &mut State, id: PodId, pod: &Pod) -> bool {
        let Some(queued) = self.pods.get_mut(id) else { return false };
        let nominated = &pod.status.nominated_node_name;
        // An event from before the last write is out of date.
        let version: u64 = pod.metadata.resource_version.parse().unwrap_or(0);
        if *nominated == queued.written().nominated_node
            || queued.is_write_in_flight
            || queued.to_write.is_some()
            || version <= queued.written_version
        {
            return false;
        }
        queued.set_written(ScheduledCondition {
            nominated_node: nominated.clone(),
            ..queued.written().clone()
        });
        queued.preemption = None;
        if nominated.is_empty() {
            state.clear_nomination(pod);
        } else {
            state.cluster.nominate(&queued.prepared, nominated);
        }
        true
    }
}
