//! The backoff before a failed pod is replaced, as kube-controller-manager's for the failed pods of DaemonSets: it doubles with
//! each failure in the same place, a node or a name, and starts again when the owner's specification changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use tokio::time::Instant;

use super::view::ObjectMeta;

/// Initial and maximum backoff.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(900));
/// A place without a failure for this long has no backoff.
const FORGET_AFTER: Duration = Duration::from_secs(1800);

/// The failures of the pods of some owners, by owner and place.
#[derive(Default)]
pub(crate) struct FailedPods(Mutex<HashMap<(NamespacedName, String), Failures>>);

struct Failures {
    of: Version,
    wait: Duration,
    last: Instant,
}

/// The uid and generation of an owner: failures of another object, or with another specification, do not count.
#[derive(PartialEq, Eq)]
pub(crate) struct Version(String, i64);

impl Version {
    pub(crate) fn of(owner: &ObjectMeta) -> Self {
        Version(owner.uid.clone(), owner.generation)
    }

    pub(crate) fn is_same_object(&self, other: &Version) -> bool {
        self.0 == other.0
    }
}

impl Failures {
    fn count_for(&self, owner: &ObjectMeta, now: Instant) -> bool {
        self.of.0 == owner.uid && self.of.1 == owner.generation && now - self.last < FORGET_AFTER
    }
}

impl FailedPods {
    /// How long a failed pod stays; `None` if it is replaced now, which counts as a failure.
    pub(crate) fn backoff(&self, owner: &ObjectMeta, place: &str, now: Instant) -> Option<Duration> {
        let left = self.left(owner, place, now);
        if left.is_none() {
            self.fail(owner, place, now);
        }
        left
    }

    /// What is left of the backoff in a place.
    pub(crate) fn left(&self, owner: &ObjectMeta, place: &str, now: Instant) -> Option<Duration> {
        let failures = self.lock();
        let failed = failures.get(&id(owner, place)).filter(|failed| failed.count_for(owner, now))?;
        Some(failed.wait.saturating_sub(now - failed.last)).filter(|left| !left.is_zero())
    }

    pub(crate) fn fail(&self, owner: &ObjectMeta, place: &str, now: Instant) {
        let mut failures = self.lock();
        let id = id(owner, place);
        let failed = failures.get(&id).filter(|failed| failed.count_for(owner, now));
        let wait = failed.map_or(BACKOFF.0, |failed| (failed.wait * 2).min(BACKOFF.1));
        failures.insert(id, Failures { of: Version::of(owner), wait, last: now });
    }

    /// Frees the memory of old failures. For controllers that found failed pods, once per sync: it looks at all owners.
    pub(crate) fn sweep(&self, now: Instant) {
        self.lock().retain(|_, failed| now - failed.last < FORGET_AFTER);
    }

    pub(crate) fn succeed(&self, owner: &ObjectMeta, place: &str) {
        self.lock().remove(&id(owner, place));
    }

    /// Forgets the failures of an owner that is gone.
    pub(crate) fn forget(&self, owner: &NamespacedName) {
        self.lock().retain(|(of, _), _| of != owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(NamespacedName, String), Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

fn id(owner: &ObjectMeta, place: &str) -> (NamespacedName, String) {
    (owner.namespaced_name(), place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, generation: i64) -> ObjectMeta {
        let (name, namespace) = ("set".to_owned(), "a".to_owned());
        ObjectMeta { name, namespace, uid: uid.to_owned(), generation, ..ObjectMeta::default() }
    }

    #[test]
    fn the_backoff_of_a_place_doubles_with_each_failure_up_to_a_limit() {
        let (failed, owner) = (FailedPods::default(), owner("1", 1));
        let (mut waits, mut now) = (Vec::new(), Instant::now());
        for _ in 0..12 {
            assert_eq!(failed.backoff(&owner, "node-1", now), None);
            let wait = failed.backoff(&owner, "node-1", now).expect("it just failed");
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        assert_eq!(failed.backoff(&owner, "node-2", now), None, "another place");
        now += FORGET_AFTER;
        failed.backoff(&owner, "node-1", now);
        assert_eq!(failed.backoff(&owner, "node-1", now), Some(BACKOFF.0));
        failed.forget(&owner.namespaced_name());
        assert_eq!(failed.backoff(&owner, "node-1", now), None);
    }

    #[test]
    fn failures_of_another_object_or_specification_do_not_count() {
        let (failed, now) = (FailedPods::default(), Instant::now());
        for (uid, generation) in [("1", 1), ("1", 2), ("2", 2)] {
            assert_eq!(failed.backoff(&owner(uid, generation), "node-1", now), None, "{uid} {generation}");
            let left = failed.left(&owner(uid, generation), "node-1", now);
            assert_eq!(left, Some(BACKOFF.0), "{uid} {generation}");
        }
    }

    #[test]
    fn the_backoff_of_many_failed_pods_does_not_sweep_once_for_each() {
        let (failed, owner) = (FailedPods::default(), owner("1", 1));
        let start = Instant::now();
        failed.backoff(&owner, "old", start);
        let now = start + FORGET_AFTER;
        failed.backoff(&owner, "node-1", now);
        assert_eq!(failed.len(), 2, "only a sweep looks at other places");
        failed.sweep(now);
        assert_eq!(failed.len(), 1);
        assert_eq!(failed.left(&owner, "node-1", now), Some(BACKOFF.0));
    }
}
