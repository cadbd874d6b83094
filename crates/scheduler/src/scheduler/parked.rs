//! Parked pods: which of them a change could help.

use std::time::Duration;

use tokio::time::Instant;

use super::{FLUSH_PERIOD, GroupKey, Scheduler};

/// After a look in vain, a group is not looked at again for this many times as long as the look took: changes that
/// come by the thousand must not keep the scheduler busy with pods that fit nowhere.
const LOOKS_COST: u32 = 20;
const LONGEST_WAIT_FOR_LOOK: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Looks at what has changed since the last time, and wakes the pods it helps.
    pub(super) fn wake_parked(&mut self, now: Instant) {
        let changes = self.cluster.take_changes();
        let mut helped: Vec<(GroupKey, &'static str)> = Vec::new();
        if !changes.is_empty() {
            for (key, verdict) in self.queue.resting() {
                let helps = changes.iter().find(|change| self.cluster.could_help(&verdict.wake, change));
                if let Some(change) = helps {
                    helped.push((key.clone(), change.event()));
                }
            }
        }
        if self.look_again_at.is_some_and(|at| at <= now) {
            self.look_again_at = None;
            let due = self.queue.resting().filter(|(_, verdict)| verdict.is_due);
            let due: Vec<_> = due.map(|(key, _)| (key.clone(), "LookAgain")).collect();
            helped.extend(due);
        }
        for (key, event) in helped {
            self.look_at(&key, event, now);
        }
    }

    /// Wakes a group if its first pod fits somewhere now.
    fn look_at(&mut self, key: &GroupKey, event: &'static str, now: Instant) {
        let distinctions = self.cluster.signature_epoch();
        let Some(verdict) = self.queue.verdict_mut(key) else { return };
        if let Some(at) = verdict.look_again.filter(|at| *at > now) {
            verdict.is_due = true;
            self.look_again_at = Some(self.look_again_at.map_or(at, |before| before.min(at)));
            return;
        }
        verdict.is_due = false;
        if verdict.distinctions != distinctions {
            self.regroup(key, event, now);
            return;
        }
        let Some(first) = self.queue.first_of(key, now) else { return };
        let Some(waiting) = self.pods.get(&first) else { return };
        let began = Instant::now();
        if self.cluster.fits_anywhere(&waiting.prepared) {
            if self.queue.wake(key, now).is_some() {
                self.metrics.queued("active", event);
            }
            return;
        }
        let wake = self.cluster.wake_conditions(&waiting.prepared);
        if let Some(verdict) = self.queue.verdict_mut(key) {
            verdict.wake = wake;
            verdict.look_again = Some(now + (began.elapsed() * LOOKS_COST).min(LONGEST_WAIT_FOR_LOOK));
        }
    }

    /// Rules came up that may tell the pods of a group apart: each goes where it belongs now, and the groups it
    /// makes are looked at one by one.
    fn regroup(&mut self, key: &GroupKey, event: &'static str, now: Instant) {
        for key in self.split(key, now) {
            self.look_at(&key, event, now);
        }
    }

    /// Puts each pod of a group where it belongs by now. Returns the groups they are in.
    pub(super) fn split(&mut self, key: &GroupKey, now: Instant) -> Vec<GroupKey> {
        let distinctions = self.cluster.signature_epoch();
        let Some(kept) = self.queue.verdict_mut(key) else { return Vec::new() };
        kept.distinctions = distinctions;
        let verdict = kept.clone();
        let mut keys: Vec<GroupKey> = Vec::new();
        for id in self.queue.members(key) {
            let Some(own) = self.group_key(id) else { continue };
            if own != *key {
                self.queue.move_to_group(id, own.clone(), &verdict, now);
            }
            if !keys.contains(&own) {
                keys.push(own);
            }
        }
        keys
    }

    /// Pods that have been parked for long are tried without a reason: in case one was overlooked.
    pub(super) fn flush(&mut self, now: Instant) {
        if now < self.next_flush {
            return;
        }
        self.next_flush = now + FLUSH_PERIOD.min(self.options.flush_after);
        let Some(since) = now.checked_sub(self.options.flush_after) else { return };
        for key in self.queue.resting_since(since) {
            if self.queue.wake(&key, now).is_some() {
                self.metrics.queued("active", "UnschedulableTimeout");
            }
        }
    }
}
