//! Pod groups: pods that are placed as one unit.
//!
//! A pod names its group in one of three ways, the first of which counts: `spec.schedulingGroup` (a PodGroup of
//! `scheduling.k8s.io`), the label of the coscheduling plugin (a PodGroup of `scheduling.x-k8s.io`), or annotations, for a
//! group without an object: a name, or `owner` for the pods of one controller.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, Job, NamespacedName, ObjectMeta, Pod, Workload, nullable};
use crate::resource::{COSCHEDULING_POD_GROUPS, POD_GROUPS, Resource, group_of};

/// The API group of Kubernetes' PodGroup.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";
/// The API group of the PodGroup of the coscheduling plugin.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io";
/// The label with which a pod names a PodGroup of [`COSCHEDULING_GROUP`].
pub const POD_GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";
/// The annotation with the name of a pod's group, if the group has no object.
pub const GROUP_ANNOTATION: &str = "scheduling.berth.dev/group";
/// The value of [`GROUP_ANNOTATION`] for the pods of one owner, which says how many there are.
pub const GROUP_OF_OWNER: &str = "owner";
/// With [`GROUP_ANNOTATION`]: how many members have to be placed at least.
pub const GROUP_MIN_ANNOTATION: &str = "scheduling.berth.dev/group-min";
/// On a pod with [`GROUP_ANNOTATION`] or on a PodGroup: the node label whose value all members share.
pub const GROUP_REQUIRED_TOPOLOGY_ANNOTATION: &str = "scheduling.berth.dev/group-required-topology";
/// The same, if the group may be placed otherwise: several keys, the coarsest first, separated by commas.
pub const GROUP_PREFERRED_TOPOLOGY_ANNOTATION: &str = "scheduling.berth.dev/group-preferred-topology";
/// The node label whose domains take members by [`GROUP_SLICE_SIZE_ANNOTATION`] only.
pub const GROUP_SLICE_TOPOLOGY_ANNOTATION: &str = "scheduling.berth.dev/group-slice-topology";
/// How many members a slice has: each domain takes a multiple of them.
pub const GROUP_SLICE_SIZE_ANNOTATION: &str = "scheduling.berth.dev/group-slice-size";
/// The annotations about topologies.
pub const GROUP_TOPOLOGY_ANNOTATIONS: [&str; 4] = [
    GROUP_REQUIRED_TOPOLOGY_ANNOTATION,
    GROUP_PREFERRED_TOPOLOGY_ANNOTATION,
    GROUP_SLICE_TOPOLOGY_ANNOTATION,
    GROUP_SLICE_SIZE_ANNOTATION,
];
/// Where pods have their rank: labels or annotations of Jobs, LeaderWorkerSets, Kubeflow's jobs, RayClusters, StatefulSets.
const RANK_KEYS: [&str; 5] = [
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
    "ray.io/replica-host-index",
    "apps.kubernetes.io/pod-index",
];
/// Where pods have the rank of the part of their group that the first rank counts in: a Job of a JobSet, a replica of a
/// LeaderWorkerSet or of a worker group of a RayCluster.
const OUTER_RANK_KEYS: [&str; 3] = [
    "jobset.sigs.k8s.io/job-global-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "ray.io/worker-group-replica-index",
];

/// How a pod names its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupKind {
    /// `spec.schedulingGroup.podGroupName`.
    Scheduling,
    /// The label [`POD_GROUP_LABEL`].
    Coscheduling,
    /// The annotation [`GROUP_ANNOTATION`].
    Annotation,
    /// The annotation [`GROUP_ANNOTATION`] with the value [`GROUP_OF_OWNER`], and the kind of the controller.
    Owner(GroupOwner),
}

/// A kind of controllers whose pods may be a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupOwner {
    /// Also of a Deployment.
    ReplicaSet,
    /// Its pods are a group if it creates them in parallel.
    StatefulSet,
    /// `replicas`, as a ReplicaSet.
    ReplicationController,
    /// `parallelism`, or the completions that are missing.
    Job,
}

impl GroupOwner {
    const ALL: [GroupOwner; 4] =
        [GroupOwner::ReplicaSet, GroupOwner::StatefulSet, GroupOwner::ReplicationController, GroupOwner::Job];

    /// `kind`.
    pub fn name(self) -> &'static str {
        match self {
            GroupOwner::ReplicaSet => "ReplicaSet",
            GroupOwner::StatefulSet => "StatefulSet",
            GroupOwner::ReplicationController => "ReplicationController",
            GroupOwner::Job => "Job",
        }
    }
}

/// How many pods a ReplicaSet, a ReplicationController or a StatefulSet has at one time. A StatefulSet that creates a pod when the one
/// before is ready has no group: 1.
pub fn members_of_workload(workload: &Workload, owner: GroupOwner) -> usize {
    let is_ordered = owner == GroupOwner::StatefulSet && workload.spec.pod_management_policy != "Parallel";
    if is_ordered { 1 } else { n_replicas(workload.spec.replicas) }
}

/// `replicas` of a workload: 1 when absent.
pub fn n_replicas(replicas: Option<i32>) -> usize {
    usize::try_from(replicas.unwrap_or(1)).unwrap_or(0)
}

/// How many pods a Job has at one time now.
pub fn members_of_job(job: &Job) -> usize {
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let missing = job.spec.completions.map(|n| n.saturating_sub(job.status.succeeded));
    usize::try_from(missing.map_or(parallelism, |missing| parallelism.min(missing))).unwrap_or(0)
}

impl GroupKind {
    /// The resource of such groups, if they have objects.
    pub fn resource(self) -> Option<Resource> {
        match self {
            GroupKind::Scheduling => Some(POD_GROUPS),
            GroupKind::Coscheduling => Some(COSCHEDULING_POD_GROUPS),
            GroupKind::Annotation | GroupKind::Owner(_) => None,
        }
    }

    /// The API group of the PodGroup, or what names the group instead.
    pub fn source(self) -> &'static str {
        match self {
            GroupKind::Scheduling => SCHEDULING_GROUP,
            GroupKind::Coscheduling => COSCHEDULING_GROUP,
            GroupKind::Annotation => "annotation",
            GroupKind::Owner(_) => GROUP_OF_OWNER,
        }
    }
}

/// The group of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupKey {
    /// How the pod names it.
    pub kind: GroupKind,
    /// The namespace of the pod, and the name of the group.
    pub name: NamespacedName,
}

impl GroupKey {
    /// The group of a pod, if it belongs to one. Without `extensions`, only `spec.schedulingGroup` counts.
    pub fn of(pod: &Pod, extensions: bool) -> Option<GroupKey> {
        let annotation = || pod.metadata.annotations.get(GROUP_ANNOTATION).filter(|_| extensions);
        let label = || pod.metadata.labels.get(POD_GROUP_LABEL).filter(|_| extensions);
        let named = pod.spec.scheduling_group.as_ref().map(|group| &group.pod_group_name);
        let (kind, name) = named
            .map(|name| (GroupKind::Scheduling, name))
            .or_else(|| Some((GroupKind::Coscheduling, label()?)))
            .or_else(|| Some((GroupKind::Annotation, annotation()?)))?;
        if kind == GroupKind::Annotation && name == GROUP_OF_OWNER {
            let controller = pod.metadata.controller()?;
            let owner = GroupOwner::ALL.into_iter().find(|owner| owner.name() == controller.kind)?;
            return Some(GroupKey::of_owner(owner, &pod.metadata.namespace, &controller.name));
        }
        Some(GroupKey { kind, name: NamespacedName::new(&pod.metadata.namespace, name) })
    }

    /// The group of the pods of an owner.
    pub fn of_owner(owner: GroupOwner, namespace: &str, name: &str) -> GroupKey {
        let name = NamespacedName::new(namespace, &format!("{}/{name}", owner.name()));
        GroupKey { kind: GroupKind::Owner(owner), name }
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod group {}", self.name)
    }
}

/// What has to hold for a group as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRules {
    /// How many members have to be placed at least.
    pub min: usize,
    /// The topologies whose domains the members share, the coarsest first.
    pub levels: Vec<TopologyLevel>,
    /// Seconds that members wait for others while their nodes are kept for them.
    pub timeout_seconds: Option<u32>,
    /// No pod is preempted for the group, as in Kubernetes 1.36 for one with scheduling constraints.
    pub without_preemption: bool,
    /// Its running members are preempted and evicted together or not at all.
    pub is_disrupted_as_a_whole: bool,
    /// Of the group, instead of that of its pods.
    pub priority: Option<i32>,
    /// Its members share claims of devices, which Berth does not decide.
    pub has_claims: bool,
}

/// A topology whose domains the members of a group share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyLevel {
    /// The node label key.
    pub key: String,
    /// Whether all members share one domain; otherwise they share as few as possible.
    pub required: bool,
    /// Each domain takes a multiple of this number of members; 1 for any number.
    pub multiple_of: usize,
}

impl TopologyLevel {
    /// A level whose domain all members share.
    pub fn required(key: &str) -> TopologyLevel {
        TopologyLevel { key: key.to_owned(), required: true, multiple_of: 1 }
    }

    /// A level with as few domains as possible.
    pub fn preferred(key: &str) -> TopologyLevel {
        TopologyLevel { required: false, ..TopologyLevel::required(key) }
    }

    /// Those of annotations, after one of a PodGroup.
    fn of_annotations(own: Option<&str>, metadata: &ObjectMeta) -> Vec<TopologyLevel> {
        let annotation = |name| metadata.annotations.get(name).map(String::as_str);
        let required = own.or_else(|| annotation(GROUP_REQUIRED_TOPOLOGY_ANNOTATION));
        let preferred =
            annotation(GROUP_PREFERRED_TOPOLOGY_ANNOTATION).into_iter().flat_map(|keys| keys.split(','));
        let mut levels: Vec<_> = required.map(TopologyLevel::required).into_iter().collect();
        levels.extend(preferred.map(|key| TopologyLevel::preferred(key.trim())));
        let size = annotation(GROUP_SLICE_SIZE_ANNOTATION).and_then(|size| size.parse().ok());
        let key = annotation(GROUP_SLICE_TOPOLOGY_ANNOTATION);
        if let Some((key, multiple_of)) = key.zip(size.filter(|size| *size > 0)) {
            match levels.iter_mut().find(|level| level.key == key) {
                Some(level) => level.multiple_of = multiple_of,
                None => levels.push(TopologyLevel { multiple_of, ..TopologyLevel::preferred(key) }),
            }
        }
        levels
    }
}

/// The rank of a pod among the members of its group, where its controller numbers them: that of its part, and that within the part.
pub fn rank(pod: &Pod) -> [Option<u32>; 2] {
    let ObjectMeta { labels, annotations, .. } = &pod.metadata;
    let number = |key: &&str| labels.get(*key).or_else(|| annotations.get(*key))?.parse().ok();
    [OUTER_RANK_KEYS.iter().find_map(number), RANK_KEYS.iter().find_map(number)]
}

impl GroupRules {
    /// The rules of a group without an object, by the annotations of its members: the stricter ones hold. None for a group
    /// that has to have an object. Of a group of an owner, the number of members is missing.
    pub fn of_members<'a>(key: &GroupKey, members: impl Iterator<Item = &'a Pod>) -> Option<GroupRules> {
        let rules = members.map(GroupRules::of_annotations).reduce(GroupRules::and);
        rules.filter(|_| matches!(key.kind, GroupKind::Annotation | GroupKind::Owner(_)))
    }

    /// The rules in the annotations of one member; those of several are [combined](GroupRules::and).
    pub fn of_annotations(pod: &Pod) -> GroupRules {
        let min = pod.metadata.annotations.get(GROUP_MIN_ANNOTATION).and_then(|min| min.parse().ok());
        GroupRules {
            min: min.unwrap_or(1),
            levels: TopologyLevel::of_annotations(None, &pod.metadata),
            ..GroupRules::default()
        }
    }

    /// Why a group is not decided, if it has this number of members.
    ///
    /// # Errors
    /// Members are missing, or the group has what Berth does not decide.
    pub fn check(&self, n_members: usize) -> Result<(), String> {
        if self.has_claims {
            return Err(
                "its PodGroup has resourceClaims, which are not supported: give each pod its own".to_owned()
            );
        }
        if n_members < self.min {
            return Err(format!("{n_members} of at least {} pods exist", self.min));
        }
        Ok(())
    }

    /// The stricter rules of both.
    #[must_use]
    pub fn and(self, other: GroupRules) -> GroupRules {
        let strictness = |levels: &[TopologyLevel]| {
            let n_required = levels.iter().filter(|level| level.required || level.multiple_of > 1).count();
            (n_required, levels.len())
        };
        let is_stricter = strictness(&other.levels) > strictness(&self.levels);
        GroupRules {
            min: self.min.max(other.min),
            levels: if is_stricter { other.levels } else { self.levels },
            timeout_seconds: self.timeout_seconds.or(other.timeout_seconds),
            without_preemption: self.without_preemption || other.without_preemption,
            is_disrupted_as_a_whole: self.is_disrupted_as_a_whole || other.is_disrupted_as_a_whole,
            priority: self.priority.max(other.priority),
            has_claims: self.has_claims || other.has_claims,
        }
    }
}

/// A PodGroup of either API group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroup {
    /// `apiVersion`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// Metadata.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodGroupSpec,
    /// Status.
    #[serde(deserialize_with = "nullable")]
    pub status: PodGroupStatus,
}

/// `spec` of a PodGroup: the fields of both API groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// How the members are placed (`scheduling.k8s.io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_policy: Option<PodGroupPolicy>,
    /// Constraints on their nodes (`scheduling.k8s.io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<PodGroupConstraints>,
    /// The claims of devices that the members share (`scheduling.k8s.io`).
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<Value>,
    /// What is disrupted at once (`scheduling.k8s.io`): `Pod` or `PodGroup` in v1alpha2, `single` or `all` in later versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption_mode: Option<Value>,
    /// The class that admission took the priority from (`scheduling.k8s.io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The priority of the group (`scheduling.k8s.io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The required number of members (`scheduling.x-k8s.io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_member: Option<u32>,
    /// Seconds that members wait for others (`scheduling.x-k8s.io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<u32>,
}

/// `spec.schedulingPolicy` of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupPolicy {
    /// Each pod is placed by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<Value>,
    /// All or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangPolicy>,
}

/// `spec.schedulingPolicy.gang` of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GangPolicy {
    /// The required number of members.
    #[serde(deserialize_with = "nullable")]
    pub min_count: u32,
}

/// `spec.schedulingConstraints` of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupConstraints {
    /// At most one is allowed.
    #[serde(deserialize_with = "nullable")]
    pub topology: Vec<TopologyConstraint>,
}

/// A topology whose domain the members share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyConstraint {
    /// The node label key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
}

/// `status` of a PodGroup: the fields of both API groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupStatus {
    /// Conditions (`scheduling.k8s.io`).
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The phase (`scheduling.x-k8s.io`).
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl PodGroup {
    /// The key by which its pods name it.
    pub fn key(&self) -> GroupKey {
        let kind = match group_of(&self.api_version) {
            COSCHEDULING_GROUP => GroupKind::Coscheduling,
            _ => GroupKind::Scheduling,
        };
        GroupKey { kind, name: self.metadata.namespaced_name() }
    }

    /// What holds for the group as a whole; none if its pods are placed one by one: a basic group without a topology.
    pub fn rules(&self) -> Option<GroupRules> {
        let spec = &self.spec;
        let gang = spec.scheduling_policy.as_ref().and_then(|policy| policy.gang.as_ref());
        let min = gang.map(|gang| gang.min_count).or(spec.min_member);
        let own = spec.scheduling_constraints.iter().flat_map(|c| &c.topology).next();
        let levels = TopologyLevel::of_annotations(own.map(|c| c.key.as_str()), &self.metadata);
        let has_claims = !spec.resource_claims.is_empty();
        // Of a basic group, as many pods as fit in the domain are placed.
        let min = min.or((!levels.is_empty() || has_claims).then_some(1))?;
        Some(GroupRules {
            min: min as usize,
            levels,
            timeout_seconds: spec.schedule_timeout_seconds,
            without_preemption: own.is_some(),
            is_disrupted_as_a_whole: self.is_disrupted_as_a_whole(),
            priority: spec.priority,
            has_claims,
        })
    }

    /// Whether its members are preempted and evicted together; also of a group whose pods are placed one by one.
    pub fn is_disrupted_as_a_whole(&self) -> bool {
        let mode = self.spec.disruption_mode.as_ref();
        mode.is_some_and(|mode| *mode == "PodGroup" || mode.get("all").is_some_and(|all| !all.is_null()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_names_its_group_in_one_way() {
        let text = |value| GroupKey::of(&pod(value), true).map(|key| format!("{:?} {}", key.kind, key.name));
        let metadata = json!({"namespace": "team", "labels": {POD_GROUP_LABEL: "b"}, "annotations": {GROUP_ANNOTATION: "c"}});
        let spec = json!({"schedulingGroup": {"podGroupName": "a"}});
        assert_eq!(text(json!({"metadata": metadata, "spec": spec})).unwrap(), "Scheduling team/a");
        assert_eq!(text(json!({"metadata": metadata})).unwrap(), "Coscheduling team/b");
        let annotated = json!({"metadata": {"namespace": "team", "annotations": {GROUP_ANNOTATION: "c"}}});
        assert_eq!(text(annotated).unwrap(), "Annotation team/c");
        assert_eq!(text(json!({"metadata": {"name": "p"}})), None);
        assert_eq!(GroupKey::of(&pod(json!({"metadata": metadata})), false), None);
    }

    #[test]
    fn the_pods_of_one_owner_are_a_group_of_as_many_as_it_has_at_one_time() {
        let key = |kind: &str| {
            let owner =
                json!({"apiVersion": "x/v1", "kind": kind, "name": "a", "uid": "u", "controller": true});
            let metadata = json!({"namespace": "n", "annotations": {GROUP_ANNOTATION: GROUP_OF_OWNER}, "ownerReferences": [owner]});
            GroupKey::of(&pod(json!({"metadata": metadata})), true).map(|key| key.name.to_string())
        };
        assert_eq!(key("Job").as_deref(), Some("n/Job/a"));
        assert_eq!(key("DaemonSet"), None);
        let job = |spec: Value, succeeded: i32| {
            members_of_job(
                &serde_json::from_value(json!({"spec": spec, "status": {"succeeded": succeeded}})).unwrap(),
            )
        };
        assert_eq!([job(json!({}), 0), job(json!({"parallelism": 3}), 1)], [1, 3]);
        let limited = json!({"parallelism": 3, "completions": 5});
        assert_eq!([0, 2, 3, 5].map(|succeeded| job(limited.clone(), succeeded)), [3, 3, 2, 0]);
        let members = |spec: Value, owner| {
            members_of_workload(&serde_json::from_value(json!({"spec": spec})).unwrap(), owner)
        };
        assert_eq!(members(json!({}), GroupOwner::ReplicaSet), 1);
        assert_eq!(members(json!({"replicas": 3}), GroupOwner::ReplicaSet), 3);
        assert_eq!(members(json!({"replicas": 3}), GroupOwner::StatefulSet), 1, "one after the other");
        let parallel = json!({"replicas": 3, "podManagementPolicy": "Parallel"});
        assert_eq!(members(parallel, GroupOwner::StatefulSet), 3);
    }

    #[test]
    fn rules_of_both_api_groups() {
        let rules = |value| serde_json::from_value::<PodGroup>(value).unwrap().rules();
        let zone = |required| vec![TopologyLevel { required, ..TopologyLevel::required("zone") }];
        let constrained =
            |min| GroupRules { min, levels: zone(true), without_preemption: true, ..GroupRules::default() };
        let gang = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]}}});
        assert_eq!(rules(gang), Some(constrained(4)));
        assert_eq!(rules(json!({"spec": {"schedulingPolicy": {"basic": {}}}})), None);
        let basic = json!({"spec": {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{"key": "zone"}]}}});
        assert_eq!(rules(basic), Some(constrained(1)));
        let coscheduling = json!({"spec": {"minMember": 3, "scheduleTimeoutSeconds": 10},
            "metadata": {"annotations": {GROUP_PREFERRED_TOPOLOGY_ANNOTATION: "zone"}}});
        let expected =
            GroupRules { min: 3, levels: zone(false), timeout_seconds: Some(10), ..GroupRules::default() };
        assert_eq!(rules(coscheduling), Some(expected.clone()));
        let member = pod(json!({"metadata": {"annotations": {GROUP_MIN_ANNOTATION: "5"}}}));
        assert_eq!(GroupRules::of_annotations(&member).and(expected).min, 5);
    }

    #[test]
    fn a_pod_group_has_a_disruption_mode_and_a_priority() {
        let rules = |mode: Value| {
            let spec =
                json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": mode, "priority": 7});
            let group: PodGroup = serde_json::from_value(json!({"spec": spec})).unwrap();
            let rules = group.rules().unwrap();
            assert_eq!(rules.priority, Some(7));
            rules.is_disrupted_as_a_whole
        };
        let modes = [json!(null), json!("Pod"), json!("PodGroup"), json!({"single": {}}), json!({"all": {}})];
        assert_eq!(modes.map(rules), [false, false, true, false, true]);
    }

    #[test]
    fn a_group_with_shared_claims_is_not_decided() {
        let spec = json!({"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]});
        let group: PodGroup = serde_json::from_value(json!({"spec": spec})).unwrap();
        let why = group.rules().unwrap().check(3).unwrap_err();
        assert_eq!(why, "its PodGroup has resourceClaims, which are not supported: give each pod its own");
    }

    #[test]
    fn levels_of_annotations_are_ordered_from_the_coarsest() {
        let levels = |annotations: Value| {
            let pod = pod(json!({"metadata": {"annotations": annotations}}));
            let levels = GroupRules::of_annotations(&pod).levels;
            let text = |level: TopologyLevel| {
                let mode = if level.required { "required" } else { "preferred" };
                format!("{} {mode} {}", level.key, level.multiple_of)
            };
            levels.into_iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let (required, preferred) = (GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_PREFERRED_TOPOLOGY_ANNOTATION);
        let (slice, size) = (GROUP_SLICE_TOPOLOGY_ANNOTATION, GROUP_SLICE_SIZE_ANNOTATION);
        assert_eq!(
            levels(json!({required: "zone", preferred: "block, rack"})),
            "zone required 1, block preferred 1, rack preferred 1"
        );
        assert_eq!(
            levels(json!({preferred: "block,rack", slice: "rack", size: "4"})),
            "block preferred 1, rack preferred 4"
        );
        assert_eq!(
            levels(json!({required: "zone", slice: "rack", size: "4"})),
            "zone required 1, rack preferred 4"
        );
        assert_eq!(levels(json!({slice: "rack", size: "0"})), "", "admission refuses this");
    }

    #[test]
    fn the_rank_of_a_pod_is_that_of_its_controller() {
        let rank = |metadata: Value| rank(&pod(json!({"metadata": metadata})));
        let of_job = json!({"annotations": {"batch.kubernetes.io/job-completion-index": "7"}});
        assert_eq!(rank(of_job), [None, Some(7)]);
        assert_eq!(rank(json!({"labels": {"apps.kubernetes.io/pod-index": "x"}})), [None, None]);
        let of_job_set = json!({"labels": {"jobset.sigs.k8s.io/job-global-index": "1",
            "batch.kubernetes.io/job-completion-index": "2"}});
        assert_eq!(rank(of_job_set), [Some(1), Some(2)]);
        // The StatefulSet of the leaders numbers them by replica.
        let leader = json!({"labels": {"leaderworkerset.sigs.k8s.io/group-index": "3",
            "leaderworkerset.sigs.k8s.io/worker-index": "0", "apps.kubernetes.io/pod-index": "3"}});
        assert_eq!(rank(leader), [Some(3), Some(0)]);
    }
}
