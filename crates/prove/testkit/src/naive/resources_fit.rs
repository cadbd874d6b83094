//! `NodeResourcesFit`: requests against the free resources of a node.

use berth_api::feature_gates::KubernetesVersion::V1_38;
use berth_api::object::{Node, Pod, ResourceList};
use berth_input::config::{ScoringStrategyKind, UtilizationShapePoint};

use super::devices;
use super::requests::{
    allocatable, amount, is_extended, is_scalar, pod_requests, running_pod_scoring_requests,
    scoring_defaults, taken_by,
};
use super::{Code, MAX_NODE_SCORE, Question, Verdict};

pub fn filter(q: Question, node: &Node) -> Verdict {
    let requests = pod_requests(q.pod, &ResourceList::new(), q.options.feature_gates.version);
    let mut reasons = Vec::new();
    let mut unresolvable = false;
    if q.pods_on(node).count() as i64 + 1 > allocatable(node, "pods").unwrap_or(0) {
        reasons.push("Too many pods".to_owned());
    }
    let native = ["cpu", "memory", "ephemeral-storage"];
    let scalar = requests.keys().map(String::as_str).filter(|name| is_scalar(name));
    for resource in native.into_iter().chain(scalar) {
        if devices::is_of_devices(q, node, resource) {
            continue;
        }
        let wanted = amount(&requests, resource);
        let has = allocatable(node, resource).unwrap_or(0);
        if wanted > 0 && !is_ignored(q, resource) && wanted > has.saturating_sub(requested(q, node, resource))
        {
            reasons.push(format!("Insufficient {resource}"));
            unresolvable |= wanted > has;
        }
    }
    match reasons.is_empty() {
        true => Ok(()),
        false if unresolvable => Err((Code::UnschedulableAndUnresolvable, reasons)),
        false => Err((Code::Unschedulable, reasons)),
    }
}

fn is_ignored(q: Question, resource: &str) -> bool {
    let args = &q.profile.node_resources_fit;
    let group = resource.split('/').next().unwrap_or_default();
    is_extended(resource)
        && (args.ignored_resources.iter().any(|r| r == resource)
            || args.ignored_resource_groups.iter().any(|g| g == group))
}

/// The requests of the pods on a node.
pub fn requested(q: Question, node: &Node, resource: &str) -> i64 {
    let requests = q.pods_on(node).map(|pod| {
        amount(
            &with_devices(
                q,
                pod,
                resource,
                pod_requests(pod, &ResourceList::new(), q.options.feature_gates.version),
            ),
            resource,
        )
    });
    requests.fold(0, i64::saturating_add)
}

/// The requests of a running pod with what its devices take.
fn with_devices(q: Question, pod: &Pod, resource: &str, mut requests: ResourceList) -> ResourceList {
    *requests.entry(resource.to_owned()).or_default() += taken_by(q, pod, resource);
    requests
}

/// The requests of the pods on a node for scoring.
fn scoring_requested(q: Question, node: &Node, resource: &str) -> i64 {
    let requests = q.pods_on(node).map(|pod| match resource {
        "cpu" | "memory" => amount(
            &with_devices(
                q,
                pod,
                resource,
                running_pod_scoring_requests(pod, q.options.feature_gates.version),
            ),
            resource,
        ),
        _ => amount(
            &with_devices(
                q,
                pod,
                resource,
                pod_requests(pod, &ResourceList::new(), q.options.feature_gates.version),
            ),
            resource,
        ),
    });
    requests.fold(0, i64::saturating_add)
}

/// Whether scoring includes a resource: the node must have it, and the pod must request a scalar one.
pub fn counts(node: &Node, resource: &str, wanted: i64) -> bool {
    let native = ["cpu", "memory", "ephemeral-storage"].contains(&resource);
    (native || (is_scalar(resource) && wanted != 0)) && allocatable(node, resource).unwrap_or(0) != 0
}

pub fn score(q: Question, feasible: &[&Node]) -> Vec<i64> {
    let strategy = &q.profile.node_resources_fit.scoring_strategy;
    let version = q.options.feature_gates.version;
    let wanted = match version >= V1_38 {
        true => pod_requests(q.pod, &scoring_defaults(), version),
        false => pod_requests(&without_pod_level(q.pod), &scoring_defaults(), version),
    };
    let percent = |part: i64, whole: i64| match version >= V1_38 {
        true => percent(part, whole),
        false => part.wrapping_mul(100) / whole,
    };
    feasible
        .iter()
        .map(|node| {
            let (mut sum, mut weights) = (0i64, 0i64);
            for spec in &strategy.resources {
                let wanted = amount(&wanted, &spec.name);
                if !counts(node, &spec.name, wanted) {
                    continue;
                }
                let capacity = allocatable(node, &spec.name).unwrap_or(0);
                let used = scoring_requested(q, node, &spec.name).saturating_add(wanted);
                let score = match &strategy.kind {
                    ScoringStrategyKind::LeastAllocated if used > capacity => 0,
                    ScoringStrategyKind::LeastAllocated => percent(capacity.saturating_sub(used), capacity),
                    ScoringStrategyKind::MostAllocated => percent(used.min(capacity), capacity),
                    ScoringStrategyKind::RequestedToCapacityRatio { shape } => {
                        ratio_score(shape, if used > capacity { 100 } else { percent(used, capacity) })
                    }
                };
                // The ratio leaves resources with score 0 out of the average.
                let ratio = matches!(strategy.kind, ScoringStrategyKind::RequestedToCapacityRatio { .. });
                if !ratio || score > 0 {
                    sum += score * spec.weight;
                    weights += spec.weight;
                }
            }
            match &strategy.kind {
                _ if weights == 0 => 0,
                ScoringStrategyKind::RequestedToCapacityRatio { .. } => {
                    (sum as f64 / weights as f64).round() as i64
                }
                _ => sum / weights,
            }
        })
        .collect()
}

fn without_pod_level(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.spec.resources = None;
    pod
}

fn percent(part: i64, whole: i64) -> i64 {
    (i128::from(part) * 100 / i128::from(whole)) as i64
}

/// The piecewise linear function; its scores of 0 to 10 are scaled to 0 to 100.
pub(super) fn ratio_score(shape: &[UtilizationShapePoint], utilization: i64) -> i64 {
    let stretched = |point: &UtilizationShapePoint| point.score * (MAX_NODE_SCORE / 10);
    match shape.iter().position(|point| utilization <= point.utilization) {
        None => shape.last().map_or(0, stretched),
        Some(0) => stretched(&shape[0]),
        Some(i) => {
            let (low, high) = (&shape[i - 1], &shape[i]);
            let rise = stretched(high) - stretched(low);
            let run = high.utilization - low.utilization;
            stretched(low) + rise * (utilization - low.utilization) / run
        }
    }
}
