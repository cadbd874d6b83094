//! Recordings of a scheduler's decisions: scenarios with the scheduler's answers.
//!
//! One JSON object per line; the format is described in `docs/recordings.md`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use berth_api::object::device::{
    AllocationResult, ClaimDecision, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequest,
    DeviceRequestAllocationResult, ExtendedResourceClaim, ResourceClaimConsumerReference,
};
use berth_api::object::{
    ContainerExtendedResourceRequest, Namespace, NamespacedName, Node, NodeSelector, Pod,
    PodDisruptionBudget, Service, time,
};
use berth_api::read::{JsonError, from_json};

/// A scenario with the scheduler's answers.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Recording {
    pub scenario: Scenario,
    pub expect: Expectation,
}

impl Recording {
    /// Reads a line.
    pub fn from_json(line: &[u8]) -> Result<Recording, JsonError> {
        from_json(line)
    }
}

/// A cluster and the pods to schedule, one after the other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// Name, unique in its file.
    pub name: String,
    /// `KubeSchedulerConfiguration`; absent means defaults.
    pub config: Option<Value>,
    pub namespaces: Vec<Namespace>,
    pub services: Vec<Service>,
    pub nodes: Vec<Node>,
    /// Running pods (`spec.nodeName` set), not yet defaulted.
    pub pods: Vec<Pod>,
    /// Pods to schedule, in this order.
    pub pending: Vec<Pod>,
    /// Objects that decide where pods with volumes or with claims of devices may run, not yet defaulted.
    pub objects: Vec<Value>,
    /// Whether the objects are those of devices.
    pub dra: bool,
    /// Whether pods are used without defaulting and validation.
    pub raw: bool,
    /// Whether an unschedulable pod preempts.
    pub preemption: bool,
    /// Pod disruption budgets; their status stays as given.
    pub pdbs: Vec<PodDisruptionBudget>,
    /// Pods that wait for `status.nominatedNodeName`; they are not scheduled.
    pub nominated: Vec<Pod>,
    /// PodGroups and PriorityClasses. If there are any, pending pods are decided group by group.
    pub groups: Vec<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Expectation {
    /// One per pending pod.
    pub steps: Vec<Step>,
    /// The same with faults of the reference corrected. One of both lists has to be equal as a whole.
    #[serde(rename = "fixedSteps")]
    pub fixed_steps: Option<Vec<Step>>,
    /// In place of these, one per group of pending pods.
    pub groups: Vec<GroupStep>,
}

/// The outcome of a group before the next one was decided. Pods without a node are gone then.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupStep {
    /// `namespace/name`.
    pub group: String,
    /// The nodes of the pods that have one, by name.
    pub placed: BTreeMap<String, String>,
    /// The names of the running pods that were preempted.
    pub victims: BTreeSet<String>,
    /// Why the group is not decided.
    pub message: Option<String>,
}

/// The answer for one pending pod. Absent fields of a brief step are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Step {
    /// `namespace/name`.
    pub pod: String,
    /// Validation errors; the pod is then not scheduled.
    pub invalid: Option<Vec<RecordedError>>,
    /// Warnings of the API server.
    pub warnings: Option<Vec<String>>,
    /// `spec.affinity` after admission.
    pub admitted_affinity: Option<Value>,
    /// `spec.topologySpreadConstraints` after admission.
    pub admitted_spread: Option<Value>,
    /// The rejection before any node was checked.
    pub pre_filter: Option<RecordedNode>,
    /// Every node's verdict or scores.
    pub nodes: Option<BTreeMap<String, RecordedNode>>,
    /// The nodes with the highest total.
    pub best: Option<Vec<String>>,
    /// The node that the pod was bound to.
    pub chosen: Option<String>,
    /// What was decided about claims that are not bound yet.
    pub volumes: Option<RecordedVolumes>,
    pub message: Option<String>,
    /// The scheduler failed on the pod.
    pub err: Option<String>,
    /// `status.startTime` of the pod that this step placed.
    #[serde(deserialize_with = "time::deserialize")]
    pub start_time: Option<Timestamp>,
    pub preemption: Option<RecordedPreemption>,
    /// The claims of a pod with claims of devices, in its order.
    pub claims: Vec<RecordedClaim>,
    /// What is done about the claims of a pod that no node is feasible for.
    pub post_filter: Option<RecordedPostFilter>,
}

impl Step {
    /// Whether the step is complete: absent fields are then empty.
    pub fn is_full(&self) -> bool {
        self.nodes.is_some() || self.invalid.is_some() || self.pre_filter.is_some() || self.err.is_some()
    }
}

/// What was decided about the claims of a pod, by their names in its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RecordedVolumes {
    /// The volumes that claims are bound to.
    #[serde(rename = "static")]
    pub bind: BTreeMap<String, String>,
    /// Claims whose volumes are provisioned.
    pub provision: Vec<String>,
}

/// A claim of a pod after its decision.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RecordedClaim {
    pub claim: NamespacedName,
    #[serde(rename = "for")]
    pub name_in_pod: Option<String>,
    /// Whether it was allocated by this step.
    pub new: bool,
    pub devices: Vec<DeviceRequestAllocationResult>,
    pub config: Vec<DeviceAllocationConfiguration>,
    /// The nodes that can use them.
    pub node_selector: Option<NodeSelector>,
    /// The consumer that was added.
    pub reserved_for: Option<ResourceClaimConsumerReference>,
    /// Whether conditions of the devices are not true yet.
    pub waits: bool,
    /// What a claim for extended resources requests.
    pub requests: Vec<DeviceRequest>,
    pub mappings: Vec<ContainerExtendedResourceRequest>,
}

impl RecordedClaim {
    pub fn decision(&self) -> ClaimDecision {
        let devices = DeviceAllocationResult { results: self.devices.clone(), config: self.config.clone() };
        let node_selector = self.node_selector.clone();
        let (requests, mappings) = (self.requests.clone(), self.mappings.clone());
        ClaimDecision {
            claim: self.claim.clone(),
            name_in_pod: self.name_in_pod.clone(),
            allocation: self.new.then_some(AllocationResult {
                devices,
                node_selector,
                allocation_timestamp: None,
            }),
            is_reserved_now: self.reserved_for.is_some(),
            group: None,
            waits: self.waits,
            extended: self.name_in_pod.is_none().then_some(ExtendedResourceClaim { requests, mappings }),
        }
    }
}

/// What `DynamicResources` does about a pod that no node is feasible for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RecordedPostFilter {
    pub code: String,
    pub message: String,
    /// The claim whose allocation is taken away.
    pub deallocated: Option<NamespacedName>,
    /// The claims of which it could be one.
    pub acceptable: Vec<NamespacedName>,
    /// The claim for extended resources that is deleted.
    pub deleted: Option<NamespacedName>,
}

/// A validation error as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct RecordedError {
    /// Error type, such as `FieldValueInvalid`.
    #[serde(rename = "type")]
    pub error_type: String,
    pub field: String,
    pub detail: String,
    pub error: String,
}

/// A node's verdict (`plugin`, `code`, `reasons`) or scores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RecordedNode {
    /// The first plugin that rejects the node.
    pub plugin: Option<String>,
    pub code: Option<String>,
    pub reasons: Vec<String>,
    /// Weighted scores by plugin.
    pub scores: BTreeMap<String, i64>,
    pub total: i64,
}

/// The result of `DefaultPreemption`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RecordedPreemption {
    pub node: Option<String>,
    /// `namespace/name` of the victims, the most important first.
    pub victims: Vec<String>,
    /// Every node where preemption would help.
    pub candidates: BTreeMap<String, RecordedVictims>,
    /// The candidates that are equally good, if there are several.
    pub acceptable: Vec<RecordedVictims>,
    /// Status code without a nominated node.
    pub code: Option<String>,
    /// Message without a nominated node.
    pub message: Option<String>,
    /// `namespace/name` of the pods of lower priority that lose their nomination.
    pub cleared_nominations: Vec<String>,
    /// The node where the pod runs without the victims; none if it does not fit there.
    pub placed: Option<String>,
    /// `status.startTime` of the pod there.
    #[serde(deserialize_with = "time::deserialize")]
    pub start_time: Option<Timestamp>,
    /// The rejection by the nominated node without the victims.
    pub retry: Option<RecordedNode>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RecordedVictims {
    /// The node; empty where it is the key.
    pub node: String,
    /// `namespace/name`, the most important first.
    pub victims: Vec<String>,
    /// Number of victims whose eviction violates a budget.
    pub pdb_violations: usize,
}
