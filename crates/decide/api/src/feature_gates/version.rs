//! The versions of Kubernetes whose decisions Berth makes, and the decisions that differ between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A minor version of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum KubernetesVersion {
    #[serde(rename = "1.36")]
    V1_36,
    #[default]
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
        self as u8 >= change.row().from as u8
    }
}

/// The version that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    minor: u32,
    /// The one that counts: its own, or the nearest.
    pub nearest: KubernetesVersion,
}

impl ServerVersion {
    /// From its `major` and `minor` (`1` and `37+`); none for others.
    pub fn parse(major: &str, minor: &str) -> Option<ServerVersion> {
        let minor: u32 = minor.trim_end_matches('+').parse().ok().filter(|_| major == "1")?;
        let nearest = match minor {
            ..=36 => KubernetesVersion::V1_36,
            37 => V1_37,
            38.. => V1_38,
        };
        Some(ServerVersion { minor, nearest })
    }

    /// What users should know if its own version is none of those that Berth decides as.
    pub fn warning(self) -> Option<String> {
        let ServerVersion { minor, nearest } = self;
        (nearest.name() != format!("1.{minor}")).then(|| {
            format!(
                "the server has Kubernetes 1.{minor}: it is not supported, and decisions are those of {nearest}; --kubernetes selects \
                 another version"
            )
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

/// A decision that a version of Kubernetes changed, whatever its feature gates. The rule that it concerns asks for it by name;
/// [`VersionChange::row`] says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionChange {
    BudgetsAfterViolation,
    SelectorErrorNamesDevice,
    ConfigOfAllRequests,
    CounterSlicesOfNode,
    AllWithUsedCapacity,
    TooManyDevicesNamesRequest,
    CapacityInFormatOfStep,
    GatedNomination,
    GroupAgreement,
    GroupsPreempt,
    BasicGroups,
    RequestsOfResizes,
    EmptySpreadSelector,
    EmptyBudgetSelector,
    AllWithUnusablePool,
    ExclusiveWithShares,
    VersionsWithoutBuildMetadata,
    PodLevelFitScore,
    ExactStorageCapacity,
    ScoresOfHugeQuantities,
    GroupAgreementNamesPods,
    QualifiedCapacity,
}

/// A row of the table of changes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRow {
    pub change: VersionChange,
    /// Its number in kubernetes/kubernetes, if it is known.
    pub number: Option<u32>,
    /// The first version that has it.
    pub from: KubernetesVersion,
    /// What is decided since then, and before.
    pub text: &'static str,
}

const fn row(
    change: VersionChange,
    number: Option<u32>,
    from: KubernetesVersion,
    text: &'static str,
) -> ChangeRow {
    ChangeRow { change, number, from, text }
}

use VersionChange::*;

/// In the order of the enum.
const ROWS: &[ChangeRow] = &[
    row(
        BudgetsAfterViolation,
        Some(137_981),
        V1_37,
        "A pod whose preemption violates a budget uses up none of the budgets after it; it used up one disruption of each",
    ),
    row(
        SelectorErrorNamesDevice,
        Some(136_709),
        V1_37,
        "Errors of selectors of devices name the device and say how a missing key is guarded against",
    ),
    row(
        ConfigOfAllRequests,
        Some(139_731),
        V1_37,
        "A configuration that holds for all requests of a claim is written to the allocation once, without `requests`",
    ),
    row(
        CounterSlicesOfNode,
        None,
        V1_37,
        "Slices with shared counters concern the nodes that they name, as slices with devices do; they concerned all nodes",
    ),
    row(
        AllWithUsedCapacity,
        Some(140_769),
        V1_37,
        "A device that has too little capacity left is one of all devices, so that a request for all of them fails; it was left \
         out",
    ),
    row(TooManyDevicesNamesRequest, None, V1_37, "The error of too many devices names the request"),
    row(
        CapacityInFormatOfStep,
        Some(140_161),
        V1_37,
        "Amounts of capacity that are rounded up to a step are written with its suffixes, and those that cannot be calculated \
         are errors; they were written with binary suffixes",
    ),
    row(
        GatedNomination,
        Some(139_057),
        V1_37,
        "A pod with scheduling gates holds the room that it is nominated for",
    ),
    row(
        GroupAgreement,
        Some(139_920),
        V1_37,
        "Pods of a group with other schedulers, priorities or preemption policies keep the group from being placed",
    ),
    row(
        GroupsPreempt,
        None,
        V1_37,
        "Groups with a topology preempt pods, and their pods count as more important than single ones of the same priority",
    ),
    row(
        BasicGroups,
        None,
        V1_37,
        "The pods of a basic group are decided together, as many as fit, and the group has a condition; they were decided one by one",
    ),
    row(
        RequestsOfResizes,
        None,
        V1_37,
        "A resized pod requests the most of desired, allocated and actuated resources, each summed over its containers, and without \
         the desired ones if the resize is infeasible; the most of each container whose status has `resources` was summed",
    ),
    row(
        EmptySpreadSelector,
        Some(141_340),
        V1_38,
        "A spread constraint whose selector is `{}` counts all pods of the namespace; it counted none",
    ),
    row(
        EmptyBudgetSelector,
        Some(141_785),
        V1_38,
        "In preemption, a budget whose selector is `{}` protects all pods of its namespace, and a budget can protect pods \
         without labels; they protected none",
    ),
    row(
        AllWithUnusablePool,
        Some(141_898),
        V1_38,
        "A pool that is incomplete or invalid rejects the node for a request for all devices; it ended the attempt with an \
         error",
    ),
    row(
        ExclusiveWithShares,
        Some(140_798),
        V1_38,
        "A device that claims share is not given to one alone, once it can no longer be shared",
    ),
    row(
        VersionsWithoutBuildMetadata,
        None,
        V1_38,
        "Versions that differ in build metadata alone satisfy `matchAttribute`, and do not satisfy `distinctAttribute`",
    ),
    row(
        PodLevelFitScore,
        None,
        V1_38,
        "NodeResourcesFit scores nodes by the pod-level requests of the pod; it looked at those of containers only",
    ),
    row(
        ExactStorageCapacity,
        None,
        V1_38,
        "Claims and storage capacities are compared exactly; both were rounded up to whole bytes",
    ),
    row(ScoresOfHugeQuantities, None, V1_38, "Scores by resources are calculated without overflow"),
    row(GroupAgreementNamesPods, Some(141_930), V1_38, "The error of pods of a group that differ names them"),
    row(QualifiedCapacity, Some(142_202), V1_38, "A requested capacity may have the domain of the driver"),
];

impl VersionChange {
    pub const fn all() -> &'static [ChangeRow] {
        ROWS
    }

    pub const fn row(self) -> &'static ChangeRow {
        &ROWS[self as usize]
    }
}
