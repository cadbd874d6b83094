//! An attempt: a pod is decided, and then bound, parked, or given room.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use berth_engine::{Outcome, Preemption, Victims};
use tokio::time::Instant;

use super::ended::Eviction;
use super::{DECISIONS_AT_ONCE, GroupKey, InFlight, Scheduler, Verdict};
use crate::bind::Binding;
use crate::metrics::AttemptResult;
use crate::queue::PodId;
use crate::status::{self, Victim};

impl Scheduler {
    /// Decides pods while they can be bound. Returns whether there are more.
    pub(super) fn decide_some(&mut self) -> bool {
        for _ in 0..DECISIONS_AT_ONCE {
            if !self.may_decide() {
                return false;
            }
            let Some(id) = self.queue.pop() else { return false };
            self.decide(id);
        }
        true
    }

    pub(super) fn group_key(&mut self, id: PodId) -> Option<GroupKey> {
        let waiting = self.pods.get(&id)?;
        let metadata = &waiting.pod.metadata;
        let is_nominated = self.cluster.nomination(&metadata.namespace, &metadata.name).is_some();
        Some((self.cluster.equivalence(&waiting.prepared), is_nominated.then_some(id)))
    }

    fn decide(&mut self, id: PodId) {
        let Some(key) = self.group_key(id) else { return };
        let now = Instant::now();
        let distinctions = self.cluster.signature_epoch();
        // What was found out about pods just like it holds, as long as nothing happened that could change it.
        if let Some(verdict) = self.queue.verdict(&key).filter(|v| v.distinctions == distinctions).cloned() {
            self.queue.join(id, key.clone(), now);
            self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
            self.tell_failure(id, &key, &verdict);
            return;
        }
        let Some(waiting) = self.pods.get_mut(&id) else { return };
        waiting.attempts += 1;
        waiting.decided_at = now;
        let metadata = &waiting.pod.metadata;
        let nominated = self.cluster.nomination(&metadata.namespace, &metadata.name).map(str::to_owned);
        // Room was made on a node: if the pod fits there, nobody asks whether another node were better.
        let outcome = match nominated {
            Some(node) if self.cluster.fits_on(&waiting.prepared, &node) => {
                Outcome::Placed { node, score: None }
            }
            _ => self.cluster.decide_prepared(&waiting.prepared),
        };
        self.metrics.decided(now.elapsed());
        match outcome {
            Outcome::Placed { node, .. } => self.place(id, &node, now),
            Outcome::Gated { .. } => self.queue.gate(id, now),
            Outcome::Unschedulable { message } => self.unschedulable(id, message),
            Outcome::Failed { error } => self.park(id, "SchedulerError", error),
        }
    }

    fn place(&mut self, id: PodId, node: &str, now: Instant) {
        let Some(waiting) = self.pods.get_mut(&id) else { return };
        let metadata = &waiting.pod.metadata;
        self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
        let (pod, prepared) = (&waiting.pod, &waiting.prepared);
        self.feed.assume(&mut self.cluster, pod, prepared, waiting.fingerprint, node);
        self.n_assumed += 1;
        self.n_binding += 1;
        let abandoned = Arc::new(AtomicBool::new(false));
        let node: Arc<str> = node.into();
        waiting.binding = Some(InFlight { node: node.clone(), abandoned: abandoned.clone() });
        self.queue.found_place(id, now);
        self.bindings.push(Binding { id, pod: waiting.pod.clone(), node, abandoned });
    }

    fn unschedulable(&mut self, id: PodId, message: String) {
        let Some(waiting) = self.pods.get(&id) else { return };
        let budgets = self.budget_list.get_or_insert_with(|| self.budgets.values().cloned().collect());
        let can_preempt = waiting.pod.spec.preemption_policy.as_deref() != Some("Never");
        if can_preempt {
            self.metrics.preemption_attempts.inc();
        }
        match self.cluster.preempt(&waiting.prepared, budgets) {
            Preemption::Victims(victims) => {
                self.make_room(id, victims);
                self.park(id, "Unschedulable", message);
            }
            Preemption::NoCandidate { message: why } => {
                let metadata = &waiting.pod.metadata;
                // Where room is being made already the nomination stays; otherwise it has come to nothing.
                if !why.contains("not eligible") {
                    self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
                }
                let message = if why.is_empty() { message } else { format!("{message} {why}") };
                self.park(id, "Unschedulable", message);
            }
        }
    }

    /// Parks a pod that fits nowhere.
    fn park(&mut self, id: PodId, reason: &'static str, message: String) {
        let now = Instant::now();
        // Changes made by earlier decisions concern those that are parked already, not this one.
        self.wake_parked(now);
        let (Some(key), Some(waiting)) = (self.group_key(id), self.pods.get(&id)) else { return };
        let verdict = Verdict {
            reason,
            message: message.into(),
            bottleneck: None,
            wake: self.cluster.wake_conditions(&waiting.prepared),
            distinctions: self.cluster.signature_epoch(),
            look_again: None,
            is_due: false,
        };
        let profile = &waiting.pod.spec.scheduler_name;
        let took = now.saturating_duration_since(waiting.decided_at);
        match reason {
            "Unschedulable" => {
                self.shown.n_unschedulable += 1;
                self.metrics.attempted(AttemptResult::Unschedulable, profile, took);
            }
            _ => {
                self.shown.n_errors += 1;
                self.metrics.attempted(AttemptResult::Error, profile, took);
            }
        }
        self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
        if self.queue.verdict_mut(&key).is_some_and(|known| known.distinctions != verdict.distinctions) {
            // What was found for this one need not hold for all that were like it once.
            self.split(&key, now);
        }
        let is_alone = key.1.is_some();
        if is_alone {
            // Room is made for this one only: the next of its group tries for itself.
            self.queue.found_place(id, now);
        }
        self.queue.park(id, key.clone(), verdict.clone(), now);
        self.tell_failure(id, &key, &verdict);
    }

    /// Nominates a pod to a node, and removes those that are in its way there.
    fn make_room(&mut self, id: PodId, victims: Victims) {
        let Some(waiting) = self.pods.get(&id) else { return };
        let pod = waiting.pod.clone();
        self.cluster.nominate(&waiting.prepared, &victims.node);
        self.metrics.preemption_victims.observe(victims.victims.len() as f64);
        tracing::info!(
            pod = pod.key(),
            node = victims.node,
            victims = victims.victims.len(),
            violated_budgets = victims.n_pdb_violations,
            "making room"
        );
        let found = victims.victims.into_iter().filter_map(|(namespace, name)| {
            let uid = self.feed.pod(&namespace, &name)?.uid.to_string();
            Some(Victim { namespace, name, uid })
        });
        let victims_found = found.collect();
        for (namespace, name) in &victims.nominations {
            self.cluster.clear_nomination(namespace, name);
            let void = self
                .pods
                .iter()
                .find(|(_, w)| w.pod.metadata.namespace == *namespace && w.pod.metadata.name == *name);
            if let Some(void) = void.map(|(id, _)| *id) {
                let now = Instant::now();
                self.tell(void, |told| told.nominated.clear());
                self.queue.found_place(void, now);
                self.queue.activate(void, now);
            }
        }
        self.evictions.push_back(Eviction { id, pod, node: victims.node.into(), victims: victims_found });
    }

    /// What a pod's status is to say; written in time.
    pub(super) fn tell(&mut self, id: PodId, change: impl FnOnce(&mut status::Told)) {
        let Some(waiting) = self.pods.get_mut(&id) else { return };
        let mut told = waiting.to_tell.take().unwrap_or_else(|| waiting.told.clone());
        change(&mut told);
        if told == waiting.told && !waiting.is_being_told {
            return;
        }
        waiting.to_tell = Some(told);
        self.to_write.push_back(id);
    }
}
