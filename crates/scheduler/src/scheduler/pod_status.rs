//! Writes of pod status, and evictions of preemption victims: few at a time, so that they do not delay bindings.

use std::collections::VecDeque;

use berth_client::call::CallError;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference};
use berth_client::lease::Leadership;
use tokio::task::JoinSet;

use super::Scheduler;
use super::completions::{Completion, CompletionSender, Eviction};
use super::failure_events::pod_reference;
use super::queued_pods::QueuedPods;
use crate::queue::PodId;
use crate::status::{self, ScheduledCondition};

/// Status patches and evictions in flight.
const WRITES_AT_ONCE: usize = 8;

pub(super) struct StatusWriter {
    client: kube::Client,
    leadership: Leadership,
    recorder: EventRecorder,
    completed: CompletionSender,
    /// Pods whose status is to be written, each once.
    queue: VecDeque<PodId>,
    evictions: VecDeque<Eviction>,
    n_in_flight: usize,
    tasks: JoinSet<()>,
}

impl StatusWriter {
    pub(super) fn new(
        client: kube::Client,
        leadership: Leadership,
        recorder: EventRecorder,
        completed: CompletionSender,
    ) -> StatusWriter {
        StatusWriter {
            client,
            leadership,
            recorder,
            completed,
            queue: VecDeque::new(),
            evictions: VecDeque::new(),
            n_in_flight: 0,
            tasks: JoinSet::new(),
        }
    }

    pub(super) fn evict(&mut self, eviction: Eviction) {
        self.evictions.push_back(eviction);
    }

    pub(super) fn completed(&mut self) {
        self.n_in_flight -= 1;
        while self.tasks.try_join_next().is_some() {}
    }

    /// Starts as many writes as may be in flight.
    pub(super) fn write_some(&mut self, pods: &mut QueuedPods) {
        while self.n_in_flight < WRITES_AT_ONCE && self.leadership.leads() {
            if let Some(eviction) = self.evictions.pop_front() {
                self.start_eviction(eviction);
            } else if let Some(id) = self.queue.pop_front() {
                self.start_write(id, pods);
            } else {
                return;
            }
        }
    }

    fn start_write(&mut self, id: PodId, pods: &mut QueuedPods) {
        let Some(queued) = pods.get_mut(id) else { return };
        queued.is_write_queued = false;
        if queued.is_write_in_flight {
            return;
        }
        let Some(written) = queued.to_write.take().filter(|status| *status != queued.written) else { return };
        queued.is_write_in_flight = true;
        let metadata = &queued.pod.metadata;
        let patch = written.patch(&queued.written, &metadata.uid, jiff::Timestamp::now());
        let (client, completed) = (self.client.clone(), self.completed.clone());
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        self.n_in_flight += 1;
        self.tasks.spawn(async move {
            let result = status::patch_status(&client, &namespace, &name, &patch).await;
            let _ = completed.send(Completion::Status { id, written, result });
        });
    }

    fn start_eviction(&mut self, eviction: Eviction) {
        let (client, completed) = (self.client.clone(), self.completed.clone());
        let (recorder, leadership) = (self.recorder.clone(), self.leadership.clone());
        self.n_in_flight += 1;
        self.tasks.spawn(async move {
            let preemptor = &eviction.pod;
            let mut failed = None;
            for victim in &eviction.victims {
                if !leadership.leads() {
                    break;
                }
                match status::evict(&client, victim, preemptor).await {
                    Ok(()) => recorder.record(NewEvent {
                        regarding: ObjectReference::pod(
                            victim.name.namespace(),
                            victim.name.name(),
                            &victim.uid,
                        ),
                        related: Some(pod_reference(preemptor)),
                        event_type: EventType::Normal,
                        reason: "Preempted",
                        action: "Preempting",
                        note: format!(
                            "Preempted by pod {} on node {}",
                            preemptor.metadata.uid, eviction.node
                        ),
                        controller: Some(preemptor.spec.scheduler_name.clone()),
                    }),
                    Err(error) => failed = Some(error),
                }
            }
            let _ = completed.send(Completion::Eviction { eviction, failed });
        });
    }
}

impl Scheduler {
    /// Changes the wanted status of a pod; the write is queued.
    pub(super) fn write_status(&mut self, id: PodId, change: impl FnOnce(&mut ScheduledCondition)) {
        let Some(queued) = self.pods.get_mut(id) else { return };
        let mut status = queued.to_write.take().unwrap_or_else(|| queued.written.clone());
        change(&mut status);
        if status != queued.written || queued.is_write_in_flight {
            queued.to_write = Some(status);
            self.queue_write(id);
        }
    }

    fn queue_write(&mut self, id: PodId) {
        if let Some(queued) = self.pods.get_mut(id).filter(|queued| !queued.is_write_queued) {
            queued.is_write_queued = true;
            self.statuses.queue.push_back(id);
        }
    }

    pub(super) fn status_completed(
        &mut self,
        id: PodId,
        written: ScheduledCondition,
        result: Result<Option<u64>, CallError>,
    ) {
        let Some(queued) = self.pods.get_mut(id) else { return };
        queued.is_write_in_flight = false;
        match result {
            Ok(version) => {
                queued.written = written;
                queued.written_version = version.unwrap_or(queued.written_version);
            }
            Err(error) => tracing::warn!(pod = queued.pod.key(), "status is not written: {error}"),
        }
        if queued.to_write.is_some() {
            self.queue_write(id);
        } else {
            self.check_volumes(&[id]);
        }
    }
}
