//! The turns of nodes that are not ready, per zone. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use berth_control::taints::{Evict, eviction_taint, is_eviction};
use berth_control::zones::{EvictionRates, Zone, zone_of};
use tokio::time::Instant;

use crate::view::Node;

fn is_ready(node: &Node) -> bool {
    eviction_taint(&|condition, status| node.holds(condition, status)).is_none()
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
        rates: &EvictionRates,
        now: Instant,
    ) -> BTreeMap<&'a str, Evict> {
        let mut zones: BTreeMap<String, Vec<&'a Node>> = BTreeMap::new();
        for node in nodes {
            let (region, zone) = zone_of(&node.metadata);
            zones.entry(format!("{region}:{zone}")).or_default().push(node);
        }
        let state = |nodes: &[&Node]| Zone {
            n_nodes: nodes.len(),
            n_not_ready: nodes.iter().filter(|node| !is_ready(node)).count(),
        };
        let all_down = !zones.is_empty() && zones.values().all(|nodes| state(nodes).is_down());
        self.next.retain(|zone, _| zones.contains_key(zone));
        let mut decisions = BTreeMap::new();
        for (zone, mut nodes) in zones {
            let rate = rates.of(state(&nodes));
            nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            for node in nodes {
                let waits =
                    !is_ready(node) && !node.spec.taints.iter().any(|taint| is_eviction(&taint.taint));
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
        let decisions = Zones::default().decide(&nodes, &EvictionRates::default(), Instant::now());
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
