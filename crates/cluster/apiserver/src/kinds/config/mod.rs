//! Configuration and limits of namespaces.

mod config_map;
mod limit_range;
pub mod resource_name;
mod resource_quota;
mod secret;

use berth_schema::resource::*;

use crate::kinds::kind::kinds;
use crate::table::columns::DEFAULT;

kinds! {
    CONFIG_MAPS: config_map::ConfigMap, config_map::COLUMNS;
    LIMIT_RANGES: limit_range::STRATEGY, DEFAULT;
    RESOURCE_QUOTAS: resource_quota::ResourceQuota, resource_quota::COLUMNS;
    SECRETS: secret::Secret, secret::COLUMNS;
}
