//! The status of PodGroups and CompositePodGroups: the condition that names the kind, or the phase.

use std::collections::{BTreeMap, HashMap, VecDeque};

use berth_api::object::group::{
    COMPOSITE_CONDITION, CompositePodGroup, GROUP_CONDITIONS, GroupKind, PodGroupStatus,
};
use berth_api::object::time::rfc3339;
use berth_api::object::{GroupKey as PodGroupKey, NamespacedName, ObjectMeta, PodGroup};
use berth_api::resource::{COMPOSITE_POD_GROUPS, COSCHEDULING_POD_GROUPS, POD_GROUPS, Resource};
use berth_client::call::{self, CallError};
use berth_client::events::{ObjectReference, cut};
use serde_json::{Value, json};

use crate::completion::Completion;
use crate::pending::StatusWriter;
use crate::pod_status;

/// Status writes in flight.
const WRITES_AT_ONCE: usize = 4;
const MAX_MESSAGE_BYTES: usize = 4096;

/// A PodGroup or a CompositePodGroup.
struct GroupObject {
    reference: ObjectReference,
    generation: i64,
    /// As the API server has it, or as the write in flight sets it.
    shown: GroupStatus,
    /// From v1alpha3 on, a group that was scheduled once stays so: the condition is about the first time.
    is_final: bool,
    wanted: Option<GroupStatus>,
    is_write_in_flight: bool,
}

/// What a PodGroup shows of its placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupStatus {
    is_scheduled: bool,
    reason: String,
    message: String,
}

impl GroupStatus {
    fn of(status: &PodGroupStatus) -> GroupStatus {
        let is_shown = |ty: &str| ty == COMPOSITE_CONDITION || GROUP_CONDITIONS.contains(&ty);
        match status.conditions.iter().find(|condition| is_shown(&condition.condition_type)) {
            Some(condition) => GroupStatus {
                is_scheduled: condition.status == "True",
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            },
            None => GroupStatus {
                is_scheduled: status.phase == "Scheduled",
                reason: status.phase.clone(),
                message: String::new(),
            },
        }
    }
}

impl GroupObject {
    fn new(
        api_version: &str,
        kind: &str,
        metadata: &ObjectMeta,
        status: &PodGroupStatus,
        before: Option<GroupObject>,
    ) -> GroupObject {
        let (wanted, is_write_in_flight) =
            before.map_or((None, false), |before| (before.wanted, before.is_write_in_flight));
        GroupObject {
            reference: ObjectReference {
                api_version: api_version.to_owned().into(),
                kind: kind.to_owned().into(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
                uid: metadata.uid.clone(),
            },
            generation: metadata.generation,
            shown: GroupStatus::of(status),
            is_final: status.conditions.iter().any(|c| {
                [GROUP_CONDITIONS[1], COMPOSITE_CONDITION].contains(&&*c.condition_type) && c.status == "True"
            }),
            wanted,
            is_write_in_flight,
        }
    }

    /// The patch to a status, and its type.
    fn patch(&self, resource: &Resource, to: &GroupStatus) -> (Value, &'static str) {
        if *resource == COSCHEDULING_POD_GROUPS {
            return (json!({"status": {"phase": to.reason}}), "application/merge-patch+json");
        }
        let mut condition = json!({
            "type": match *resource {
                COMPOSITE_POD_GROUPS => COMPOSITE_CONDITION,
                POD_GROUPS => GROUP_CONDITIONS[0],
                _ => GROUP_CONDITIONS[1],
            },
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

/// The PodGroups, and the writes of their status.
#[derive(Default)]
pub(super) struct GroupObjects {
    objects: HashMap<PodGroupKey, GroupObject>,
    /// PodGroups that belong to CompositePodGroups.
    pub(super) parts: BTreeMap<PodGroupKey, PodGroup>,
    pub(super) composites: BTreeMap<NamespacedName, CompositePodGroup>,
    /// The groups whose status is to be written.
    queue: VecDeque<PodGroupKey>,
    n_in_flight: usize,
    reported_forbidden: bool,
}

impl GroupObjects {
    pub(super) fn set(&mut self, key: PodGroupKey, object: &PodGroup) {
        let before = self.objects.remove(&key);
        self.parts.remove(&key);
        if object.spec.parent_composite_pod_group_name.is_some() {
            self.parts.insert(key.clone(), object.clone());
        }
        let (version, kind) = (&object.api_version, POD_GROUPS.kind);
        let new = GroupObject::new(version, kind, &object.metadata, &object.status, before);
        self.objects.insert(key, new);
    }

    pub(super) fn remove(&mut self, key: &PodGroupKey) {
        self.parts.remove(key);
        self.objects.remove(key);
    }

    /// Sets a CompositePodGroup, or removes it.
    pub(super) fn set_composite(&mut self, name: NamespacedName, object: Option<CompositePodGroup>) {
        let key = PodGroupKey { kind: GroupKind::Composite, name };
        let before = self.objects.remove(&key);
        let Some(object) = object else {
            self.composites.remove(&key.name);
            return;
        };
        let (version, kind) = (&object.api_version, COMPOSITE_POD_GROUPS.kind);
        let new = GroupObject::new(version, kind, &object.metadata, &object.status, before);
        self.composites.insert(key.name.clone(), object);
        self.objects.insert(key, new);
    }

    /// The object of a group, for events.
    pub(super) fn reference(&self, key: &PodGroupKey) -> Option<ObjectReference> {
        self.objects.get(key).map(|object| object.reference.clone())
    }

    /// Changes the wanted status of a group; the write is queued.
    pub(super) fn show(&mut self, key: &PodGroupKey, is_scheduled: bool, reason: &str, message: &str) {
        let Some(object) = self.objects.get_mut(key) else { return };
        let message = match key.kind {
            GroupKind::Coscheduling => String::new(),
            _ => cut(message.to_owned(), MAX_MESSAGE_BYTES),
        };
        let status = GroupStatus { is_scheduled, reason: reason.to_owned(), message };
        if status == object.shown || (object.is_final && !is_scheduled) {
            object.wanted = None;
        } else if object.wanted.replace(status).is_none() {
            self.queue.push_back(key.clone());
        }
    }

    /// Starts as many status writes as may be in flight.
    pub(super) fn write_some(&mut self, writer: &mut StatusWriter) {
        while self.n_in_flight < WRITES_AT_ONCE && writer.leads() {
            let Some(key) = self.queue.pop_front() else { return };
            let Some(object) = self.objects.get_mut(&key).filter(|object| !object.is_write_in_flight) else {
                continue;
            };
            let (Some(resource), Some(wanted)) = (key.kind.resource(), object.wanted.take()) else {
                continue;
            };
            let patch_of = |resource: Resource| {
                let path = format!("{}/status", resource.object_path(key.name.namespace(), key.name.name()));
                (path, object.patch(&resource, &wanted))
            };
            let patches: Vec<_> = resource.versions().map(patch_of).collect();
            object.shown = wanted;
            object.is_write_in_flight = true;
            self.n_in_flight += 1;
            writer.spawn(move |client, completed| async move {
                let mut result = Ok(None);
                for (path, (patch, patch_type)) in &patches {
                    result = pod_status::patch_object(&client, path, patch_type, patch).await;
                    // Without an answer, the server does not have this version, or not the object.
                    if !matches!(result, Ok(None)) {
                        break;
                    }
                }
                let _ = completed.send(Completion::PodGroupStatus { key, result: result.map(|_| ()) });
            });
        }
    }

    pub(super) fn written(&mut self, key: PodGroupKey, result: Result<(), CallError>) {
        self.n_in_flight -= 1;
        match &result {
            Err(error) if error.code() == Some(403) && !error.is_namespace_terminating() => {
                if !std::mem::replace(&mut self.reported_forbidden, true) {
                    let resource = key.kind.resource().unwrap_or(POD_GROUPS);
                    let status = format!("{}/status", resource.plural);
                    let remedy = call::rule_to_add(resource.group, &status, &["patch"]);
                    tracing::warn!("the status of pod groups is not written: {error}: {remedy}");
                }
            }
            Err(error) => tracing::warn!("status of {key} is not written: {error}"),
            Ok(()) => {}
        }
        let Some(object) = self.objects.get_mut(&key) else { return };
        object.is_write_in_flight = false;
        if object.wanted.is_some() {
            self.queue.push_back(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::NamespacedName;

    use super::*;

    #[test]
    fn a_group_that_was_scheduled_once_stays_so_in_newer_versions() {
        let key = PodGroupKey { kind: GroupKind::Scheduling, name: NamespacedName::new("n", "g") };
        for (condition, is_written) in GROUP_CONDITIONS.into_iter().zip([true, false]) {
            let condition = json!({"type": condition, "status": "True", "reason": "Scheduled"});
            let object = json!({"status": {"conditions": [condition]}});
            let mut groups = GroupObjects::default();
            groups.set(key.clone(), &serde_json::from_value(object).unwrap());
            groups.show(&key, false, "Unschedulable", "");
            assert_eq!(!groups.queue.is_empty(), is_written);
        }
    }

    #[test]
    fn a_status_is_queued_once_and_only_if_it_differs() {
        let name = NamespacedName::new("n", "g");
        let key = PodGroupKey { kind: GroupKind::Scheduling, name };
        let mut groups = GroupObjects::default();
        groups.show(&key, true, "Scheduled", "");
        assert!(groups.queue.is_empty(), "the object does not exist");
        groups.set(key.clone(), &PodGroup::default());
        for n in ["1", "2"] {
            groups.show(&key, false, "Unschedulable", n);
        }
        assert_eq!(groups.queue.len(), 1);
        groups.show(&key, false, "", "");
        assert_eq!(groups.objects[&key].wanted, None, "it is shown already");
    }
}
