//! Names of changed objects, for a task that handles them later.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use berth_api::object::NamespacedName;
use tokio::sync::Notify;

/// The names that handlers of informers add, each once. Its size is bounded by the number of objects, however slow the
/// task is.
#[derive(Debug, Default)]
pub struct ChangedKeys {
    keys: Mutex<BTreeSet<NamespacedName>>,
    changed: Notify,
}

impl ChangedKeys {
    pub fn add(&self, key: NamespacedName) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        self.changed.notify_one();
    }

    /// Waits until there are names, and takes them all. Cancel safe. For one task.
    pub async fn take(&self) -> BTreeSet<NamespacedName> {
        loop {
            let taken = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken;
            }
            // A notification that came before this line is kept.
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_name_is_taken_once_and_no_addition_is_missed() {
        let keys = ChangedKeys::default();
        assert!(keys.take().now_or_never().is_none());
        for name in ["b", "a", "b"] {
            keys.add(NamespacedName::new("n", name));
        }
        let taken = keys.take().now_or_never().unwrap();
        assert_eq!(taken.iter().map(NamespacedName::name).collect::<Vec<_>>(), ["a", "b"]);
        // The notification of the taken names is left: it must not count as a change.
        assert!(keys.take().now_or_never().is_none());
        keys.add(NamespacedName::new("n", "c"));
        assert_eq!(keys.take().now_or_never().unwrap().len(), 1);
    }
}
