//! Conditions of a status. All kinds share one type: it has the fields of every one of them.

use berth_api_macros::object_type;
use jiff::Timestamp;

use super::{is_zero, nullable, time};

/// A condition of a status.
#[object_type(Eq, Hash)]
pub struct Condition {
    /// Which condition, such as `Ready`.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The generation of the object that the condition was found for; 0 when not given.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods and Jobs: when the condition was last checked.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// Deployments: when anything of the condition changed last.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// Nodes: when the kubelet last reported the condition.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// The reason in one word.
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
}

impl Condition {
    /// A condition whose status changed at `now`.
    pub fn new(
        condition_type: &str,
        status: &str,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Condition {
        Condition {
            condition_type: condition_type.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(now),
            reason: reason.to_owned(),
            message: message.into(),
            ..Condition::default()
        }
    }

    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

pub fn find_condition<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.condition_type == condition_type)
}

/// Sets a condition as the deployment controller's `SetDeploymentCondition` does: one with the same status and reason
/// stays as it is, one with the same status keeps its transition time.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(old) = find_condition(conditions, &new.condition_type) {
        if old.status == new.status && old.reason == new.reason {
            return;
        }
        if old.status == new.status {
            new.last_transition_time = old.last_transition_time;
        }
    }
    remove_condition(conditions, &new.condition_type);
    conditions.push(new);
}

pub fn remove_condition(conditions: &mut Vec<Condition>, condition_type: &str) {
    conditions.retain(|condition| condition.condition_type != condition_type);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_is_the_same() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = vec![Condition::new("Ready", "True", "A", "first", at(1))];
        for (status, reason, changed, message) in
            [("True", "A", 1, "first"), ("True", "B", 1, "next"), ("False", "B", 9, "next")]
        {
            set_condition(&mut conditions, Condition::new("Ready", status, reason, "next", at(9)));
            let condition = find_condition(&conditions, "Ready").unwrap();
            assert_eq!((conditions.len(), &*condition.message), (1, message));
            assert_eq!(condition.last_transition_time, Some(at(changed)), "{status} {reason}");
        }
        remove_condition(&mut conditions, "Ready");
        assert_eq!(find_condition(&conditions, "Ready"), None);
    }
}
