//! Since when rules are broken, as a state has seen it.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::{Cluster, Violation, ViolationKey};
use jiff::Timestamp;

/// The broken rules that are required during execution, each with the time at which it was first seen broken.
#[derive(Clone, Default)]
pub(crate) struct BrokenSince(BTreeMap<ViolationKey, Timestamp>);

impl BrokenSince {
    /// Takes note of what has changed in a cluster, at a cost that follows the changes.
    pub(crate) fn follow(&mut self, cluster: &mut Cluster, now: Timestamp) {
        cluster.watch_violations();
        let changes = cluster.violation_changes();
        for key in &changes.ended {
            self.0.remove(key);
        }
        for violation in &changes.began {
            self.0.entry(violation.key()).or_insert(now);
        }
    }

    /// Forgets rules that hold in a cluster that was not followed so far.
    pub(crate) fn retain_broken(&mut self, cluster: &Cluster) {
        let broken: BTreeSet<ViolationKey> = cluster.violations().iter().map(Violation::key).collect();
        self.0.retain(|key, _| broken.contains(key));
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, key: &ViolationKey) -> Option<Timestamp> {
        self.0.get(key).copied()
    }
}
