//! Requests, limits and overhead.

use super::super::defaults::{
    container_sum, is_huge_page, is_native, is_overcommit_allowed, is_pod_level_resource,
};
use super::super::field::{BadValue, Errors, Path};
use super::claims::validate_pod_claims;
use berth_api::object::{PodSpec, ResourceList, ResourceRequirements};
use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;

/// The field of a resource list: the rules for resource names differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Container,
    Pod,
}

pub(super) fn validate_container_resources(
    resources: &ResourceRequirements,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    validate_requirements(&resources.requests, &resources.limits, Level::Container, path, errors);
}

/// Overhead is checked as limits are, and its errors name limits.
pub(super) fn validate_overhead(overhead: &ResourceList, path: &Path<'_>, errors: &mut Errors) {
    validate_requirements(&ResourceList::new(), overhead, Level::Container, path, errors);
}

pub(super) fn validate_pod_resources(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    let Some(resources) = spec.resources.as_deref() else { return };
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    validate_pod_claims(spec, resources, &path.child("claims"), errors);
    let ResourceRequirements { requests, limits, .. } = resources;
    validate_requirements(requests, limits, Level::Pod, path, errors);

    let requests_path = path.child("requests");
    for (name, needed) in container_sum(spec, |c| &c.resources.requests) {
        if let Some(request) = requests.get(&name).filter(|request| **request < needed) {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.invalid_quantity(&requests_path.key(&name), *request, detail);
        }
    }
    let limits_path = path.child("limits");
    for (name, needed) in container_sum(spec, |c| &c.resources.limits) {
        if is_huge_page(&name)
            && let Some(limit) = limits.get(&name).filter(|limit| **limit < needed)
        {
            let detail = format!("must be greater than or equal to aggregate container limits of {needed}");
            errors.invalid_quantity(&limits_path.key(&name), *limit, detail);
        }
    }
    let containers_path = path.child("containers");
    for (i, container) in spec.containers.iter().enumerate() {
        for (name, limit) in &container.resources.limits {
            if let Some(pod_limit) = limits.get(name).filter(|pod_limit| *pod_limit < limit) {
                let container_path = containers_path.index(i);
                let limit_path = container_path.key(name);
                let detail = format!("must be less than or equal to pod limits of {pod_limit}");
                errors.invalid_quantity(&limit_path.child("limits"), *limit, detail);
            }
        }
    }
}

fn validate_requirements(
    requests: &ResourceList,
    limits: &ResourceList,
    level: Level,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let limits_path = path.child("limits");
    for (name, limit) in limits {
        let limit_path = limits_path.key(name);
        validate_resource_name(name, level, &limit_path, errors);
        validate_quantity(name, *limit, &limit_path, errors);
        validate_huge_pages(name, *limit, &limit_path, errors);
    }
    let requests_path = path.child("requests");
    for (name, request) in requests {
        let request_path = requests_path.key(name);
        validate_resource_name(name, level, &request_path, errors);
        validate_quantity(name, *request, &request_path, errors);
        match limits.get(name) {
            Some(limit) if request != limit && !is_overcommit_allowed(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.invalid_quantity(&requests_path, *request, detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid_quantity(&requests_path, *request, detail);
            }
            None if !is_overcommit_allowed(name) => {
                errors.required(&limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        validate_huge_pages(name, *request, &request_path, errors);
    }
    let names = || limits.keys().chain(requests.keys());
    if names().any(|name| is_huge_page(name))
        && !names().any(|name| matches!(name.as_str(), "cpu" | "memory"))
    {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn validate_quantity(name: &str, quantity: Quantity, path: &Path<'_>, errors: &mut Errors) {
    if quantity.is_negative() {
        errors.invalid_quantity(path, quantity, "must be greater than or equal to 0");
    }
    if is_counted(name) && !quantity.is_whole() {
        errors.invalid_quantity(path, quantity, "must be an integer");
    }
}

fn validate_huge_pages(name: &str, quantity: Quantity, path: &Path<'_>, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let page = Quantity::parse(size).ok().filter(|page| page.units() > 0 && page.is_whole());
    if page.is_none_or(|page| quantity.units() % page.units() != 0) {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.invalid_quantity(path, quantity, detail);
    }
}

fn validate_resource_name(name: &str, level: Level, path: &Path<'_>, errors: &mut Errors) {
    let problems = syntax::label_key(name);
    let mut is_fine = problems.is_empty();
    errors.invalid_each(path, name, problems);
    if is_fine && !name.contains('/') && !is_standard(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.invalid(path, BadValue::Enumerated(name), detail);
        is_fine = false;
    }
    match level {
        Level::Pod => {
            if is_fine && !is_pod_level_resource(name) {
                errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
            }
        }
        Level::Container if !name.contains('/') => {
            if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
                errors.invalid(
                    path,
                    BadValue::Enumerated(name),
                    "must be a standard resource for containers",
                );
            }
        }
        Level::Container => {
            if !is_native(name) && !is_extended(name) {
                errors.invalid(
                    path,
                    BadValue::Enumerated(name),
                    "doesn't follow extended resource name standard",
                );
            }
        }
    }
}

fn is_standard(name: &str) -> bool {
    let base = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    matches!(base, "cpu" | "memory" | "ephemeral-storage")
        || matches!(name, "storage" | "requests.storage")
        || is_object_count(name)
        || name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-")
}

fn is_object_count(name: &str) -> bool {
    matches!(
        name,
        "pods"
            | "resourcequotas"
            | "services"
            | "replicationcontrollers"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "services.nodeports"
            | "services.loadbalancers"
    )
}

/// Whether a resource has no fractions.
fn is_counted(name: &str) -> bool {
    is_object_count(name) || is_extended(name)
}

fn is_extended(name: &str) -> bool {
    // Quotas name a request for it with this prefix, and that must be a valid name too.
    !is_native(name)
        && !name.starts_with("requests.")
        && syntax::label_key(&format!("requests.{name}")).is_empty()
}
