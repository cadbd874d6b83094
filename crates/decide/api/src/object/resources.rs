//! Amounts of resources.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::nullable;
use crate::syntax::quantity::Quantity;

/// Resource name to quantity.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// The resources that the scheduler reserves.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
    /// The upper limits of use; the defaults of missing requests.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: ResourceList,
}
