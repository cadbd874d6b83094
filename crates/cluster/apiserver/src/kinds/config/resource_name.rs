//! Names of resources in quotas and limit ranges.

use berth_api::syntax;

use crate::kinds::prelude::*;

const COMPUTE: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Objects that quotas count.
pub const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether Kubernetes itself has quotas of the resource.
pub fn is_of_quotas(name: &str) -> bool {
    let part = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    name == "requests.storage"
        || COUNTED.contains(&name)
        || COMPUTE.contains(&part.unwrap_or(name))
        || is_huge_page(name.strip_prefix("requests.").unwrap_or(name))
}

fn is_standard(name: &str) -> bool {
    name == "storage" || is_of_quotas(name)
}

/// A qualified name, or the name of a standard resource.
fn validate_resource(path: &str, name: &str, causes: &mut Causes) {
    let problems = syntax::label_key(name);
    if problems.is_empty() && !name.contains('/') && !is_standard(name) {
        causes.invalid(path, &name.into(), "must be a standard resource type or fully qualified");
    }
    causes.problems(path, &name.into(), problems);
}

pub fn validate_of_quota(path: &str, name: &str, causes: &mut Causes) {
    validate_resource(path, name, causes);
    if !name.contains('/') && !is_of_quotas(name) {
        causes.invalid(path, &name.into(), "must be a standard resource for quota");
    }
}

pub fn validate_of_limit(path: &str, kind: &str, name: &str, causes: &mut Causes) {
    validate_resource(path, name, causes);
    if !matches!(kind, "Container" | "Pod") {
        return;
    }
    if !name.contains('/') {
        if !COMPUTE.contains(&name) && !is_huge_page(name) {
            causes.invalid(path, &name.into(), "must be a standard resource for containers");
        }
    } else if !name.contains("kubernetes.io/")
        && (name.starts_with("requests.") || !syntax::label_key(&format!("requests.{name}")).is_empty())
    {
        causes.invalid(path, &name.into(), "doesn't follow extended resource name standard");
    }
}
