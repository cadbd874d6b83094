//! The requests of a pod and the resources of a node.

use berth_api::feature_gates::KubernetesVersion::{self, V1_37};
use berth_api::object::{Container, Node, Pod, PodStatus, ResourceList};
use berth_api::syntax::quantity::Quantity;

use super::Question;

/// Default CPU request of a container for scoring, in milli-CPU.
const DEFAULT_MILLI_CPU: i64 = 100;
/// Default memory request of a container for scoring, in bytes.
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The defaults for containers without CPU and memory requests.
pub fn scoring_defaults() -> ResourceList {
    ResourceList::from([
        ("cpu".to_owned(), Quantity::from_millis(DEFAULT_MILLI_CPU)),
        ("memory".to_owned(), Quantity::from_units(DEFAULT_MEMORY)),
    ])
}

/// A pod's requests: the maximum of its containers and its init containers, or its pod-level requests, plus overhead.
///
/// Of the specification, the resources that the node has reserved and those in force, the maximum counts; the
/// specification does not count if the node found it infeasible. `missing` are the defaults of missing container
/// requests. Before 1.37, the maximum of each container counted.
pub fn pod_requests(pod: &Pod, missing: &ResourceList, version: KubernetesVersion) -> ResourceList {
    let infeasible = pod
        .status
        .conditions
        .iter()
        .any(|c| c.condition_type == "PodResizePending" && c.reason == "Infeasible");
    let nothing = ResourceList::new();
    let spec = |container: &Container| container.resources.requests.clone();
    let fallback = |container: &Container| if infeasible { ResourceList::new() } else { spec(container) };
    let status = |container: &Container| {
        let PodStatus { container_statuses, init_container_statuses, .. } = &*pod.status;
        container_statuses.iter().chain(init_container_statuses).find(|s| s.name == container.name).cloned()
    };
    let allocated = |container: &Container| {
        status(container).and_then(|s| s.allocated_resources).unwrap_or_else(|| fallback(container))
    };
    let actuated = |container: &Container| {
        let in_force = status(container).and_then(|s| s.resources).map(|r| r.requests);
        in_force.filter(|r| !r.is_empty()).unwrap_or_else(|| allocated(container))
    };
    let most = |container: &Container| {
        let Some(reported) = status(container).filter(|status| status.resources.is_some()) else {
            return spec(container);
        };
        let mut most = fallback(container);
        raise(&mut most, &reported.resources.unwrap_or_default().requests);
        raise(&mut most, &reported.allocated_resources.unwrap_or_default());
        most
    };
    let by_container = |container: &Container| {
        let is_init = pod.spec.init_containers.iter().any(|c| c.name == container.name);
        if is_init && !container.is_sidecar() { spec(container) } else { most(container) }
    };
    let mut total = match version < V1_37 {
        true => containers_requests(pod, missing, &by_container),
        false => containers_requests(pod, missing, &spec),
    };
    if infeasible && version >= V1_37 {
        total.clear();
    }
    let pod_actuated = pod.status.resources.as_ref().map(|r| &r.requests);
    let pod_allocated = pod.status.allocated_resources.as_ref();
    match (pod_actuated.filter(|r| !r.is_empty()), pod_allocated) {
        (Some(actuated), Some(allocated)) if version >= V1_37 => {
            raise(&mut total, actuated);
            raise(&mut total, allocated);
        }
        _ if version < V1_37 => {}
        _ => {
            raise(&mut total, &containers_requests(pod, missing, &allocated));
            raise(&mut total, &containers_requests(pod, missing, &actuated));
        }
    }
    let own = pod.spec.resources.as_ref().map(|r| &r.requests).unwrap_or(&nothing);
    if own.keys().any(|name| is_pod_level_resource(name)) {
        let (mut own, desired) = (own.clone(), own.clone());
        if pod.status.resources.is_some() {
            if infeasible {
                own.clear();
            }
            raise(&mut own, pod_actuated.unwrap_or(&nothing));
            raise(&mut own, pod_allocated.unwrap_or(&nothing));
        }
        if version < V1_37 {
            own.retain(|name, _| desired.contains_key(name));
            desired.into_keys().for_each(|name| _ = own.entry(name).or_default());
        }
        own.retain(|name, _| is_pod_level_resource(name));
        total.extend(own);
    }
    add(&mut total, &pod.spec.overhead);
    total
}

fn containers_requests(
    pod: &Pod,
    missing: &ResourceList,
    requests_of: &dyn Fn(&Container) -> ResourceList,
) -> ResourceList {
    let mut running = ResourceList::new();
    for container in &pod.spec.containers {
        add(&mut running, &with_missing(&requests_of(container), missing));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in &pod.spec.init_containers {
        let requests = with_missing(&requests_of(container), missing);
        let mut now = sidecars.clone();
        add(&mut now, &requests);
        raise(&mut starting, &now);
        if container.is_sidecar() {
            add(&mut running, &requests);
            sidecars = now;
        }
    }
    raise(&mut running, &starting);
    running
}

/// The requests of a running pod for scoring: containers without a request get the default, except for resources that a
/// pod with pod-level requests or its containers request.
pub fn running_pod_scoring_requests(pod: &Pod, version: KubernetesVersion) -> ResourceList {
    let mut missing = scoring_defaults();
    if pod.spec.resources.iter().any(|r| r.requests.keys().any(|name| is_pod_level_resource(name))) {
        let requests = pod_requests(pod, &ResourceList::new(), version);
        missing.retain(|name, _| !requests.contains_key(name));
    }
    pod_requests(pod, &missing, version)
}

/// What the devices of an assigned pod take beside its requests. Pod-level requests stand for the devices as well.
pub fn taken_by(q: Question, pod: &Pod, resource: &str) -> Quantity {
    let of_pod = pod.spec.resources.as_ref().is_some_and(|r| r.requests.contains_key(resource));
    if !q.options.feature_gates.dra_node_allocatable_resources || of_pod && is_pod_level_resource(resource) {
        return Quantity::ZERO;
    }
    let statuses = pod.status.node_allocatable_resource_claim_statuses.iter();
    let amounts = statuses.filter_map(|status| status.resources.get(resource));
    amounts.fold(Quantity::ZERO, |sum, amount| sum + *amount)
}

/// The amount of a resource as an integer: thousandths for CPU, units rounded up for all else.
pub fn amount(list: &ResourceList, resource: &str) -> i64 {
    let quantity = list.get(resource).copied().unwrap_or_default();
    if resource == "cpu" { quantity.millis() } else { quantity.units() }
}

/// The allocatable amount of a resource; `None` if the node does not list it.
pub fn allocatable(node: &Node, resource: &str) -> Option<i64> {
    let list = node.status.allocatable.as_ref().filter(|list| list.contains_key(resource))?;
    Some(amount(list, resource))
}

/// Resources that are counted by name: extended ones, huge pages, attachable volumes and prefixed native ones.
pub fn is_scalar(resource: &str) -> bool {
    is_extended(resource)
        || resource.starts_with("hugepages-")
        || resource.contains("kubernetes.io/")
        || resource.starts_with("attachable-volumes-")
}

/// Resources that are not Kubernetes' own.
pub fn is_extended(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/") && !resource.starts_with("requests.")
}

pub fn is_pod_level_resource(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

fn with_missing(requests: &ResourceList, missing: &ResourceList) -> ResourceList {
    let mut all = missing.clone();
    all.extend(requests.iter().map(|(name, quantity)| (name.clone(), *quantity)));
    all
}

fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        *total.entry(name.clone()).or_default() += *quantity;
    }
}

fn raise(least: &mut ResourceList, to: &ResourceList) {
    for (name, quantity) in to {
        let entry = least.entry(name.clone()).or_default();
        *entry = (*entry).max(*quantity);
    }
}
