//! The backoff before a failed pod is replaced, as kube-controller-manager's for the failed pods of DaemonSets: it doubles with
//! each failure in the same place, a node or a name.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use tokio::time::Instant;

/// Initial and maximum backoff.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(900));
/// A place without a failure for this long has no backoff.
const FORGET_AFTER: Duration = Duration::from_secs(1800);

/// The failures of the pods of some owners, by owner and place.
#[derive(Default)]
pub(crate) struct FailedPods(Mutex<HashMap<(NamespacedName, String), Failures>>);

/// Consecutive failures in one place.
struct Failures {
    wait: Duration,
    last: Instant,
}

impl FailedPods {
    /// How long a failed pod stays; `None` if it is replaced now, which counts as a failure.
    pub(crate) fn backoff(&self, owner: &NamespacedName, place: &str, now: Instant) -> Option<Duration> {
        let mut failures = self.lock();
        failures.retain(|_, failed| now - failed.last < FORGET_AFTER);
        let id = (owner.clone(), place.to_owned());
        let failed = failures.get(&id);
        let left = failed.map(|failed| failed.wait.saturating_sub(now - failed.last));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Some(left);
        }
        let wait = failed.map_or(BACKOFF.0, |failed| (failed.wait * 2).min(BACKOFF.1));
        failures.insert(id, Failures { wait, last: now });
        None
    }

    /// Forgets the failures of an owner that is gone.
    pub(crate) fn forget(&self, owner: &NamespacedName) {
        self.lock().retain(|(of, _), _| of != owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(NamespacedName, String), Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_of_a_place_doubles_with_each_failure_up_to_a_limit() {
        let (failed, owner) = (FailedPods::default(), NamespacedName::new("a", "set"));
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
        failed.forget(&owner);
        assert_eq!(failed.backoff(&owner, "node-1", now), None);
    }
}
