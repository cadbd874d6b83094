//! Pods that share a claim write it one after the other: of requests at the same time, all but one would be refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use berth_api::object::NamespacedName;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The claims that are being written.
#[derive(Clone, Default)]
pub(super) struct ClaimLocks(Arc<Mutex<Locks>>);

#[derive(Default)]
struct Locks {
    by_claim: HashMap<NamespacedName, Weak<AsyncMutex<()>>>,
    /// When there are this many, those that are not locked are removed.
    sweep_at: usize,
}

impl ClaimLocks {
    /// Waits until no other pod writes the claim.
    pub(super) async fn lock(&self, claim: &NamespacedName) -> OwnedMutexGuard<()> {
        self.of(claim).lock_owned().await
    }

    fn of(&self, claim: &NamespacedName) -> Arc<AsyncMutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.by_claim.get(claim).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.by_claim.len() >= locks.sweep_at {
            locks.by_claim.retain(|_, lock| lock.strong_count() > 0);
            locks.sweep_at = 64.max(2 * locks.by_claim.len());
        }
        let lock = Arc::default();
        locks.by_claim.insert(claim.clone(), Arc::downgrade(&lock));
        lock
    }
}
