//! The PodGroups of both API groups.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules::never_preempts;
use super::{
    Agreement, COSCHEDULING_GROUP, GROUPED_BY_WORKLOAD, GroupKey, GroupKind, GroupRules, TopologyLevel,
};
use crate::feature_gates::{FeatureGates, VersionChange};
use crate::object::{Condition, ObjectMeta, PodResourceClaim, PodResourceClaimStatus, nullable};
use crate::resource::group_of;

/// A PodGroup of either API group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroup {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// The controller whose pods are the group, if this is the template of a [`GroupWorkload`].
    #[serde(skip)]
    pub controller: Option<ControllerReference>,
    #[serde(deserialize_with = "nullable")]
    pub spec: PodGroupSpec,
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
    pub resource_claims: Vec<PodResourceClaim>,
    /// The CompositePodGroup that it belongs to (`scheduling.k8s.io`, with the gate `CompositePodGroup`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_composite_pod_group_name: Option<String>,
    /// `Never` if no pod is preempted for the group (`scheduling.k8s.io`, with the gate `PodGroupPreemptionPolicy`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
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
    /// The claims that were made for entries of `spec.resourceClaims` (`scheduling.k8s.io`).
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
}

/// A Workload of `scheduling.k8s.io`: templates of PodGroups, and the controller that they are for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupWorkload {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: GroupWorkloadSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupWorkloadSpec {
    /// The object whose pods are grouped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_ref: Option<ControllerReference>,
    /// What the PodGroups are created from.
    #[serde(deserialize_with = "nullable")]
    pub pod_group_templates: Vec<PodGroupSpec>,
}

/// `spec.controllerRef` of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerReference {
    #[serde(deserialize_with = "nullable")]
    pub api_group: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
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
