//! What a controller has done that its cache does not show yet.
//!
//! A ReplicaSet that looked again before its new pods arrived in the cache would make them a second time. So it counts
//! what it asked for and waits until the watch has shown all of it, or so long that the news must be lost.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use tokio::time::Instant;

/// After this time the cache is believed whatever is missing.
const LOST_AFTER: Duration = Duration::from_secs(300);

/// Expected creations and deletions by owner.
#[derive(Default)]
pub(crate) struct Expectations {
    owners: Mutex<HashMap<NamespacedName, Expected>>,
}

struct Expected {
    creations: usize,
    deletions: HashSet<String>,
    since: Instant,
}

impl Expectations {
    /// Whether everything expected of an owner has been seen.
    pub(crate) fn are_met(&self, owner: &NamespacedName) -> bool {
        let mut owners = self.lock();
        let Some(expected) = owners.get(owner) else { return true };
        let met =
            expected.creations == 0 && expected.deletions.is_empty() || expected.since.elapsed() > LOST_AFTER;
        if met {
            owners.remove(owner);
        }
        met
    }

    /// `n` dependents will appear.
    pub(crate) fn expect_creations(&self, owner: &NamespacedName, n: usize) {
        if n > 0 {
            self.change(owner, |expected| expected.creations += n);
        }
    }

    /// Dependents with these uids will be deleted.
    pub(crate) fn expect_deletions(&self, owner: &NamespacedName, uids: impl IntoIterator<Item = String>) {
        self.change(owner, |expected| expected.deletions.extend(uids));
    }

    /// `n` dependents appeared, or will not appear after all.
    pub(crate) fn creations_seen(&self, owner: &NamespacedName, n: usize) {
        if let Some(expected) = self.lock().get_mut(owner) {
            expected.creations = expected.creations.saturating_sub(n);
        }
    }

    /// A dependent is being deleted, or could not be.
    pub(crate) fn deletion_seen(&self, owner: &NamespacedName, uid: &str) {
        if let Some(expected) = self.lock().get_mut(owner) {
            expected.deletions.remove(uid);
        }
    }

    /// The owner is gone.
    pub(crate) fn forget(&self, owner: &NamespacedName) {
        self.lock().remove(owner);
    }

    fn change(&self, owner: &NamespacedName, change: impl FnOnce(&mut Expected)) {
        let mut owners = self.lock();
        let expected = owners.entry(owner.clone()).or_insert_with(|| Expected {
            creations: 0,
            deletions: HashSet::new(),
            since: Instant::now(),
        });
        expected.since = Instant::now();
        change(expected);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NamespacedName, Expected>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_waits_for_all_that_was_asked_for() {
        let expectations = Expectations::default();
        let owner = NamespacedName::new("a", "x");
        assert!(expectations.are_met(&owner));
        expectations.expect_creations(&owner, 2);
        expectations.expect_deletions(&owner, ["1".into()]);
        for (seen, met) in [("creation", false), ("deletion", false), ("creation", true)] {
            match seen {
                "creation" => expectations.creations_seen(&owner, 1),
                _ => expectations.deletion_seen(&owner, "1"),
            }
            assert_eq!(expectations.are_met(&owner), met);
        }
        // A pod of this owner that another client created is not expected.
        expectations.creations_seen(&owner, 1);
        expectations.expect_creations(&owner, 1);
        assert!(!expectations.are_met(&owner));
    }
}
