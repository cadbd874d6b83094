//! Unschedulable pods: which of them a change could help.

use std::time::Duration;

use tokio::time::Instant;

use super::{FLUSH_PERIOD, GroupKey, Scheduler};

/// After an evaluation in vain, a group is not evaluated again for this many times as long as the evaluation took:
/// thousands of changes must not keep the scheduler busy with pods that fit nowhere.
const EVALUATION_COST: u32 = 20;
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Wakes the pods that changes since the last call help.
    pub(super) fn wake_unschedulable(&mut self, now: Instant) {
        let changes = self.cluster.take_changes();
        let mut helped: Vec<(GroupKey, &'static str)> = Vec::new();
        if !changes.is_empty() {
            for (key, failure) in self.queue.idle() {
                let helps = changes.iter().find(|change| {
                    failure.wake.iter().any(|conditions| self.cluster.could_help(conditions, change))
                });
                if let Some(change) = helps {
                    helped.push((key.clone(), change.event()));
                }
            }
        }
        if self.look_again_at.is_some_and(|at| at <= now) {
            self.look_again_at = None;
            let due = self.queue.idle().filter(|(_, failure)| failure.is_due);
            let due: Vec<_> = due.map(|(key, _)| (key.clone(), "LookAgain")).collect();
            helped.extend(due);
        }
        for (key, event) in helped {
            self.evaluate_group(&key, event, now);
        }
        if !changes.is_empty() {
            self.activate_settled_nominations(now);
        }
    }

    /// Wakes a group if its first pod fits on a node now.
    fn evaluate_group(&mut self, key: &GroupKey, event: &'static str, now: Instant) {
        if key.1.is_some_and(|id| self.pod_groups.is_entry(id)) {
            if self.queue.wake(key, now).is_some() {
                self.metrics.queued("active", event);
            }
            return;
        }
        let epoch = self.cluster.signature_epoch();
        let Some(failure) = self.queue.failure_mut(key) else { return };
        if let Some(at) = failure.look_again.filter(|at| *at > now) {
            failure.is_due = true;
            self.look_again_at = Some(self.look_again_at.map_or(at, |before| before.min(at)));
            return;
        }
        failure.is_due = false;
        if failure.epoch != epoch {
            self.regroup(key, event, now);
            return;
        }
        let Some(first) = self.queue.first_of(key, now) else { return };
        let Some(queued) = self.pods.get(first) else { return };
        let began = Instant::now();
        let metadata = &queued.pod.metadata;
        let nominated = self.cluster.nomination(&metadata.namespace, &metadata.name);
        // Most nominated pods fit on their node first: then the others need no look.
        let decided = queued.decided();
        let fits = nominated.is_some_and(|node| self.cluster.fits_on(decided, node))
            || self.cluster.fits_anywhere(decided);
        if fits {
            if self.queue.wake(key, now).is_some() {
                self.metrics.queued("active", event);
            }
            return;
        }
        let wake = self.cluster.wake_conditions(decided);
        if let Some(failure) = self.queue.failure_mut(key) {
            failure.wake = vec![wake];
            failure.look_again = Some(now + (began.elapsed() * EVALUATION_COST).min(LONGEST_WAIT));
        }
    }

    /// New selectors may distinguish the pods of a group: each pod moves to the group it belongs to now, and each of
    /// these groups is evaluated.
    fn regroup(&mut self, key: &GroupKey, event: &'static str, now: Instant) {
        for key in self.split(key, now) {
            self.evaluate_group(&key, event, now);
        }
    }

    /// Moves each pod of a group to the group it belongs to now. Returns these groups.
    pub(super) fn split(&mut self, key: &GroupKey, now: Instant) -> Vec<GroupKey> {
        let epoch = self.cluster.signature_epoch();
        let Some(kept) = self.queue.failure_mut(key) else { return Vec::new() };
        kept.epoch = epoch;
        let failure = kept.clone();
        let mut keys: Vec<GroupKey> = Vec::new();
        for id in self.queue.members(key) {
            let Some(own) = self.group_key(id) else { continue };
            if own != *key {
                self.queue.move_to_group(id, own.clone(), &failure, now);
            }
            if !keys.contains(&own) {
                keys.push(own);
            }
        }
        keys
    }

    /// Activates pods that have been unschedulable for long, in case a change that helps was missed.
    pub(super) fn flush(&mut self, now: Instant) {
        if now < self.next_flush {
            return;
        }
        self.next_flush = now + FLUSH_PERIOD.min(self.options.flush_after);
        self.rewrite_statuses();
        let Some(since) = now.checked_sub(self.options.flush_after) else { return };
        for key in self.queue.idle_since(since) {
            if self.queue.wake(&key, now).is_some() {
                self.metrics.queued("active", "UnschedulableTimeout");
            }
        }
    }
}
