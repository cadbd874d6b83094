//! Pods that were allowed to be bound and have not been seen there yet.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// A pod with an allowed binding that the state does not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub node: String,
    /// Until when it counts, unless it is seen before.
    pub until: Instant,
}

/// By namespace and name.
#[derive(Default)]
pub(crate) struct Holds {
    held: HashMap<String, Hold>,
    /// In the order in which they end. One that has ended otherwise is skipped.
    ends: VecDeque<(Instant, String)>,
}

impl Holds {
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Hold> {
        self.held.get(key)
    }

    pub(crate) fn insert(&mut self, key: String, hold: Hold) {
        // Nearly always the last: a renewed hold is inserted by its time.
        let at = self.ends.partition_point(|(until, _)| *until <= hold.until);
        self.ends.insert(at, (hold.until, key.clone()));
        self.held.insert(key, hold);
    }

    /// Returns whether it was held.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        self.held.remove(key).is_some()
    }

    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Hold> {
        let mut expired = Vec::new();
        while let Some((until, _)) = self.ends.front()
            && *until <= now
        {
            let Some((until, key)) = self.ends.pop_front() else { break };
            if self.held.get(&key).is_some_and(|hold| hold.until == until) {
                expired.extend(self.held.remove(&key));
            }
        }
        expired
    }
}
