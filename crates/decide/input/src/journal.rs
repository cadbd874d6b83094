//! Journals: what a scheduler learned of its cluster and what it decided, in order.
//!
//! A journal is a sequence of [`Entry`], one JSON object per line; the format is described in `docs/recordings.md`. Applied
//! to an empty cluster one after the other, the entries give the state in which each decision was made.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::device::{
    DeviceDecision, DeviceKind, DeviceObject, EXTENDED_RESOURCE_CLAIM_ANNOTATION, POD_CLAIM_NAME_ANNOTATION,
    POD_GROUP_CLAIM_NAME_ANNOTATION,
};
use berth_api::object::group::{GroupPart, TopologyLevel};
use berth_api::object::placement::CONDITION_TYPES;
use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, BOUND_BY_CONTROLLER_ANNOTATION, MIGRATED_PLUGINS_ANNOTATION,
    SELECTED_NODE_ANNOTATION, STORAGE_CLASS_ANNOTATION, Volume,
};
use berth_api::object::{
    GroupKey, LabelSelector, MIRROR_ANNOTATION, Namespace, NamespacedName, Node, ObjectMeta, Pod,
    PodDisruptionBudget, PodGroup, PodResourceClaim, Service, StringMap, VolumeDecision, VolumeKind,
    VolumeObject, time,
};
use berth_api::read::{JsonError, from_json};
use berth_api::syntax::annotations::ANNOTATION_PREFIX;

/// The version of the format that is written; others are not read.
pub const JOURNAL_VERSION: u32 = 1;

/// [`Header::scheduler`] of decisions that were seen from outside.
pub const OTHER_SCHEDULER: &str = "kube-scheduler";

/// The domain of Berth's own annotations.
/// Other annotations that placement reads.
const OTHER_ANNOTATIONS: [&str; 9] = [
    MIRROR_ANNOTATION,
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    MIGRATED_PLUGINS_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    STORAGE_CLASS_ANNOTATION,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    POD_CLAIM_NAME_ANNOTATION,
    POD_GROUP_CLAIM_NAME_ANNOTATION,
];

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first line of each file: the cluster is empty from here.
    Journal(Box<Header>),
    /// The time of the entries that follow.
    Time(#[serde(serialize_with = "micros", deserialize_with = "some_time")] Timestamp),
    /// The state is complete: everything that exists has been recorded.
    Complete {},
    /// A node was added or changed.
    Node(Box<Node>),
    RemoveNode(String),
    /// A namespace was added or changed.
    Namespace(Box<Namespace>),
    RemoveNamespace(String),
    /// A service was added or changed.
    Service(Box<Service>),
    RemoveService(NamespacedName),
    /// The selector of a workload was added, changed or deleted.
    Owner(Box<JournaledOwnerSelector>),
    /// An object that decides where pods with volumes may run was added or changed.
    VolumeObject(Box<VolumeObject>),
    RemoveVolumeObject(VolumeKind, NamespacedName),
    /// An object that decides where pods with claims of devices may run was added or changed.
    DeviceObject(Box<DeviceObject>),
    RemoveDeviceObject(DeviceKind, NamespacedName),
    /// What a pod group says of its running pods has changed.
    Group(Box<JournaledGroup>),
    /// The claims of devices that the pods of a pod group share have changed; without any, there are none.
    GroupClaims(NamespacedName, Option<Box<GroupClaims>>),
    /// A disruption budget was added or changed.
    Budget(Box<PodDisruptionBudget>),
    RemoveBudget(NamespacedName),
    /// A pod with a node was added or changed.
    Pod(#[serde(with = "shared")] Arc<Pod>),
    /// A pod with a node got labels.
    AddLabels(NamespacedName, StringMap),
    /// A pod has no node any more: it was deleted, it ended, or it could not be bound.
    RemovePod(NamespacedName),
    /// A pod in the queue is assumed on a node until its binding is confirmed.
    Assume(NamespacedName, String),
    /// What is assumed of the claims in a namespace, for a node.
    AssumeVolumes(Box<AssumedVolumes>),
    RestoreVolumes(Box<AssumedVolumes>),
    /// What is assumed of the claims of devices of a pod, and whether it is being written.
    AssumeDevices(Box<AssumedDevices>),
    RestoreDevices(Box<AssumedDevices>),
    /// A pod in the queue is nominated to a node.
    Nominate(NamespacedName, String),
    /// These pods with claims of devices are evicted for the pod that was just nominated.
    Victims(NamespacedName, Vec<NamespacedName>),
    ClearNomination(NamespacedName),
    /// A pending pod entered the queue, or changed there.
    Queue(#[serde(with = "shared")] Arc<Pod>),
    /// A pod in the queue is decided with preferences in place of the required rules with these paths; with none, with all its
    /// rules.
    Relax(NamespacedName, Vec<String>),
    /// A pod left the queue: it was bound, deleted, or scheduled by another scheduler.
    Dequeue(NamespacedName),
    Decision(Box<RecordedDecision>),
    /// Victims were chosen for an unschedulable pod.
    Preemption(Box<JournaledPreemption>),
    GroupDecision(Box<RecordedGroup>, Box<GroupResult>),
    /// Victims were chosen for an unschedulable group.
    GroupPreemption(Box<RecordedGroup>, Box<GroupResult>),
}

impl Entry {
    /// Reads a line.
    pub fn from_json(line: &[u8]) -> Result<Entry, JsonError> {
        from_json(line)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    /// [`JOURNAL_VERSION`].
    pub version: u32,
    /// Who decided: `berth`, or `kube-scheduler` as seen from outside.
    pub scheduler: String,
    pub identity: String,
    /// When the file was started.
    #[serde(serialize_with = "micros", deserialize_with = "some_time")]
    pub time: Timestamp,
    /// How rules are read.
    pub settings: RecordedSettings,
}

/// How rules are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedSettings {
    /// A `KubeSchedulerConfiguration`.
    pub config: Value,
    pub extensions: bool,
    /// The version of Kubernetes whose decisions are made; 1.36 in recordings that do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesVersion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<String>,
    /// Namespaces that are exempt from anti-affinity.
    pub exempt_namespaces: Vec<String>,
    /// Whether they are also exempt from that of v1 fields.
    pub exempt_from_v1: bool,
    /// What an empty topologyKey of the proposals stands for.
    pub all_topologies: Vec<String>,
}

/// The selector of a ReplicaSet, StatefulSet or ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JournaledOwnerSelector {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Its selector; none selects nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Whether the workload was deleted, or its selector is invalid.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// What a pod group says of its running pods; the default says nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournaledGroup {
    pub key: GroupKey,
    /// They are preempted and evicted together or not at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_a_whole: bool,
    /// Instead of the priority of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The topologies whose domains their replacements share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<TopologyLevel>,
}

/// The claims of devices that the pods of a PodGroup share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupClaims {
    pub uid: String,
    /// Its `spec.resourceClaims`.
    pub claims: Vec<PodResourceClaim>,
}

impl GroupClaims {
    /// Those of a group; none if it shares no claims.
    pub fn of(group: &PodGroup) -> Option<GroupClaims> {
        let PodGroup { metadata, spec, .. } = group;
        let is_sharing = !spec.resource_claims.is_empty();
        is_sharing.then(|| GroupClaims { uid: metadata.uid.clone(), claims: spec.resource_claims.clone() })
    }
}

/// What is assumed of the claims of devices of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssumedDevices {
    pub pod: NamespacedName,
    pub uid: String,
    pub devices: DeviceDecision,
    /// Whether it is being written: until then, no other pod gets the claims.
    #[serde(default)]
    pub in_flight: bool,
}

/// What is assumed of claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssumedVolumes {
    pub pod: NamespacedName,
    /// The node; empty where nothing is assumed any more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    pub volumes: VolumeDecision,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedDecision {
    pub pod: NamespacedName,
    /// The node; none if the pod is unschedulable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// Why the pod is unschedulable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JournaledPreemption {
    pub pod: NamespacedName,
    /// The node that it fits on without the victims; none if no eviction helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The victims, the most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<NamespacedName>,
    /// Why there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A group of pods that is decided as one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedGroup {
    pub group: String,
    /// The members without a node.
    pub pods: Vec<NamespacedName>,
    /// How many of them have to be placed at least.
    pub min: usize,
    /// The topologies whose domains the members share, the coarsest first, with the domain of members that are running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<(TopologyLevel, Option<String>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composite: Option<GroupPart>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupResult {
    /// For each member its node; empty if the group is not placed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Option<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<NamespacedName>,
    /// Why the group is not placed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Entry {
    /// Removes what placement does not read: other annotations, conditions and volumes, and texts of conditions. Typed
    /// objects do not have commands, environment variables or the contents of volumes.
    pub fn redact(&mut self) {
        match self {
            Entry::Pod(pod) | Entry::Queue(pod) => {
                let pod = Arc::make_mut(pod);
                redact_metadata(&mut pod.metadata);
                pod.spec.volumes.retain(Volume::matters);
                pod.status.conditions.retain(|c| CONDITION_TYPES.contains(&c.condition_type.as_str()));
                pod.status.conditions.iter_mut().for_each(|condition| condition.message.clear());
                pod.status.reason.clear();
                pod.status.message.clear();
            }
            // The state keeps only those annotations of nodes that rules mention, and others are not recorded.
            Entry::Node(node) => redact_identity(&mut node.metadata),
            Entry::Namespace(namespace) => redact_metadata(&mut namespace.metadata),
            Entry::Service(service) => redact_metadata(&mut service.metadata),
            Entry::VolumeObject(object) => redact_metadata(object.metadata_mut()),
            Entry::DeviceObject(object) => redact_metadata(object.metadata_mut()),
            Entry::Budget(budget) => redact_metadata(&mut budget.metadata),
            _ => {}
        }
    }
}

fn redact_metadata(metadata: &mut ObjectMeta) {
    metadata
        .annotations
        .retain(|key, _| key.starts_with(ANNOTATION_PREFIX) || OTHER_ANNOTATIONS.contains(&key.as_str()));
    redact_identity(metadata);
}

fn redact_identity(metadata: &mut ObjectMeta) {
    metadata.finalizers.clear();
    metadata.generate_name.clear();
}

/// Schedulers share their pods with the entries.
mod shared {
    use super::{Arc, Deserialize, Deserializer, Pod, Serialize, Serializer};

    pub fn serialize<S: Serializer>(pod: &Arc<Pod>, serializer: S) -> Result<S::Ok, S::Error> {
        Pod::serialize(pod, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Pod>, D::Error> {
        Pod::deserialize(deserializer).map(Arc::new)
    }
}

fn micros<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time::rfc3339_micros(*time))
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    time::deserialize(deserializer)?.ok_or_else(|| serde::de::Error::custom("not a time"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_placement_reads_is_recorded() {
        let annotations =
            json!({"scheduling.berth.dev/group": "g", "kubernetes.io/config.mirror": "h", "x": "secret"});
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let condition = |kind: &str| json!({"type": kind, "status": "True", "message": "secret"});
        let pod = json!({
            "metadata": {"name": "p", "annotations": annotations, "finalizers": ["secret"]},
            "spec": {
                "volumes": [claim, {"name": "w", "secret": {"secretName": "secret"}}],
                "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "secret"}]}],
            },
            "status": {"conditions": [condition("Ready"), condition("DisruptionTarget")], "message": "secret"},
        });
        let mut entry: Entry = serde_json::from_value(json!({ "queue": pod })).unwrap();
        entry.redact();
        let text = serde_json::to_string(&entry).unwrap();
        assert!(!text.contains("secret") && !text.contains("Ready"), "{text}");
        for kept in ["group\":\"g\"", "config.mirror", "claimName", "DisruptionTarget"] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
        let read: Entry = serde_json::from_str(&text).unwrap();
        assert_eq!(read, entry);
    }
}
