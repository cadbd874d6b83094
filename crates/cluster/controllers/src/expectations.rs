//! Creations and deletions that the cache does not show yet.
//!
//! If a ReplicaSet synced before its new pods reached the cache, it would create them twice. The controller counts the
//! requested changes and waits until the watch has shown all of them, or until a timeout.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use tokio::time::Instant;

use super::queue::Queue;

/// After this time the controller trusts the cache even if changes are missing.
const LOST_AFTER: Duration = Duration::from_secs(300);

pub(crate) struct Expectations {
    owners: Mutex<HashMap<NamespacedName, Expected>>,
    lost_after: Duration,
}

impl Default for Expectations {
    fn default() -> Self {
        Expectations { owners: Mutex::default(), lost_after: LOST_AFTER }
    }
}

struct Expected {
    creations: usize,
    deletions: HashSet<String>,
    since: Instant,
}

impl Expectations {
    /// Whether all expected changes of an owner have been seen. If not, the queue returns the owner when they count as lost:
    /// a pod that was created and deleted while the watch was interrupted is never seen.
    pub(crate) fn are_met(&self, owner: &NamespacedName, queue: &Queue<NamespacedName>) -> bool {
        let mut owners = self.lock();
        let Some(expected) = owners.get(owner) else { return true };
        let left = self.lost_after.saturating_sub(expected.since.elapsed());
        let met = expected.creations == 0 && expected.deletions.is_empty() || left.is_zero();
        if met {
            owners.remove(owner);
        } else {
            queue.add_after(owner.clone(), left);
        }
        met
    }

    pub(crate) fn expect_creations(&self, owner: &NamespacedName, n: usize) {
        if n > 0 {
            self.change(owner, |expected| expected.creations += n);
        }
    }

    pub(crate) fn expect_deletions(&self, owner: &NamespacedName, uids: impl IntoIterator<Item = String>) {
        self.change(owner, |expected| expected.deletions.extend(uids));
    }

    /// `n` dependents appeared, or their creation failed.
    pub(crate) fn creations_seen(&self, owner: &NamespacedName, n: usize) {
        if let Some(expected) = self.lock().get_mut(owner) {
            expected.creations = expected.creations.saturating_sub(n);
        }
    }

    /// A dependent is terminating, or its deletion failed.
    pub(crate) fn deletion_seen(&self, owner: &NamespacedName, uid: &str) {
        if let Some(expected) = self.lock().get_mut(owner) {
            expected.deletions.remove(uid);
        }
    }

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
    fn an_owner_waits_for_all_expected_changes() {
        let (expectations, queue) = (Expectations::default(), Queue::default());
        let owner = NamespacedName::new("a", "x");
        assert!(expectations.are_met(&owner, &queue));
        expectations.expect_creations(&owner, 2);
        expectations.expect_deletions(&owner, ["1".into()]);
        for (seen, met) in [("creation", false), ("deletion", false), ("creation", true)] {
            match seen {
                "creation" => expectations.creations_seen(&owner, 1),
                _ => expectations.deletion_seen(&owner, "1"),
            }
            assert_eq!(expectations.are_met(&owner, &queue), met);
        }
        // A pod of this owner that another client created is not expected.
        expectations.creations_seen(&owner, 1);
        expectations.expect_creations(&owner, 1);
        assert!(!expectations.are_met(&owner, &queue));
    }

    #[tokio::test]
    async fn an_owner_returns_to_the_queue_when_a_pod_never_appears() {
        let lost_after = Duration::from_millis(100);
        let (expectations, queue) =
            (Expectations { lost_after, ..Expectations::default() }, Queue::default());
        let owner = NamespacedName::new("a", "x");
        expectations.expect_creations(&owner, 1);
        while !expectations.are_met(&owner, &queue) {
            let next = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
            assert_eq!(next.as_ref(), Ok(&owner));
            queue.done(&owner, Duration::ZERO);
        }
    }
}
