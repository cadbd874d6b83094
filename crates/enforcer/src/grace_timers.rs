//! GraceTimers: a broken rule counts only after it was broken for a while without interruption.
//!
//! A pure state machine: what begins and ends is told to it, and the time is handed in. A rule that holds again and
//! breaks once more starts anew. Nothing of this is written down anywhere: a process that starts has seen nothing
//! break, and is as patient as if everything that is broken had broken just then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// Past every grace that makes sense: a century.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The broken rules by key `K`, whose order is the order in which they are named.
#[derive(Debug)]
pub(crate) struct GraceTimers<K> {
    broken: BTreeMap<K, Broken>,
    /// Those that are not due yet, by when they will be.
    waiting: BTreeSet<(Instant, K)>,
    due: BTreeSet<K>,
}

#[derive(Clone, Copy, Debug)]
struct Broken {
    since: Instant,
    due_at: Instant,
}

impl<K> Default for GraceTimers<K> {
    fn default() -> Self {
        GraceTimers { broken: BTreeMap::new(), waiting: BTreeSet::new(), due: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> GraceTimers<K> {
    /// A rule broke. One that is broken already goes on as it was.
    pub(crate) fn begin(&mut self, key: K, grace: Duration, now: Instant) {
        if self.broken.contains_key(&key) {
            return;
        }
        let due_at = now + grace.min(NEVER);
        self.broken.insert(key.clone(), Broken { since: now, due_at });
        self.waiting.insert((due_at, key));
    }

    /// A rule holds again, or there is nobody left whom it concerns. Tells whether it was broken.
    pub(crate) fn end(&mut self, key: &K) -> bool {
        let Some(broken) = self.broken.remove(key) else { return false };
        if !self.due.remove(key) {
            self.waiting.remove(&(broken.due_at, key.clone()));
        }
        true
    }

    /// A rule that is broken has another grace from now on, counted from when it broke.
    pub(crate) fn set_grace(&mut self, key: &K, grace: Duration) {
        let Some(broken) = self.broken.get_mut(key) else { return };
        let due_at = broken.since + grace.min(NEVER);
        if due_at == broken.due_at {
            return;
        }
        let before = std::mem::replace(&mut broken.due_at, due_at);
        self.due.remove(key);
        self.waiting.remove(&(before, key.clone()));
        self.waiting.insert((due_at, key.clone()));
    }

    /// Those whose grace is over by now become due; returns how many.
    pub(crate) fn ripen(&mut self, now: Instant) -> usize {
        let mut n = 0;
        while self.waiting.first().is_some_and(|(due_at, _)| *due_at <= now) {
            let Some((_, key)) = self.waiting.pop_first() else { break };
            self.due.insert(key);
            n += 1;
        }
        n
    }

    /// Those that are due, in the order of their keys.
    pub(crate) fn due(&self) -> impl Iterator<Item = &K> {
        self.due.iter()
    }

    /// How many are due.
    pub(crate) fn n_due(&self) -> usize {
        self.due.len()
    }

    /// When the next one becomes due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due_at, _)| *due_at)
    }

    /// Broken rules between two keys.
    pub(crate) fn range<R: std::ops::RangeBounds<K>>(&self, range: R) -> impl Iterator<Item = &K> {
        self.broken.range(range).map(|(key, _)| key)
    }

    /// How many are broken, due or not.
    pub(crate) fn len(&self) -> usize {
        self.broken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn due<'a>(patience: &mut GraceTimers<&'a str>, now: Instant) -> Vec<&'a str> {
        patience.ripen(now);
        patience.due().copied().collect()
    }

    #[test]
    fn a_rule_is_due_when_its_own_grace_is_over_and_not_before() {
        let start = Instant::now();
        let mut patience = GraceTimers::default();
        patience.begin("pod affinity", seconds(300), start);
        patience.begin("anti-affinity", seconds(30), start);
        patience.begin("node affinity", Duration::ZERO, start);
        assert_eq!(due(&mut patience, start), ["node affinity"]);
        assert_eq!(patience.next_due(), Some(start + seconds(30)));
        assert_eq!(due(&mut patience, start + Duration::from_millis(29_999)), ["node affinity"]);
        assert_eq!(due(&mut patience, start + seconds(30)), ["anti-affinity", "node affinity"]);
        assert_eq!(due(&mut patience, start + seconds(300)).len(), 3);
        assert_eq!((patience.next_due(), patience.len()), (None, 3));
    }

    #[test]
    fn an_interrupted_break_starts_anew_and_an_uninterrupted_one_is_not_prolonged() {
        let start = Instant::now();
        let mut patience = GraceTimers::default();
        patience.begin("a", seconds(10), start);
        // Told again while it is broken: nothing new.
        patience.begin("a", seconds(10), start + seconds(9));
        assert_eq!(due(&mut patience, start + seconds(10)), ["a"]);
        assert!(patience.end(&"a"));
        assert!(!patience.end(&"a"));
        patience.begin("a", seconds(10), start + seconds(11));
        assert_eq!(due(&mut patience, start + seconds(20)), [""; 0]);
        assert_eq!(due(&mut patience, start + seconds(21)), ["a"]);
    }

    #[test]
    fn a_grace_may_change_while_it_runs_in_both_directions() {
        let start = Instant::now();
        let mut patience = GraceTimers::default();
        patience.begin("a", seconds(10), start);
        patience.set_grace(&"a", seconds(60));
        assert_eq!(due(&mut patience, start + seconds(59)), [""; 0]);
        patience.set_grace(&"a", seconds(5));
        assert_eq!(due(&mut patience, start + seconds(59)), ["a"]);
        patience.set_grace(&"a", Duration::MAX);
        assert_eq!(due(&mut patience, start + seconds(100_000)), [""; 0]);
        assert!(patience.end(&"a"));
        assert_eq!((patience.len(), patience.next_due()), (0, None));
    }
}
