//! Defaulting: values that the API server sets before admission plugins and validation.

use berth_api::object::{Container, Pod, PodSpec, ResourceList, ResourceRequirements, Toleration};
use berth_api::syntax::quantity::Quantity;

/// Default `tolerationSeconds` for nodes that are not ready or unreachable.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// Applies the API server's defaults for all fields that placement reads.
///
/// Namespace and scheduler name, requests from limits, pod-level requests, host ports of pods on the
/// node's network, protocols. Resources are rounded up to thousandths. The policies of topology spread
/// constraints stay absent, as the API server leaves them.
pub fn default_pod(pod: &mut Pod) {
    if pod.metadata.namespace.is_empty() {
        pod.metadata.namespace = "default".to_owned();
    }
    let spec = &mut *pod.spec;
    if spec.scheduler_name.is_empty() {
        spec.scheduler_name = "default-scheduler".to_owned();
    }
    round_resources(&mut spec.overhead);
    if let Some(resources) = &mut spec.resources {
        round_resources(&mut resources.requests);
        round_resources(&mut resources.limits);
    }
    for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
        default_container(container, spec.host_network);
    }
    default_pod_resources(spec);
}

fn default_container(container: &mut Container, host_network: bool) {
    let resources = &mut container.resources;
    round_resources(&mut resources.requests);
    round_resources(&mut resources.limits);
    for (name, limit) in &resources.limits {
        resources.requests.entry(name.clone()).or_insert(*limit);
    }
    for port in &mut container.ports {
        if port.protocol.is_empty() {
            port.protocol = "TCP".to_owned();
        }
        if host_network && port.host_port == 0 {
            port.host_port = port.container_port;
        }
    }
}

fn round_resources(list: &mut ResourceList) {
    for quantity in list.values_mut() {
        *quantity = quantity.rounded_to_millis();
    }
}

/// Completes partial pod-level resources, after the defaults of containers.
fn default_pod_resources(spec: &mut PodSpec) {
    let Some(mut resources) = spec.resources.take() else { return };
    if !resources.limits.is_empty() || !resources.requests.is_empty() {
        for (name, limit) in container_sum(spec, |c| &c.resources.limits) {
            if is_huge_page(&name) && !resources.requests.contains_key(&name) {
                resources.limits.entry(name).or_insert(limit);
            }
        }
    }
    if !resources.limits.is_empty() {
        for (name, request) in container_sum(spec, |c| &c.resources.requests) {
            if is_pod_level_resource(&name) && is_overcommit_allowed(&name) {
                resources.requests.entry(name).or_insert(request);
            }
        }
        for (name, limit) in &resources.limits {
            if is_pod_level_resource(name) {
                resources.requests.entry(name.clone()).or_insert(*limit);
            }
        }
    }
    spec.resources = Some(resources);
}

/// Completes pod-level resources as Kubernetes does since 1.37: requests from containers and from limits, and limits that all containers
/// have.
pub fn complete_pod_resources(spec: &mut PodSpec) {
    let is_set =
        |resources: &ResourceRequirements| !(resources.requests.is_empty() && resources.limits.is_empty());
    let Some(mut resources) = spec.resources.take() else { return };
    if is_set(&resources) {
        let limits = container_sum(spec, |c| &c.resources.limits);
        let ResourceRequirements { requests, limits: own, .. } = &mut *resources;
        for (name, limit) in limits.iter().filter(|(name, _)| is_huge_page(name)) {
            if !requests.contains_key(name) {
                own.entry(name.clone()).or_insert(*limit);
            }
        }
        for (name, request) in container_sum(spec, |c| &c.resources.requests) {
            if is_pod_level_resource(&name) && is_overcommit_allowed(&name) {
                requests.entry(name).or_insert(request);
            }
        }
        for (name, limit) in own.iter().filter(|(name, _)| is_pod_level_resource(name)) {
            requests.entry(name.clone()).or_insert(*limit);
        }
        let all = || spec.init_containers.iter().chain(spec.containers.iter());
        for (name, request) in requests.iter().filter(|(name, _)| is_pod_level_resource(name)) {
            if let Some(limit) = limits.get(name)
                && all().all(|container| container.resources.limits.contains_key(name))
            {
                own.entry(name.clone()).or_insert((*limit).max(*request));
            }
        }
    }
    spec.resources = Some(resources);
}

/// The resources of all containers: the sum over containers and sidecars, or the maximum over init containers together
/// with the sidecars before them, whichever is more.
pub(super) fn container_sum(spec: &PodSpec, list: impl Fn(&Container) -> &ResourceList) -> ResourceList {
    let mut sum = ResourceList::new();
    for container in &spec.containers {
        add(&mut sum, list(container));
    }
    // The sum of sidecars only grows, and the running sum includes it.
    let mut sidecars = ResourceList::new();
    let mut init = ResourceList::new();
    for container in &spec.init_containers {
        if container.is_sidecar() {
            add(&mut sum, list(container));
            add(&mut sidecars, list(container));
        } else {
            let with_sidecars = |(name, quantity): (&String, &Quantity)| {
                (name.clone(), *quantity + sidecars.get(name).copied().unwrap_or_default())
            };
            raise(&mut init, list(container).iter().map(with_sidecars));
        }
    }
    raise(&mut sum, init);
    sum
}

fn add(sum: &mut ResourceList, list: &ResourceList) {
    for (name, quantity) in list {
        *sum.entry(name.clone()).or_default() += *quantity;
    }
}

fn raise(max: &mut ResourceList, list: impl IntoIterator<Item = (String, Quantity)>) {
    for (name, quantity) in list {
        let entry = max.entry(name).or_insert(quantity);
        *entry = (*entry).max(quantity);
    }
}

/// Whether pod-level requests and limits may name the resource.
pub(super) fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Whether the resource is memory in pages of a fixed size.
pub(super) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the resource is one of Kubernetes' own.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the request for a resource may be below its limit.
pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Lets the pod tolerate a node that is not ready or unreachable for five minutes, unless it has such tolerations
/// (admission plugin `DefaultTolerationSeconds`).
pub(super) fn add_default_tolerations(pod: &mut Pod) {
    add_default_tolerations_to(&mut pod.spec.tolerations);
}

/// The same, for the tolerations of a pod.
pub fn add_default_tolerations_to(tolerations: &mut Vec<Toleration>) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |t: &Toleration| {
            (t.key == key || t.key.is_empty()) && (t.effect == "NoExecute" || t.effect.is_empty())
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: "NoExecute".to_owned(),
                toleration_seconds: Some(DEFAULT_TOLERATION_SECONDS),
                ..Toleration::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaulted(spec: serde_json::Value) -> serde_json::Value {
        let mut pod: Pod =
            serde_json::from_value(json!({ "metadata": {"name": "p"}, "spec": spec })).unwrap();
        default_pod(&mut pod);
        serde_json::to_value(pod.spec).unwrap()
    }

    #[test]
    fn requests_follow_limits_and_are_rounded_up() {
        let spec = defaulted(json!({"containers": [{"name": "c", "resources": {
            "limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}, "requests": {"cpu": "100u"}}}]}));
        assert_eq!(
            spec["containers"][0]["resources"]["requests"],
            json!({"cpu": "1m", "example.com/gpu": "1", "memory": "1Gi"})
        );
        assert_eq!(spec["schedulerName"], "default-scheduler");
    }

    #[test]
    fn host_network_turns_container_ports_into_host_ports() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 82, "protocol": "UDP"}]);
        let spec = defaulted(json!({"hostNetwork": true, "containers": [{"name": "c", "ports": ports}],
            "initContainers": [{"name": "i", "ports": ports}]}));
        let wanted = json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
            {"containerPort": 81, "hostPort": 82, "protocol": "UDP"}]);
        assert_eq!(spec["containers"][0]["ports"], wanted);
        assert_eq!(spec["initContainers"][0]["ports"], wanted);
        let spec = defaulted(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}));
        assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 0);
    }

    #[test]
    fn pod_level_requests_come_from_containers_then_from_limits() {
        let spec = defaulted(json!({
            "resources": {"limits": {"cpu": "4", "memory": "4Gi"}},
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"name": "i", "resources": {"requests": {"cpu": "3"}}}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}));
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "4", "memory": "4Gi"}));
        let spec = defaulted(json!({
            "resources": {"requests": {"cpu": "2"}},
            "containers": [{"name": "c", "resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}}]}));
        assert_eq!(
            spec["resources"],
            json!({"requests": {"cpu": "2", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}})
        );
        assert_eq!(defaulted(json!({"resources": {}, "containers": []}))["resources"], json!({}));
    }

    #[test]
    fn default_tolerations_respect_what_is_there() {
        for (tolerations, added) in [
            (json!([]), 2),
            (json!([{"operator": "Exists"}]), 0),
            (json!([{"operator": "Exists", "effect": "NoSchedule"}]), 2),
            (json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]), 1),
        ] {
            let mut pod: Pod =
                serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}}))
                    .unwrap();
            let before = pod.spec.tolerations.len();
            add_default_tolerations(&mut pod);
            assert_eq!(pod.spec.tolerations.len() - before, added, "{tolerations}");
        }
    }
}
