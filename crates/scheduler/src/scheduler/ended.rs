//! What became of requests.

use std::sync::Arc;

use berth_api::object::Pod;
use berth_client::call::CallError;
use tokio::time::Instant;

use super::Scheduler;
use crate::bind::{BindEnd, Binding};
use crate::metrics::AttemptResult;
use crate::queue::PodId;
use crate::status::{self, Victim};

/// A request that is over.
pub(crate) enum Ended {
    Binding { binding: Binding, end: BindEnd },
    Status { id: PodId, told: status::Told, result: Result<(), CallError> },
    Eviction { eviction: Eviction, failed: Option<CallError> },
}

/// Pods to be removed for another one.
#[derive(Clone)]
pub(crate) struct Eviction {
    pub(super) id: PodId,
    pub(super) pod: Arc<Pod>,
    pub(super) node: Arc<str>,
    pub(super) victims: Vec<Victim>,
}

impl Scheduler {
    pub(super) fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Binding { binding, end } => {
                self.n_binding -= 1;
                self.binding_ended(&binding, end);
            }
            Ended::Status { id, told, result } => {
                self.n_writing -= 1;
                self.status_written(id, told, result);
            }
            Ended::Eviction { eviction, failed } => {
                self.n_writing -= 1;
                self.evicted(&eviction, failed);
            }
        }
    }

    fn binding_ended(&mut self, binding: &Binding, end: BindEnd) {
        let now = Instant::now();
        let (id, pod) = (binding.id, &binding.pod);
        let Some(waiting) = self.pods.get_mut(&id) else {
            // It was deleted meanwhile, and with it what was assumed.
            return;
        };
        waiting.binding = None;
        let (attempts, waited) = (waiting.attempts, now.saturating_duration_since(waiting.first_seen));
        let took = now.saturating_duration_since(waiting.decided_at);
        let profile = &pod.spec.scheduler_name;
        match end {
            BindEnd::Bound => {
                self.shown.n_bound += 1;
                self.metrics.attempted(AttemptResult::Scheduled, profile, took);
                self.metrics.scheduled(attempts, waited);
                self.record_scheduled(pod, &binding.node);
                self.drop_waiting(id);
            }
            BindEnd::Gone => {
                self.unassume(pod);
                self.drop_waiting(id);
            }
            BindEnd::Elsewhere(found) => {
                tracing::warn!(
                    pod = pod.key(),
                    node = %binding.node,
                    found = found.spec.node_name,
                    "the pod is bound to another node already"
                );
                self.unassume(pod);
                self.drop_waiting(id);
                self.pod_applied(Arc::new(*found));
            }
            BindEnd::NotSent => {
                if self.unassume(pod) {
                    self.nominate_again(id);
                    self.queue.put_back(id);
                    self.after_binding(id);
                } else {
                    self.drop_waiting(id);
                }
            }
            BindEnd::Unbound(error) => {
                tracing::warn!(pod = pod.key(), node = %binding.node, "the pod is not bound: {error}");
                self.shown.n_errors += 1;
                self.metrics.attempted(AttemptResult::Error, profile, took);
                if !self.unassume(pod) {
                    // The server told of the binding after all.
                    self.drop_waiting(id);
                    return;
                }
                self.nominate_again(id);
                self.queue.cool(id, now);
                self.metrics.queued("backoff", "ScheduleAttemptFailure");
                self.tell(id, |told| {
                    told.reason = "SchedulerError".to_owned();
                    told.message = format!("binding to node {}: {error}", binding.node);
                });
                self.record_bind_failure(pod, &binding.node, &error);
                self.after_binding(id);
            }
        }
    }

    /// Takes an assumption back; tells whether it still was one.
    fn unassume(&mut self, pod: &Pod) -> bool {
        let was_assumed = self.feed.forget(&mut self.cluster, pod);
        if was_assumed {
            self.n_assumed -= 1;
        }
        was_assumed
    }

    /// What was told about a pod while it was being bound takes effect.
    fn after_binding(&mut self, id: PodId) {
        let Some(waiting) = self.pods.get(&id) else { return };
        if !self.waits_here(&waiting.pod) {
            self.drop_waiting(id);
        } else if waiting.is_stale {
            self.refresh(id);
        }
    }

    fn nominate_again(&mut self, id: PodId) {
        let Some(waiting) = self.pods.get(&id) else { return };
        if !waiting.told.nominated.is_empty() {
            self.cluster.nominate(&waiting.prepared, &waiting.told.nominated);
        }
    }

    fn status_written(&mut self, id: PodId, told: status::Told, result: Result<(), CallError>) {
        let Some(waiting) = self.pods.get_mut(&id) else { return };
        waiting.is_being_told = false;
        match result {
            Ok(()) => waiting.told = told,
            Err(error) => tracing::warn!(pod = waiting.pod.key(), "status is not written: {error}"),
        }
        if waiting.to_tell.as_ref() == Some(&waiting.told) {
            waiting.to_tell = None;
        } else if waiting.to_tell.is_some() {
            self.to_write.push_back(id);
        }
    }

    fn evicted(&mut self, eviction: &Eviction, failed: Option<CallError>) {
        let Some(error) = failed else {
            self.shown.n_preempted += eviction.victims.len() as u64;
            return;
        };
        tracing::warn!(pod = eviction.pod.key(), node = %eviction.node, "no room is made: {error}");
        let metadata = &eviction.pod.metadata;
        if self.pods.contains_key(&eviction.id) {
            let now = Instant::now();
            self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
            self.tell(eviction.id, |told| told.nominated.clear());
            self.queue.found_place(eviction.id, now);
            self.queue.activate(eviction.id, now);
        }
    }
}
