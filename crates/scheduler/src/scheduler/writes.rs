//! What is written besides bindings: conditions, evictions, events. Few at a time, and never in the way.

use std::sync::Arc;

use berth_api::object::Pod;
use berth_client::call::CallError;
use berth_client::events::{EventType, NewEvent, ObjectReference, cut};
use tokio::time::Instant;

use super::ended::Ended;
use super::{GroupKey, Owed, Scheduler, Verdict, WRITES_AT_ONCE};
use crate::queue::PodId;
use crate::status;

/// Events that wait for an explanation; of more, the explanation is left out.
const MAX_OWED: usize = 256;
/// Explaining takes no more than this part of the time.
const EXPLAINING_SHARE: u32 = 20;
/// The longest message of a condition.
const MAX_MESSAGE_BYTES: usize = 4096;

impl Scheduler {
    /// A pod fits nowhere: its condition says so, and an event says more.
    pub(super) fn tell_failure(&mut self, id: PodId, key: &GroupKey, verdict: &Verdict) {
        let Some(waiting) = self.pods.get(&id) else { return };
        let metadata = &waiting.pod.metadata;
        let nominated = self.cluster.nomination(&metadata.namespace, &metadata.name);
        let nominated = nominated.unwrap_or_default().to_owned();
        let message = cut(verdict.message.to_string(), MAX_MESSAGE_BYTES);
        self.tell(id, |told| {
            *told = status::Told { reason: verdict.reason.to_owned(), message, nominated };
        });
        if self.recorder.is_full(EventType::Warning) {
            return;
        }
        let Some(waiting) = self.pods.get(&id) else { return };
        if verdict.bottleneck.is_some() || self.owed.len() >= MAX_OWED {
            let event = failure(&waiting.pod, &verdict.message, verdict.bottleneck.as_deref());
            self.recorder.record(event);
        } else {
            self.owed.push_back(Owed { id, key: key.clone(), message: verdict.message.clone() });
        }
    }

    /// Explains one pod's failure, if there is time for it, and records its event.
    pub(super) fn explain_one(&mut self) {
        while let Some(owed) = self.owed.front() {
            let began = Instant::now();
            let known = self.queue.verdict(&owed.key).and_then(|verdict| verdict.bottleneck.clone());
            if known.is_none() && began < self.explain_not_before {
                return;
            }
            let Some(owed) = self.owed.pop_front() else { return };
            // A pod that has found a place meanwhile needs no explanation.
            let Some(waiting) = self.pods.get(&owed.id).filter(|w| w.binding.is_none()) else { continue };
            let pod = waiting.pod.clone();
            let bottleneck = known.clone().or_else(|| self.cluster.bottleneck(&pod).map(Arc::from));
            self.recorder.record(failure(&pod, &owed.message, bottleneck.as_deref()));
            if known.is_some() {
                continue;
            }
            if let Some(verdict) = self.queue.verdict_mut(&owed.key) {
                verdict.bottleneck = bottleneck;
            }
            self.explain_not_before = Instant::now() + began.elapsed() * EXPLAINING_SHARE;
        }
    }

    pub(super) fn record_scheduled(&self, pod: &Pod, node: &str) {
        if self.recorder.is_full(EventType::Normal) {
            return;
        }
        self.recorder.record(NewEvent {
            regarding: regarding(pod),
            related: None,
            event_type: EventType::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: format!("Successfully assigned {} to {node}", pod.key()),
        });
    }

    pub(super) fn record_bind_failure(&self, pod: &Pod, node: &str, error: &CallError) {
        self.recorder.record(NewEvent {
            regarding: regarding(pod),
            related: None,
            event_type: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: format!("binding to node {node}: {error}"),
        });
    }

    /// Starts as many writes as may be under way.
    pub(super) fn write_some(&mut self) {
        while self.n_writing < WRITES_AT_ONCE && self.leadership.leads() {
            if let Some(eviction) = self.evictions.pop_front() {
                self.evict(eviction);
            } else if let Some(id) = self.to_write.pop_front() {
                self.write_status(id);
            } else {
                return;
            }
        }
    }

    fn write_status(&mut self, id: PodId) {
        let Some(waiting) = self.pods.get_mut(&id).filter(|w| !w.is_being_told) else { return };
        let Some(told) = waiting.to_tell.take().filter(|told| *told != waiting.told) else { return };
        waiting.is_being_told = true;
        let metadata = &waiting.pod.metadata;
        let patch = told.patch(&waiting.told, &metadata.uid, jiff::Timestamp::now());
        let (client, ended) = (self.client.clone(), self.ended.clone());
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        self.n_writing += 1;
        self.tasks.spawn(async move {
            let result = status::patch_status(&client, &namespace, &name, &patch).await;
            let _ = ended.send(Ended::Status { id, told, result });
        });
    }

    fn evict(&mut self, eviction: super::ended::Eviction) {
        let (client, ended) = (self.client.clone(), self.ended.clone());
        let (recorder, leadership) = (self.recorder.clone(), self.leadership.clone());
        self.n_writing += 1;
        self.tasks.spawn(async move {
            let preemptor = &eviction.pod;
            let mut failed = None;
            for victim in &eviction.victims {
                if !leadership.leads() {
                    break;
                }
                match status::evict(&client, victim, &preemptor.spec.scheduler_name).await {
                    Ok(()) => recorder.record(NewEvent {
                        regarding: ObjectReference {
                            api_version: "v1".into(),
                            kind: "Pod".into(),
                            namespace: victim.namespace.clone(),
                            name: victim.name.clone(),
                            uid: victim.uid.clone(),
                        },
                        related: Some(regarding(preemptor)),
                        event_type: EventType::Normal,
                        reason: "Preempted",
                        action: "Preempting",
                        note: format!(
                            "Preempted by pod {} on node {}",
                            preemptor.metadata.uid, eviction.node
                        ),
                    }),
                    Err(error) => failed = Some(error),
                }
            }
            let _ = ended.send(Ended::Eviction { eviction, failed });
        });
    }
}

fn regarding(pod: &Pod) -> ObjectReference {
    let metadata = &pod.metadata;
    ObjectReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    }
}

fn failure(pod: &Pod, message: &str, bottleneck: Option<&str>) -> NewEvent {
    let note = match bottleneck {
        Some(bottleneck) => format!("{message} Bottleneck: {bottleneck}"),
        None => message.to_owned(),
    };
    NewEvent {
        regarding: regarding(pod),
        related: None,
        event_type: EventType::Warning,
        reason: "FailedScheduling",
        action: "Scheduling",
        note,
    }
}
