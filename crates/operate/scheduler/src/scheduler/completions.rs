//! Results of requests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_api::object::Pod;
use berth_client::call::CallError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Scheduler;
use crate::bind::{BindResult, Binding};
use crate::metrics::AttemptResult;
use crate::queue::PodId;
use crate::status::{FailureReason, ScheduledCondition, Victim};
use crate::volume_writes::{VolumeWriteError, Written};

/// The result of a request.
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
        result: Result<Written, VolumeWriteError>,
    },
    Status {
        id: PodId,
        written: ScheduledCondition,
        result: Result<Option<u64>, CallError>,
    },
    Eviction {
        eviction: Eviction,
        failed: Option<CallError>,
    },
    PodGroupStatus {
        key: berth_api::object::GroupKey,
        result: Result<(), CallError>,
    },
}

pub(crate) type CompletionSender = mpsc::UnboundedSender<Completion>;
/// As many completions as requests may be in flight.
pub(super) type Completions = mpsc::UnboundedReceiver<Completion>;

/// Victims to be evicted for a pod.
#[derive(Clone)]
pub(crate) struct Eviction {
    pub(super) id: PodId,
    pub(super) pod: Arc<Pod>,
    pub(super) node: Arc<str>,
    pub(super) victims: Vec<Victim>,
}

impl Scheduler {
    pub(super) fn completed(&mut self, completion: Completion) {
        match completion {
            Completion::Binding { binding, result, took } => {
                self.binds.completed();
                if matches!(result, BindResult::Bound | BindResult::Failed(_)) {
                    let status = if matches!(result, BindResult::Bound) { "Success" } else { "Error" };
                    let profile = &binding.pod.spec.scheduler_name;
                    self.metrics.ran("DefaultBinder", "Bind", status, profile, took);
                }
                self.bind_completed(&binding, result);
            }
            Completion::VolumesWritten { id, abandoned, result } => {
                self.volumes_written(id, &abandoned, result);
            }
            Completion::Status { id, written, result } => {
                self.statuses.completed();
                self.status_completed(id, written, result);
            }
            Completion::Eviction { eviction, failed } => {
                self.statuses.completed();
                self.eviction_completed(&eviction, failed);
            }
            Completion::PodGroupStatus { key, result } => self.pod_group_status_completed(key, result),
        }
    }

    pub(super) fn bind_completed(&mut self, binding: &Binding, result: BindResult) {
        let now = Instant::now();
        let (id, pod) = (binding.id, &binding.pod);
        // A pod that was deleted meanwhile is not in the queue, and not assumed any more.
        let Some(queued) = self.pods.get_mut(id) else { return };
        let volumes = queued.binding.take().and_then(|binding| binding.volumes);
        if let Some(volumes) = volumes.filter(|_| !matches!(result, BindResult::Bound)) {
            self.cluster.restore_volumes(&queued.prepared, &volumes);
        }
        let (attempts, waited) = (queued.attempts, now.saturating_duration_since(queued.first_seen));
        let took = now.saturating_duration_since(queued.decided_at);
        let profile = &pod.spec.scheduler_name;
        match result {
            BindResult::Bound => {
                self.reporter.current.n_bound += 1;
                self.metrics.attempted(AttemptResult::Scheduled, profile, took);
                self.metrics.scheduled(attempts, waited);
                self.events.scheduled(pod, &binding.node);
                self.dequeue(id);
            }
            BindResult::Deleted => {
                self.mirror.forget(&mut self.cluster, pod);
                self.dequeue(id);
            }
            BindResult::Elsewhere(found) => {
                tracing::warn!(
                    pod = pod.key(),
                    node = %binding.node,
                    found = found.spec.node_name,
                    "the pod is bound to another node already"
                );
                self.mirror.forget(&mut self.cluster, pod);
                self.dequeue(id);
                self.apply_pod(Arc::new(*found));
            }
            BindResult::NotSent => {
                if self.mirror.forget(&mut self.cluster, pod) {
                    self.nominate_again(id);
                    self.queue.put_back(id);
                    self.return_to_pod_group(id, None);
                    self.after_binding(id);
                } else {
                    self.dequeue(id);
                }
            }
            BindResult::Failed(_) | BindResult::VolumesFailed(_) => {
                let error = match result {
                    BindResult::Failed(error) => format!("binding to node {}: {error}", binding.node),
                    BindResult::VolumesFailed(error) => error,
                    _ => String::new(),
                };
                tracing::warn!(pod = pod.key(), node = %binding.node, "the pod is not bound: {error}");
                self.reporter.current.n_errors += 1;
                self.metrics.attempted(AttemptResult::Error, profile, took);
                if !self.mirror.forget(&mut self.cluster, pod) {
                    // The watch reported the binding after all.
                    self.dequeue(id);
                    return;
                }
                self.queue.back_off(id, now);
                self.metrics.queued("backoff", "ScheduleAttemptFailure");
                let generation = pod.metadata.generation;
                self.write_status(id, |status| {
                    status.observed_generation = generation;
                    status.reason = FailureReason::SchedulerError.as_str().to_owned();
                    status.message.clone_from(&error);
                    status.nominated_node.clear();
                });
                self.return_to_pod_group(id, Some(&error));
                self.events.bind_failed(pod, error);
                self.after_binding(id);
            }
        }
    }

    /// Changes of a pod that arrived while it was being bound take effect.
    fn after_binding(&mut self, id: PodId) {
        let Some(queued) = self.pods.get(id) else { return };
        if !self.is_pending(&queued.pod) {
            self.dequeue(id);
        } else if queued.is_stale {
            self.requeue(id);
        }
    }

    fn nominate_again(&mut self, id: PodId) {
        let Some(queued) = self.pods.get(id) else { return };
        if !queued.written.nominated_node.is_empty() {
            self.cluster.nominate(&queued.prepared, &queued.written.nominated_node);
        }
    }

    fn eviction_completed(&mut self, eviction: &Eviction, failed: Option<CallError>) {
        let Some(error) = failed else {
            self.reporter.current.n_preempted += eviction.victims.len() as u64;
            return;
        };
        tracing::warn!(pod = eviction.pod.key(), node = %eviction.node, "preemption failed: {error}");
        let metadata = &eviction.pod.metadata;
        if self.pods.get(eviction.id).is_some() {
            let now = Instant::now();
            self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
            if let Some(queued) = self.pods.get_mut(eviction.id) {
                queued.preemption = None;
            }
            self.write_status(eviction.id, |status| status.nominated_node.clear());
            let entry = self.entry_of(eviction.id);
            self.give_up_preemption(entry);
            self.queue.release_group(entry, now);
            self.queue.activate(entry, now);
        }
    }
}
