//! The fields of a pod that a node reads.
//!
//! Not `berth_api::object::Pod`: that has no container statuses, restart policy and readiness gates, and an agent with
//! many nodes reads every bound pod of the cluster.

use berth_api::object::{
    Affinity, Condition, Container, NamespacedName, NodeAllocatableResourceClaimStatus, ObjectMeta, Pod,
    PodOs, PodResourceClaim, PodResourceClaimStatus, PodSchedulingGroup, PodSpec, PodStatus, ResourceList,
    ResourceRequirements, Shared, StringMap, Toleration, find_condition, time, volume,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

berth_api::object_types! {
    /// The fields of a pod that a node reads.
    pub(crate) struct PodView {
        pub(crate) metadata: ObjectMeta,
        pub(crate) spec: Spec,
        pub(crate) status: Status,
    }

    pub(crate) struct Spec {
        pub(crate) node_name: String,
        pub(crate) node_selector: Shared<StringMap>,
        pub(crate) affinity: Option<Shared<Affinity>>,
        pub(crate) tolerations: Shared<Vec<Toleration>>,
        pub(crate) scheduler_name: String,
        pub(crate) priority: Option<i32>,
        pub(crate) init_containers: Shared<Vec<Container>>,
        pub(crate) containers: Shared<Vec<Container>>,
        pub(crate) overhead: Shared<ResourceList>,
        pub(crate) resources: Option<Box<ResourceRequirements>>,
        pub(crate) os: Option<PodOs>,
        pub(crate) host_network: bool,
        pub(crate) restart_policy: RestartPolicy,
        pub(crate) active_deadline_seconds: Option<i64>,
        pub(crate) readiness_gates: Vec<ReadinessGate>,
        pub(crate) volumes: Vec<PodVolume>,
        pub(crate) resource_claims: Vec<PodResourceClaim>,
        pub(crate) scheduling_group: Option<PodSchedulingGroup>,
    }

    /// A volume; only what names its claim. That of a generic ephemeral volume is named after the pod and the volume.
    pub(crate) struct PodVolume {
        name: String,
        persistent_volume_claim: Option<volume::ClaimVolume>,
        ephemeral: Option<IgnoredAny>,
    }

    pub(crate) struct ReadinessGate {
        pub(crate) condition_type: String,
    }

    pub(crate) struct Status {
        pub(crate) phase: String,
        pub(crate) conditions: Vec<Condition>,
        #[serde(rename = "podIP")]
        pub(crate) pod_ip: String,
        pub(crate) container_statuses: Vec<ContainerState>,
        pub(crate) init_container_statuses: Vec<ContainerState>,
        pub(crate) resource_claim_statuses: Vec<PodResourceClaimStatus>,
        pub(crate) extended_resource_claim_status: Option<ExtendedResourceClaim>,
        pub(crate) node_allocatable_resource_claim_statuses: Shared<Vec<NodeAllocatableResourceClaimStatus>>,
        ;
        #[serde(with = "time")]
        pub(crate) start_time: Option<Timestamp>,
    }

    pub(crate) struct ExtendedResourceClaim {
        resource_claim_name: String,
    }

    /// The part of a container's status that an agent needs to resume the pod after a restart.
    pub(crate) struct ContainerState {
        pub(crate) name: String,
        pub(crate) allocated_resources: Option<ResourceList>,
        pub(crate) resources: ResourceRequirements,
        pub(crate) restart_count: i32,
        pub(crate) state: State,
    }

    pub(crate) struct State {
        pub(crate) running: Option<Running>,
    }

    pub(crate) struct Running {
        ;
        #[serde(with = "time")]
        pub(crate) started_at: Option<Timestamp>,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum RestartPolicy {
    OnFailure,
    Never,
    #[default]
    #[serde(other)]
    Always,
}

/// A volume of a pod that needs a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimVolume {
    /// The name in the pod.
    pub(crate) name: String,
    pub(crate) claim: NamespacedName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceClaim {
    /// The name in the pod.
    pub(crate) name: String,
    /// None while it has not been made from its template.
    pub(crate) claim: Option<NamespacedName>,
}

/// What a pod waits for before its containers are created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) volumes: Vec<ClaimVolume>,
    pub(crate) devices: Vec<DeviceClaim>,
    /// The PodGroup for which claims may be reserved instead of the pod.
    pub(crate) group: Option<String>,
}

impl Needs {
    pub(crate) fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.devices.is_empty()
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &NamespacedName> {
        let volumes = self.volumes.iter().map(|volume| &volume.claim);
        volumes.chain(self.devices.iter().filter_map(|device| device.claim.as_ref()))
    }
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

    pub(crate) fn transition(&self, condition_type: &str) -> Option<Timestamp> {
        self.condition(condition_type)?.last_transition_time
    }

    pub(crate) fn passes_readiness_gates(&self) -> bool {
        self.spec.readiness_gates.iter().all(|gate| self.has_condition(&gate.condition_type))
    }

    /// What it waits for before its containers are created.
    pub(crate) fn needs(&self) -> Needs {
        let group = self.spec.scheduling_group.as_ref().map(|group| group.pod_group_name.clone());
        Needs { volumes: self.claim_volumes(), devices: self.device_claims(), group }
    }

    /// The claims of devices. An entry of a template for which no claim is needed has none.
    fn device_claims(&self) -> Vec<DeviceClaim> {
        let statuses = &self.status.resource_claim_statuses;
        let key = |name: &String| NamespacedName::new(&self.metadata.namespace, name);
        let entries = self.spec.resource_claims.iter().filter_map(|entry| {
            let made = statuses.iter().find(|status| status.name == entry.name);
            let claim = match (&entry.resource_claim_name, made) {
                (Some(name), _) => Some(key(name)),
                (None, Some(made)) => Some(key(made.resource_claim_name.as_ref()?)),
                (None, None) => None,
            };
            Some(DeviceClaim { name: entry.name.clone(), claim })
        });
        let extended = self.status.extended_resource_claim_status.iter().map(|extended| {
            let claim = Some(key(&extended.resource_claim_name));
            DeviceClaim { name: "extended resources".to_owned(), claim }
        });
        entries.chain(extended).collect()
    }

    fn claim_volumes(&self) -> Vec<ClaimVolume> {
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
                os: spec.os.clone(),
                host_network: spec.host_network,
                resource_claims: spec.resource_claims.clone().into(),
                ..PodSpec::default()
            }
            .into(),
            status: PodStatus {
                node_allocatable_resource_claim_statuses: self
                    .status
                    .node_allocatable_resource_claim_statuses
                    .clone(),
                ..PodStatus::default()
            }
            .into(),
        }
    }
}

berth_client::has_metadata!(PodView);
