//! The requests of a pod, summed over its containers.
//!
//! While a pod is resized in place, its specification, what its node has reserved and what is in force differ. The
//! largest of them counts, and without the specification if the node rejected the resize for good.

use std::collections::HashMap;

use berth_api::object::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceList};
use berth_api::syntax::quantity::Quantity;

/// Default CPU request of a container for scoring, in milli-CPU.
pub const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
/// Default memory request of a container for scoring, in bytes: 200 MiB.
pub const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;

/// The requests of a pod, in the units of kube-scheduler: milli-CPU, bytes, and whole units of other resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRequests {
    /// CPU, in milli-CPU.
    pub milli_cpu: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// Ephemeral storage, in bytes.
    pub ephemeral_storage: i64,
    /// Other resources, such as extended resources and huge pages, by name: in bytes or whole units. Zero amounts are kept.
    pub scalar: Vec<(String, i64)>,
    /// CPU for scoring nodes for this pod, in milli-CPU: containers without a request count
    /// [`DEFAULT_MILLI_CPU_REQUEST`].
    pub scoring_milli_cpu: i64,
    /// Memory for scoring nodes for this pod, in bytes: containers without a request count
    /// [`DEFAULT_MEMORY_REQUEST`].
    pub scoring_memory: i64,
    /// As `scoring_milli_cpu`, without pod-level requests.
    pub container_scoring_milli_cpu: i64,
    /// As `scoring_memory`, without pod-level requests.
    pub container_scoring_memory: i64,
    /// CPU that the pod uses when nodes are scored for other pods, in milli-CPU. As `scoring_milli_cpu`; but a pod with
    /// pod-level requests counts the default only if neither it nor its containers request CPU.
    pub non_zero_milli_cpu: i64,
    /// Memory that the pod uses when nodes are scored for other pods, in bytes.
    pub non_zero_memory: i64,
}

impl PodRequests {
    /// Whether the status of the pod has a part in its requests, as during a resize.
    pub fn depend_on_status(pod: &Pod) -> bool {
        let Pod { spec, status, .. } = pod;
        status.allocated_resources.is_some()
            || status.resources.is_some()
            || !is_as_desired(spec, status, &reports(status))
    }

    /// Sums the requests: the containers and sidecars, or the largest init container if it needs more. Pod-level requests
    /// replace the sum; overhead is added. Source of the rule: `PodRequests` in `k8s.io/component-helpers/resource`.
    pub fn of(pod: &Pod) -> PodRequests {
        let sum = total(&pod.spec, &pod.status, &ResourceList::new());

        let defaults = ResourceList::from([
            ("cpu".to_owned(), Quantity::from_millis(DEFAULT_MILLI_CPU_REQUEST)),
            ("memory".to_owned(), Quantity::from_units(DEFAULT_MEMORY_REQUEST)),
        ]);
        let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let has_all = |c: &Container| defaults.keys().all(|name| c.resources.requests.contains_key(name));
        let mut requests = PodRequests::default();
        let mut set = |scoring: &ResourceList, non_zero: &ResourceList| {
            requests.scoring_milli_cpu = get(scoring, "cpu").millis();
            requests.scoring_memory = get(scoring, "memory").units();
            requests.non_zero_milli_cpu = get(non_zero, "cpu").millis();
            requests.non_zero_memory = get(non_zero, "memory").units();
        };
        if containers.all(has_all) && !PodRequests::depend_on_status(pod) {
            // No default has an effect.
            set(&sum, &sum);
        } else {
            let scoring = total(&pod.spec, &pod.status, &defaults);
            let pod_level = pod_level_requests(&pod.spec).next().is_some();
            let is_missing = |(name, _): &(&String, &Quantity)| !pod_level || !sum.contains_key(*name);
            let missing = defaults.iter().filter(is_missing).map(|(name, q)| (name.clone(), *q)).collect();
            set(&scoring, &total(&pod.spec, &pod.status, &missing));
        }
        requests.container_scoring_milli_cpu = requests.scoring_milli_cpu;
        requests.container_scoring_memory = requests.scoring_memory;
        if pod.spec.resources.is_some() {
            let mut spec = pod.spec.clone();
            spec.resources = None;
            let of_containers = total(&spec, &pod.status, &defaults);
            requests.container_scoring_milli_cpu = get(&of_containers, "cpu").millis();
            requests.container_scoring_memory = get(&of_containers, "memory").units();
        }
        for (name, quantity) in sum {
            match name.as_str() {
                "cpu" => requests.milli_cpu = quantity.millis(),
                "memory" => requests.memory = quantity.units(),
                "ephemeral-storage" => requests.ephemeral_storage = quantity.units(),
                _ if is_scalar_resource_name(&name) => requests.scalar.push((name, quantity.units())),
                _ => {}
            }
        }
        requests
    }

    /// The requests as versions before 1.37 sum them: of each container whose status has `resources`, the largest of desired,
    /// allocated and actuated count, and of other containers the desired ones, also if the resize is infeasible.
    pub fn by_container(pod: &Pod) -> PodRequests {
        if !PodRequests::depend_on_status(pod) {
            return PodRequests::of(pod);
        }
        let mut resized = pod.clone();
        let status = std::mem::take(&mut resized.status);
        let raise_to =
            |desired: &mut ResourceList, actuated: &ResourceList, allocated: &Option<ResourceList>| {
                if status.is_resize_infeasible() {
                    desired.clear();
                }
                raise(desired, actuated);
                allocated.iter().for_each(|allocated| raise(desired, allocated));
            };
        let reports = reports(&status);
        let spec = &mut *resized.spec;
        let sidecars = spec.init_containers.iter_mut().filter(|c| c.is_sidecar());
        for container in spec.containers.iter_mut().chain(sidecars) {
            let Some(report) = reports.get(container.name.as_str()) else { continue };
            if let Some(resources) = &report.resources {
                raise_to(&mut container.resources.requests, &resources.requests, &report.allocated_resources);
            }
        }
        if let (Some(of_pod), Some(resources)) = (&mut spec.resources, &status.resources) {
            let desired: ResourceList =
                of_pod.requests.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
            raise_to(&mut of_pod.requests, &resources.requests, &status.allocated_resources);
            of_pod.requests.retain(|name, _| desired.contains_key(name));
            raise(&mut of_pod.requests, &desired);
        }
        PodRequests::of(&resized)
    }

    /// The amount of one resource: in milli-CPU for `cpu`, otherwise in bytes or whole units.
    pub fn amount(&self, resource: &str) -> i64 {
        match resource {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.scalar.iter().find(|(name, _)| name == resource).map_or(0, |(_, amount)| *amount),
        }
    }
}

/// The requests of a pod as its spec has them, by resource. Source of the rule: `PodRequests` in
/// `k8s.io/component-helpers/resource`.
pub fn pod_requests(spec: &PodSpec) -> ResourceList {
    total(spec, &PodStatus::default(), &ResourceList::new())
}

/// The limits of a pod by resource: overhead counts only for resources that have a limit. Source of the rule: `PodLimits`.
pub fn pod_limits(spec: &PodSpec) -> ResourceList {
    let mut limits = spec.clone();
    for container in limits.containers.iter_mut().chain(&mut limits.init_containers) {
        container.resources.requests = std::mem::take(&mut container.resources.limits);
    }
    if let Some(resources) = &mut limits.resources {
        resources.requests = std::mem::take(&mut resources.limits);
    }
    let overhead = std::mem::take(&mut limits.overhead);
    let mut limits = total(&limits, &PodStatus::default(), &ResourceList::new());
    for (name, quantity) in &overhead {
        if let Some(limit) = limits.get_mut(name) {
            *limit += *quantity;
        }
    }
    limits
}

/// Whether kube-scheduler counts a resource other than CPU, memory, ephemeral storage and pods: extended resources, huge
/// pages, resources of `kubernetes.io/` and attachable volumes.
pub(crate) fn is_scalar_resource_name(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let extended = !native && !name.starts_with("requests.");
    extended
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

fn get(list: &ResourceList, name: &str) -> Quantity {
    list.get(name).copied().unwrap_or_default()
}

fn add(into: &mut ResourceList, list: &ResourceList) {
    for (name, quantity) in list {
        *into.entry(name.clone()).or_default() += *quantity;
    }
}

fn raise(into: &mut ResourceList, list: &ResourceList) {
    for (name, quantity) in list {
        let entry = into.entry(name.clone()).or_default();
        *entry = (*entry).max(*quantity);
    }
}

/// The supported pod-level requests: CPU, memory and huge pages.
fn pod_level_requests(spec: &PodSpec) -> impl Iterator<Item = (&String, &Quantity)> {
    let requests = spec.resources.iter().flat_map(|r| &r.requests);
    requests.filter(|(name, _)| is_pod_level_resource(name))
}

fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// What the requests of a container are read from.
#[derive(Clone, Copy)]
enum Requests {
    /// The specification.
    Desired,
    /// What the node has reserved.
    Allocated,
    /// What is in force.
    Actuated,
}

/// The statuses that report resources, by container. One map for all containers: a search for each would cost their product.
type Reports<'a> = HashMap<&'a str, &'a ContainerStatus>;

fn reports(status: &PodStatus) -> Reports<'_> {
    let statuses = status.container_statuses.iter().chain(&status.init_container_statuses);
    let reporting = statuses.filter(|s| s.allocated_resources.is_some() || s.resources.is_some());
    reporting.map(|status| (status.name.as_str(), status)).collect()
}

/// The requests of a container; the specification stands in for a status that is not reported.
fn container_requests<'a>(
    status: &PodStatus,
    reports: &Reports<'a>,
    container: &'a Container,
    read: Requests,
) -> Option<&'a ResourceList> {
    let desired = &container.resources.requests;
    if matches!(read, Requests::Desired) {
        return Some(desired);
    }
    let reported = reports.get(container.name.as_str());
    let actuated = || reported?.resources.as_ref().map(|r| &r.requests).filter(|list| !list.is_empty());
    let in_force = matches!(read, Requests::Actuated).then(actuated).flatten();
    let requests = in_force.or_else(|| reported?.allocated_resources.as_ref());
    requests.or_else(|| (!status.is_resize_infeasible()).then_some(desired))
}

fn sum_of_containers(
    spec: &PodSpec,
    status: &PodStatus,
    reports: &Reports<'_>,
    defaults: &ResourceList,
    read: Requests,
) -> ResourceList {
    let requests_of = |container| {
        let mut requests = container_requests(status, reports, container, read).cloned().unwrap_or_default();
        for (name, quantity) in defaults {
            requests.entry(name.clone()).or_insert(*quantity);
        }
        requests
    };
    let mut running = ResourceList::new();
    for container in &spec.containers {
        add(&mut running, &requests_of(container));
    }
    // The sidecars before an init container run at the same time. Their sum only grows, and the running sum includes it.
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in &spec.init_containers {
        let mut requests = requests_of(container);
        if container.is_sidecar() {
            add(&mut running, &requests);
            add(&mut sidecars, &requests);
        } else {
            for (name, quantity) in &mut requests {
                *quantity += get(&sidecars, name);
            }
            raise(&mut starting, &requests);
        }
    }
    raise(&mut running, &starting);
    running
}

/// Whether the containers' statuses agree with the specification, as they do except during a resize.
fn is_as_desired(spec: &PodSpec, status: &PodStatus, reports: &Reports<'_>) -> bool {
    let agrees = |container: &Container, status: &ContainerStatus| {
        let desired = &container.resources.requests;
        let in_force = status.resources.as_ref().map(|resources| &resources.requests);
        status.allocated_resources.as_ref().is_none_or(|allocated| allocated == desired)
            && in_force.is_none_or(|in_force| in_force.is_empty() || in_force == desired)
    };
    let mut containers = spec.containers.iter().chain(&spec.init_containers);
    !status.is_resize_infeasible()
        && containers.all(|c| reports.get(c.name.as_str()).is_none_or(|status| agrees(c, status)))
}

fn total(spec: &PodSpec, status: &PodStatus, defaults: &ResourceList) -> ResourceList {
    let reports = reports(status);
    let sum_of = |read| sum_of_containers(spec, status, &reports, defaults, read);
    let mut sum = sum_of(Requests::Desired);
    let actuated = status.resources.as_ref().map(|r| &r.requests).filter(|list| !list.is_empty());
    // A pod-level status has the sums over the containers.
    let reported = match (&status.allocated_resources, actuated) {
        (Some(allocated), Some(actuated)) => Some([allocated.clone(), actuated.clone()]),
        _ if is_as_desired(spec, status, &reports) => None,
        _ => Some([Requests::Allocated, Requests::Actuated].map(sum_of)),
    };
    let is_infeasible = status.is_resize_infeasible();
    if let Some(reported) = reported {
        if is_infeasible {
            sum.clear();
        }
        reported.iter().for_each(|list| raise(&mut sum, list));
    }

    let mut pod_level: ResourceList = pod_level_requests(spec).map(|(n, q)| (n.clone(), *q)).collect();
    if let Some(resources) = status.resources.as_ref().filter(|_| !pod_level.is_empty()) {
        if is_infeasible {
            pod_level.clear();
        }
        raise(&mut pod_level, &resources.requests);
        raise(&mut pod_level, status.allocated_resources.as_ref().unwrap_or(&ResourceList::new()));
    }
    sum.extend(pod_level.into_iter().filter(|(name, _)| is_pod_level_resource(name)));
    add(&mut sum, &spec.overhead);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn before_1_37_each_container_counted_by_its_own_status() {
        let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let statuses = json!([
            {"name": "a", "allocatedResources": {"cpu": "2"}, "resources": cpu("3")},
            {"name": "b", "allocatedResources": {"cpu": "4"}},
        ]);
        let infeasible = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        for (of_pod, conditions, status, expected) in [
            (json!(null), json!([]), json!(null), (4000, 7000)),
            (json!(null), infeasible.clone(), json!(null), (4000, 7000)),
            (cpu("5"), infeasible.clone(), cpu("1"), (1000, 1000)),
            (cpu("5"), infeasible, json!({"requests": {"memory": "1"}}), (0, 7000)),
        ] {
            let containers =
                json!([{"name": "a", "resources": cpu("1")}, {"name": "b", "resources": cpu("1")}]);
            let pod = json!({
                "spec": {"containers": containers, "resources": of_pod},
                "status": {"containerStatuses": statuses, "conditions": conditions, "resources": status},
            });
            let pod = serde_json::from_value(pod).unwrap();
            let requests = (PodRequests::by_container(&pod).milli_cpu, PodRequests::of(&pod).milli_cpu);
            assert_eq!(requests, expected, "{of_pod} {conditions} {status}");
        }
    }

    /// Milli-CPU of a pod with one container that requests one CPU.
    fn milli_cpu(pod_level: Value, status: Value) -> i64 {
        let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
        let pod = json!({"spec": {"containers": containers, "resources": pod_level, "overhead": {"cpu": "10m"}}, "status": status});
        PodRequests::of(&serde_json::from_value(pod).unwrap()).milli_cpu
    }

    #[test]
    fn a_resized_pod_requests_the_most_of_desired_allocated_and_actuated() {
        let cpu = |cpu: &str| json!({"cpu": cpu});
        let status = |allocated: Value, actuated: Value| json!([{"name": "c", "allocatedResources": allocated, "resources": actuated}]);
        let pending =
            |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
        for (pod_level, pod_status, expected) in [
            (json!(null), json!({}), 1010),
            (json!(null), json!({"containerStatuses": status(cpu("2"), json!(null))}), 2010),
            (json!(null), json!({"containerStatuses": status(cpu("500m"), requests("2"))}), 2010),
            (json!(null), json!({"containerStatuses": status(cpu("500m"), requests("500m"))}), 1010),
            // The specification does not count while the resize is infeasible, and does while it is deferred.
            (
                json!(null),
                json!({"containerStatuses": status(cpu("500m"), requests("600m")), "conditions": pending("Infeasible")}),
                610,
            ),
            (
                json!(null),
                json!({"containerStatuses": status(cpu("500m"), requests("600m")), "conditions": pending("Deferred")}),
                1010,
            ),
            // Another container's status does not matter.
            (
                json!(null),
                json!({"containerStatuses": [{"name": "d", "allocatedResources": cpu("2")}]}),
                1010,
            ),
            // A pod-level status replaces those of the containers.
            (
                json!(null),
                json!({"containerStatuses": status(cpu("4"), requests("4")), "allocatedResources": cpu("2"), "resources": requests("3")}),
                3010,
            ),
            // Pod-level requests.
            (requests("3"), json!({}), 3010),
            (requests("3"), json!({"resources": requests("2"), "allocatedResources": cpu("4")}), 4010),
            (
                requests("3"),
                json!({"resources": requests("2"), "allocatedResources": cpu("2"), "conditions": pending("Infeasible")}),
                2010,
            ),
        ] {
            assert_eq!(
                milli_cpu(pod_level.clone(), pod_status.clone()),
                expected,
                "{pod_level} {pod_status}"
            );
        }
    }
}
