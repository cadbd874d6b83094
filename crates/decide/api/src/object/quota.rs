//! What namespaces allow: LimitRange and ResourceQuota (`v1`).

use serde::{Deserialize, Serialize};

use super::{ObjectMeta, ResourceList, nullable};

/// LimitRange: defaults and bounds of the requests and limits in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRange {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: LimitRangeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeSpec {
    #[serde(deserialize_with = "nullable")]
    pub limits: Vec<LimitRangeItem>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub max: ResourceList,
    #[serde(deserialize_with = "nullable")]
    pub min: ResourceList,
    /// The default limits of containers.
    #[serde(deserialize_with = "nullable")]
    pub default: ResourceList,
    #[serde(deserialize_with = "nullable")]
    pub default_request: ResourceList,
    #[serde(deserialize_with = "nullable")]
    pub max_limit_request_ratio: ResourceList,
}

/// ResourceQuota: how much the objects of a namespace may use together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuota {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: ResourceQuotaSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: ResourceQuotaStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaSpec {
    #[serde(deserialize_with = "nullable")]
    pub hard: ResourceList,
    /// Scopes that all have to apply to an object.
    #[serde(deserialize_with = "nullable")]
    pub scopes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub scope_selector: ScopeSelector,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<ScopeRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeRequirement {
    #[serde(deserialize_with = "nullable")]
    pub scope_name: String,
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaStatus {
    #[serde(deserialize_with = "nullable")]
    pub used: ResourceList,
    /// What objects use that an input lacks; with the objects of the input, that is what is used.
    #[serde(skip)]
    pub elsewhere: Option<ResourceList>,
}
