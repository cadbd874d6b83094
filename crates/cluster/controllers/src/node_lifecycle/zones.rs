//! The eviction rate for nodes that are not ready, per zone. Pure.
//!
//! The controller evicts the pods of a few failed nodes soon. If half of a zone fails at once, moving all pods costs
//! more than waiting. If every zone is down, the controller's own connection has most likely failed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use berth_api::syntax::labels::{REGION, ZONE};
use tokio::time::Instant;

use super::taints::{Evict, eviction_taint, is_evicting};
use crate::options::ControllerOptions;
use crate::view::Node;

/// Region and zone of a node; both empty without the labels.
pub(super) fn zone_of(node: &Node) -> String {
    let label = |key| node.metadata.label(key).unwrap_or_default();
    format!("{}:{}", label(REGION), label(ZONE))
}

/// The disruption state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disruption {
    None,
    Partial,
    Full,
}

fn disruption(n_ready: usize, n_not_ready: usize, threshold: f64) -> Disruption {
    let share = n_not_ready as f64 / (n_ready + n_not_ready).max(1) as f64;
    match (n_ready, n_not_ready) {
        (0, 1..) => Disruption::Full,
        (_, 3..) if share >= threshold => Disruption::Partial,
        _ => Disruption::None,
    }
}

/// When the pods of the next node in each zone may be evicted.
#[derive(Default)]
pub(super) struct Zones {
    next: HashMap<String, Instant>,
}

impl Zones {
    /// Decides for each node, by name. `now` is the current time.
    pub(super) fn decide<'a>(
        &mut self,
        nodes: &[&'a Node],
        options: &ControllerOptions,
        now: Instant,
    ) -> BTreeMap<&'a str, Evict> {
        let mut zones: BTreeMap<String, Vec<&'a Node>> = BTreeMap::new();
        for node in nodes {
            zones.entry(zone_of(node)).or_default().push(node);
        }
        let disruption_of = |nodes: &[&Node]| {
            let n_not_ready = nodes.iter().filter(|node| eviction_taint(node).is_some()).count();
            disruption(nodes.len() - n_not_ready, n_not_ready, options.unhealthy_zone_threshold)
        };
        let all_down =
            !zones.is_empty() && zones.values().all(|nodes| disruption_of(nodes) == Disruption::Full);
        self.next.retain(|zone, _| zones.contains_key(zone));
        let mut decisions = BTreeMap::new();
        for (zone, mut nodes) in zones {
            let rate = match disruption_of(&nodes) {
                Disruption::None | Disruption::Full => options.node_eviction_rate,
                Disruption::Partial if nodes.len() > options.large_cluster_size_threshold => {
                    options.secondary_node_eviction_rate
                }
                Disruption::Partial => 0.0,
            };
            nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            for node in nodes {
                let waits = eviction_taint(node).is_some() && !is_evicting(node);
                let decision = match (all_down, waits) {
                    (true, _) => Evict::Never,
                    (false, true) if self.take(&zone, rate, now) => Evict::Now,
                    _ => Evict::Keep,
                };
                decisions.insert(&*node.metadata.name, decision);
            }
        }
        decisions
    }

    /// Uses the zone's eviction turn, if it is due.
    fn take(&mut self, zone: &str, rate: f64, now: Instant) -> bool {
        let pause = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
        if rate <= 0.0 || self.next.get(zone).is_some_and(|next| *next > now) {
            return false;
        }
        let next = self.next.get(zone).copied().unwrap_or(now);
        // Catches up on turns missed between two rounds (up to 5 s); a longer pause does not accumulate turns.
        let from = if now.duration_since(next) > Duration::from_secs(5) { now } else { next };
        if let Some(next) = from.checked_add(pause) {
            self.next.insert(zone.to_owned(), next);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, ready: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    /// Nodes of zones `a` and `b`, this many ready and not ready. Returns how many nodes of each are evicted at once, and
    /// how many never.
    fn decided(a: (usize, usize), b: (usize, usize)) -> (usize, usize, usize) {
        let mut nodes = Vec::new();
        for (zone, (ready, not_ready)) in [("a", a), ("b", b)] {
            nodes.extend((0..ready).map(|i| node(&format!("{zone}-r{i}"), zone, "True")));
            nodes.extend((0..not_ready).map(|i| node(&format!("{zone}-n{i}"), zone, "Unknown")));
        }
        let nodes: Vec<&Node> = nodes.iter().collect();
        let decisions = Zones::default().decide(&nodes, &ControllerOptions::default(), Instant::now());
        let n = |zone: &str, decision| {
            decisions.iter().filter(|(name, d)| name.starts_with(zone) && **d == decision).count()
        };
        (n("a", Evict::Now), n("b", Evict::Now), n("", Evict::Never))
    }

    #[test]
    fn zones_that_fail_as_a_whole_are_not_evicted() {
        for (a, b, expected) in [
            ((3, 0), (3, 0), (0, 0, 0)),
            ((3, 1), (3, 1), (1, 1, 0)),
            // One node per turn.
            ((9, 3), (3, 0), (1, 0, 0)),
            // Most of a small zone.
            ((1, 3), (3, 0), (0, 0, 0)),
            // Most of a large zone: reduced rate.
            ((20, 40), (3, 0), (1, 0, 0)),
            // A whole zone, while the others are healthy.
            ((0, 3), (3, 0), (1, 0, 0)),
            // All zones.
            ((0, 3), (0, 1), (0, 0, 4)),
        ] {
            assert_eq!(decided(a, b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn evictions_keep_to_the_rate() {
        let mut zones = Zones::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let turns: Vec<bool> = [0, 1, 9, 10, 11, 40, 41, 50].map(|s| zones.take("a", 0.1, at(s))).into();
        assert_eq!(turns, [true, false, false, true, false, true, false, true]);
        assert!(!zones.take("b", 0.0, start));
    }
}
