//! Holding the state against fresh lists from time to time.
//!
//! A difference between a list and the state may be a change that is still on its way. One that two lists in a row
//! show alike, some seconds apart, is an error: it is counted, logged and mended. There should be none, ever.

use std::collections::HashSet;
use std::sync::Arc;

use berth_client::Event;
use tokio::time::Instant;

use super::Scheduler;
use berth_mirror::sources::Fresh;

/// How many differences are named in the log.
const NAMED: usize = 5;

impl Scheduler {
    pub(super) fn compare_if_due(&mut self, now: Instant) {
        if now < self.next_resync || !self.waits_for.is_empty() {
            return;
        }
        self.next_resync = now + self.options.resync_interval;
        self.sources.list_fresh();
    }

    /// Pods that ought to wait here and do not, by uid.
    fn lost(&self, fresh: &Fresh) -> Vec<String> {
        let is_lost = |pod: &&berth_api::object::Pod| {
            let metadata = &pod.metadata;
            let is_known = self
                .feed
                .pod(&metadata.namespace, &metadata.name)
                .is_some_and(|memo| *memo.uid == *metadata.uid);
            self.waits_here(pod) && !self.by_uid.contains_key(metadata.uid.as_str()) && !is_known
        };
        fresh.pods.iter().filter(is_lost).map(|pod| pod.metadata.uid.clone()).collect()
    }

    pub(super) fn compare(&mut self, fresh: &Fresh) {
        let nodes = self.feed.compare_nodes(&fresh.nodes);
        let pods = self.feed.compare_pods(&self.cluster, &fresh.pods);
        let lost = self.lost(fresh);
        let Some((nodes_before, pods_before, lost_before)) = self.suspects.take() else {
            if !nodes.is_empty() || !pods.is_empty() || !lost.is_empty() {
                self.suspects = Some((nodes, pods, lost));
                self.next_resync = Instant::now() + self.options.resync_grace;
            }
            return;
        };
        let nodes: HashSet<_> = nodes.intersection(&nodes_before).cloned().collect();
        let pods: HashSet<_> = pods.intersection(&pods_before).cloned().collect();
        let lost: HashSet<_> = lost.into_iter().filter(|uid| lost_before.contains(uid)).collect();
        for (kind, n) in [("node", nodes.len()), ("pod", pods.len()), ("waiting_pod", lost.len())] {
            if n > 0 {
                self.metrics.differed(kind, n as u64);
                self.shown.n_differences += n as u64;
            }
        }
        let named: Vec<&str> = nodes.iter().chain(&pods).map(|d| d.key.as_str()).take(NAMED).collect();
        if !nodes.is_empty() || !pods.is_empty() || !lost.is_empty() {
            tracing::error!(
                nodes = nodes.len(),
                pods = pods.len(),
                waiting = lost.len(),
                first = named.join(", "),
                "the state differs from what the server has, and is mended"
            );
        }
        if !nodes.is_empty() {
            self.feed.nodes(&mut self.cluster, Event::Restarted(fresh.nodes.clone()));
        }
        if !pods.is_empty() {
            self.feed.mend_pods(&mut self.cluster, &fresh.pods, &pods);
        }
        for pod in fresh.pods.iter().filter(|pod| lost.contains(&pod.metadata.uid)) {
            self.pod_applied(Arc::new(pod.clone()));
        }
    }
}
