//! The pod fields that decide where a pod may run and that a profile of the scheduler may not evaluate, because it disables their
//! plugin.
//!
//! This is the one list of them. The scheduler does not bind pods with such fields, and the enforcer does not evict them.

use super::{Plugin, SchedulerConfig};
use crate::object::PodSpec;

/// The fields of a pod, their plugin, and whether a pod uses them.
const FIELDS: [(&str, Plugin, IsUsed); 1] =
    [("spec.resourceClaims", Plugin::DynamicResources, |spec| !spec.resource_claims.is_empty())];

type IsUsed = fn(&PodSpec) -> bool;

/// The paths of the fields of a pod that its profile does not evaluate.
pub fn unsupported_fields(spec: &PodSpec, config: &SchedulerConfig) -> Vec<String> {
    let is_disabled = |plugin: Plugin| {
        config.profile(&spec.scheduler_name).is_some_and(|profile| !profile.filter.contains(&plugin))
    };
    let used = FIELDS.iter().filter(|(_, plugin, uses)| uses(spec) && is_disabled(*plugin));
    used.map(|(path, ..)| (*path).to_owned()).collect()
}

/// What is to be said about a pod with such fields.
pub fn unsupported_message(fields: &[String]) -> String {
    format!("the profile disables the plugin that evaluates {}", fields.join(" and "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_whose_plugin_is_disabled_are_named() {
        let mut config = SchedulerConfig::default();
        let spec = |value| serde_json::from_value::<PodSpec>(value).unwrap();
        let name = config.profiles[0].scheduler_name.clone();
        let claiming = spec(json!({"schedulerName": name, "resourceClaims": [{"name": "gpu"}]}));
        assert_eq!(unsupported_fields(&claiming, &config), Vec::<String>::new());
        config.profiles[0].filter.retain(|plugin| *plugin != Plugin::DynamicResources);
        assert_eq!(unsupported_fields(&claiming, &config), ["spec.resourceClaims"]);
        let without = spec(json!({"schedulerName": name, "resourceClaims": []}));
        assert_eq!(unsupported_fields(&without, &config), Vec::<String>::new());
        let foreign = PodSpec { scheduler_name: "other".to_owned(), ..claiming };
        assert_eq!(unsupported_fields(&foreign, &config), Vec::<String>::new());
    }
}
