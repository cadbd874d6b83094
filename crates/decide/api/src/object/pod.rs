//! Pods.

use berth_api_macros::object_type;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use serde::Deserializer;

use super::shared::Empty;
use super::volume::Volume;
use super::{
    Affinity, Condition, LabelSelector, ObjectMeta, ResourceList, ResourceRequirements, Shared, StringMap,
    find_condition, nullable, time,
};
use crate::resource::{PODS, REPLICATION_CONTROLLERS, Resource};

/// The annotation that kubelet marks its mirror pods with.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// How long a node has to accept or reject a pod that is bound to it. A rejected pod has failed and need not be evicted.
const NODE_DECIDES: SignedDuration = SignedDuration::from_secs(5);

/// Until when a pod without `status.startTime`, bound at this time, is left to its node; none if that is over. A later time than now
/// is that of another clock.
pub fn node_decides_until(bound_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let until = bound_at.checked_add(NODE_DECIDES).ok()?;
    (bound_at <= now && now < until).then_some(until)
}

/// How the `status.message` of a pod begins that its node rejected.
pub const REJECTED: &str = "Pod was rejected: ";

/// Reason and message of a node that rejected the pod with this status, such as `OutOfcpu`; none if the pod failed for another
/// reason.
pub fn node_rejection<'a>(phase: &str, reason: &'a str, message: &'a str) -> Option<(&'a str, &'a str)> {
    // Those of node admission, in a status that no kubelet wrote.
    const REASONS: [&str; 8] = [
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
        "PodAffinity",
        "PodAntiAffinity",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    ];
    let text = message.strip_prefix(REJECTED);
    let is_rejection = text.is_some() || reason.starts_with("OutOf") || REASONS.contains(&reason);
    (phase == "Failed" && is_rejection).then_some((reason, text.unwrap_or(message)))
}

#[object_type]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: Shared<PodSpec>,
    pub status: Shared<PodStatus>,
}

impl Pod {
    /// Whether the pod has ended (`Succeeded` or `Failed`): it then uses no resources and matches no rule.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Reason and message of its node, if that rejected the pod and no controller replaces it: the pod does not run until a user
    /// creates it again.
    pub fn lasting_rejection(&self) -> Option<(&str, &str)> {
        let PodStatus { phase, reason, message, .. } = &*self.status;
        let is_left = !self.metadata.is_deleting() && self.metadata.controller().is_none();
        node_rejection(phase, reason, message).filter(|_| is_left && !self.spec.node_name.is_empty())
    }

    /// Whether its controller creates another pod in its place. The objects of Kubernetes that do are workloads, and pods themselves; what
    /// objects of other API groups do is not known, and is expected of them.
    pub fn is_recreated(&self) -> bool {
        self.metadata.controller().is_some_and(|owner| {
            Resource::of_kind(&owner.api_version, &owner.kind).is_none_or(|resource| {
                matches!(resource.group, "apps" | "batch")
                    || [PODS, REPLICATION_CONTROLLERS].contains(resource)
            })
        })
    }

    /// Whether it belongs to its node: a pod of a DaemonSet, or the mirror of a pod that the node runs from a file.
    pub fn belongs_to_node(&self) -> bool {
        let owner = self.metadata.controller().map(|owner| owner.kind.as_str());
        matches!(owner, Some("DaemonSet" | "Node"))
            || self.metadata.annotations.contains_key(MIRROR_ANNOTATION)
    }

    /// Whether its status says that it is not ready.
    pub fn is_unready(&self) -> bool {
        find_condition(&self.status.conditions, "Ready").is_some_and(|ready| !ready.is_true())
    }

    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// When its kubelet accepted the pod (`status.startTime`), in seconds since 1970; none before that.
    pub fn started(&self) -> Option<i64> {
        self.status.start_time.map(Timestamp::as_second)
    }

    /// Whether the pod names a node (`spec.nodeName`) that has still to admit it: no kubelet has written its status, as in a
    /// manifest. Pods that are being deleted, and mirrors of pods that a node runs from a file, have been admitted.
    pub fn awaits_node_admission(&self) -> bool {
        const OF_KUBELET: [&str; 4] =
            ["Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"];
        let PodStatus { phase, start_time, conditions, .. } = &*self.status;
        !self.spec.node_name.is_empty()
            && matches!(phase.as_str(), "" | "Pending")
            && start_time.is_none()
            && !conditions.iter().any(|c| OF_KUBELET.contains(&c.condition_type.as_str()))
            && !self.metadata.is_deleting()
            && !self.metadata.annotations.contains_key(MIRROR_ANNOTATION)
    }

    /// Whether a scheduler preempts the pod: it is being deleted, and its condition `DisruptionTarget` has the reason
    /// `PreemptionByScheduler`.
    pub fn is_being_preempted(&self) -> bool {
        let target = find_condition(&self.status.conditions, "DisruptionTarget");
        self.metadata.is_deleting()
            && target.is_some_and(|c| c.is_true() && c.reason == "PreemptionByScheduler")
    }
}

#[object_type(Eq, Hash)]
pub struct PodSpec {
    /// The node that the pod is bound to; empty while it is pending.
    pub node_name: String,
    /// Node labels required by equality.
    pub node_selector: Shared<StringMap>,
    pub affinity: Option<Shared<Affinity>>,
    pub tolerations: Shared<Vec<Toleration>>,
    pub topology_spread_constraints: Shared<Vec<TopologySpreadConstraint>>,
    /// The scheduling profile that decides for the pod; empty before defaulting.
    pub scheduler_name: String,
    /// Scheduling gates: the scheduler ignores the pod until the list is empty.
    pub scheduling_gates: Shared<Vec<PodSchedulingGate>>,
    /// Priority; pods with a higher value are scheduled first.
    pub priority: Option<i32>,
    /// Name of the PriorityClass that `priority` comes from.
    pub priority_class_name: String,
    /// `PreemptLowerPriority` or `Never`.
    pub preemption_policy: Option<String>,
    pub volumes: Shared<Vec<Volume>>,
    /// Init containers: they run in order before the containers. Sidecars among them keep running.
    pub init_containers: Shared<Vec<Container>>,
    pub containers: Shared<Vec<Container>>,
    /// Name of the RuntimeClass that admission merges into the pod.
    pub runtime_class_name: String,
    /// Resources that the container runtime needs in addition.
    pub overhead: Shared<ResourceList>,
    /// Pod-level requests and limits.
    pub resources: Option<Box<ResourceRequirements>>,
    /// Whether the pod uses the node's network: its container ports are host ports.
    pub host_network: bool,
    /// Whether the pod runs in the node's user namespace; true when absent.
    pub host_users: Option<bool>,
    /// The operating system of the containers. No scheduler reads it.
    pub os: Option<PodOs>,
    pub resource_claims: Shared<Vec<PodResourceClaim>>,
    pub scheduling_group: Option<PodSchedulingGroup>,
    /// The pod ends then: scopes of ResourceQuotas read it.
    pub active_deadline_seconds: Option<i64>,
}

impl PodSpec {
    /// All but the node, to be compared.
    pub(super) fn without_node(&self) -> impl PartialEq + '_ {
        let PodSpec {
            node_name: _,
            node_selector,
            affinity,
            tolerations,
            topology_spread_constraints,
            scheduler_name,
            scheduling_gates,
            priority,
            priority_class_name,
            preemption_policy,
            volumes,
            init_containers,
            containers,
            runtime_class_name,
            overhead,
            resources,
            host_network,
            host_users,
            os,
            resource_claims,
            scheduling_group,
            active_deadline_seconds,
        } = self;
        (
            (node_selector, affinity, tolerations, topology_spread_constraints, volumes),
            (containers, init_containers, overhead, resources, resource_claims, scheduling_gates),
            (scheduler_name, priority, priority_class_name, preemption_policy, runtime_class_name),
            (host_network, host_users, os, scheduling_group, active_deadline_seconds),
        )
    }
}

impl Empty for PodSpec {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);
        &EMPTY
    }
}

/// The operating system of a pod.
#[object_type(Eq, Hash)]
pub struct PodOs {
    /// `linux` or `windows`.
    pub name: String,
}

/// A claim of devices: an existing one, or one that is made from a template.
#[object_type(Eq, Hash)]
pub struct PodResourceClaim {
    pub name: String,
    pub resource_claim_name: Option<String>,
    /// Name of the template. The name of the claim made from it is in the pod's status.
    pub resource_claim_template_name: Option<String>,
}

#[object_type(Eq, Hash)]
pub struct PodSchedulingGroup {
    pub pod_group_name: String,
}

/// The fields of a container that placement reads.
#[object_type(Eq, Hash)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub resources: ResourceRequirements,
    pub ports: Vec<ContainerPort>,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
    /// What happens when the container exits.
    pub restart_policy_rules: Vec<ContainerRestartRule>,
}

/// What happens when a container exits; the exit codes do not matter here.
#[object_type(Eq, Hash)]
pub struct ContainerRestartRule {
    /// `Restart` or `RestartAllContainers`.
    pub action: String,
}

impl Container {
    /// Whether this init container is a sidecar: it keeps running beside the containers.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

#[object_type(Eq, Hash)]
pub struct ContainerPort {
    pub name: String,
    pub container_port: i32,
    /// Port on the node; 0 for none.
    pub host_port: i32,
    /// Address on the node; empty means every address.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// `TCP`, `UDP` or `SCTP`; empty before defaulting.
    pub protocol: String,
}

#[object_type(Eq, Hash)]
pub struct Toleration {
    /// Taint key; empty with `Exists` tolerates every key.
    pub key: String,
    /// `Equal` (also when empty) or `Exists`.
    pub operator: String,
    /// Taint value, for `Equal`.
    pub value: String,
    /// Taint effect; empty tolerates all effects.
    pub effect: String,
    /// How long a `NoExecute` taint is tolerated, in seconds; absent for ever.
    pub toleration_seconds: Option<i64>,
}

#[object_type(Eq, Hash)]
pub struct TopologySpreadConstraint {
    /// Largest allowed difference between the matching pods of a domain and the minimum over all domains.
    pub max_skew: i32,
    /// Node label key whose values are the domains.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// The pods to count, in the pod's own namespace.
    pub label_selector: Option<LabelSelector>,
    /// Minimum number of domains; with fewer, the minimum of matching pods is 0. Only with `DoNotSchedule`.
    pub min_domains: Option<i32>,
    /// `Honor` (default) or `Ignore`: whether nodes outside the pod's node affinity are counted.
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore` (default): whether nodes with untolerated taints are excluded.
    pub node_taints_policy: Option<String>,
    /// Pod label keys whose values narrow the selector.
    pub match_label_keys: Vec<String>,
}

#[object_type(Eq, Hash)]
pub struct PodSchedulingGate {
    pub name: String,
}

#[object_type(Eq, Hash)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Why the pod has this phase, in one word.
    pub reason: String,
    /// Why the pod has this phase.
    pub message: String,
    /// When the kubelet accepted the pod.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// The node on which a scheduler preempts pods for this one.
    pub nominated_node_name: String,
    pub conditions: Shared<Vec<Condition>>,
    /// The resources of the containers; containers without any are not kept.
    #[serde(deserialize_with = "with_resources", skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Shared<Vec<ContainerStatus>>,
    /// The same of the init containers.
    #[serde(deserialize_with = "with_resources", skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Shared<Vec<ContainerStatus>>,
    /// The claims made from templates.
    pub resource_claim_statuses: Shared<Vec<PodResourceClaimStatus>>,
    /// The claim that the scheduler made for extended resources of device classes.
    pub extended_resource_claim_status: Option<Box<PodExtendedResourceClaimStatus>>,
    /// What the devices of its claims take of the allocatable resources of its node, for each claim that takes any (gate
    /// `DRANodeAllocatableResources`).
    pub node_allocatable_resource_claim_statuses: Shared<Vec<NodeAllocatableResourceClaimStatus>>,
    /// Pod-level requests and limits in force on the node.
    pub resources: Option<Box<ResourceRequirements>>,
    /// Pod-level requests that the node has reserved.
    pub allocated_resources: Option<ResourceList>,
}

/// The claim made for an entry of `spec.resourceClaims` with a template.
#[object_type(Eq, Hash)]
pub struct PodResourceClaimStatus {
    /// Name of the entry.
    pub name: String,
    /// Name of the claim; absent if none was needed.
    pub resource_claim_name: Option<String>,
}

/// What the devices of a claim take of the allocatable resources of the pod's node.
#[object_type(Eq, Hash)]
pub struct NodeAllocatableResourceClaimStatus {
    pub resource_claim_name: String,
    /// Names of the containers that use it.
    pub containers: Vec<String>,
    /// The amounts by resource, once for all containers.
    pub resources: ResourceList,
}

#[object_type(Eq, Hash)]
pub struct PodExtendedResourceClaimStatus {
    /// Which requests of the claim are for which resources of which containers.
    pub request_mappings: Vec<ContainerExtendedResourceRequest>,
    pub resource_claim_name: String,
}

/// The request of a claim for an extended resource of a container.
#[object_type(Eq, Hash)]
pub struct ContainerExtendedResourceRequest {
    pub container_name: String,
    pub resource_name: String,
    /// Name of the request in the claim.
    pub request_name: String,
}

impl Empty for PodStatus {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<PodStatus> = LazyLock::new(PodStatus::default);
        &EMPTY
    }
}

impl PodStatus {
    /// Whether its node rejected the last resize for good: the condition `PodResizePending` has the reason `Infeasible`.
    pub fn is_resize_infeasible(&self) -> bool {
        self.is_resize_pending("Infeasible")
    }

    /// Whether its node has no room for the last resize yet.
    pub fn is_resize_deferred(&self) -> bool {
        self.is_resize_pending("Deferred")
    }

    fn is_resize_pending(&self, reason: &str) -> bool {
        find_condition(&self.conditions, "PodResizePending").is_some_and(|c| c.reason == reason)
    }
}

/// The resources of a running container.
#[object_type(Eq, Hash)]
pub struct ContainerStatus {
    pub name: String,
    /// Requests that the node has reserved.
    pub allocated_resources: Option<ResourceList>,
    /// Requests and limits in force.
    pub resources: Option<ResourceRequirements>,
}

/// Reads the statuses of containers and keeps those with resources.
fn with_resources<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Shared<Vec<ContainerStatus>>, D::Error> {
    let mut statuses: Vec<ContainerStatus> = nullable(deserializer)?;
    statuses.retain(|status| status.allocated_resources.is_some() || status.resources.is_some());
    Ok(statuses.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awaits_node_admission(pod: &str) -> bool {
        serde_json::from_str::<Pod>(pod).unwrap().awaits_node_admission()
    }

    #[test]
    fn objects_that_create_no_pods_were_expected_to_create_moved_ones_again() {
        for (api_version, kind, is_recreated) in [
            ("apps/v1", "ReplicaSet", true),
            ("batch/v1", "Job", true),
            ("v1", "ReplicationController", true),
            ("v1", "Pod", true),
            ("example.com/v1", "ConfigMap", true),
            ("v1", "ConfigMap", false),
            ("v1", "Namespace", false),
            ("coordination.k8s.io/v1", "Lease", false),
        ] {
            let owner = serde_json::json!({"apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": true});
            let pod: Pod =
                serde_json::from_value(serde_json::json!({"metadata": {"ownerReferences": [owner]}}))
                    .unwrap();
            assert_eq!(pod.is_recreated(), is_recreated, "{api_version} {kind}");
        }
        assert!(!Pod::default().is_recreated(), "no controller");
    }

    #[test]
    fn a_node_admits_the_pods_whose_status_no_kubelet_has_written() {
        for status in [
            "{}",
            r#"{"phase": "Pending"}"#,
            r#"{"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}"#,
        ] {
            let pod = format!(r#"{{"spec": {{"nodeName": "a"}}, "status": {status}}}"#);
            assert!(awaits_node_admission(&pod), "{pod}");
            assert!(!awaits_node_admission(&format!(r#"{{"status": {status}}}"#)), "no node: {status}");
        }
        for status in [
            r#"{"phase": "Running"}"#,
            r#"{"phase": "Unknown"}"#,
            r#"{"phase": "Pending", "startTime": "2026-01-31T12:00:00Z"}"#,
            r#"{"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}"#,
        ] {
            let pod = format!(r#"{{"spec": {{"nodeName": "a"}}, "status": {status}}}"#);
            assert!(!awaits_node_admission(&pod), "{pod}");
        }
        for metadata in [
            r#"{"deletionTimestamp": "2026-01-31T12:00:00Z"}"#,
            r#"{"annotations": {"kubernetes.io/config.mirror": "hash"}}"#,
        ] {
            let pod = format!(r#"{{"metadata": {metadata}, "spec": {{"nodeName": "a"}}}}"#);
            assert!(!awaits_node_admission(&pod), "{pod}");
        }
    }
}
