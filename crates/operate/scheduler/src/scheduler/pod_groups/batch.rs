//! Bindings of a group: none is sent before all members of the attempt can be bound. Members with volumes are in PreBind
//! until then. If one of them cannot be bound, all are taken back.
//!
//! Once the bindings are sent, they are on their own: of those that fail, the pods are decided again as members of a group
//! whose minimum counts those that were bound.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::super::Scheduler;
use crate::bind::Binding;
use crate::metrics::AttemptResult;
use crate::queue::PodId;
use crate::status::FailureReason;

/// Members of one attempt that are assumed on nodes.
pub(super) struct Batch {
    pub(super) members: BTreeSet<PodId>,
    /// The bindings that can be sent.
    pub(super) ready: Vec<Binding>,
    pub(super) deadline: Option<Instant>,
}

impl Scheduler {
    /// Sends a binding; that of a member with the others of its batch.
    pub(in crate::scheduler) fn send_binding(&mut self, group: Option<PodId>, binding: Binding) {
        let Some(entry) = group else { return self.binds.push(binding) };
        let batch = self.pod_groups.get_mut(entry).and_then(|group| group.batch.as_mut());
        match batch.filter(|batch| batch.members.contains(&binding.id)) {
            Some(batch) => {
                batch.ready.push(binding);
                self.send_if_ready(entry);
            }
            None => self.binds.push(binding),
        }
    }

    fn send_if_ready(&mut self, entry: PodId) {
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        let Some(batch) = group.batch.take_if(|batch| batch.ready.len() == batch.members.len()) else {
            return;
        };
        batch.ready.into_iter().for_each(|binding| self.binds.push(binding));
        self.metrics.pod_group_attempted(AttemptResult::Scheduled);
        self.settle_pod_group(entry);
    }

    /// A member is not in its batch any more: the others were decided with it, and are decided again.
    pub(super) fn leave_batch(&mut self, entry: PodId, id: PodId) {
        let batch = self.pod_groups.get_mut(entry).and_then(|group| group.batch.as_mut());
        if batch.is_some_and(|batch| batch.members.remove(&id)) {
            self.take_back(entry, None);
        }
    }

    /// A member in flight is not bound: it is pending again.
    pub(in crate::scheduler) fn return_to_pod_group(&mut self, id: PodId, error: Option<&str>) {
        let Some(entry) = self.pods.get(id).and_then(|queued| queued.group) else { return };
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        group.remove(id);
        group.pending.insert(id);
        group.summary = None;
        if group.batch.as_mut().is_some_and(|batch| batch.members.remove(&id)) {
            return self.take_back(entry, error);
        }
        if error.is_some() {
            self.queue.back_off(entry, Instant::now());
        }
        self.settle_pod_group(entry);
    }

    /// Takes back the members of a batch on a deleted node, or one that changed, with all others.
    pub(in crate::scheduler) fn take_back_member(&mut self, id: PodId) -> bool {
        let Some(entry) = self.pods.get(id).and_then(|queued| queued.group) else { return false };
        let group = self.pod_groups.get_mut(entry).and_then(|group| group.batch.as_ref());
        let is_held = group.is_some_and(|batch| batch.members.contains(&id));
        if is_held {
            self.take_back(entry, None);
        }
        is_held
    }

    /// Takes back all members of a batch: with an error after a back-off, as if nothing had been tried without one.
    pub(super) fn take_back(&mut self, entry: PodId, error: Option<&str>) {
        let now = Instant::now();
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        let Some(batch) = group.batch.take() else { return };
        group.summary = None;
        for id in &batch.members {
            group.remove(*id);
            group.pending.insert(*id);
        }
        let message = error.map(|error| format!("{}: {error}", group.key));
        let mut changed = Vec::new();
        for id in batch.members {
            self.forget_volumes(id);
            let Some(queued) = self.pods.get_mut(id) else { continue };
            if let Some(binding) = queued.binding.take() {
                binding.abandoned.store(true, Ordering::Relaxed);
                if let Some(volumes) = &binding.volumes {
                    self.cluster.restore_volumes(&queued.prepared, volumes);
                }
            }
            let pod = queued.pod.clone();
            if queued.is_stale {
                changed.push(id);
            }
            if !self.mirror.forget(&mut self.cluster, &pod) {
                // The watch reported that another scheduler bound it.
                self.dequeue(id);
                continue;
            }
            self.write_status(id, |status| {
                status.nominated_node.clear();
                if let Some(message) = &message {
                    status.reason = FailureReason::SchedulerError.as_str().to_owned();
                    status.message.clone_from(message);
                }
            });
        }
        match error {
            Some(error) => {
                self.metrics.pod_group_attempted(AttemptResult::Error);
                self.show_unscheduled(entry, FailureReason::SchedulerError, error);
                self.queue.back_off(entry, now);
            }
            None => self.queue.put_back(entry),
        }
        changed.into_iter().for_each(|id| self.requeue(id));
        self.settle_pod_group(entry);
    }
}
