//! Writes of pod status, and evictions of preemption victims: few at a time, so that they do not delay bindings.

use std::collections::VecDeque;

use berth_client::call::{self, CallError};
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference};
use berth_client::lease::Leadership;
use tokio::task::JoinSet;

use super::failure_events::pod_reference;
use super::queued_pods::QueuedPods;
use crate::completion::{Completion, CompletionSender, Eviction};
use crate::pod_status::{self, ScheduledCondition};
use crate::queue::PodId;

/// Status patches and evictions in flight.
const WRITES_AT_ONCE: usize = 8;

pub(crate) struct StatusWriter {
    client: kube::Client,
    leadership: Leadership,
    recorder: EventRecorder,
    completed: CompletionSender,
    /// Pods whose status is to be written, each once.
    queue: VecDeque<PodId>,
    /// Pods with an eviction; they come first.
    preemptors: VecDeque<PodId>,
    /// Pods whose status could not be written.
    failed: Vec<PodId>,
    n_in_flight: usize,
    /// Whether the last answer was that this identity may not write the status of pods.
    is_forbidden: bool,
    tasks: JoinSet<()>,
}

impl StatusWriter {
    pub(crate) fn new(
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
            preemptors: VecDeque::new(),
            failed: Vec::new(),
            n_in_flight: 0,
            is_forbidden: false,
            tasks: JoinSet::new(),
        }
    }

    /// Whether this process leads, and may write.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.leads()
    }

    /// Runs a request; how it ends is sent as a completion.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        request: impl FnOnce(kube::Client, CompletionSender) -> F,
    ) {
        self.tasks.spawn(request(self.client.clone(), self.completed.clone()));
    }

    pub(crate) fn completed(&mut self) {
        self.n_in_flight -= 1;
        while self.tasks.try_join_next().is_some() {}
    }

    /// Starts as many writes as may be in flight.
    pub(crate) fn write_some(&mut self, pods: &mut QueuedPods) {
        while self.has_room() && self.leadership.leads() {
            let Some(id) = self.preemptors.pop_front().or_else(|| self.queue.pop_front()) else { return };
            self.start_write(id, pods);
        }
    }

    /// Writes the status of a pod, and then evicts its victims: its nomination is known before they end.
    fn start_write(&mut self, id: PodId, pods: &mut QueuedPods) {
        let Some(queued) = pods.get_mut(id) else { return };
        queued.is_write_queued = false;
        if queued.is_write_in_flight {
            return;
        }
        let eviction = queued.eviction.take();
        let status = queued.to_write.take().filter(|status| **status != *queued.written());
        let metadata = &queued.pod.metadata;
        let write = status.map(|status| {
            let patch = status.patch(queued.written(), &metadata.uid, jiff::Timestamp::now());
            (status, patch)
        });
        queued.is_write_in_flight = write.is_some();
        self.n_in_flight += usize::from(write.is_some()) + usize::from(eviction.is_some());
        let (client, completed) = (self.client.clone(), self.completed.clone());
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        let version = queued.written_version.max(metadata.resource_version.parse().unwrap_or(0));
        let (recorder, leadership) = (self.recorder.clone(), self.leadership.clone());
        self.tasks.spawn(async move {
            if let Some((written, patch)) = write {
                let result = pod_status::patch_pending(&client, &namespace, &name, patch, version).await;
                let _ = completed.send(Completion::Status { id, written: *written, result });
            }
            if let Some(eviction) = eviction {
                evict_victims(client, leadership, recorder, completed, *eviction).await;
            }
        });
    }

    /// Changes the wanted status of a pod; the write is queued.
    pub(crate) fn write(
        &mut self,
        pods: &mut QueuedPods,
        id: PodId,
        change: impl FnOnce(&mut ScheduledCondition),
    ) {
        let Some(queued) = pods.get_mut(id) else { return };
        let mut status = queued.to_write.take().unwrap_or_else(|| queued.written().clone().into());
        change(&mut status);
        if *status != *queued.written() || queued.is_write_in_flight {
            queued.to_write = Some(status);
            self.queue_write(pods, id);
        }
    }

    /// Tries writes again that failed.
    pub(crate) fn rewrite(&mut self, pods: &mut QueuedPods) {
        for id in std::mem::take(&mut self.failed) {
            self.queue_write(pods, id);
        }
    }

    /// Evicts the victims of a pod, after its nomination is written.
    pub(crate) fn evict(&mut self, pods: &mut QueuedPods, eviction: Eviction) {
        if let Some((id, queued)) = eviction.id.and_then(|id| Some((id, pods.get_mut(id)?))) {
            queued.eviction = Some(Box::new(eviction));
            self.preemptors.push_back(id);
        }
    }

    /// Evicts the victims of a running pod at once, if one more request may be in flight.
    pub(crate) fn evict_now(&mut self, eviction: Eviction) {
        self.n_in_flight += 1;
        let (recorder, leadership) = (self.recorder.clone(), self.leadership.clone());
        self.spawn(|client, completed| evict_victims(client, leadership, recorder, completed, eviction));
    }

    pub(crate) fn has_room(&self) -> bool {
        self.n_in_flight < WRITES_AT_ONCE
    }

    fn queue_write(&mut self, pods: &mut QueuedPods, id: PodId) {
        if let Some(queued) = pods.get_mut(id).filter(|queued| !queued.is_write_queued) {
            queued.is_write_queued = true;
            self.queue.push_back(id);
        }
    }

    /// A write ended. Returns whether the pod's status is as wanted, or is not written again soon.
    pub(crate) fn written(
        &mut self,
        pods: &mut QueuedPods,
        id: PodId,
        written: ScheduledCondition,
        result: Result<Option<u64>, CallError>,
    ) -> bool {
        let Some(queued) = pods.get_mut(id) else { return false };
        queued.is_write_in_flight = false;
        match result {
            Ok(version) => {
                self.is_forbidden = false;
                queued.set_written(written);
                queued.written_version = version.unwrap_or(queued.written_version);
            }
            Err(error) => {
                let pod = queued.pod.key();
                if error.code() != Some(403) || error.is_namespace_terminating() {
                    tracing::warn!(pod, "status is not written: {error}");
                } else if !std::mem::replace(&mut self.is_forbidden, true) {
                    let remedy = call::rule_to_add("", "pods/status", &["patch"]);
                    tracing::warn!(pod, "the status of pods is not written: {error}: {remedy}");
                }
                // A permission may be granted later.
                let may_succeed = !error.is_refusal() || matches!(error.code(), Some(403 | 409 | 429));
                if may_succeed && queued.to_write.is_none() && queued.eviction.is_none() {
                    queued.to_write = Some(written.into());
                    self.failed.push(id);
                    return false;
                }
            }
        }
        let (has_victims, is_wanted) = (queued.eviction.is_some(), queued.to_write.is_some());
        if has_victims {
            self.preemptors.push_back(id);
        } else if is_wanted {
            self.queue_write(pods, id);
        }
        !has_victims && !is_wanted
    }
}

async fn evict_victims(
    client: kube::Client,
    leadership: Leadership,
    recorder: EventRecorder,
    completed: CompletionSender,
    eviction: Eviction,
) {
    // The words of kube-scheduler: a group has no node. They do not show the preemptor's name in the victim's
    // namespace.
    let (preemptor, kind, node) = match &eviction.group {
        Some(group) => (group.clone(), "podgroup", "cluster"),
        None => (pod_reference(&eviction.pod), "pod", &*eviction.node),
    };
    let scheduler = &eviction.pod.spec.scheduler_name;
    let mut message = format!("{scheduler}: preempting to accommodate a higher priority {kind}");
    if eviction.group.is_none() {
        message += &format!(" (uid {})", preemptor.uid);
    }
    let (mut n_evicted, mut failed) = (0, None);
    for victim in &eviction.victims {
        if !leadership.leads() {
            break;
        }
        if let Err(error) = pod_status::evict(&client, victim, &message).await {
            // Without this eviction, the others do not help.
            failed = Some(error);
            break;
        }
        n_evicted += 1;
        recorder.record(NewEvent {
            regarding: ObjectReference::pod(victim.name.namespace(), victim.name.name(), &victim.uid),
            related: Some(preemptor.clone()),
            event_type: EventType::Normal,
            reason: "Preempted",
            action: "Preempting",
            note: format!("Preempted by {kind} {} on node {node}", preemptor.uid),
            controller: Some(scheduler.clone()),
        });
    }
    let _ = completed.send(Completion::Eviction { eviction, n_evicted, failed });
}
