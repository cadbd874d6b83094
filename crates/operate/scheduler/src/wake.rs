//! Unschedulable pods: which of them a change could help.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::{DevicePostFilter, Preemption, WakeConditions};
use berth_mirror::Source;
use tokio::time::Instant;

use crate::context::Context;
use crate::device_turns;
use crate::pending::{GroupFailure, GroupKey, PendingPods};
use crate::pod_groups::PodGroups;
use crate::queue::PodId;

/// After an evaluation without success, a group is not evaluated again for this many times as long as the evaluation took:
/// thousands of changes must not keep the scheduler busy with unschedulable pods.
const EVALUATION_COST: u32 = 20;
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The most groups that are evaluated between two decisions, however many a change could help.
const MOST_AT_ONCE: usize = 256;
/// How often the scheduler looks for pods that have been unschedulable for long.
const FLUSH_PERIOD: Duration = Duration::from_secs(30);

/// The group of unschedulable pods that an entry of the queue belongs to.
pub(crate) fn group_key(context: &Context, groups: &PodGroups, id: PodId) -> Option<GroupKey> {
    let Context { state, pending: PendingPods { pods, .. } } = context;
    if let Some(member) = groups.first_pending(id) {
        return Some(Arc::new((state.cluster.equivalence(&pods.get(member)?.prepared), Some(id))));
    }
    let queued = pods.get(id)?;
    let is_nominated = state.nomination(&queued.pod).is_some();
    let is_alone = is_nominated || state.cluster.next_relaxation(&queued.prepared, Duration::ZERO).is_some();
    Some(Arc::new((state.cluster.equivalence(&queued.prepared), is_alone.then_some(id))))
}

/// Evaluates unschedulable pods again.
pub(crate) struct Waker {
    /// When to evaluate groups whose evaluation was postponed.
    look_again_at: Option<Instant>,
    next_flush: Instant,
    flush_after: Duration,
}

impl Waker {
    /// Pods that have been unschedulable for `flush_after` are decided without a reason.
    pub(crate) fn new(flush_after: Duration, now: Instant) -> Waker {
        Waker { look_again_at: None, next_flush: now + FLUSH_PERIOD.min(flush_after), flush_after }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.look_again_at
    }

    /// Wakes the pods that changes since the last call help.
    pub(crate) fn wake(&mut self, context: &mut Context, groups: &PodGroups, now: Instant) {
        let changes = context.state.cluster.take_changes();
        let mut helped: Vec<(Option<Instant>, (GroupKey, &'static str))> = Vec::new();
        if !changes.is_empty() {
            for (key, failure) in context.pending.queue.idle() {
                let helps = changes.iter().find(|change| {
                    failure.wake.iter().any(|conditions| context.state.cluster.could_help(conditions, change))
                });
                if let Some(change) = helps {
                    helped.push((failure.look_again, (key.clone(), change.event())));
                }
            }
        }
        if self.look_again_at.is_some_and(|at| at <= now) {
            self.look_again_at = None;
            let due = context.pending.queue.idle().filter(|(_, failure)| failure.is_due);
            helped.extend(due.map(|(key, failure)| (failure.look_again, (key.clone(), "LookAgain"))));
        }
        if !helped.is_empty() {
            // All of them share the steps, as one decision has them.
            context.state.cluster.device_work().allow(device_turns::FIRST, device_turns::FIRST);
        }
        let (at_once, later) = in_turns(helped);
        for (key, event) in at_once {
            self.evaluate(context, groups, &key, event, now);
        }
        for (key, _) in later {
            self.postpone(context, &key, now);
        }
        if !changes.is_empty() {
            activate_settled_nominations(context, groups, now);
        }
    }

    /// Evaluates a group at this time, or later.
    fn postpone(&mut self, context: &mut Context, key: &GroupKey, at: Instant) {
        if let Some(failure) = context.pending.queue.failure_mut(key) {
            failure.is_due = true;
            self.look_again_at = Some(self.look_again_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Wakes a group if its first pod fits on a node now, a claim can be freed for it, or it can preempt others.
    fn evaluate(
        &mut self,
        context: &mut Context,
        groups: &PodGroups,
        key: &GroupKey,
        event: &'static str,
        now: Instant,
    ) {
        if key.1.is_some_and(|id| groups.is_entry(id)) {
            return context.pending.wake(key, event, now);
        }
        let epoch = context.state.cluster.signature_epoch();
        let Some(failure) = context.pending.queue.failure_mut(key) else { return };
        if let Some(at) = failure.look_again.filter(|at| *at > now) {
            return self.postpone(context, key, at);
        }
        failure.is_due = false;
        if failure.epoch != epoch {
            // New selectors may distinguish the pods of the group.
            return split(context, groups, key, now).iter().for_each(|key| self.postpone(context, key, now));
        }
        if failure.wake.iter().any(WakeConditions::is_rejected_everywhere) {
            return context.pending.wake(key, event, now);
        }
        let Some(first) = context.pending.queue.first_of(key, now) else { return };
        let Some(queued) = context.pending.pods.get(first) else { return };
        let began = Instant::now();
        let has_steps = context.state.cluster.device_work().left() > 0;
        // Most nominated pods fit on their node first: then the others need no look.
        let decided = queued.decided();
        let fits = context
            .state
            .nomination(&queued.pod)
            .is_some_and(|node| context.state.cluster.fits_on(decided, node))
            || context.state.cluster.fits_anywhere(decided);
        // Or the allocation of a claim, which keeps it from all nodes, can be taken away now.
        let frees_claim = || {
            let found = context.state.cluster.device_post_filter(decided);
            matches!(found, DevicePostFilter::Deallocate(_) | DevicePostFilter::Delete(_))
        };
        let mut preempts = || {
            queued.preemption.is_none()
                && context.state.mirror.unreadable(Source::Budgets).is_none()
                && matches!(
                    context.state.cluster.preempt(decided, context.state.budgets.list()),
                    Preemption::Victims(_)
                )
        };
        let is_helped = fits || frees_claim() || preempts();
        let is_cut = context.state.cluster.device_work().is_cut();
        if is_cut && !is_helped && !has_steps {
            return self.postpone(context, key, now);
        }
        // One that takes longer is decided instead.
        if is_helped || is_cut {
            return context.pending.wake(key, event, now);
        }
        let wake = context.state.cluster.wake_conditions(decided);
        if let Some(failure) = context.pending.queue.failure_mut(key) {
            failure.wake = vec![wake];
            failure.look_again = Some(now + (began.elapsed() * EVALUATION_COST).min(LONGEST_WAIT));
        }
    }

    /// Activates pods that have been unschedulable for long, in case a change that helps was missed.
    pub(crate) fn flush(&mut self, pending: &mut PendingPods, now: Instant) {
        if now < self.next_flush {
            return;
        }
        self.next_flush = now + FLUSH_PERIOD.min(self.flush_after);
        pending.statuses.rewrite(&mut pending.pods);
        let Some(since) = now.checked_sub(self.flush_after) else { return };
        for key in pending.queue.idle_since(since) {
            pending.wake(&key, "UnschedulableTimeout", now);
        }
    }
}

/// The groups that are evaluated at once, those first that have not been evaluated for the longest time, and the others.
fn in_turns<T>(mut helped: Vec<(Option<Instant>, T)>) -> (Vec<T>, Vec<T>) {
    helped.sort_by_key(|(look_again, _)| *look_again);
    let later = helped.split_off(helped.len().min(MOST_AT_ONCE));
    let groups = |of: Vec<(Option<Instant>, T)>| of.into_iter().map(|(_, group)| group).collect();
    (groups(helped), groups(later))
}

/// Moves an entry whose attempt failed to the unschedulable ones.
pub(crate) fn add_unschedulable(
    context: &mut Context,
    groups: &PodGroups,
    id: PodId,
    key: &GroupKey,
    failure: &GroupFailure,
    now: Instant,
) {
    if context.pending.queue.failure_mut(key).is_some_and(|before| before.epoch != failure.epoch) {
        // This failure may not be that of all pods that were equivalent once.
        split(context, groups, key, now);
    }
    if key.1.is_some() {
        // The preemption is for this pod only: the next of its group is decided separately.
        context.pending.queue.release_group(id, now);
    }
    context.pending.queue.add_unschedulable(id, key.clone(), failure.clone(), now);
}

/// Moves each pod of a group to the group it belongs to now. Returns these groups.
fn split(context: &mut Context, groups: &PodGroups, key: &GroupKey, now: Instant) -> Vec<GroupKey> {
    let epoch = context.state.cluster.signature_epoch();
    let Some(kept) = context.pending.queue.failure_mut(key) else { return Vec::new() };
    kept.epoch = epoch;
    let failure = kept.clone();
    let mut keys: Vec<GroupKey> = Vec::new();
    for id in context.pending.queue.members(key) {
        let Some(own) = group_key(context, groups, id) else { continue };
        if own != *key {
            context.pending.queue.move_to_group(id, own.clone(), &failure, now);
        }
        if !keys.contains(&own) {
            keys.push(own);
        }
    }
    keys
}

/// Activates the unschedulable pods whose nomination is settled: the node is deleted, or the victims are gone. They
/// fit there now, or they preempt again, or they lose the nomination.
fn activate_settled_nominations(context: &mut Context, groups: &PodGroups, now: Instant) {
    let nominated = context.pending.queue.idle().filter_map(|(key, _)| key.1);
    let is_settled = |id: &PodId| {
        if groups.is_entry(*id) {
            groups.has_settled_nominations(context, *id)
        } else {
            is_nomination_settled(context, *id)
        }
    };
    let settled: Vec<PodId> = nominated.filter(is_settled).collect();
    for id in settled {
        context.pending.queue.activate(id, now);
        context.pending.metrics.queued("active", "NominationSettled");
    }
}

fn is_nomination_settled(context: &Context, id: PodId) -> bool {
    let Context { state, pending: PendingPods { pods, .. } } = context;
    let Some(queued) = pods.get(id) else { return false };
    let Some(victims) = &queued.preemption else { return false };
    if state.nomination(&queued.pod).is_none_or(|node| !state.cluster.has_node(node)) {
        return true;
    }
    !victims.iter().any(|victim| state.exists(victim)) && !state.cluster.awaits_victims(&queued.prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_could_help_thousands_of_groups_keeps_other_pods_waiting_for_some_of_them_only() {
        let start = Instant::now();
        let mut evaluated: Vec<(Option<Instant>, usize)> = (0..1000).map(|group| (None, group)).collect();
        let mut seen = std::collections::BTreeSet::new();
        // Each turn evaluates some, and the change comes again and again.
        for turn in 1..=4 {
            let (at_once, later) = in_turns(evaluated);
            assert!(at_once.len() <= MOST_AT_ONCE, "{}", at_once.len());
            seen.extend(at_once.iter().copied());
            let again = at_once.into_iter().map(|group| (Some(start + turn * LONGEST_WAIT), group));
            evaluated = again.chain(later.into_iter().map(|group| (None, group))).collect();
        }
        assert_eq!(seen.len(), 1000, "each of them has its turn");
    }
}
