//! Checks of a run, on the history of the API server's objects. They share no code with the components: rules are judged by
//! the naive evaluator, volumes by the check of the benchmarks.

pub mod bindings;
pub mod console;
pub mod devices;
pub mod evictions;
pub mod groups;
pub mod moves;
pub mod quotas;
pub mod settled;
pub mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::config::Profile;
use serde_json::Value;

use crate::devices::BINDING_TIMEOUT;
use crate::history::Change;

/// The changes by version.
pub type Changes = BTreeMap<u64, Arc<Change>>;

/// The profile of the schedulers. The timeout concerns devices alone.
pub fn profile() -> Profile {
    let mut profile = Profile::default();
    profile.dynamic_resources.binding_timeout = BINDING_TIMEOUT;
    profile
}

/// Pods that were bound twice, or whose node changed: by uid.
pub fn bound_twice(changes: &Changes) -> Vec<String> {
    let mut nodes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (version, change) in changes.iter().filter(|(_, change)| change.kind == "Pod") {
        let node = text(&change.object["spec"]["nodeName"]);
        let uid = text(&change.object["metadata"]["uid"]);
        match nodes.insert(uid, node) {
            Some(before) if !before.is_empty() && before != node => findings.push(format!(
                "version {version}: {} moved from {before:?} to {node:?}",
                name(&change.object)
            )),
            _ => {}
        }
    }
    findings
}

/// The text of a JSON string; empty if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `NAMESPACE/NAME` of an object.
pub fn name(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}
