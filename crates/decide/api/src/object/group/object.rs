//! The PodGroups of both API groups.

use berth_api_macros::object_type;
use serde_json::Value;

use super::rules::never_preempts;
use super::{
    Agreement, COSCHEDULING_GROUP, GROUPED_BY_WORKLOAD, GroupKey, GroupKind, GroupRules, TopologyLevel,
};
use crate::feature_gates::{FeatureGates, VersionChange};
use crate::object::{Condition, ObjectMeta, PodResourceClaim, PodResourceClaimStatus};
use crate::resource::group_of;

/// A PodGroup of either API group.
#[object_type]
pub struct PodGroup {
    pub api_version: String,
    pub metadata: ObjectMeta,
    /// The controller whose pods are the group, if this is the template of a [`GroupWorkload`].
    #[serde(skip)]
    pub controller: Option<ControllerReference>,
    pub spec: PodGroupSpec,
    pub status: PodGroupStatus,
}

/// `spec` of a PodGroup: the fields of both API groups.
#[object_type]
pub struct PodGroupSpec {
    /// How the members are placed (`scheduling.k8s.io`).
    pub scheduling_policy: Option<PodGroupPolicy>,
    /// Constraints on their nodes (`scheduling.k8s.io`).
    pub scheduling_constraints: Option<PodGroupConstraints>,
    /// The claims of devices that the members share (`scheduling.k8s.io`).
    pub resource_claims: Vec<PodResourceClaim>,
    /// The CompositePodGroup that it belongs to (`scheduling.k8s.io`, with the gate `CompositePodGroup`).
    pub parent_composite_pod_group_name: Option<String>,
    /// `Never` if no pod is preempted for the group (`scheduling.k8s.io`, with the gate `PodGroupPreemptionPolicy`).
    pub preemption_policy: Option<String>,
    /// What is disrupted at once (`scheduling.k8s.io`): `Pod` or `PodGroup` in v1alpha2, `single` or `all` in later versions.
    pub disruption_mode: Option<Value>,
    /// The class that admission took the priority from (`scheduling.k8s.io`).
    pub priority_class_name: Option<String>,
    /// The priority of the group (`scheduling.k8s.io`).
    pub priority: Option<i32>,
    /// The required number of members (`scheduling.x-k8s.io`).
    pub min_member: Option<u32>,
    /// Seconds that members wait for others (`scheduling.x-k8s.io`).
    pub schedule_timeout_seconds: Option<u32>,
}

/// `spec.schedulingPolicy` of a PodGroup.
#[object_type]
pub struct PodGroupPolicy {
    /// Each pod is placed by itself.
    pub basic: Option<Value>,
    /// All or nothing.
    pub gang: Option<GangPolicy>,
}

/// `spec.schedulingPolicy.gang` of a PodGroup.
#[object_type]
pub struct GangPolicy {
    /// The required number of members.
    pub min_count: u32,
}

/// `spec.schedulingConstraints` of a PodGroup.
#[object_type]
pub struct PodGroupConstraints {
    /// At most one is allowed.
    pub topology: Vec<TopologyConstraint>,
}

/// A topology whose domain the members share.
#[object_type]
pub struct TopologyConstraint {
    pub key: String,
}

/// `status` of a PodGroup: the fields of both API groups.
#[object_type]
pub struct PodGroupStatus {
    /// Conditions (`scheduling.k8s.io`).
    pub conditions: Vec<Condition>,
    /// The phase (`scheduling.x-k8s.io`).
    pub phase: String,
    /// The claims that were made for entries of `spec.resourceClaims` (`scheduling.k8s.io`).
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
}

/// A Workload of `scheduling.k8s.io`: templates of PodGroups, and the controller that they are for.
#[object_type]
pub struct GroupWorkload {
    pub api_version: String,
    pub metadata: ObjectMeta,
    pub spec: GroupWorkloadSpec,
}

#[object_type]
pub struct GroupWorkloadSpec {
    /// The object whose pods are grouped.
    pub controller_ref: Option<ControllerReference>,
    /// What the PodGroups are created from.
    pub pod_group_templates: Vec<PodGroupSpec>,
}

/// `spec.controllerRef` of a Workload.
#[object_type(Eq)]
pub struct ControllerReference {
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

impl GroupWorkload {
    /// The group of all pods of the Deployment or StatefulSet that it names: their controllers create no PodGroups. None for other
    /// controllers, which do.
    pub fn into_group(self) -> Option<PodGroup> {
        let controller = self.spec.controller_ref?;
        let is_known = controller.api_group == "apps" && GROUPED_BY_WORKLOAD.contains(&&*controller.kind);
        let mut templates = self.spec.pod_group_templates;
        // Without a policy, the group is not decided.
        let spec = if templates.len() == 1 { templates.remove(0) } else { PodGroupSpec::default() };
        is_known.then(|| PodGroup {
            api_version: self.api_version,
            metadata: self.metadata,
            controller: Some(controller),
            spec,
            status: PodGroupStatus::default(),
        })
    }
}

impl PodGroup {
    /// The key by which its pods name it.
    pub fn key(&self) -> GroupKey {
        if let Some(ControllerReference { kind, name, .. }) = &self.controller {
            return GroupKey::of_workload(kind, &self.metadata.namespace, name);
        }
        let kind = match group_of(&self.api_version) {
            COSCHEDULING_GROUP => GroupKind::Coscheduling,
            _ => GroupKind::Scheduling,
        };
        GroupKey { kind, name: self.metadata.namespaced_name() }
    }

    /// What holds for the group as a whole; none if its pods are placed one by one: before Kubernetes 1.37, a basic group without a topology.
    pub fn rules(&self, gates: FeatureGates) -> Option<GroupRules> {
        let spec = &self.spec;
        let gang = spec.scheduling_policy.as_ref().and_then(|policy| policy.gang.as_ref());
        let min = gang.map(|gang| gang.min_count).or(spec.min_member);
        let levels = self.levels();
        let has_claims = !spec.resource_claims.is_empty();
        let undecided = match &self.controller {
            Some(_) if spec.scheduling_policy.is_none() => {
                Some("its Workload has to have one podGroupTemplate, for all pods of its controller")
            }
            Some(_) if has_claims => {
                Some("its Workload has resourceClaims, which need a PodGroup: give each pod its own")
            }
            None if has_claims && !gates.dra_workload_resource_claims => {
                Some("its PodGroup has resourceClaims, which are not supported: give each pod its own")
            }
            _ => None,
        };
        // Of a basic group, as many pods as fit are placed, in its domain if it has one.
        let is_basic = self.key().kind == GroupKind::Scheduling && spec.scheduling_policy.is_some();
        let is_group = is_basic && gates.has(VersionChange::BasicGroups);
        let min = min.or((is_group || !levels.is_empty() || undecided.is_some()).then_some(1))?;
        Some(GroupRules {
            min: min as usize,
            levels,
            timeout_seconds: spec.schedule_timeout_seconds,
            without_preemption: self.without_preemption(gates),
            undecided: undecided.map(str::to_owned),
            composite: None,
            agreement: self.agreement(gates),
        })
    }

    fn agreement(&self, gates: FeatureGates) -> Option<Agreement> {
        let name = format!("podgroup/{}", self.metadata.namespaced_name());
        let PodGroupSpec { priority, preemption_policy, .. } = &self.spec;
        let agreement = Agreement::new(gates, priority.unwrap_or(0), preemption_policy.as_deref(), name);
        agreement.filter(|_| self.key().kind == GroupKind::Scheduling)
    }

    /// The topologies whose domains its pods share: that of its constraint, and those of its annotations.
    pub fn levels(&self) -> Vec<TopologyLevel> {
        TopologyLevel::of_annotations(self.topology().map(|own| own.key.as_str()), &self.metadata)
    }

    /// Why no pod is preempted for the group, in kube-scheduler's words.
    fn without_preemption(&self, gates: FeatureGates) -> Option<&'static str> {
        let unsupported = self.topology().filter(|_| !gates.has(VersionChange::GroupsPreempt));
        never_preempts(self.spec.preemption_policy.as_deref(), gates)
            .or(unsupported.map(|_| "not supported for pod groups with scheduling constraints."))
    }

    fn topology(&self) -> Option<&TopologyConstraint> {
        self.spec.scheduling_constraints.iter().flat_map(|constraints| &constraints.topology).next()
    }

    /// Whether an entry of one of its pods stands for a claim of the group: one of the same name, with the same claim or template.
    pub fn shares(&self, entry: &PodResourceClaim) -> bool {
        self.spec.resource_claims.contains(entry)
    }

    /// Whether its members are preempted and evicted together; also of a group whose pods are placed one by one.
    pub fn is_disrupted_as_a_whole(&self) -> bool {
        let mode = self.spec.disruption_mode.as_ref();
        mode.is_some_and(|mode| *mode == "PodGroup" || mode.get("all").is_some_and(|all| !all.is_null()))
    }
}
