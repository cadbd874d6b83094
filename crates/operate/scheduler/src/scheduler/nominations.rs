//! Nominations: which of them are settled, and those that other components set.

use std::time::Duration;

use berth_api::object::{NamespacedName, Pod};
use tokio::time::Instant;

use super::Scheduler;
use crate::queue::PodId;
use crate::status::Victim;

/// So often a pod or group preempts without delay.
const PROMPT_PREEMPTIONS: u32 = 5;

/// The preemptions of a pod or group that is still pending. What replaces its victims may break its rules from other nodes:
/// then preemption never makes room, and must not go on without end.
#[derive(Clone, Copy, Default)]
pub(super) struct Preemptions {
    n: u32,
    last: Option<Instant>,
}

impl Preemptions {
    pub(super) fn add(&mut self, now: Instant) {
        self.n += 1;
        self.last = Some(now);
    }

    /// Why there is none now, if there have been several; one more follows in each `period`.
    pub(super) fn too_many(&self, now: Instant, period: Duration) -> Option<String> {
        let is_recent = self.last.is_some_and(|last| now < last + period);
        (self.n >= PROMPT_PREEMPTIONS && is_recent).then(|| {
            format!("not tried again for {period:?}, as {PROMPT_PREEMPTIONS} preemptions have not made room.")
        })
    }
}

impl Scheduler {
    /// A nominated pod is decided again when its victims are gone. Without victims, those that other attempts evict from
    /// its node are awaited.
    pub(super) fn await_victims(&mut self, id: PodId, victims: Vec<Victim>) {
        if let Some(queued) = self.pods.get_mut(id) {
            queued.preemption = Some(victims);
        }
    }

    /// Clears nominations that give way to a pod of higher priority. Their pods are decided again.
    pub(super) fn clear_nominations(&mut self, pods: &[NamespacedName]) {
        let now = Instant::now();
        for nominated in pods {
            let (namespace, name) = (nominated.namespace(), nominated.name());
            self.cluster.clear_nomination(namespace, name);
            let uid = self.mirror.uid(namespace, name);
            if let Some(other) = uid.and_then(|uid| self.pods.id(&uid)) {
                self.write_status(other, |status| status.nominated_node.clear());
                let entry = self.entry_of(other);
                self.queue.release_group(entry, now);
                self.queue.activate(entry, now);
            }
        }
    }

    /// Activates the unschedulable pods whose nomination is settled: the node is deleted, or the victims are gone. They
    /// fit there now, or they preempt again, or they lose the nomination.
    pub(super) fn activate_settled_nominations(&mut self, now: Instant) {
        let nominated = self.queue.idle().filter_map(|((_, nominated), _)| *nominated);
        let settled: Vec<PodId> = nominated.filter(|id| self.is_nomination_settled(*id)).collect();
        for id in settled {
            self.queue.activate(id, now);
            self.metrics.queued("active", "NominationSettled");
        }
    }

    fn is_nomination_settled(&self, id: PodId) -> bool {
        if self.pod_groups.is_entry(id) {
            let is_preempting = self.pod_groups.is_preempting(id);
            return is_preempting && self.is_pod_group_nomination_settled(id) || self.has_lost_room(id);
        }
        let Some(queued) = self.pods.get(id) else { return false };
        let Some(victims) = &queued.preemption else { return false };
        let metadata = &queued.pod.metadata;
        let node = self.cluster.nomination(&metadata.namespace, &metadata.name);
        if node.is_none_or(|node| !self.cluster.has_node(node)) {
            return true;
        }
        let exists = |v: &Victim| self.mirror.uid(v.name.namespace(), v.name.name()).as_ref() == Some(&v.uid);
        !victims.iter().any(exists) && !self.cluster.awaits_victims(&queued.prepared)
    }

    /// Takes over a nomination that another component set or cleared in the status of a pod in the queue. Returns whether
    /// there was one.
    pub(super) fn nominated_elsewhere(&mut self, id: PodId, pod: &Pod) -> bool {
        let Some(queued) = self.pods.get_mut(id) else { return false };
        let nominated = &pod.status.nominated_node_name;
        // An event from before the last write is out of date.
        let version: u64 = pod.metadata.resource_version.parse().unwrap_or(0);
        if *nominated == queued.written.nominated_node
            || queued.is_write_in_flight
            || queued.to_write.is_some()
            || version <= queued.written_version
        {
            return false;
        }
        queued.written.nominated_node.clone_from(nominated);
        queued.preemption = None;
        let metadata = &pod.metadata;
        if nominated.is_empty() {
            self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
        } else {
            self.cluster.nominate(&queued.prepared, nominated);
        }
        true
    }
}
