//! Whether a node is heard of, and what is written about one that is not. Pure.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::view::{Condition, Lease, Node, find_condition};

/// Conditions that a node reports itself, and that are unknown while it is silent.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What was last heard of a node, and when by this process's clock: a node's own clock may be wrong.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    sign: (String, Option<Timestamp>),
    since: Instant,
}

impl Heard {
    /// Takes in the lease and the heartbeat of a node; either of them renewed is a sign of life. A node that is seen
    /// for the first time has just been heard of.
    pub(super) fn of(before: Option<&Heard>, node: &Node, lease: Option<&Lease>, now: Instant) -> Heard {
        let heartbeat =
            find_condition(&node.status.conditions, "Ready").and_then(|ready| ready.last_heartbeat_time);
        let sign = (lease.map(|lease| lease.spec.renew_time.clone()).unwrap_or_default(), heartbeat);
        match before {
            Some(before) if before.sign == sign => before.clone(),
            _ => Heard { sign, since: now },
        }
    }

    pub(super) fn is_silent(&self, grace: Duration, now: Instant) -> bool {
        now.duration_since(self.since) > grace
    }
}

/// The conditions to write about a node that is silent; none if they are written.
pub(super) fn unknown_conditions(node: &Node, now: Timestamp) -> Vec<Condition> {
    let unknown = |kind: &&str| {
        let (reason, message, before) = match find_condition(&node.status.conditions, kind) {
            Some(condition) if condition.status == "Unknown" => return None,
            Some(condition) => ("NodeStatusUnknown", "Kubelet stopped posting node status.", Some(condition)),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status.", None),
        };
        let mut condition = Condition::new(kind, "Unknown", reason, message, now);
        condition.last_heartbeat_time =
            before.map_or(node.metadata.creation_timestamp, |condition| condition.last_heartbeat_time);
        Some(condition)
    };
    REPORTED.iter().filter_map(unknown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_renewed_lease_or_a_heartbeat_is_a_sign_of_life() {
        let node = |heartbeat: &str| -> Node {
            serde_json::from_value(json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}}))
            .unwrap()
        };
        let lease = |renewed: &str| -> Lease {
            serde_json::from_value(json!({"spec": {"renewTime": renewed}})).unwrap()
        };
        let (t0, t1) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z");
        let start = Instant::now();
        let later = start + Duration::from_secs(50);
        let grace = Duration::from_secs(40);
        let first = Heard::of(None, &node(t0), Some(&lease(t0)), start);
        for (heartbeat, renewed, silent) in [(t0, t0, true), (t1, t0, false), (t0, t1, false)] {
            let heard = Heard::of(Some(&first), &node(heartbeat), Some(&lease(renewed)), later);
            assert_eq!(heard.is_silent(grace, later), silent, "{heartbeat} {renewed}");
        }
        assert!(!first.is_silent(grace, start + grace));
    }

    #[test]
    fn conditions_of_a_silent_node_are_unknown() {
        let node: Node = serde_json::from_value(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            {"type": "DiskPressure", "status": "Unknown"},
            {"type": "NetworkUnavailable", "status": "False"}]}}))
        .unwrap();
        let condition = unknown_conditions(&node, Timestamp::UNIX_EPOCH);
        let condition: Vec<_> =
            condition.iter().map(|c| (c.condition_type.as_str(), c.reason.as_str())).collect();
        let never = "NodeStatusNeverUpdated";
        assert_eq!(
            condition,
            [("Ready", "NodeStatusUnknown"), ("MemoryPressure", never), ("PIDPressure", never)]
        );
    }
}
