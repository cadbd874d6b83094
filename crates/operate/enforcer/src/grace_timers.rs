//! Grace periods: a violation is due only after it lasted for its grace period without interruption.
//!
//! A pure state machine: time is passed in. If a rule holds in between, its grace period starts again. Grace periods are
//! not stored: a new process starts all of them at its own start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// Longer than any useful grace period: a century.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The violated rules by key `K`. Due rules are listed in the order of their keys.
#[derive(Debug)]
pub(crate) struct GraceTimers<K> {
    violated: BTreeMap<K, Violation>,
    /// Those in their grace period, by its end.
    waiting: BTreeSet<(Instant, K)>,
    due: BTreeSet<K>,
}

#[derive(Clone, Copy, Debug)]
struct Violation {
    since: Instant,
    due_at: Instant,
}

impl<K> Default for GraceTimers<K> {
    fn default() -> Self {
        GraceTimers { violated: BTreeMap::new(), waiting: BTreeSet::new(), due: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> GraceTimers<K> {
    /// A violation began. One that is known already is unchanged.
    pub(crate) fn begin(&mut self, key: K, grace: Duration, now: Instant) {
        if self.violated.contains_key(&key) {
            return;
        }
        let due_at = now + grace.min(NEVER);
        self.violated.insert(key.clone(), Violation { since: now, due_at });
        self.waiting.insert((due_at, key));
    }

    /// A violation ended. Returns whether it was known.
    pub(crate) fn end(&mut self, key: &K) -> bool {
        let Some(violated) = self.violated.remove(key) else { return false };
        if !self.due.remove(key) {
            self.waiting.remove(&(violated.due_at, key.clone()));
        }
        true
    }

    /// Changes the grace period of a violation. It counts from the beginning of the violation.
    pub(crate) fn set_grace(&mut self, key: &K, grace: Duration) {
        let Some(violated) = self.violated.get_mut(key) else { return };
        let due_at = violated.since + grace.min(NEVER);
        if due_at == violated.due_at {
            return;
        }
        let before = std::mem::replace(&mut violated.due_at, due_at);
        self.due.remove(key);
        self.waiting.remove(&(before, key.clone()));
        self.waiting.insert((due_at, key.clone()));
    }

    /// Violations whose grace period is over become due. Returns how many.
    pub(crate) fn expire_graces(&mut self, now: Instant) -> usize {
        let mut n = 0;
        while self.waiting.first().is_some_and(|(due_at, _)| *due_at <= now) {
            let Some((_, key)) = self.waiting.pop_first() else { break };
            self.due.insert(key);
            n += 1;
        }
        n
    }

    /// The due violations, in the order of their keys.
    pub(crate) fn due(&self) -> impl Iterator<Item = &K> {
        self.due.iter()
    }

    pub(crate) fn n_due(&self) -> usize {
        self.due.len()
    }

    /// When the next one becomes due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due_at, _)| *due_at)
    }

    /// Violations in a range of keys.
    pub(crate) fn range<R: std::ops::RangeBounds<K>>(&self, range: R) -> impl Iterator<Item = &K> {
        self.violated.range(range).map(|(key, _)| key)
    }

    /// Number of violations, due or not.
    pub(crate) fn len(&self) -> usize {
        self.violated.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn due<'a>(timers: &mut GraceTimers<&'a str>, now: Instant) -> Vec<&'a str> {
        timers.expire_graces(now);
        timers.due().copied().collect()
    }

    #[test]
    fn a_rule_is_due_when_its_own_grace_is_over_and_not_before() {
        let start = Instant::now();
        let mut timers = GraceTimers::default();
        timers.begin("pod affinity", seconds(300), start);
        timers.begin("anti-affinity", seconds(30), start);
        timers.begin("node affinity", Duration::ZERO, start);
        assert_eq!(due(&mut timers, start), ["node affinity"]);
        assert_eq!(timers.next_due(), Some(start + seconds(30)));
        assert_eq!(due(&mut timers, start + Duration::from_millis(29_999)), ["node affinity"]);
        assert_eq!(due(&mut timers, start + seconds(30)), ["anti-affinity", "node affinity"]);
        assert_eq!(due(&mut timers, start + seconds(300)).len(), 3);
        assert_eq!((timers.next_due(), timers.len()), (None, 3));
    }

    #[test]
    fn an_interrupted_violation_starts_again_and_an_uninterrupted_one_is_not_prolonged() {
        let start = Instant::now();
        let mut timers = GraceTimers::default();
        timers.begin("a", seconds(10), start);
        // Reported again: unchanged.
        timers.begin("a", seconds(10), start + seconds(9));
        assert_eq!(due(&mut timers, start + seconds(10)), ["a"]);
        assert!(timers.end(&"a"));
        assert!(!timers.end(&"a"));
        timers.begin("a", seconds(10), start + seconds(11));
        assert_eq!(due(&mut timers, start + seconds(20)), [""; 0]);
        assert_eq!(due(&mut timers, start + seconds(21)), ["a"]);
    }

    #[test]
    fn a_grace_may_change_while_it_runs_in_both_directions() {
        let start = Instant::now();
        let mut timers = GraceTimers::default();
        timers.begin("a", seconds(10), start);
        timers.set_grace(&"a", seconds(60));
        assert_eq!(due(&mut timers, start + seconds(59)), [""; 0]);
        timers.set_grace(&"a", seconds(5));
        assert_eq!(due(&mut timers, start + seconds(59)), ["a"]);
        timers.set_grace(&"a", Duration::MAX);
        assert_eq!(due(&mut timers, start + seconds(100_000)), [""; 0]);
        assert!(timers.end(&"a"));
        assert_eq!((timers.len(), timers.next_due()), (0, None));
    }
}
