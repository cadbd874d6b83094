//! Conditions, which most statuses have in one form or another.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use super::{nullable, rfc3339, timestamp};

/// A condition of a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub(crate) kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    #[serde(
        deserialize_with = "timestamp",
        serialize_with = "written",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) last_probe_time: Option<Timestamp>,
    #[serde(
        deserialize_with = "timestamp",
        serialize_with = "written",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) last_update_time: Option<Timestamp>,
    #[serde(
        deserialize_with = "timestamp",
        serialize_with = "written",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) last_heartbeat_time: Option<Timestamp>,
    #[serde(
        deserialize_with = "timestamp",
        serialize_with = "written",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) last_transition_time: Option<Timestamp>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

impl Condition {
    /// A condition that came about at `now`.
    pub(crate) fn new(
        kind: &str,
        status: &str,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(now),
            reason: reason.to_owned(),
            message: message.into(),
            ..Condition::default()
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The condition of a type.
pub(crate) fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Sets a condition; one with the same status and reason stays as it is, one with the same status keeps its
/// transition time.
pub(crate) fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(old) = condition(conditions, &new.kind) {
        if old.status == new.status && old.reason == new.reason {
            return;
        }
        if old.status == new.status {
            new.last_transition_time = old.last_transition_time;
        }
    }
    remove_condition(conditions, &new.kind);
    conditions.push(new);
}

/// Removes a condition.
pub(crate) fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Writes a time as Kubernetes does; an absent one is `null`.
pub(crate) fn written<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_str(&rfc3339(*time)),
        None => serializer.serialize_none(),
    }
}
