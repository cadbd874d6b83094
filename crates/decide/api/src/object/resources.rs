//! Amounts of resources.

use berth_api_macros::object_type;
use std::collections::BTreeMap;

use crate::syntax::quantity::Quantity;

/// Resource name to quantity.
pub type ResourceList = BTreeMap<String, Quantity>;

#[object_type(Eq, Hash)]
pub struct ResourceRequirements {
    /// The resources that the scheduler reserves.
    pub requests: ResourceList,
    /// The upper limits of use; the defaults of missing requests.
    pub limits: ResourceList,
    /// Of a container: the claims of the pod whose devices it uses.
    pub claims: Vec<ContainerClaim>,
}

/// A claim of the pod whose devices a container uses.
#[object_type(Eq, Hash)]
pub struct ContainerClaim {
    /// Name of the entry in `spec.resourceClaims`.
    pub name: String,
    /// The request whose devices it uses; empty for all of the claim.
    pub request: String,
}
