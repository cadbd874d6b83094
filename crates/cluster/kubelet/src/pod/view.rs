//! The fields of a pod that a node reads.
//!
//! Not `berth_api::object::Pod`: that has no container statuses, restart policy and readiness gates, and an agent with
//! many nodes reads every bound pod of the cluster.

use berth_api::object::{
    Affinity, Condition, Container, NamespacedName, ObjectMeta, Pod, PodSpec, ResourceList,
    ResourceRequirements, Shared, StringMap, Toleration, find_condition, nullable, time,
};
use jiff::Timestamp;
use serde::Deserialize;

/// The fields of a pod that a node reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PodView {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: Spec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) node_name: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) node_selector: Shared<StringMap>,
    pub(crate) affinity: Option<Shared<Affinity>>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) tolerations: Shared<Vec<Toleration>>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) scheduler_name: String,
    pub(crate) priority: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) init_containers: Shared<Vec<Container>>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) containers: Shared<Vec<Container>>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) overhead: Shared<ResourceList>,
    pub(crate) resources: Option<Box<ResourceRequirements>>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) host_network: bool,
    #[serde(deserialize_with = "nullable")]
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) readiness_gates: Vec<ReadinessGate>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volumes: Vec<PodVolume>,
}

/// A volume; only what names its claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolume {
    #[serde(deserialize_with = "nullable")]
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<IgnoredTemplate>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    #[serde(deserialize_with = "nullable")]
    claim_name: String,
}

/// The claim of a generic ephemeral volume is named after the pod and the volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct IgnoredTemplate {}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReadinessGate {
    pub(crate) condition_type: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum RestartPolicy {
    OnFailure,
    Never,
    #[default]
    #[serde(other)]
    Always,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    #[serde(deserialize_with = "nullable")]
    pub(crate) phase: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(rename = "podIP", deserialize_with = "nullable")]
    pub(crate) pod_ip: String,
    #[serde(with = "time")]
    pub(crate) start_time: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) container_statuses: Vec<ContainerState>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) init_container_statuses: Vec<ContainerState>,
}

/// The part of a container's status that an agent needs to resume the pod after a restart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerState {
    #[serde(deserialize_with = "nullable")]
    pub(crate) name: String,
    pub(crate) allocated_resources: Option<ResourceList>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) resources: ResourceRequirements,
    #[serde(deserialize_with = "nullable")]
    pub(crate) restart_count: i32,
    #[serde(deserialize_with = "nullable")]
    pub(crate) state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct State {
    pub(crate) running: Option<Running>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    #[serde(with = "time")]
    pub(crate) started_at: Option<Timestamp>,
}

/// A volume of a pod that needs a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimVolume {
    /// The name in the pod.
    pub(crate) name: String,
    pub(crate) claim: NamespacedName,
}

impl PodView {
    /// `Succeeded` or `Failed`.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.phase == "Running"
    }

    fn condition(&self, condition_type: &str) -> Option<&Condition> {
        find_condition(&self.status.conditions, condition_type)
    }

    pub(crate) fn has_condition(&self, condition_type: &str) -> bool {
        self.condition(condition_type).is_some_and(Condition::is_true)
    }

    /// The transition time of a condition.
    pub(crate) fn transition(&self, condition_type: &str) -> Option<Timestamp> {
        self.condition(condition_type)?.last_transition_time
    }

    /// Whether every readiness gate's condition is true.
    pub(crate) fn passes_readiness_gates(&self) -> bool {
        self.spec.readiness_gates.iter().all(|gate| self.has_condition(&gate.condition_type))
    }

    /// The volumes with claims.
    pub(crate) fn claim_volumes(&self) -> Vec<ClaimVolume> {
        let volumes = self.spec.volumes.iter().filter_map(|volume| {
            let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => claim.claim_name.clone(),
                (None, Some(_)) => format!("{}-{}", self.metadata.name, volume.name),
                (None, None) => return None,
            };
            let claim = NamespacedName::new(&self.metadata.namespace, &claim);
            Some(ClaimVolume { name: volume.name.clone(), claim })
        });
        volumes.collect()
    }

    /// The pod for the engine, without spread constraints and scheduling gates: they do not apply to a bound pod.
    pub(crate) fn to_placed(&self) -> Pod {
        let (metadata, spec) = (&self.metadata, &self.spec);
        Pod {
            metadata: metadata.clone(),
            spec: PodSpec {
                node_name: spec.node_name.clone(),
                node_selector: spec.node_selector.clone(),
                affinity: spec.affinity.clone(),
                tolerations: spec.tolerations.clone(),
                scheduler_name: spec.scheduler_name.clone(),
                priority: spec.priority,
                init_containers: spec.init_containers.clone(),
                containers: spec.containers.clone(),
                overhead: spec.overhead.clone(),
                resources: spec.resources.clone(),
                host_network: spec.host_network,
                ..PodSpec::default()
            },
            ..Pod::default()
        }
    }
}

berth_client::has_metadata!(PodView);
