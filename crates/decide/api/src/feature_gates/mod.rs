//! `--feature-gates`: the gates of kube-scheduler 1.36, those of 1.37 that concern pod groups, and those that change what Berth does.

use std::sync::LazyLock;

use crate::syntax::similar::nearest;

/// One gate a line: `NAME STAGE on|off [locked][: what Berth does]`, by name.
const TABLE: &str = include_str!("gates.txt");

const HONOURED: &str = "honoured";

/// A feature gate of kube-scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// Its name.
    pub name: &'static str,
    /// `Alpha`, `Beta`, `GA` or `Deprecated`.
    pub stage: &'static str,
    /// Its value if it is not set.
    pub default: bool,
    /// Whether it cannot have another value.
    pub is_locked: bool,
    /// What Berth does; empty if the gate concerns other components of Kubernetes.
    pub in_berth: &'static str,
}

static GATES: LazyLock<Vec<FeatureGate>> = LazyLock::new(|| TABLE.lines().map(FeatureGate::parse).collect());

impl FeatureGate {
    /// All gates, by name.
    pub fn all() -> &'static [FeatureGate] {
        &GATES
    }

    fn parse(line: &'static str) -> FeatureGate {
        let (gate, in_berth) = line.split_once(": ").unwrap_or((line, ""));
        let mut words = gate.split(' ');
        let mut word = || words.next().unwrap_or_default();
        FeatureGate {
            name: word(),
            stage: word(),
            default: word() == "on",
            is_locked: word() == "locked",
            in_berth,
        }
    }

    /// Whether setting it changes what Berth does.
    fn has_effect(&self) -> bool {
        self.in_berth == HONOURED || self.stage_of_all().is_some()
    }

    /// The stage whose gates it sets, if it stands for several.
    fn stage_of_all(&self) -> Option<&'static str> {
        match self.name {
            "AllAlpha" => Some("Alpha"),
            "AllBeta" => Some("Beta"),
            _ => None,
        }
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
    /// The gate does not exist, its value is none, or it is locked to the other value.
    pub fn parse(text: &str) -> Result<GateSetting, String> {
        let text = text.trim();
        let text = text.strip_prefix("kube:").unwrap_or(text);
        let (name, value) = text.split_once('=').ok_or_else(|| format!("missing bool value for {text}"))?;
        let (name, value) = (name.trim(), value.trim());
        let Some(gate) = GATES.iter().find(|gate| gate.name == name) else {
            let near = nearest(name, GATES.iter().map(|gate| gate.name));
            let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            return Err(format!("unrecognized feature gate: {name}{near}"));
        };
        let value = match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(format!("invalid value of {name}={value}: must be true or false")),
        };
        if gate.is_locked && value != gate.default {
            let locked = gate.default;
            return Err(format!("cannot set feature gate {name} to {value}, feature is locked to {locked}"));
        }
        Ok(GateSetting { gate, value })
    }

    /// Why it changes nothing in Berth, if it asks for a change.
    pub fn without_effect(&self) -> Option<String> {
        let GateSetting { gate: FeatureGate { name, in_berth, .. }, value } = self;
        (*value != self.gate.default && !self.gate.has_effect()).then(|| match *in_berth {
            "" => format!("{name}={value} has no effect: it concerns other components of Kubernetes"),
            why => format!("{name}={value} has no effect: {why}"),
        })
    }
}

/// The gates that change what Berth does; all are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
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
}

impl FeatureGates {
    /// The gates as set: the last setting of a gate counts, and `AllAlpha` and `AllBeta` set those that are not named.
    pub fn new(settings: &[GateSetting]) -> FeatureGates {
        let set = |name: &str| {
            settings.iter().rev().find(|setting| setting.gate.name == name).map(|setting| setting.value)
        };
        let of_stage = |stage: &str| {
            settings.iter().rev().find(|s| s.gate.stage_of_all() == Some(stage)).map(|setting| setting.value)
        };
        let mut gates = FeatureGates::default();
        for (name, is_on) in gates.fields() {
            let gate = GATES.iter().find(|gate| gate.name == name);
            let unnamed = || of_stage(gate?.stage);
            *is_on = set(name).or_else(unnamed).unwrap_or_default();
        }
        gates
    }

    /// Those with these names are on.
    pub fn of_names(names: &[String]) -> FeatureGates {
        let mut gates = FeatureGates::default();
        gates.fields().into_iter().for_each(|(name, is_on)| *is_on = names.iter().any(|n| n == name));
        gates
    }

    /// The names of the gates that are on.
    pub fn names(mut self) -> Vec<&'static str> {
        self.fields().into_iter().filter(|(_, is_on)| **is_on).map(|(name, _)| name).collect()
    }

    fn fields(&mut self) -> [(&'static str, &mut bool); 9] {
        [
            ("TaintTolerationComparisonOperators", &mut self.taint_toleration_comparison_operators),
            ("StorageCapacityScoring", &mut self.storage_capacity_scoring),
            ("VolumeLimitScaling", &mut self.volume_limit_scaling),
            ("MutablePVNodeAffinity", &mut self.mutable_pv_node_affinity),
            ("WorkloadWithJob", &mut self.workload_with_job),
            ("DRAWorkloadResourceClaims", &mut self.dra_workload_resource_claims),
            ("CompositePodGroup", &mut self.composite_pod_group),
            ("PodGroupPreemptionPolicy", &mut self.pod_group_preemption_policy),
            ("DRANodeAllocatableResources", &mut self.dra_node_allocatable_resources),
        ]
    }
}

#[cfg(test)]
mod tests;
