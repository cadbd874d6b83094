//! Fallbacks: required rules of pods that have been pending for long become preferences.
//!
//! A pod is first decided with all its rules. If no node fits, the rules whose time has come are relaxed one by one, in the
//! written order, until a node fits. Preemption comes after that, with the rules of the last decision. The members of a group
//! are relaxed together, each by the time that it has been pending itself.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::journal::Entry;
use berth_api::object::Pod;
use berth_engine::{Group, GroupOutcome, Outcome, RelaxedPod};
use jiff::Timestamp;
use tokio::time::Instant;

use super::Scheduler;
use crate::queue::PodId;

/// When pods have one more rule to relax.
#[derive(Default)]
pub(super) struct RelaxTimers(BTreeSet<(Instant, PodId)>);

impl RelaxTimers {
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }
}

/// How long a pod has existed.
fn pending(pod: &Pod) -> Duration {
    let created = pod.metadata.creation_timestamp.unwrap_or_else(Timestamp::now);
    Timestamp::now().duration_since(created).try_into().unwrap_or_default()
}

/// The sentence of a failure that names the relaxed rules; empty if there are none.
pub(super) fn relaxed_sentence<'a>(pods: impl IntoIterator<Item = Option<&'a RelaxedPod>>) -> String {
    let mut paths: Vec<&str> = Vec::new();
    for path in pods.into_iter().flatten().flat_map(|relaxed| &relaxed.paths) {
        if !paths.contains(&path.as_str()) {
            paths.push(path);
        }
    }
    if paths.is_empty() { String::new() } else { format!(" Relaxed: {}.", paths.join(", ")) }
}

impl Scheduler {
    /// A pod is to be decided with all its rules first. Returns how it was decided before.
    pub(super) fn require_all_rules(&mut self, id: PodId) -> Option<RelaxedPod> {
        let queued = self.pods.get_mut(id)?;
        let before = queued.relaxed.take()?;
        self.recorder.record(|| Entry::Relax(queued.pod.metadata.namespaced_name(), Vec::new()));
        Some(before)
    }

    /// Decides an unschedulable pod without the required rules that it has been pending for.
    pub(super) fn decide_relaxed(
        &mut self,
        id: PodId,
        outcome: Outcome,
        before: Option<RelaxedPod>,
    ) -> Outcome {
        let Some(queued) = self.pods.get_mut(id) else { return outcome };
        if !matches!(outcome, Outcome::Unschedulable { .. }) {
            return outcome;
        }
        let name = queued.pod.metadata.namespaced_name();
        let (pending, prepared) = (pending(&queued.pod), queued.prepared.clone());
        self.time_relaxation(id, pending);
        let Some((outcome, relaxed)) = self.cluster.decide_relaxed(&prepared, pending) else {
            return outcome;
        };
        self.set_relaxed(id, before, relaxed, pending);
        self.recorder.record(|| Entry::Decision(Box::new(outcome.recorded(name))));
        outcome
    }

    /// As [`Scheduler::decide_relaxed`] for the members of a group.
    pub(super) fn decide_group_relaxed(
        &mut self,
        name: &str,
        ids: &[PodId],
        group: &Group<'_>,
        outcome: GroupOutcome,
        before: Vec<Option<RelaxedPod>>,
    ) -> GroupOutcome {
        if matches!(outcome, GroupOutcome::Placed { .. }) {
            return outcome;
        }
        let members = ids.iter().filter_map(|id| self.pods.get(*id));
        let pending: Vec<_> = members.map(|queued| pending(&queued.pod)).collect();
        for (id, pending) in ids.iter().zip(&pending) {
            self.time_relaxation(*id, *pending);
        }
        let Some((outcome, relaxed)) = self.cluster.decide_group_relaxed(group, &pending) else {
            return outcome;
        };
        for (((id, before), relaxed), pending) in ids.iter().zip(before).zip(relaxed).zip(pending) {
            self.set_relaxed(*id, before, relaxed, pending);
        }
        self.recorder.record(|| {
            let recorded = self.cluster.recorded_group(name, group);
            Entry::GroupDecision(recorded, Box::new(outcome.recorded(group)))
        });
        outcome
    }

    fn time_relaxation(&mut self, id: PodId, pending: Duration) {
        let now = Instant::now();
        let Some(queued) = self.pods.get_mut(id).filter(|q| q.relax_at.is_none_or(|at| at <= now)) else {
            return;
        };
        if let Some(after) = self.cluster.next_relaxation(&queued.prepared, pending) {
            let at = now + (after - pending);
            queued.relax_at = Some(at);
            self.relax_timers.0.insert((at, id));
        }
    }

    fn set_relaxed(&mut self, id: PodId, before: Option<RelaxedPod>, relaxed: RelaxedPod, pending: Duration) {
        let Some(queued) = self.pods.get_mut(id).filter(|_| !relaxed.paths.is_empty()) else { return };
        if before.is_none_or(|before| before.paths != relaxed.paths) {
            let (pending, paths) = (pending.as_secs(), relaxed.paths.join(", "));
            let note = format!("Pending for {pending}s: required rules become preferences: {paths}");
            self.events.relaxed(&queued.pod, note);
        }
        self.recorder.record(|| Entry::Relax(queued.pod.metadata.namespaced_name(), relaxed.paths.clone()));
        queued.relaxed = Some(relaxed);
    }

    /// Activates the unschedulable pods that have one more rule to relax.
    pub(super) fn expire_relax_timers(&mut self, now: Instant) {
        while let Some((_, id)) = self.relax_timers.0.first().copied().filter(|(at, _)| *at <= now) {
            self.relax_timers.0.pop_first();
            let entry = self.pods.get(id).and_then(|queued| queued.group).unwrap_or(id);
            // Other pods are about to be decided anyway.
            if self.queue.wake_group_of(entry, now).is_some() {
                self.metrics.queued("active", "RelaxAfter");
            }
        }
    }
}
