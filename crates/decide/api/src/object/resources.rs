//! Amounts of resources.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::nullable;
use crate::syntax::quantity::Quantity;

/// Resource name to quantity.
pub type ResourceList = BTreeMap<String, Quantity>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// The resources that the scheduler reserves.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
    /// The upper limits of use; the defaults of missing requests.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: ResourceList,
    /// Of a container: the claims of the pod whose devices it uses.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ContainerClaim>,
}

/// A claim of the pod whose devices a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerClaim {
    /// Name of the entry in `spec.resourceClaims`.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The request whose devices it uses; empty for all of the claim.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub request: String,
}
