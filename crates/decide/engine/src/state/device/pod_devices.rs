//! The claims of one pod, parsed, and the extended resources that devices may provide for it.

use std::sync::Arc;

use berth_api::object::{Container, NamespacedName, Pod};
use berth_api::syntax::quantity::Quantity;

use super::CLASS_RESOURCE_PREFIX;
use super::node_allocatable::{TakenByClaim, budget};

/// What of a pod the allocation of devices depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodDevices {
    pub(crate) pod: NamespacedName,
    pub(crate) pod_uid: Box<str>,
    /// Its PodGroup (`spec.schedulingGroup`).
    pub(crate) group: Option<Box<str>>,
    /// In the order of the pod.
    pub(crate) claims: Box<[ClaimReference]>,
    /// Init containers, then the others; empty if none requests an extended resource.
    pub(crate) containers: Box<[ContainerResources]>,
    /// Of the resources with pod-level requests: what its containers leave of these for its devices.
    pub(crate) budget: Box<[(Box<str>, Quantity)]>,
    /// What its devices take of the allocatable resources of the node that it is assigned to.
    pub(crate) taken: Box<[TakenByClaim]>,
}

pub(crate) type DeviceUsers = Arc<[Arc<PodDevices>]>;

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClaimReference {
    pub(crate) name: Box<str>,
    pub(crate) claim: StatedClaim,
    /// The containers that use it: init containers, then the others.
    pub(crate) containers: Box<[Box<str>]>,
}

/// The claim of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StatedClaim {
    Named(NamespacedName),
    /// Made for the pod, which must own it.
    Made(NamespacedName),
    /// The controller has not made it yet.
    NotMade,
    /// The controller found that the pod needs none.
    NotNeeded,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContainerResources {
    pub(crate) name: Box<str>,
    /// It ends before the containers of the pod start.
    pub(crate) is_short_lived: bool,
    /// By name. None for an amount that is not a whole number.
    pub(crate) requests: Box<[(Box<str>, Option<i64>)]>,
}

impl PodDevices {
    /// None for a pod without claims and extended resources.
    pub(crate) fn parse(pod: &Pod) -> Option<PodDevices> {
        let namespace = &pod.metadata.namespace;
        let containers = || pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let claims: Box<[_]> = (pod.spec.resource_claims.iter())
            .map(|entry| {
                let named = |name: &str| NamespacedName::new(namespace, name);
                let claim = if let Some(name) = &entry.resource_claim_name {
                    StatedClaim::Named(named(name))
                } else {
                    let statuses = &pod.status.resource_claim_statuses;
                    match statuses.iter().find(|status| status.name == entry.name) {
                        None => StatedClaim::NotMade,
                        Some(status) => match &status.resource_claim_name {
                            Some(name) => StatedClaim::Made(named(name)),
                            None => StatedClaim::NotNeeded,
                        },
                    }
                };
                let uses = |of: &&Container| of.resources.claims.iter().any(|used| used.name == entry.name);
                let containers = containers().filter(uses).map(|of| of.name.as_str().into()).collect();
                ClaimReference { name: entry.name.as_str().into(), claim, containers }
            })
            .collect();
        let requests_extended = |container: &Container| {
            container.resources.requests.iter().any(|(name, amount)| !amount.is_zero() && is_extended(name))
        };
        let containers: Box<[_]> = match containers().any(requests_extended) {
            true => {
                let n_init = pod.spec.init_containers.len();
                containers()
                    .enumerate()
                    .map(|(i, container)| ContainerResources::parse(container, i < n_init))
                    .collect()
            }
            false => Box::default(),
        };
        (!claims.is_empty() || !containers.is_empty()).then(|| PodDevices {
            pod: NamespacedName::new(namespace, &pod.metadata.name),
            pod_uid: pod.metadata.uid.as_str().into(),
            group: pod.spec.scheduling_group.as_ref().map(|group| group.pod_group_name.as_str().into()),
            budget: if claims.is_empty() { Box::default() } else { budget(&pod.spec) },
            taken: TakenByClaim::all_of(pod),
            claims,
            containers,
        })
    }

    /// The same in a pod of another name. Claims that were made for the first pod are not those of the other.
    pub(crate) fn named(&self, pod_name: &str) -> PodDevices {
        PodDevices {
            pod: NamespacedName::new(self.pod.namespace(), pod_name),
            pod_uid: Box::default(),
            taken: Box::default(),
            ..self.clone()
        }
    }

    /// The names of the extended resources that its containers request.
    pub(crate) fn extended_resources(&self) -> impl Iterator<Item = &str> {
        let requests = self.containers.iter().flat_map(|container| &container.requests);
        requests.filter(|(name, amount)| *amount != Some(0) && is_extended(name)).map(|(name, _)| &**name)
    }
}

impl ContainerResources {
    fn parse(container: &Container, is_init: bool) -> ContainerResources {
        let amount = |(name, amount): (&String, &berth_api::syntax::quantity::Quantity)| {
            (name.as_str().into(), amount.is_whole().then(|| amount.units()))
        };
        ContainerResources {
            name: container.name.as_str().into(),
            is_short_lived: is_init && container.restart_policy.as_deref() != Some("Always"),
            requests: container.resources.requests.iter().map(amount).collect(),
        }
    }
}

/// Whether devices may provide a resource.
pub(super) fn is_extended(name: &str) -> bool {
    name.starts_with(CLASS_RESOURCE_PREFIX) || (name.contains('/') && !name.contains("kubernetes.io/"))
}
