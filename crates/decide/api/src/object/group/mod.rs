//! Pod groups: pods that are placed as one unit.
//!
//! A pod names its group in one of three ways, the first of which counts: `spec.schedulingGroup` (a PodGroup of
//! `scheduling.k8s.io`), the label of the coscheduling plugin (a PodGroup of `scheduling.x-k8s.io`), or annotations, for a
//! group without an object: a name, or `owner` for the pods of one controller.

mod composite;
mod index;
mod object;
mod rules;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::composite::{CompositeGangPolicy, CompositePodGroup, CompositePodGroupSpec, CompositePolicy};
pub use self::index::GroupIndex;
pub use self::object::*;
pub use self::rules::{
    AgreeingPod, Agreement, GroupPart, GroupRules, PartRules, RemainingGroup, TopologyLevel,
};
use super::{Job, NamespacedName, ObjectMeta, Pod, Workload};
use crate::resource::{COMPOSITE_POD_GROUPS, COSCHEDULING_POD_GROUPS, POD_GROUPS, Resource};

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
/// What pods have in the state of Berth whose controller a Workload names: `KIND/NAME` of that controller.
pub(super) const GROUP_OF_WORKLOAD_ANNOTATION: &str = "scheduling.berth.dev/group-of-workload";
/// The controllers, of the API group `apps`, whose pods are a group if a Workload names them.
const GROUPED_BY_WORKLOAD: [&str; 2] = ["Deployment", "StatefulSet"];
/// With [`GROUP_ANNOTATION`]: how many members have to be placed at least.
pub const GROUP_MIN_ANNOTATION: &str = "scheduling.berth.dev/group-min";
/// Before the name of an attribute of devices, in place of a node label in the annotations about topologies. No label has a colon.
const DEVICE_ATTRIBUTE_PREFIX: &str = "device:";
/// On a pod with [`GROUP_ANNOTATION`] or on a PodGroup: the node label whose value all members share, or `device:` and the attribute of
/// devices whose value their nodes share.
pub const GROUP_REQUIRED_TOPOLOGY_ANNOTATION: &str = "scheduling.berth.dev/group-required-topology";
/// The same, if the group may be placed otherwise: several keys, the coarsest first, separated by commas.
pub const GROUP_PREFERRED_TOPOLOGY_ANNOTATION: &str = "scheduling.berth.dev/group-preferred-topology";
/// The node label whose domains take members by [`GROUP_SLICE_SIZE_ANNOTATION`] only.
pub const GROUP_SLICE_TOPOLOGY_ANNOTATION: &str = "scheduling.berth.dev/group-slice-topology";
/// How many members a slice has: each domain takes a multiple of them.
pub const GROUP_SLICE_SIZE_ANNOTATION: &str = "scheduling.berth.dev/group-slice-size";
/// The condition of a PodGroup of [`SCHEDULING_GROUP`] in v1alpha2, and in later versions.
pub const GROUP_CONDITIONS: [&str; 2] = ["PodGroupScheduled", "PodGroupInitiallyScheduled"];
/// The same of a CompositePodGroup.
pub const COMPOSITE_CONDITION: &str = "CompositePodGroupInitiallyScheduled";
/// The annotations about topologies.
pub const GROUP_TOPOLOGY_ANNOTATIONS: [&str; 4] = [
    GROUP_REQUIRED_TOPOLOGY_ANNOTATION,
    GROUP_PREFERRED_TOPOLOGY_ANNOTATION,
    GROUP_SLICE_TOPOLOGY_ANNOTATION,
    GROUP_SLICE_SIZE_ANNOTATION,
];
/// The label of pods and ReplicaSets with the revision of a Deployment.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
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
    Annotation,
    /// A CompositePodGroup of [`SCHEDULING_GROUP`], to which the PodGroup of the pod belongs.
    Composite,
    /// The name in `spec.controllerRef` of a Workload of [`SCHEDULING_GROUP`].
    Workload,
    /// The annotation [`GROUP_ANNOTATION`] with the value [`GROUP_OF_OWNER`], and the kind of the controller.
    Owner(GroupOwner),
}

berth_api::named! {
    /// A kind of controllers whose pods may be a group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub enum GroupOwner(name) {
        /// Also of a Deployment.
        ReplicaSet = "ReplicaSet",
        /// Its pods are a group if it creates them in parallel.
        StatefulSet = "StatefulSet",
        /// `replicas`, as a ReplicaSet.
        ReplicationController = "ReplicationController",
        /// `parallelism`, or the completions that are missing.
        Job = "Job",
    }
}

impl GroupOwner {
    const ALL: [GroupOwner; 4] =
        [GroupOwner::ReplicaSet, GroupOwner::StatefulSet, GroupOwner::ReplicationController, GroupOwner::Job];
}

/// How many pods a ReplicaSet, a ReplicationController or a StatefulSet has at one time. A StatefulSet that creates a pod when the one
/// before is ready has no group: 1. `replicas` is its number of pods.
pub fn members_of_workload(workload: &Workload, owner: GroupOwner, replicas: Option<i32>) -> usize {
    let is_ordered = owner == GroupOwner::StatefulSet && workload.spec.pod_management_policy != "Parallel";
    if is_ordered { 1 } else { n_replicas(replicas) }
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
            GroupKind::Composite => Some(COMPOSITE_POD_GROUPS),
            GroupKind::Annotation | GroupKind::Workload | GroupKind::Owner(_) => None,
        }
    }

    /// The API group of the PodGroup, or what names the group instead.
    pub fn source(self) -> &'static str {
        match self {
            GroupKind::Scheduling => SCHEDULING_GROUP,
            GroupKind::Coscheduling => COSCHEDULING_GROUP,
            GroupKind::Annotation => "annotation",
            GroupKind::Composite => "composite",
            GroupKind::Workload => "workload",
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
        let workload = || pod.metadata.annotations.get(GROUP_OF_WORKLOAD_ANNOTATION).filter(|_| extensions);
        let label = || pod.metadata.labels.get(POD_GROUP_LABEL).filter(|_| extensions);
        let named = pod.spec.scheduling_group.as_ref().map(|group| &group.pod_group_name);
        let (kind, name) = named
            .map(|name| (GroupKind::Scheduling, name))
            .or_else(|| Some((GroupKind::Coscheduling, label()?)))
            .or_else(|| Some((GroupKind::Annotation, annotation()?)))
            .or_else(|| Some((GroupKind::Workload, workload()?)))?;
        if kind == GroupKind::Annotation && name == GROUP_OF_OWNER {
            let controller = pod.metadata.controller()?;
            let owner = GroupOwner::ALL.into_iter().find(|owner| owner.name() == controller.kind)?;
            return Some(GroupKey::of_owner(owner, &pod.metadata.namespace, &controller.name));
        }
        Some(GroupKey { kind, name: NamespacedName::new(&pod.metadata.namespace, name) })
    }

    /// The group of the pods of a controller that a Workload names.
    pub fn of_workload(kind: &str, namespace: &str, name: &str) -> GroupKey {
        GroupKey {
            kind: GroupKind::Workload,
            name: NamespacedName::new(namespace, &format!("{kind}/{name}")),
        }
    }

    /// The pod as a member of the group of its StatefulSet, or of the Deployment of its ReplicaSet, if a Workload names that and the
    /// pod is in no other group; or no longer as one. None if nothing changes.
    pub fn join_workload(pod: &Pod, is_named: impl FnOnce(&GroupKey) -> bool) -> Option<Pod> {
        let before = pod.metadata.annotation(GROUP_OF_WORKLOAD_ANNOTATION);
        let of_other = GroupKey::of(pod, true).is_some_and(|key| key.kind != GroupKind::Workload);
        let key = GroupKey::of_controller(pod).filter(|key| !of_other && is_named(key));
        let now = key.as_ref().map(|key| key.name.name());
        (before != now).then(|| {
            let mut pod = pod.clone();
            match now {
                Some(name) => {
                    pod.metadata.annotations.insert(GROUP_OF_WORKLOAD_ANNOTATION.to_owned(), name.to_owned());
                }
                None => _ = pod.metadata.annotations.remove(GROUP_OF_WORKLOAD_ANNOTATION),
            }
            pod
        })
    }

    fn of_controller(pod: &Pod) -> Option<GroupKey> {
        let owner = pod.metadata.controller()?;
        let (kind, name) = match &*owner.kind {
            "ReplicaSet" => ("Deployment", pod.deployment()?),
            kind => (GROUPED_BY_WORKLOAD.into_iter().find(|grouped| *grouped == kind)?, &*owner.name),
        };
        Some(GroupKey::of_workload(kind, &pod.metadata.namespace, name))
    }

    /// The group of the pods of an owner.
    pub fn of_owner(owner: GroupOwner, namespace: &str, name: &str) -> GroupKey {
        let name = NamespacedName::new(namespace, &format!("{}/{name}", owner.name()));
        GroupKey { kind: GroupKind::Owner(owner), name }
    }
}

impl Pod {
    /// The Deployment of its ReplicaSet, whose name ends with the hash of the template.
    pub fn deployment(&self) -> Option<&str> {
        let owner = self.metadata.controller().filter(|owner| owner.kind == "ReplicaSet")?;
        owner.name.strip_suffix(self.metadata.label(POD_TEMPLATE_HASH)?)?.strip_suffix('-')
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod group {}", self.name)
    }
}

/// The rank of a pod among the members of its group, where its controller numbers them: that of its part, and that within the part.
pub fn rank(pod: &Pod) -> [Option<u32>; 2] {
    let ObjectMeta { labels, annotations, .. } = &pod.metadata;
    let number = |key: &&str| labels.get(*key).or_else(|| annotations.get(*key))?.parse().ok();
    [OUTER_RANK_KEYS.iter().find_map(number), RANK_KEYS.iter().find_map(number)]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::feature_gates::FeatureGates;
    use crate::feature_gates::KubernetesVersion::{V1_36, V1_37};

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
    fn pods_of_a_composite_group_that_run_in_several_domains_are_an_error() {
        let key = |kind, name: &str| GroupKey { kind, name: NamespacedName::new("n", name) };
        let part = |kind, name, topology: &str, parts| {
            let levels = vec![TopologyLevel::required(topology)];
            PartRules { group: key(kind, name), min: 1, levels, parts }
        };
        let leaf = |name| part(GroupKind::Scheduling, name, "rack", Vec::new());
        let root = part(GroupKind::Composite, "root", "zone", vec![leaf("a"), leaf("b")]);
        // Nodes are named by zone and rack.
        let domain =
            |node: &str, key: &str| node.get(if key == "zone" { 0..1 } else { 1..2 }).map(str::to_owned);
        let problem = |nodes: [(&str, &str); 2]| {
            let running =
                nodes.map(|(group, node)| (Some(key(GroupKind::Scheduling, group)), node.to_owned()));
            root.several_domains(&running, &domain).unwrap_or_default()
        };
        let several = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: 1, 2";
        assert_eq!(problem([("a", "11"), ("b", "12")]), "");
        assert_eq!(problem([("a", "11"), ("b", "21")]), several);
        let of_child = format!("composite pod group evaluation failed due to child error: {several}");
        assert_eq!(problem([("b", "11"), ("b", "12")]), of_child);
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
            let workload: Workload = serde_json::from_value(json!({"spec": spec})).unwrap();
            members_of_workload(&workload, owner, workload.spec.replicas)
        };
        assert_eq!(members(json!({}), GroupOwner::ReplicaSet), 1);
        assert_eq!(members(json!({"replicas": 3}), GroupOwner::ReplicaSet), 3);
        assert_eq!(members(json!({"replicas": 3}), GroupOwner::StatefulSet), 1, "one after the other");
        let parallel = json!({"replicas": 3, "podManagementPolicy": "Parallel"});
        assert_eq!(members(parallel, GroupOwner::StatefulSet), 3);
    }

    #[test]
    fn a_workload_makes_a_group_of_the_deployment_that_it_names() {
        let workload = |controller: Value, templates: Value| {
            let spec = json!({"controllerRef": controller, "podGroupTemplates": templates});
            let metadata = json!({"name": "w", "namespace": "n"});
            let workload =
                json!({"apiVersion": "scheduling.k8s.io/v1beta1", "metadata": metadata, "spec": spec});
            serde_json::from_value::<GroupWorkload>(workload).unwrap().into_group()
        };
        let template = json!({"name": "all", "schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}}});
        let deployment = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
        let group = workload(deployment.clone(), json!([template])).unwrap();
        let rules = |group: &PodGroup| group.rules(FeatureGates::default()).unwrap();
        let expected = GroupRules { min: 3, ..GroupRules::default() };
        assert!(group.is_disrupted_as_a_whole());
        assert_eq!(
            (group.key().to_string().as_str(), rules(&group)),
            ("pod group n/Deployment/web", expected)
        );
        let several = workload(deployment, json!([template, template])).unwrap();
        assert!(rules(&several).check(9).unwrap_err().contains("one podGroupTemplate"));
        // Its controller creates PodGroups.
        assert_eq!(
            workload(json!({"apiGroup": "batch", "kind": "Job", "name": "web"}), json!([template])),
            None
        );

        let pod_of = |kind: &str, name: &str, annotations: Value| {
            let owner =
                json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true});
            pod(
                json!({"metadata": {"namespace": "n", "labels": {POD_TEMPLATE_HASH: "5d4c"}, "annotations": annotations,
                "ownerReferences": [owner]}}),
            )
        };
        let is_named = |key: &GroupKey| *key == group.key();
        let joined = |pod: &Pod| GroupKey::join_workload(pod, is_named);
        let member = joined(&pod_of("ReplicaSet", "web-5d4c", json!({}))).unwrap();
        assert_eq!(GroupKey::of(&member, true), Some(group.key()));
        assert_eq!(GroupKey::of(&member, false), None, "an extension");
        assert_eq!(joined(&member), None, "it is one already");
        let left = GroupKey::join_workload(&member, |_| false).unwrap();
        assert_eq!(GroupKey::of(&left, true), None);
        for other in [
            pod_of("ReplicaSet", "web-2-5d4c", json!({})),
            pod_of("StatefulSet", "web", json!({})),
            pod_of("ReplicaSet", "web-5d4c", json!({GROUP_ANNOTATION: "mine"})),
        ] {
            assert_eq!(joined(&other), None);
        }
    }

    #[test]
    fn rules_of_both_api_groups() {
        let group = |value| serde_json::from_value::<PodGroup>(value).unwrap();
        let rules = |value| group(value).rules(V1_36.into());
        let zone = |required| vec![TopologyLevel { required, ..TopologyLevel::required("zone") }];
        let constrained = |min| GroupRules {
            min,
            levels: zone(true),
            without_preemption: Some("not supported for pod groups with scheduling constraints."),
            ..GroupRules::default()
        };
        let gang = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]}}});
        assert_eq!(rules(gang.clone()), Some(constrained(4)));
        let in_1_37 =
            |value| group(value).rules(V1_37.into()).map(|rules| (rules.min, rules.without_preemption));
        assert_eq!(in_1_37(gang), Some((4, None)));
        assert_eq!(in_1_37(json!({"spec": {"schedulingPolicy": {"basic": {}}}})), Some((1, None)));
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
        let is_as_a_whole = |mode: Value| {
            let spec =
                json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": mode, "priority": 7});
            let group: PodGroup = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert_eq!(group.spec.priority, Some(7));
            group.is_disrupted_as_a_whole()
        };
        let modes = [json!(null), json!("Pod"), json!("PodGroup"), json!({"single": {}}), json!({"all": {}})];
        assert_eq!(modes.map(is_as_a_whole), [false, false, true, false, true]);
    }

    #[test]
    fn a_group_with_shared_claims_is_not_decided() {
        let spec = json!({"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]});
        let group: PodGroup = serde_json::from_value(json!({"spec": spec})).unwrap();
        let why = group.rules(FeatureGates::default()).unwrap().check(3).unwrap_err();
        assert_eq!(why, "its PodGroup has resourceClaims, which are not supported: give each pod its own");
        let gates = FeatureGates { dra_workload_resource_claims: true, ..V1_36.into() };
        assert_eq!(group.rules(gates), None, "the pods of a basic group are placed one by one");
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
