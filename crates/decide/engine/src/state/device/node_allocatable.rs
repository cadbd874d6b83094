//! What devices take of the allocatable resources of a node, beside the requests of its pods (enhancement 5517, gate
//! `DRANodeAllocatableResources`).

use std::collections::BTreeMap;

use berth_api::object::device::NodeAllocatableResourceMapping;
use berth_api::object::{NodeAllocatableResourceClaimStatus, Pod, PodSpec};
use berth_api::syntax::quantity::Quantity;
use berth_rules::pod_requests;

/// What an allocation of a device takes, by resource.
pub(crate) type Mappings = BTreeMap<String, NodeAllocatableResourceMapping>;

/// What the devices of a claim take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TakenByClaim {
    pub(crate) claim: Box<str>,
    pub(crate) resources: Box<[(Box<str>, Quantity)]>,
}

impl TakenByClaim {
    /// By claim, as the status of an assigned pod says it.
    pub(super) fn all_of(pod: &Pod) -> Box<[TakenByClaim]> {
        match pod.spec.node_name.is_empty() {
            true => Box::default(),
            false => TakenByClaim::all(&pod.status.node_allocatable_resource_claim_statuses),
        }
    }

    pub(super) fn all(statuses: &[NodeAllocatableResourceClaimStatus]) -> Box<[TakenByClaim]> {
        let of_claim = |status: &NodeAllocatableResourceClaimStatus| TakenByClaim {
            claim: status.resource_claim_name.as_str().into(),
            resources: status.resources.iter().map(|(name, of)| (name.as_str().into(), *of)).collect(),
        };
        statuses.iter().map(of_claim).collect()
    }
}

/// What the containers of a pod leave of its pod-level requests.
pub(super) fn budget(spec: &PodSpec) -> Box<[(Box<str>, Quantity)]> {
    let of_pod = spec.resources.iter().flat_map(|resources| resources.requests.keys());
    let names: Vec<&String> = of_pod.filter(|name| is_pod_level(name)).collect();
    if names.is_empty() {
        return Box::default();
    }
    let of_containers = pod_requests(&PodSpec { resources: None, ..spec.clone() });
    let all = pod_requests(spec);
    let amount = |list: &BTreeMap<String, Quantity>, name| list.get(name).copied().unwrap_or_default();
    names
        .into_iter()
        .map(|name| (name.as_str().into(), amount(&all, name) - amount(&of_containers, name)))
        .collect()
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}
