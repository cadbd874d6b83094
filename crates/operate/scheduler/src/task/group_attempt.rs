//! A scheduling attempt of a group: all required members get a node at once, or none. If none do, pods of lower priority
//! are preempted for all of them, or for none.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use berth_engine::{Group, GroupLevel, GroupOutcome, Outcome, PreparedPod};
use berth_input::config::Plugin;
use berth_input::journal::Entry;
use tokio::time::Instant;

use super::attempt::ClaimDecisions;
use super::scheduler::Scheduler;
use crate::metrics::AttemptResult;
use crate::pending::GroupFailure;
use crate::pod_groups::GroupAttempt;
use crate::pod_status::FailureReason;
use crate::queue::PodId;
use crate::relaxation::{relaxed_sentence, require_all_rules};
use crate::wake::group_key;

/// A member with its node.
type PlacedMember = (PodId, String, ClaimDecisions);

impl Scheduler {
    pub(super) fn decide_group(&mut self, entry: PodId) {
        let now = Instant::now();
        let context = &mut self.context;
        let Some(attempt) = self.groups.attempt(context, entry, now) else { return };
        if self.is_being_taken_back(entry, attempt.ids.iter().copied()) {
            return;
        }
        let context = &mut self.context;
        let GroupAttempt { ids, name, n_missing, .. } = &attempt;
        let (mut pods, mut nominated): (Vec<PreparedPod>, Vec<_>) = (Vec::new(), Vec::new());
        let require = |id: &PodId| require_all_rules(&mut context.pending.pods, *id, &context.state.recorder);
        let before = ids.iter().map(require).collect();
        for id in ids {
            let Some(queued) = context.pending.pods.get_mut(*id) else { continue };
            queued.attempts += 1;
            queued.decided_at = now;
            self.instruments.decided(&queued.pod);
            let node = context.state.nomination(&queued.pod);
            nominated.extend(node.map(|node| (pods.len(), node.to_owned())));
            pods.push(queued.prepared.clone());
        }
        if let Some(why) = &attempt.disagreement {
            return self.fail_group(entry, ids, FailureReason::SchedulerError, why, Vec::new());
        }
        let levels: Vec<_> = attempt.levels.iter().map(GroupLevel::from).collect();
        // Beyond the required members, one is worth an attempt, and a preemption.
        let group = Group {
            members: &pods,
            min: (*n_missing).max(1),
            levels: &levels,
            composite: attempt.composite.as_ref(),
        };
        let outcome = context.state.cluster.decide_group(&group);
        context.state.recorder.record(|| {
            let recorded = context.state.cluster.recorded_group(name, &group);
            Entry::GroupDecision(recorded, Box::new(outcome.recorded(&group)))
        });
        let outcome = self.relaxation.decide_group(context, name, ids, &group, outcome, before);
        self.metrics.decided(now.elapsed());
        let failure = match outcome {
            GroupOutcome::Placed { members, .. } => {
                let mut placed: Vec<PlacedMember> = Vec::new();
                for (id, outcome) in ids.iter().zip(members) {
                    if let Outcome::Placed { node, volumes, devices, .. } = outcome {
                        placed.push((*id, node, ClaimDecisions { volumes, devices }));
                    } else if let Some(queued) = context.pending.pods.get(*id) {
                        context.state.clear_nomination(&queued.pod);
                    }
                }
                return self.bind_group(entry, placed, attempt.deadline);
            }
            GroupOutcome::Unplaced(failure) => failure,
        };
        // In its turn, it has as many steps as it can get.
        let is_cut = failure.is_cut && !context.pending.queue.waits_for_turn(entry);
        let members = || ids.iter().filter_map(|id| context.pending.pods.get(*id));
        let pods: Vec<_> = members().map(|queued| queued.decided().clone()).collect();
        let group = Group { members: &pods, ..group };
        let relaxed = relaxed_sentence(members().map(|queued| queued.relaxed.as_deref()));
        let mut message = failure.message(&group);
        let plugins = match failure.outcome {
            Outcome::Unschedulable { plugins, .. } => plugins,
            _ => Vec::new(),
        };
        if is_cut || context.state.cluster.device_work().is_cut() {
            return self.group_waits_for_turn(entry, ids, &(message + &relaxed));
        }
        let awaits_victims = self.groups.awaits_victims(context, entry);
        let preempting = match attempt.without_preemption {
            _ if awaits_victims => Ok(self.groups.await_victims(entry)),
            Some(why) => Err(why.to_owned()),
            None => self.groups.preempt(context, entry, &attempt, &group, self.flush_after),
        };
        message = match preempting {
            Ok(0) => message,
            Ok(n_victims) => format!(
                "{}pod group preemption: found a placement for podgroup, preempting {n_victims} victims; {message}",
                attempt.min_count_sentence(failure.n_placed)
            ),
            Err(reason) => format!("{message} preemption: {reason}"),
        };
        message += &relaxed;
        let is_complete = *n_missing == 0;
        let held = self.groups.hold_room(context, entry, &group, &nominated, is_complete);
        message += &held.unwrap_or_default();
        if context.state.cluster.device_work().is_cut() {
            return self.group_waits_for_turn(entry, ids, &message);
        }
        self.fail_group(entry, ids, FailureReason::Unschedulable, &message, plugins);
    }

    /// As [`Scheduler::wait_for_turn`], for a group.
    fn group_waits_for_turn(&mut self, entry: PodId, ids: &[PodId], message: &str) {
        self.fail_group(entry, ids, FailureReason::Unschedulable, message, vec![Plugin::DynamicResources]);
        self.context.pending.queue.wait_for_turn(entry, Instant::now());
    }

    fn bind_group(&mut self, entry: PodId, placed: Vec<PlacedMember>, deadline: Option<Instant>) {
        let now = Instant::now();
        let members: BTreeSet<PodId> = placed.iter().map(|(id, ..)| *id).collect();
        self.groups.begin_batch(&mut self.context.pending, entry, members, deadline, now);
        for (id, node, claims) in placed {
            // Victims of an earlier attempt that are not evicted yet need not be evicted.
            if let Some(queued) = self.context.pending.pods.get_mut(id) {
                queued.eviction = None;
            }
            self.bind(id, &node, claims, now);
        }
    }

    /// Moves a group that is not placed to the unschedulable ones.
    fn fail_group(
        &mut self,
        entry: PodId,
        ids: &[PodId],
        reason: FailureReason,
        message: &str,
        plugins: Vec<Plugin>,
    ) {
        let now = Instant::now();
        // Changes made by earlier decisions affect the pods that are unschedulable already, not these.
        self.wake_unschedulable(now);
        let context = &mut self.context;
        let Some(key) = group_key(context, &self.groups, entry) else { return };
        let Some(name) = self.groups.name(entry) else { return };
        let members: Vec<_> = ids.iter().filter_map(|id| context.pending.pods.get(*id)).collect();
        let profile = members.first().map_or("", |queued| queued.pod.spec.scheduler_name.as_str());
        let prepared: Vec<_> = members.iter().map(|queued| queued.decided().clone()).collect();
        let text = format!("{name}: {message}");
        let wake = context.state.cluster.wake_conditions_of_group(&prepared);
        let epoch = context.state.cluster.signature_epoch();
        let failure = GroupFailure::new(reason, text, plugins, profile, wake, epoch);
        self.metrics.pod_group_attempted(AttemptResult::Unschedulable);
        context.pending.queue.add_unschedulable(entry, key, failure.clone(), now);
        if !self.groups.is_preempting(entry) {
            // A search among many nodes is not repeated at every change.
            context.pending.queue.keep_backoff(entry);
        }
        for id in ids {
            let Some(queued) = context.pending.pods.get(*id) else { continue };
            let took = now.saturating_duration_since(queued.decided_at);
            self.metrics.attempted(AttemptResult::Unschedulable, &queued.pod.spec.scheduler_name, took);
            self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
            self.reporter.current.n_unschedulable += 1;
            context.pending.report_member_failure(&context.state, *id, &failure);
        }
        self.groups.show_unscheduled(&context.pending.pods, entry, reason, message);
    }

    /// A member in flight is not bound: it is pending again.
    pub(super) fn return_to_group(&mut self, id: PodId, error: Option<&str>) {
        let Some(entry) = self.context.pending.pods.get(id).and_then(|queued| queued.group) else { return };
        let context = &mut self.context;
        if self.groups.return_member(context, entry, id, error.is_some()) {
            self.take_back(entry, error);
        }
    }

    /// Takes back the members of a batch on a deleted node, or one that changed, with all others.
    pub(super) fn take_back_member(&mut self, id: PodId) {
        if let Some(entry) = self.context.pending.pods.get(id).and_then(|queued| queued.group)
            && self.groups.is_held(entry, id)
        {
            self.take_back(entry, None);
        }
    }

    /// Takes back all members of a batch: with an error after a back-off, as if nothing had been tried without one.
    pub(super) fn take_back(&mut self, entry: PodId, error: Option<&str>) {
        let now = Instant::now();
        let Some((name, members)) = self.groups.take_back(entry) else { return };
        let message = error.map(|error| format!("{name}: {error}"));
        let mut changed = Vec::new();
        for id in members {
            self.pre_bind.roll_back(&mut self.context.state.cluster, id);
            let Some(queued) = self.context.pending.pods.get_mut(id) else { continue };
            if let Some(binding) = queued.binding.take() {
                binding.abandoned.store(true, Ordering::Relaxed);
                if let Some(volumes) = &binding.volumes {
                    self.context.state.cluster.restore_volumes(&queued.prepared, volumes);
                }
            }
            if queued.is_stale {
                changed.push(id);
            }
            if !self.context.state.forget(&queued.pod) {
                // The watch reported that another scheduler bound it.
                self.dequeue(id);
                continue;
            }
            self.context.pending.write_status(id, |status| {
                status.nominated_node.clear();
                if let Some(message) = &message {
                    status.fail(FailureReason::SchedulerError, message);
                }
            });
        }
        match error {
            Some(error) => {
                self.metrics.pod_group_attempted(AttemptResult::Error);
                let reason = FailureReason::SchedulerError;
                self.groups.show_unscheduled(&self.context.pending.pods, entry, reason, error);
                self.context.pending.queue.back_off(entry, now);
            }
            None => self.context.pending.queue.put_back(entry),
        }
        changed.into_iter().for_each(|id| self.requeue(id));
        self.groups.settle(&mut self.context, entry);
    }
}
