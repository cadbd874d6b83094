//! Requests against what nodes offer: the filter, and the two plugins that score by it.

mod balanced_allocation;
mod fit;
mod fit_score;

pub(super) use balanced_allocation::scorer as balanced_allocation_scorer;
pub(super) use fit::filter;
pub(super) use fit_score::scorer as fit_scorer;

use berth_api::config::ResourceSpec;

use super::{Context, NodeRef};
use crate::state::intern::Symbol;

/// A resource as the scoring plugins look at it.
struct ScoredResource {
    name: String,
    symbol: Option<Symbol>,
    weight: i64,
    /// What the pod asks for.
    request: i64,
}

/// What a node offers of a resource, and how much would be taken with the pod on it.
#[derive(Clone, Copy)]
struct Utilization {
    allocatable: i64,
    requested: i64,
}

/// The configured resources with the pod's requests. With `non_zero`, containers that ask for no CPU or
/// memory count with their defaults.
fn scored_resources(context: Context<'_>, specs: &[ResourceSpec], non_zero: bool) -> Vec<ScoredResource> {
    let requests = &context.class.rules().requests;
    let resource = |spec: &ResourceSpec| ScoredResource {
        name: spec.name.clone(),
        symbol: context.cluster.symbols.get(&spec.name),
        weight: spec.weight,
        request: match spec.name.as_str() {
            "cpu" if non_zero => requests.scoring_milli_cpu,
            "memory" if non_zero => requests.scoring_memory,
            name => requests.amount(name),
        },
    };
    specs.iter().map(resource).collect()
}

impl ScoredResource {
    /// None where the resource does not count: the node does not offer it, or it is an extended resource
    /// that the pod does not ask for.
    fn utilization(&self, node: NodeRef<'_>, non_zero: bool) -> Option<Utilization> {
        let node = node.record;
        let (allocatable, used) = match self.name.as_str() {
            "cpu" if non_zero => (node.allocatable.milli_cpu, node.non_zero_milli_cpu),
            "memory" if non_zero => (node.allocatable.memory, node.non_zero_memory),
            "cpu" => (node.allocatable.milli_cpu, node.requested.milli_cpu),
            "memory" => (node.allocatable.memory, node.requested.memory),
            "ephemeral-storage" => (node.allocatable.ephemeral_storage, node.requested.ephemeral_storage),
            _ if self.request == 0 => return None,
            _ => {
                let name = self.symbol?;
                (node.allocatable.scalar(name)?, node.requested.scalar(name).unwrap_or(0))
            }
        };
        let requested = used.saturating_add(self.request);
        (allocatable != 0).then_some(Utilization { allocatable, requested })
    }
}
