//! Holding the state against fresh lists from time to time.
//!
//! A difference between a list and the state may be a change that is still on its way. One that two lists in a row
//! show alike, some seconds apart, is an error: it is counted, logged and mended. There should be none, ever.

use std::collections::HashSet;

use berth_client::Event;
use berth_mirror::sources::Fresh;
use tokio::time::Instant;

use super::Enforcer;

/// How many differences are named in the log.
const NAMED: usize = 5;

impl Enforcer {
    pub(super) fn compare_if_due(&mut self, now: Instant) {
        if now < self.next_resync || !self.waits_for.is_empty() {
            return;
        }
        self.next_resync = now + self.options.resync_interval;
        self.sources.list_fresh();
    }

    pub(super) fn compare(&mut self, fresh: &Fresh) {
        let nodes = self.feed.compare_nodes(&fresh.nodes);
        let pods = self.feed.compare_pods(&self.cluster, &fresh.pods);
        let Some((nodes_before, pods_before)) = self.suspects.take() else {
            if !nodes.is_empty() || !pods.is_empty() {
                self.suspects = Some((nodes, pods));
                self.next_resync = Instant::now() + self.options.resync_grace;
            }
            return;
        };
        let nodes: HashSet<_> = nodes.intersection(&nodes_before).cloned().collect();
        let pods: HashSet<_> = pods.intersection(&pods_before).cloned().collect();
        if nodes.is_empty() && pods.is_empty() {
            return;
        }
        for (kind, n) in [("node", nodes.len()), ("pod", pods.len())] {
            if n > 0 {
                self.metrics.differed(kind, n as u64);
                self.shown.n_differences += n as u64;
            }
        }
        let named: Vec<&str> = nodes.iter().chain(&pods).map(|d| d.key.as_str()).take(NAMED).collect();
        tracing::error!(
            nodes = nodes.len(),
            pods = pods.len(),
            first = named.join(", "),
            "the state differs from what the server has, and is mended"
        );
        if !nodes.is_empty() {
            self.feed.nodes(&mut self.cluster, Event::Restarted(fresh.nodes.clone()));
        }
        if !pods.is_empty() {
            let wrong: HashSet<&str> = pods.iter().map(|d| d.key.as_str()).collect();
            for (namespace, name, uid) in self.feed.pods_not_in(&fresh.pods) {
                if wrong.contains(format!("{namespace}/{name}").as_str()) {
                    self.pod_gone(&namespace, &name, &uid);
                }
            }
            self.feed.mend_pods(&mut self.cluster, &fresh.pods, &pods);
            let concerned = fresh.pods.iter().filter(|pod| wrong.contains(pod.key().as_str()));
            concerned.for_each(|pod| self.pod_applied(pod));
        }
        self.judge_soon(Instant::now());
    }
}
