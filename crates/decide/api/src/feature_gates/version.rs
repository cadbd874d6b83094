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
    pub const fn has(self, change: Change) -> bool {
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
pub enum Change {
    /// A spread constraint whose selector is `{}` counts all pods of the namespace; it counted none.
    EmptySpreadSelector,
}

impl Change {
    /// The number of the change in kubernetes/kubernetes, and the first version that has it.
    pub const fn row(self) -> (u32, KubernetesVersion) {
        match self {
            Change::EmptySpreadSelector => (141_340, V1_38),
        }
    }
}
