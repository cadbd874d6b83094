//! The status of PodGroups: the condition `PodGroupScheduled`, or the phase.

use std::collections::VecDeque;

use berth_api::object::group::GroupKind;
use berth_api::object::time::rfc3339;
use berth_api::object::{GroupKey as PodGroupKey, GroupRules, PodGroup};
use berth_client::call::CallError;
use berth_client::events::cut;
use serde_json::{Value, json};

use super::super::Scheduler;
use super::super::completions::Completion;
use crate::queue::PodId;
use crate::status::{self, FailureReason};

const CONDITION: &str = "PodGroupScheduled";
/// Status writes in flight.
const WRITES_AT_ONCE: usize = 4;
const MAX_MESSAGE_BYTES: usize = 4096;

/// A PodGroup.
pub(super) struct GroupObject {
    /// None: its pods are placed one by one.
    pub(super) rules: Option<GroupRules>,
    generation: i64,
    /// As it is known, or as the write in flight sets it.
    shown: GroupStatus,
    wanted: Option<GroupStatus>,
    is_write_in_flight: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupStatus {
    is_scheduled: bool,
    reason: String,
    message: String,
}

impl GroupStatus {
    fn of(object: &PodGroup) -> GroupStatus {
        match object.status.conditions.iter().find(|c| c.condition_type == CONDITION) {
            Some(condition) => GroupStatus {
                is_scheduled: condition.status == "True",
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            },
            None => GroupStatus {
                is_scheduled: object.status.phase == "Scheduled",
                reason: object.status.phase.clone(),
                message: String::new(),
            },
        }
    }
}

#[derive(Default)]
pub(super) struct StatusWrites {
    queue: VecDeque<PodGroupKey>,
    n_in_flight: usize,
}

impl GroupObject {
    pub(super) fn new(object: &PodGroup, before: Option<GroupObject>) -> GroupObject {
        let (wanted, is_write_in_flight) =
            before.map_or((None, false), |before| (before.wanted, before.is_write_in_flight));
        GroupObject {
            rules: object.rules(),
            generation: object.metadata.generation,
            shown: GroupStatus::of(object),
            wanted,
            is_write_in_flight,
        }
    }

    /// The patch to a status, and its type.
    fn patch(&self, kind: GroupKind, to: &GroupStatus) -> (Value, &'static str) {
        if kind == GroupKind::Coscheduling {
            return (json!({"status": {"phase": to.reason}}), "application/merge-patch+json");
        }
        let mut condition = json!({
            "type": CONDITION,
            "status": if to.is_scheduled { "True" } else { "False" },
            "reason": to.reason,
            "message": to.message,
            "observedGeneration": self.generation,
        });
        if self.shown.reason.is_empty() || self.shown.is_scheduled != to.is_scheduled {
            condition["lastTransitionTime"] = json!(rfc3339(jiff::Timestamp::now()));
        }
        (json!({"status": {"conditions": [condition]}}), "application/strategic-merge-patch+json")
    }
}

impl Scheduler {
    /// The required members of a group have nodes.
    pub(super) fn show_scheduled(&mut self, entry: PodId) {
        self.show(entry, true, "Scheduled", "");
    }

    /// The required members of a group have no nodes.
    pub(super) fn show_unscheduled(&mut self, entry: PodId, reason: FailureReason, why: &str) {
        let rules = self.pod_group_rules(entry);
        let Some(group) = self.pod_groups.groups.get(&entry) else { return };
        if rules.is_ok_and(|rules| group.n_placed() >= rules.min) {
            return;
        }
        let reason = match group.key.kind {
            GroupKind::Coscheduling if group.n_placed() > 0 => "Scheduling",
            GroupKind::Coscheduling => "Pending",
            _ => reason.as_str(),
        };
        self.show(entry, false, reason, why);
    }

    fn show(&mut self, entry: PodId, is_scheduled: bool, reason: &str, message: &str) {
        let groups = &mut self.pod_groups;
        let Some(key) = groups.groups.get(&entry).map(|group| group.key.clone()) else { return };
        let Some(object) = groups.objects.get_mut(&key) else { return };
        let message = match key.kind {
            GroupKind::Coscheduling => String::new(),
            _ => cut(message.to_owned(), MAX_MESSAGE_BYTES),
        };
        let status = GroupStatus { is_scheduled, reason: reason.to_owned(), message };
        if status == object.shown {
            object.wanted = None;
        } else if object.wanted.replace(status).is_none() {
            groups.statuses.queue.push_back(key);
        }
    }

    /// Starts as many status writes as may be in flight.
    pub(in crate::scheduler) fn write_pod_group_statuses(&mut self) {
        let groups = &mut self.pod_groups;
        while groups.statuses.n_in_flight < WRITES_AT_ONCE && self.leadership.leads() {
            let Some(key) = groups.statuses.queue.pop_front() else { return };
            let Some(object) = groups.objects.get_mut(&key).filter(|object| !object.is_write_in_flight)
            else {
                continue;
            };
            let (Some(resource), Some(wanted)) = (key.kind.resource(), object.wanted.take()) else {
                continue;
            };
            let (patch, patch_type) = object.patch(key.kind, &wanted);
            object.shown = wanted;
            object.is_write_in_flight = true;
            groups.statuses.n_in_flight += 1;
            let path = format!("{}/status", resource.object_path(key.name.namespace(), key.name.name()));
            self.statuses.spawn(move |client, completed| async move {
                let result = status::patch_object(&client, &path, patch_type, &patch).await;
                let _ = completed.send(Completion::PodGroupStatus { key, result: result.map(|_| ()) });
            });
        }
    }

    pub(in crate::scheduler) fn pod_group_status_completed(
        &mut self,
        key: PodGroupKey,
        result: Result<(), CallError>,
    ) {
        let groups = &mut self.pod_groups;
        groups.statuses.n_in_flight -= 1;
        if let Err(error) = &result {
            tracing::warn!("status of {key} is not written: {error}");
        }
        let Some(object) = groups.objects.get_mut(&key) else { return };
        object.is_write_in_flight = false;
        if object.wanted.is_some() {
            groups.statuses.queue.push_back(key);
        }
    }
}
