//! The versions of Kubernetes whose decisions Berth makes, and the decisions that differ between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A minor version of Kubernetes.
#[allow(missing_docs, reason = "the names say all")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum KubernetesVersion {
    #[default]
    #[serde(rename = "1.36")]
    V1_36,
    #[serde(rename = "1.37")]
    V1_37,
    #[serde(rename = "1.38")]
    V1_38,
}

use KubernetesVersion::{V1_37, V1_38};

impl KubernetesVersion {
    /// All versions, in their order.
    pub const ALL: [KubernetesVersion; 3] = [KubernetesVersion::V1_36, V1_37, V1_38];

    /// Such as `1.37`.
    pub const fn name(self) -> &'static str {
        match self {
            KubernetesVersion::V1_36 => "1.36",
            V1_37 => "1.37",
            V1_38 => "1.38",
        }
    }

    /// Whether its components decide as the change says.
    pub const fn has(self, change: VersionChange) -> bool {
        self as u8 >= change.row().1 as u8
    }

    /// The version of a server, from the `major` and `minor` that it reports (`1` and `37+`); the nearest one for others.
    pub fn of_server(major: &str, minor: &str) -> Option<KubernetesVersion> {
        let minor: u32 = minor.trim_end_matches('+').parse().ok().filter(|_| major == "1")?;
        Some(match minor {
            ..=36 => KubernetesVersion::V1_36,
            37 => V1_37,
            38.. => V1_38,
        })
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KubernetesVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<KubernetesVersion, String> {
        let text = text.trim_start_matches('v');
        let is_named = |version: &KubernetesVersion| {
            text.strip_prefix(version.name()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        KubernetesVersion::ALL.into_iter().find(is_named).ok_or_else(|| {
            format!(
                "supported versions are {}",
                KubernetesVersion::ALL.map(KubernetesVersion::name).join(", ")
            )
        })
    }
}

/// A decision that a version of Kubernetes changed, whatever its feature gates. The rule that it concerns asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionChange {
    /// A spread constraint whose selector is `{}` counts all pods of the namespace; it counted none.
    EmptySpreadSelector,
    /// In preemption, a budget whose selector is `{}` protects all pods of its namespace, and a budget can protect pods without labels;
    /// they protected none.
    EmptyBudgetSelector,
    /// A pod whose preemption violates a budget uses up none of the budgets after it; it used up one disruption of each.
    BudgetsAfterViolation,
    /// Errors of selectors of devices name the device and say how a missing key is guarded against.
    SelectorErrorNamesDevice,
    /// A configuration that holds for all requests of a claim is written to the allocation once, without `requests`.
    ConfigOfAllRequests,
    /// Slices with shared counters concern the nodes that they name, as slices with devices do; they concerned all nodes.
    CounterSlicesOfNode,
    /// A device that has too little capacity left is one of all devices, so that a request for all of them fails; it was left out.
    AllWithUsedCapacity,
    /// The error of too many devices names the request.
    TooManyDevicesNamesRequest,
    /// A pool that is incomplete or invalid rejects the node for a request for all devices; it ended the attempt with an error.
    AllWithUnusablePool,
    /// A device that claims share is not given to one alone, once it can no longer be shared.
    ExclusiveWithShares,
    /// Versions that differ in build metadata alone satisfy `matchAttribute`, and do not satisfy `distinctAttribute`.
    VersionsWithoutBuildMetadata,
    /// Amounts of capacity that are rounded up to a step are written with its suffixes, and those that cannot be calculated are errors;
    /// they were written with binary suffixes.
    CapacityInFormatOfStep,
    /// A pod with scheduling gates holds the room that it is nominated for.
    GatedNomination,
    /// NodeResourcesFit scores nodes by the pod-level requests of the pod; it looked at those of containers only.
    PodLevelFitScore,
    /// Claims and storage capacities are compared exactly; both were rounded up to whole bytes.
    ExactStorageCapacity,
    /// Scores by resources are calculated without overflow.
    ScoresOfHugeQuantities,
    /// Pods of a group with other schedulers, priorities or preemption policies keep the group from being placed.
    GroupAgreement,
    /// The error of pods of a group that differ names them.
    GroupAgreementNamesPods,
    /// A requested capacity may have the domain of the driver.
    QualifiedCapacity,
}

impl VersionChange {
    /// The number of the change in kubernetes/kubernetes, if it is known, and the first version that has it.
    pub const fn row(self) -> (Option<u32>, KubernetesVersion) {
        match self {
            VersionChange::EmptySpreadSelector => (Some(141_340), V1_38),
            VersionChange::EmptyBudgetSelector => (Some(141_785), V1_38),
            VersionChange::BudgetsAfterViolation => (Some(137_981), V1_37),
            VersionChange::SelectorErrorNamesDevice => (Some(136_709), V1_37),
            VersionChange::ConfigOfAllRequests => (Some(139_731), V1_37),
            VersionChange::CounterSlicesOfNode => (None, V1_37),
            VersionChange::AllWithUsedCapacity => (Some(140_769), V1_37),
            VersionChange::TooManyDevicesNamesRequest => (None, V1_37),
            VersionChange::CapacityInFormatOfStep => (Some(140_161), V1_37),
            VersionChange::GatedNomination => (Some(139_057), V1_37),
            VersionChange::PodLevelFitScore => (None, V1_38),
            VersionChange::ExactStorageCapacity => (None, V1_38),
            VersionChange::ScoresOfHugeQuantities => (None, V1_38),
            VersionChange::GroupAgreement => (Some(139_920), V1_37),
            VersionChange::GroupAgreementNamesPods => (Some(141_930), V1_38),
            VersionChange::AllWithUnusablePool => (Some(141_898), V1_38),
            VersionChange::ExclusiveWithShares => (Some(140_798), V1_38),
            VersionChange::VersionsWithoutBuildMetadata => (None, V1_38),
            VersionChange::QualifiedCapacity => (Some(142_202), V1_38),
        }
    }
}
