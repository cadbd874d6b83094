//! Pods that are moved: the node of each is nominated for its replacement.
//!
//! The enforcer says in a condition of a pod where its replacement is to go before it evicts the pod. The condition and the
//! replacement come by the same watch, in this order.

use std::collections::HashMap;
use std::time::Duration;

use berth_api::object::placement::MOVE_CONDITION;
use berth_api::object::{Pod, find_condition};
use tokio::time::Instant;

/// A replacement that comes later goes where it wants.
const EXPECTED_FOR: Duration = Duration::from_secs(600);

/// A replacement that is to come.
struct Expected {
    /// `metadata.uid` of the pod that is moved.
    moved: String,
    node: String,
    /// Whether that pod is gone, or going.
    is_going: bool,
    until: Instant,
}

/// The replacements that are to come, by the uid of the controller that creates them.
#[derive(Default)]
pub(crate) struct ExpectedReplacements {
    by_controller: HashMap<String, Vec<Expected>>,
}

impl ExpectedReplacements {
    /// A pod with a node was added or changed.
    pub(crate) fn pod_applied(&mut self, pod: &Pod, now: Instant) {
        let condition = find_condition(&pod.status.conditions, MOVE_CONDITION);
        let (Some(condition), Some(controller)) = (condition, pod.metadata.controller()) else { return };
        self.by_controller.retain(|_, expected| {
            expected.retain(|one| one.until > now && one.moved != pod.metadata.uid);
            !expected.is_empty()
        });
        if condition.is_true() {
            self.by_controller.entry(controller.uid.clone()).or_default().push(Expected {
                moved: pod.metadata.uid.clone(),
                node: condition.message.clone(),
                is_going: pod.metadata.is_deleting(),
                until: now + EXPECTED_FOR,
            });
        }
    }

    pub(crate) fn pod_deleted(&mut self, uid: &str) {
        let expected = self.by_controller.values_mut().flatten();
        expected.filter(|one| one.moved == uid).for_each(|one| one.is_going = true);
    }

    /// The node that a new pod is to go to, once.
    pub(crate) fn take(&mut self, pod: &Pod, now: Instant) -> Option<String> {
        let expected = self.by_controller.get_mut(&pod.metadata.controller()?.uid)?;
        let at = expected.iter().position(|one| one.is_going && one.until > now)?;
        Some(expected.remove(at).node)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, controller: &str, target: Option<&str>) -> Pod {
        let status = target.map_or("False", |_| "True");
        serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid, "ownerReferences":
                [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": controller, "controller": true}]},
            "status": {"conditions": [{"type": MOVE_CONDITION, "status": status, "message": target}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_next_pod_of_the_controller_goes_to_the_target_when_the_moved_one_goes() {
        let (mut expected, now) = (ExpectedReplacements::default(), Instant::now());
        expected.pod_applied(&pod("a", "web", Some("n1")), now);
        let new = pod("new", "web", None);
        assert_eq!(expected.take(&new, now), None, "the pod stays so far");
        expected.pod_deleted("another");
        assert_eq!(expected.take(&new, now), None);
        expected.pod_deleted("a");
        assert_eq!(expected.take(&pod("other", "db", None), now), None);
        assert_eq!(expected.take(&new, now + EXPECTED_FOR), None, "too late");
        assert_eq!(expected.take(&new, now).as_deref(), Some("n1"));
        assert_eq!(expected.take(&new, now), None, "once");
        // It is not evicted after all.
        let mut going = pod("b", "web", Some("n2"));
        going.metadata.deletion_timestamp = "2027-01-15T08:10:00Z".parse().ok();
        expected.pod_applied(&going, now);
        expected.pod_applied(&pod("b", "web", None), now);
        assert_eq!(expected.take(&new, now), None);
        expected.pod_applied(&going, now);
        assert_eq!(expected.take(&new, now).as_deref(), Some("n2"));
    }
}
