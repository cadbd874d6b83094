//! The requests of a pod, summed over its containers.

use std::collections::BTreeMap;

use crate::object::{Container, PodSpec, ResourceList};
use crate::quantity::Quantity;

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
    /// CPU that the pod uses when nodes are scored for other pods, in milli-CPU. As `scoring_milli_cpu`; but a pod with
    /// pod-level requests counts the default only if neither it nor its containers request CPU.
    pub non_zero_milli_cpu: i64,
    /// Memory that the pod uses when nodes are scored for other pods, in bytes.
    pub non_zero_memory: i64,
}

impl PodRequests {
    /// Sums the requests: the containers and sidecars, or the largest init container if it needs more. Pod-level requests
    /// replace the sum; overhead is added. Source of the rule: `PodRequests` in `k8s.io/component-helpers/resource`.
    pub fn of(spec: &PodSpec) -> PodRequests {
        let sum = total(spec, &ResourceList::new());

        let defaults = ResourceList::from([
            ("cpu".to_owned(), Quantity::from_millis(DEFAULT_MILLI_CPU_REQUEST)),
            ("memory".to_owned(), Quantity::from_units(DEFAULT_MEMORY_REQUEST)),
        ]);
        let scoring = total(spec, &defaults);
        let pod_level = pod_level_requests(spec).next().is_some();
        let missing =
            defaults.into_iter().filter(|(name, _)| !pod_level || !sum.contains_key(name)).collect();
        let non_zero = total(spec, &missing);

        let mut requests = PodRequests {
            scoring_milli_cpu: get(&scoring, "cpu").millis(),
            scoring_memory: get(&scoring, "memory").units(),
            non_zero_milli_cpu: get(&non_zero, "cpu").millis(),
            non_zero_memory: get(&non_zero, "memory").units(),
            ..PodRequests::default()
        };
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
    total(spec, &ResourceList::new())
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
    let mut limits = total(&limits, &ResourceList::new());
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

fn requests_of(container: &Container, defaults: &ResourceList) -> ResourceList {
    let mut requests = container.resources.requests.clone();
    for (name, quantity) in defaults {
        requests.entry(name.clone()).or_insert(*quantity);
    }
    requests
}

/// The supported pod-level requests: CPU, memory and huge pages.
fn pod_level_requests(spec: &PodSpec) -> impl Iterator<Item = (&String, &Quantity)> {
    let requests = spec.resources.iter().flat_map(|r| &r.requests);
    requests.filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-"))
}

fn total(spec: &PodSpec, defaults: &ResourceList) -> ResourceList {
    let mut running = BTreeMap::new();
    for container in &spec.containers {
        add(&mut running, &requests_of(container, defaults));
    }
    // The sidecars before an init container run at the same time.
    let mut sidecars = BTreeMap::new();
    let mut starting = BTreeMap::new();
    for container in &spec.init_containers {
        let mut requests = requests_of(container, defaults);
        if container.is_sidecar() {
            add(&mut running, &requests);
            add(&mut sidecars, &requests);
            requests = sidecars.clone();
        } else {
            add(&mut requests, &sidecars);
        }
        raise(&mut starting, &requests);
    }
    raise(&mut running, &starting);
    for (name, quantity) in pod_level_requests(spec) {
        running.insert(name.clone(), *quantity);
    }
    add(&mut running, &spec.overhead);
    running
}
