//! The engine's explanation of a pod, with notes about the text of the pod and hints for its author.

use berth_api::object::Pod;
use berth_api::rules::dialect_notes;
use berth_engine::Explanation;
use serde::Serialize;

use crate::hints::nearest_hints;
use crate::rolling_update::blocked_by_own_update;

/// Why a pod fits where it fits, or fits nowhere, and what would change that.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// The engine's explanation.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Places in the pod that Kubernetes' v1 fields and the proposals' fields read differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialect_notes: Vec<String>,
    /// Fields that decide about placement and that Berth does not support: the explanation is without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Changes that would let a pending pod fit; empty if it fits, and for running pods.
    pub hints: Vec<String>,
}

impl PodExplanation {
    /// Adds notes and hints. `pods` are all pods of the cluster; `extensions` tells whether the proposals' fields
    /// are read.
    pub(crate) fn new<'a>(
        explanation: Explanation,
        pod: &Pod,
        pods: impl Iterator<Item = &'a Pod>,
        extensions: bool,
    ) -> PodExplanation {
        let mut hints = Vec::new();
        if explanation.running_on.is_none() && explanation.outcome.node().is_none() {
            hints.extend(blocked_by_own_update(&explanation, pod, pods));
            hints.extend(nearest_hints(&explanation));
        }
        let dialect_notes = dialect_notes(pod, extensions);
        let dialect_notes = dialect_notes.iter().map(|n| format!("{}: {}", n.path, n.text)).collect();
        PodExplanation { explanation, dialect_notes, unsupported: Vec::new(), hints }
    }
}
