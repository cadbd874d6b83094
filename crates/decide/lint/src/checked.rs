//! How much was put to the rules.

use serde::Serialize;

/// What was put to the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub n_workloads: usize,
    /// Number of pods without a workload in the input.
    pub n_pods: usize,
}
