//! What namespaces allow: LimitRange and ResourceQuota (`v1`).

use berth_api_macros::object_type;

use super::{ObjectMeta, ResourceList};

/// LimitRange: defaults and bounds of the requests and limits in a namespace.
#[object_type(Eq)]
pub struct LimitRange {
    pub metadata: ObjectMeta,
    pub spec: LimitRangeSpec,
}

#[object_type(Eq)]
pub struct LimitRangeSpec {
    pub limits: Vec<LimitRangeItem>,
}

#[object_type(Eq)]
pub struct LimitRangeItem {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type")]
    pub kind: String,
    pub max: ResourceList,
    pub min: ResourceList,
    pub default: ResourceList,
    pub default_request: ResourceList,
    pub max_limit_request_ratio: ResourceList,
}

/// ResourceQuota: how much the objects of a namespace may use together.
#[object_type(Eq)]
pub struct ResourceQuota {
    pub metadata: ObjectMeta,
    pub spec: ResourceQuotaSpec,
    pub status: ResourceQuotaStatus,
}

#[object_type(Eq)]
pub struct ResourceQuotaSpec {
    pub hard: ResourceList,
    /// Scopes that all have to apply to an object.
    pub scopes: Vec<String>,
    pub scope_selector: ScopeSelector,
}

#[object_type(Eq)]
pub struct ScopeSelector {
    pub match_expressions: Vec<ScopeRequirement>,
}

#[object_type(Eq)]
pub struct ScopeRequirement {
    pub scope_name: String,
    pub operator: String,
    pub values: Vec<String>,
}

#[object_type(Eq)]
pub struct ResourceQuotaStatus {
    pub used: ResourceList,
    /// What objects use that an input lacks; with the objects of the input, that is what is used.
    #[serde(skip)]
    pub elsewhere: Option<ResourceList>,
}
