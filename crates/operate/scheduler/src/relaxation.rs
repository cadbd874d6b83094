//! Fallbacks: required rules of pods that have been pending for long become preferences.
//!
//! A pod is first decided with all its rules. If no node fits, the rules whose time has come are relaxed one by one, in the
//! written order, until a node fits. Preemption comes after that, with the rules of the last decision. The members of a group
//! are relaxed together, each by the time that it has been pending.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::Pod;
use berth_engine::{Group, GroupOutcome, Outcome, RelaxedPod};
use berth_input::journal::Entry;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::context::Context;
use crate::pending::{PendingPods, QueuedPods};
use crate::queue::PodId;
use crate::recorder::Recorder;
use crate::state::State;

/// How long a pod has existed.
fn pending_time(pod: &Pod) -> Duration {
    let created = pod.metadata.creation_timestamp.unwrap_or_else(Timestamp::now);
    Timestamp::now().duration_since(created).try_into().unwrap_or_default()
}

/// The sentence of a failure that names the relaxed rules; empty if there are none.
pub(crate) fn relaxed_sentence<'a>(pods: impl IntoIterator<Item = Option<&'a RelaxedPod>>) -> String {
    let mut paths: Vec<&str> = Vec::new();
    for path in pods.into_iter().flatten().flat_map(|relaxed| &relaxed.paths) {
        if !paths.contains(&path.as_str()) {
            paths.push(path);
        }
    }
    if paths.is_empty() { String::new() } else { format!(" Relaxed: {}.", paths.join(", ")) }
}

/// A pod is to be decided with all its rules first. Returns how it was decided before.
pub(crate) fn require_all_rules(pods: &mut QueuedPods, id: PodId, recorder: &Recorder) -> Option<RelaxedPod> {
    let queued = pods.get_mut(id)?;
    let before = queued.relaxed.take()?;
    recorder.record(|| Entry::Relax(queued.pod.metadata.namespaced_name(), Vec::new()));
    Some(*before)
}

/// When pods have one more rule to relax.
#[derive(Default)]
pub(crate) struct Relaxation {
    timers: BTreeSet<(Instant, PodId)>,
}

impl Relaxation {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Decides an unschedulable pod without the required rules that it has been pending for. `before` is how it was decided
    /// before.
    pub(crate) fn decide(
        &mut self,
        context: &mut Context,
        id: PodId,
        outcome: Outcome,
        before: Option<RelaxedPod>,
    ) -> Outcome {
        let Some(queued) = context.pending.pods.get_mut(id) else { return outcome };
        if !matches!(outcome, Outcome::Unschedulable { .. }) {
            return outcome;
        }
        let name = queued.pod.metadata.namespaced_name();
        let (time, prepared) = (pending_time(&queued.pod), queued.prepared.clone());
        self.set_timer(&context.state, &mut context.pending.pods, id, time);
        let Some((outcome, relaxed)) = context.state.cluster.decide_relaxed(&prepared, time) else {
            return outcome;
        };
        set_relaxed(context, id, before, relaxed, time);
        context.state.recorder.record(|| Entry::Decision(Box::new(outcome.recorded(name))));
        outcome
    }

    /// As [`Relaxation::decide`] for the members of a group.
    pub(crate) fn decide_group(
        &mut self,
        context: &mut Context,
        name: &str,
        ids: &[PodId],
        group: &Group<'_>,
        outcome: GroupOutcome,
        before: Vec<Option<RelaxedPod>>,
    ) -> GroupOutcome {
        if matches!(outcome, GroupOutcome::Placed { .. }) {
            return outcome;
        }
        let members = ids.iter().filter_map(|id| context.pending.pods.get(*id));
        let times: Vec<_> = members.map(|queued| pending_time(&queued.pod)).collect();
        for (id, time) in ids.iter().zip(&times) {
            self.set_timer(&context.state, &mut context.pending.pods, *id, *time);
        }
        let Some((outcome, relaxed)) = context.state.cluster.decide_group_relaxed(group, &times) else {
            return outcome;
        };
        for (((id, before), relaxed), time) in ids.iter().zip(before).zip(relaxed).zip(times) {
            set_relaxed(context, *id, before, relaxed, time);
        }
        context.state.recorder.record(|| {
            let recorded = context.state.cluster.recorded_group(name, group);
            Entry::GroupDecision(recorded, Box::new(outcome.recorded(group)))
        });
        outcome
    }

    fn set_timer(&mut self, state: &State, pods: &mut QueuedPods, id: PodId, time: Duration) {
        let now = Instant::now();
        let Some(queued) = pods.get_mut(id).filter(|q| q.relax_at.is_none_or(|at| at <= now)) else {
            return;
        };
        if let Some(after) = state.cluster.next_relaxation(&queued.prepared, time) {
            let at = now + (after - time);
            queued.relax_at = Some(at);
            self.timers.insert((at, id));
        }
    }

    /// Activates the unschedulable pods that have one more rule to relax.
    pub(crate) fn expire(&mut self, pending: &mut PendingPods, now: Instant) {
        while let Some((_, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            let entry = pending.entry_of(id);
            // Other pods are about to be decided anyway.
            if pending.queue.wake_group_of(entry, now).is_some() {
                pending.metrics.queued("active", "RelaxAfter");
            }
        }
    }
}

fn set_relaxed(
    context: &mut Context,
    id: PodId,
    before: Option<RelaxedPod>,
    relaxed: RelaxedPod,
    time: Duration,
) {
    let Some(queued) = context.pending.pods.get_mut(id).filter(|_| !relaxed.paths.is_empty()) else { return };
    if before.is_none_or(|before| before.paths != relaxed.paths) {
        let (seconds, paths) = (time.as_secs(), relaxed.paths.join(", "));
        let note = format!("Pending for {seconds}s: required rules become preferences: {paths}");
        context.pending.events.relaxed(&queued.pod, note);
    }
    context
        .state
        .recorder
        .record(|| Entry::Relax(queued.pod.metadata.namespaced_name(), relaxed.paths.clone()));
    queued.relaxed = Some(Box::new(relaxed));
}
