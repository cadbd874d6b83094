//! Timers of all nodes and pods in one queue.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// Items by due time; items of the same time are returned in the order in which they were added.
///
/// Items cannot be removed: the agent ignores an item whose epoch is outdated.
pub(crate) struct Timers<T> {
    items: BTreeMap<(Instant, u64), T>,
    n_added: u64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Timers { items: BTreeMap::new(), n_added: 0 }
    }

    pub(crate) fn add(&mut self, due: Instant, item: T) {
        self.n_added += 1;
        self.items.insert((due, self.n_added), item);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.items.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes the first item if it is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        self.items.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn items_are_ordered_by_due_time_and_then_by_insertion() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut timers = Timers::new();
        for (due, item) in [(2, "c"), (1, "a"), (1, "b"), (3, "d")] {
            timers.add(at(due), item);
        }
        assert_eq!(timers.pop(start), None);
        assert_eq!(timers.next_due(), Some(at(1)));
        let due: Vec<_> = std::iter::from_fn(|| timers.pop(at(2))).collect();
        assert_eq!(due, ["a", "b", "c"]);
        assert_eq!(timers.next_due(), Some(at(3)));
    }
}
