//! Versions of Kubernetes with what differs between them: feature gates ([`FeatureGate`]) and decisions ([`VersionChange`]).

mod version;

use std::sync::LazyLock;

use crate::syntax::similar::nearest;

pub use self::version::{ChangeRow, KubernetesVersion, ServerVersion, VersionChange};

/// One gate a line, by name: `NAME STATE STATE STATE[: what Berth does]`, with the state in each version: `.` if it does not exist, else its
/// stage with `+` (on) or `-`, and `!` if it is locked.
const TABLE: &str = include_str!("gates.txt");

const HONOURED: &str = "honoured";

/// A feature gate of kube-scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    pub name: &'static str,
    /// What it is in each version of [`KubernetesVersion::ALL`]; none if the version does not have it.
    pub states: [Option<GateState>; 3],
    /// What Berth does; empty if the gate concerns other components of Kubernetes.
    pub in_berth: &'static str,
}

/// A feature gate in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// `Alpha`, `Beta`, `GA` or `Deprecated`.
    pub stage: &'static str,
    /// Its value if it is not set.
    pub default: bool,
    /// Whether it cannot have another value.
    pub is_locked: bool,
}

static GATES: LazyLock<Vec<FeatureGate>> = LazyLock::new(|| TABLE.lines().map(FeatureGate::parse).collect());

impl GateState {
    fn parse(word: &'static str) -> Option<GateState> {
        let (stage, default) = word.split_at_checked(word.find(['+', '-'])?)?;
        Some(GateState { stage, default: default.starts_with('+'), is_locked: default.ends_with('!') })
    }
}

impl FeatureGate {
    /// All gates, by name.
    pub fn all() -> &'static [FeatureGate] {
        &GATES
    }

    fn parse(line: &'static str) -> FeatureGate {
        let (gate, in_berth) = line.split_once(": ").unwrap_or((line, ""));
        let mut words = gate.split(' ');
        let name = words.next().unwrap_or_default();
        FeatureGate { name, states: [(); 3].map(|()| words.next().and_then(GateState::parse)), in_berth }
    }

    fn named(name: &str) -> Option<&'static FeatureGate> {
        GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|index| &GATES[index])
    }

    pub fn in_version(&self, version: KubernetesVersion) -> Option<GateState> {
        self.states[version as usize]
    }

    /// Whether setting it changes what Berth does.
    fn has_effect(&self) -> bool {
        self.in_berth.starts_with(HONOURED) || self.stage_of_all().is_some()
    }

    /// The stage whose gates it sets, if it stands for several.
    fn stage_of_all(&self) -> Option<&'static str> {
        match self.name {
            "AllAlpha" => Some("Alpha"),
            "AllBeta" => Some("Beta"),
            _ => None,
        }
    }

    /// The versions that have it, such as `1.37`.
    fn versions(&self) -> String {
        let has = |version: &KubernetesVersion| self.in_version(*version).is_some();
        let versions = KubernetesVersion::ALL.into_iter().filter(has).map(KubernetesVersion::name);
        versions.collect::<Vec<_>>().join(" and ")
    }
}

/// A gate with its value, as written in `--feature-gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSetting {
    gate: &'static FeatureGate,
    value: bool,
}

impl GateSetting {
    /// Parses `NAME=BOOL`; the component `kube:` may stand before it, as in kube-scheduler.
    ///
    /// # Errors
    /// No version has the gate, or its value is none.
    pub fn parse(text: &str) -> Result<GateSetting, String> {
        let text = text.trim();
        let text = text.strip_prefix("kube:").unwrap_or(text);
        let (name, value) = text.split_once('=').ok_or_else(|| format!("missing bool value for {text}"))?;
        let (name, value) = (name.trim(), value.trim());
        let Some(gate) = FeatureGate::named(name) else {
            let near = nearest(name, GATES.iter().map(|gate| gate.name));
            let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            return Err(format!("unrecognized feature gate: {name}{near}"));
        };
        let value = match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(format!("invalid value of {name}={value}: must be true or false")),
        };
        Ok(GateSetting { gate, value })
    }

    /// Why it changes nothing in Berth, if it asks for a change.
    pub fn without_effect(&self, version: KubernetesVersion) -> Option<String> {
        let GateSetting { gate, value } = self;
        let FeatureGate { name, in_berth, .. } = gate;
        let why = match gate.in_version(version) {
            None => {
                let what = in_berth.strip_prefix(HONOURED).map(|text| text.trim_start_matches(": "));
                let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
                format!("Kubernetes {version} does not have this gate of {}{what}", gate.versions())
            }
            Some(state) if *value == state.default => return None,
            Some(state) if state.is_locked => format!("Kubernetes {version} locks it to {}", state.default),
            Some(_) if gate.has_effect() => return None,
            Some(_) if in_berth.is_empty() => "it concerns other components of Kubernetes".to_owned(),
            Some(_) => (*in_berth).to_owned(),
        };
        Some(format!("{name}={value} has no effect: {why}"))
    }
}

/// A version of Kubernetes, with those of its gates that change what Berth does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// Decides about everything that changed without a gate.
    pub version: KubernetesVersion,
    /// Tolerations compare integers, with the operators `Gt` and `Lt` (enhancement 5471).
    pub taint_toleration_comparison_operators: bool,
    /// VolumeBinding scores nodes by their storage capacity (enhancement 4049).
    pub storage_capacity_scoring: bool,
    /// NodeVolumeLimits rejects nodes without a CSI driver whose `preventPodSchedulingIfMissing` is true (enhancement 5030).
    pub volume_limit_scaling: bool,
    /// `spec.nodeAffinity` of PersistentVolumes can be changed (enhancement 5381).
    pub mutable_pv_node_affinity: bool,
    /// The Job controller creates a Workload and a PodGroup for Jobs whose pods all run at once (enhancement 5547).
    pub workload_with_job: bool,
    /// The pods of a PodGroup share its claims of devices (enhancement 5729).
    pub dra_workload_resource_claims: bool,
    /// PodGroups belong to CompositePodGroups (enhancement 6012, Kubernetes 1.37).
    pub composite_pod_group: bool,
    /// `spec.preemptionPolicy` of PodGroups counts (Kubernetes 1.37).
    pub pod_group_preemption_policy: bool,
    /// Devices take allocatable resources of their node (enhancement 5517).
    pub dra_node_allocatable_resources: bool,
    /// DeviceTaintRules give devices taints (enhancement 5055).
    pub dra_device_taint_rules: bool,
    /// Ranges of consumable capacity are calculated in thousandths (enhancement 5075, Kubernetes 1.37).
    pub dra_fractional_capacity_range: bool,
    /// The scheduler preempts for deferred resizes of running pods (Kubernetes 1.37).
    pub in_place_pod_vertical_scaling_scheduler_preemption: bool,
    /// Parallel to [`API_GATES`].
    pub of_api: [bool; API_GATES.len()],
}

/// Gates of kinds and fields that only the API server reads: without them, it does not serve the kind, and drops the field.
pub const API_GATES: [&str; 13] = [
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevicesType",
    "EmptyDirVolumeMode",
    "EvictionRequestAPI",
    "GRPCContainerProbeTLS",
    "GenericWorkload",
    "H2CContainerProbe",
    "InPlacePodVerticalScalingMemoryBackedVolumes",
    "TopologyAwareWorkloadScheduling",
    "UserNamespacesHostNetworkSupport",
];

impl Default for FeatureGates {
    /// Those of the default version, as they are if they are not set.
    fn default() -> Self {
        FeatureGates::from(KubernetesVersion::default())
    }
}

impl From<KubernetesVersion> for FeatureGates {
    /// The gates of a version, as they are if they are not set.
    fn from(version: KubernetesVersion) -> FeatureGates {
        // Pods are validated with the defaults of a version, one after another.
        static DEFAULTS: LazyLock<[FeatureGates; KubernetesVersion::ALL.len()]> =
            LazyLock::new(|| KubernetesVersion::ALL.map(|version| FeatureGates::new(version, &[])));
        DEFAULTS[version as usize]
    }
}

impl FeatureGates {
    /// The gates as set: the last setting of a gate counts, and `AllAlpha` and `AllBeta` set those that are not named. Gates that the
    /// version does not have are off.
    pub fn new(version: KubernetesVersion, settings: &[GateSetting]) -> FeatureGates {
        let last = |is_meant: &dyn Fn(&FeatureGate) -> bool| {
            settings.iter().rev().find(|setting| is_meant(setting.gate)).map(|setting| setting.value)
        };
        let mut gates = FeatureGates::off(version);
        for (name, is_on) in gates.fields() {
            let state = FeatureGate::named(name).and_then(|gate| gate.in_version(version));
            *is_on = state.is_some_and(|state| {
                let set = last(&|gate| gate.name == name);
                let of_stage = || last(&|gate| gate.stage_of_all() == Some(state.stage));
                set.or_else(of_stage).filter(|_| !state.is_locked).unwrap_or(state.default)
            });
        }
        gates
    }

    pub fn of_names(version: KubernetesVersion, names: &[String]) -> FeatureGates {
        let mut gates = FeatureGates::off(version);
        gates.fields().for_each(|(name, is_on)| *is_on = names.iter().any(|n| n == name));
        gates
    }

    /// Whether the gate of a name is on; those that change nothing in Berth count as off.
    pub fn is_on(mut self, gate: &str) -> bool {
        self.fields().any(|(name, is_on)| name == gate && *is_on)
    }

    /// Whether the version decides as the change says.
    pub const fn has(&self, change: VersionChange) -> bool {
        self.version.has(change)
    }

    const fn off(version: KubernetesVersion) -> FeatureGates {
        FeatureGates {
            version,
            taint_toleration_comparison_operators: false,
            storage_capacity_scoring: false,
            volume_limit_scaling: false,
            mutable_pv_node_affinity: false,
            workload_with_job: false,
            dra_workload_resource_claims: false,
            composite_pod_group: false,
            pod_group_preemption_policy: false,
            dra_node_allocatable_resources: false,
            dra_device_taint_rules: false,
            dra_fractional_capacity_range: false,
            in_place_pod_vertical_scaling_scheduler_preemption: false,
            of_api: [false; API_GATES.len()],
        }
    }

    pub fn names(mut self) -> Vec<&'static str> {
        self.fields().filter(|(_, is_on)| **is_on).map(|(name, _)| name).collect()
    }

    fn fields(&mut self) -> impl Iterator<Item = (&'static str, &mut bool)> {
        let of_rules = [
            ("TaintTolerationComparisonOperators", &mut self.taint_toleration_comparison_operators),
            ("StorageCapacityScoring", &mut self.storage_capacity_scoring),
            ("VolumeLimitScaling", &mut self.volume_limit_scaling),
            ("MutablePVNodeAffinity", &mut self.mutable_pv_node_affinity),
            ("WorkloadWithJob", &mut self.workload_with_job),
            ("DRAWorkloadResourceClaims", &mut self.dra_workload_resource_claims),
            ("CompositePodGroup", &mut self.composite_pod_group),
            ("PodGroupPreemptionPolicy", &mut self.pod_group_preemption_policy),
            ("DRANodeAllocatableResources", &mut self.dra_node_allocatable_resources),
            ("DRADeviceTaintRules", &mut self.dra_device_taint_rules),
            ("DRAFractionalCapacityRange", &mut self.dra_fractional_capacity_range),
            (
                "InPlacePodVerticalScalingSchedulerPreemption",
                &mut self.in_place_pod_vertical_scaling_scheduler_preemption,
            ),
        ];
        of_rules.into_iter().chain(API_GATES.into_iter().zip(&mut self.of_api))
    }
}

#[cfg(test)]
mod tests;
