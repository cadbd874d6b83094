//! Node health from heartbeats, and the conditions of an unreachable node. Pure.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::view::{Condition, Lease, Node, find_condition};

/// Conditions that the node reports; they become unknown while its heartbeats are missing.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The last heartbeat of a node, by this process's clock: the node's own clock may be wrong.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    sign: (String, Option<Timestamp>),
    since: Instant,
}

impl Heard {
    /// Updates with the lease and the status heartbeat of a node; a renewal of either is a heartbeat. A new node
    /// counts as healthy now.
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

/// The conditions to write for a node without heartbeats; none if they are already written.
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
    fn lease_or_status_renewal_is_a_heartbeat() {
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
    fn conditions_of_an_unreachable_node_are_unknown() {
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
