//! What has happened in a cluster since the state follows it.

use std::collections::HashSet;

use berth_api::object::{NamespacedName, Pod};
use berth_simulate::replay::{Timeline, is_evicted};
use jiff::Timestamp;

/// The timeline of a cluster that changes.
#[derive(Clone, Default)]
pub(crate) struct LiveTimeline {
    pub(crate) timeline: Timeline,
    /// Pods whose eviction is counted, until they are removed.
    evicted: HashSet<NamespacedName>,
}

/// The first length of intervals. At the end of each, the broken rules are counted, which takes time in large clusters.
const SECONDS: i64 = 8;

impl LiveTimeline {
    /// Begins, unless it has begun.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.timeline.begin(now, SECONDS);
    }

    /// A pod is as it is now; it was pending before, or not.
    pub(crate) fn pod_changed(&mut self, name: &NamespacedName, pod: &Pod, was_pending: bool) {
        if was_pending && !pod.spec.node_name.is_empty() {
            self.timeline.add_decisions(1);
        }
        if is_evicted(pod) && self.evicted.insert(name.clone()) {
            self.timeline.add_evictions(1);
        }
    }

    pub(crate) fn pod_removed(&mut self, name: &NamespacedName) {
        self.evicted.remove(name);
    }
}
