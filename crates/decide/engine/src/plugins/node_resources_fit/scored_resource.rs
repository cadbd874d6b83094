//! Requested and allocatable amounts of a resource, as the rules that score nodes by resources read them.

use berth_api::feature_gates::VersionChange;
use berth_input::config::ResourceSpec;
use berth_rules::PodRequests;

use super::super::rule::MAX_NODE_SCORE;
use crate::cycle::context::NodeRef;
use crate::state::State;
use crate::state::interned::intern::Symbol;

pub(in super::super) struct ScoredResource {
    pub(in super::super) name: String,
    kind: ResourceKind,
    pub(super) weight: i64,
    pub(in super::super) request: i64,
}

/// The field of a node record that holds a resource.
#[derive(Clone, Copy)]
enum ResourceKind {
    Cpu,
    Memory,
    EphemeralStorage,
    /// By name; none if no node or pod names it.
    Scalar(Option<Symbol>),
}

/// The allocatable amount of a resource on a node, and the requested amount including the pod.
#[derive(Clone, Copy)]
pub(in super::super) struct Utilization {
    pub(in super::super) allocatable: i64,
    pub(in super::super) requested: i64,
}

/// A part of a whole in percent. As in kube-scheduler, the product overflows unless `is_exact`.
#[inline]
pub(super) fn percent(part: i64, whole: i64, is_exact: bool) -> i64 {
    match part.checked_mul(MAX_NODE_SCORE) {
        Some(product) => product / whole,
        None => percent_of_huge(part, whole, is_exact),
    }
}

#[cold]
fn percent_of_huge(part: i64, whole: i64, is_exact: bool) -> i64 {
    if part > 0 && is_exact {
        return (i128::from(part) * i128::from(MAX_NODE_SCORE) / i128::from(whole)) as i64;
    }
    part.wrapping_mul(MAX_NODE_SCORE) / whole
}

/// The configured resources with the requests of the pod. With `non_zero`, containers without a request for CPU or
/// memory count with the defaults of kube-scheduler.
pub(in super::super) fn scored_resources(
    state: &State,
    requests: &PodRequests,
    specs: &[ResourceSpec],
    non_zero: bool,
) -> Vec<ScoredResource> {
    let with_pod_level = state.settings.config.feature_gates.has(VersionChange::PodLevelFitScore);
    let resource = |spec: &ResourceSpec| ScoredResource {
        name: spec.name.clone(),
        kind: match spec.name.as_str() {
            "cpu" => ResourceKind::Cpu,
            "memory" => ResourceKind::Memory,
            "ephemeral-storage" => ResourceKind::EphemeralStorage,
            name => ResourceKind::Scalar(state.symbols.get(name)),
        },
        weight: spec.weight,
        request: match spec.name.as_str() {
            "cpu" if non_zero && with_pod_level => requests.scoring_milli_cpu,
            "memory" if non_zero && with_pod_level => requests.scoring_memory,
            "cpu" if non_zero => requests.container_scoring_milli_cpu,
            "memory" if non_zero => requests.container_scoring_memory,
            name => requests.amount(name),
        },
    };
    specs.iter().map(resource).collect()
}

impl ScoredResource {
    /// None if the resource does not count: the node does not have it, or it is an extended resource that the pod does
    /// not request.
    pub(in super::super) fn utilization(&self, node: NodeRef<'_>, non_zero: bool) -> Option<Utilization> {
        let node = node.record;
        let (offered, requested) = (&node.allocatable.resources, &node.requested);
        let (allocatable, used) = match self.kind {
            ResourceKind::Cpu if non_zero => (offered.milli_cpu, node.non_zero_milli_cpu),
            ResourceKind::Memory if non_zero => (offered.memory, node.non_zero_memory),
            ResourceKind::Cpu => (offered.milli_cpu, requested.milli_cpu),
            ResourceKind::Memory => (offered.memory, requested.memory),
            ResourceKind::EphemeralStorage => (offered.ephemeral_storage, requested.ephemeral_storage),
            ResourceKind::Scalar(_) if self.request == 0 => return None,
            ResourceKind::Scalar(name) => (offered.scalar(name?)?, requested.scalar(name?).unwrap_or(0)),
        };
        let requested = used.saturating_add(self.request);
        (allocatable != 0).then_some(Utilization { allocatable, requested })
    }
}
