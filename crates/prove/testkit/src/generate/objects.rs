//! Random nodes, namespaces, services, workloads and pods.

use berth_api::object::volume::{ImageVolume, Volume};
use berth_api::object::{
    Condition, Container, ContainerImage, ContainerPort, ContainerRestartRule, ContainerStatus,
    LabelSelector, Namespace, Node, OwnerReference, Pod, PodDisruptionBudget, ResourceList,
    ResourceRequirements, Service, StringMap, Taint, Toleration,
};
use berth_api::syntax::labels::HOSTNAME;
use berth_api::syntax::quantity::Quantity;
use berth_rules::admission::default_pod;
use berth_rules::merge_label_keys;

use super::names::{
    CORES, DISKS, LABEL_VERSIONS, NAMESPACES, RACK, RACKS, REGION, REGIONS, SLOT, SLOTS, VERSIONS, ZONE,
    ZONES, node_name,
};
use super::{Flavour, Random, terms};
use crate::naive::WorkloadSelector;

pub const DELETED_AT: &str = "2026-01-01T00:00:00Z";
const APPS: [&str; 3] = ["web", "db", "cache"];
const WORKLOADS: [&str; 2] = ["one", "two"];
const IMAGES: [&str; 3] = ["registry.example/web:1", "registry.example/db", "cache:2"];
const GPU: &str = "example.com/gpu";
const FEATURES: [&str; 2] = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];

pub fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).expect("a quantity of the vocabulary")
}

fn maybe(random: &mut Random, labels: &mut StringMap, percent: usize, key: &str, values: &[&str]) {
    if random.chance(percent) {
        let value = random.word(values);
        labels.insert(key.to_owned(), value);
    }
}

pub fn node(random: &mut Random) -> Node {
    let mut node = Node::default();
    node.metadata.name = node_name(random);
    for part in 0..5 {
        draw_node_part(random, &mut node, part);
    }
    node
}

/// The node with one part changed at random.
pub fn changed_node(random: &mut Random, mut node: Node) -> Node {
    let part = random.below(5);
    draw_node_part(random, &mut node, part);
    node
}

fn draw_node_part(random: &mut Random, node: &mut Node, part: usize) {
    match part {
        0 => {
            let mut labels = StringMap::new();
            let name = node.metadata.name.clone();
            maybe(random, &mut labels, 90, HOSTNAME, &[&name]);
            maybe(random, &mut labels, 85, ZONE, &ZONES);
            maybe(random, &mut labels, 60, RACK, &RACKS);
            maybe(random, &mut labels, 50, REGION, &REGIONS);
            maybe(random, &mut labels, 50, "disk", &DISKS);
            maybe(random, &mut labels, 50, "cores", &CORES);
            node.metadata.labels = labels.into();
        }
        1 => {
            node.spec.taints.clear();
            while random.chance(25) {
                let taint = Taint {
                    key: random.word(&["dedicated", "flaky"]),
                    value: random.word(&["", "db", "7"]),
                    effect: random.word(&["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"]),
                };
                // A node has one taint of a key and an effect.
                let is_alike = |t: &Taint| (&t.key, &t.effect) == (&taint.key, &taint.effect);
                if !node.spec.taints.iter().any(is_alike) {
                    node.spec.taints.push(taint);
                }
            }
        }
        2 => {
            let mut list = ResourceList::new();
            list.insert("cpu".to_owned(), quantity(&random.word(&["2", "4", "3500m", "0"])));
            list.insert("memory".to_owned(), quantity(&random.word(&["4Gi", "8Gi", "7000Mi"])));
            list.insert("pods".to_owned(), quantity(&random.word(&["3", "10", "110"])));
            list.insert("ephemeral-storage".to_owned(), quantity("20Gi"));
            if random.chance(40) {
                list.insert(GPU.to_owned(), quantity(&random.word(&["0", "1", "4"])));
            }
            node.status.allocatable = (!random.chance(3)).then_some(list);
        }
        3 => {
            node.spec.unschedulable = random.chance(10);
            node.status.declared_features = random.words(&FEATURES, 0, 2);
            maybe(random, &mut node.metadata.labels, 30, "kernel", LABEL_VERSIONS);
            maybe(random, &mut node.metadata.annotations, 60, SLOT, &SLOTS);
            maybe(random, &mut node.metadata.annotations, 50, "example.com/other", &SLOTS);
            node.status.node_info.kernel_version = random.word(&VERSIONS);
            node.spec.provider_id = random.word(&["", "test://1"]);
        }
        _ => {
            node.status.images.clear();
            for name in ["registry.example/web:1", "registry.example/db:latest", "cache:2"] {
                if random.chance(40) {
                    let size_bytes = quantity(&random.word(&["30Mi", "700Mi", "2Gi"])).units();
                    node.status.images.push(ContainerImage { names: vec![name.to_owned()], size_bytes });
                }
            }
        }
    }
}

pub fn namespace(random: &mut Random) -> Namespace {
    let mut namespace = Namespace::default();
    // The last one rarely exists.
    let n_usual = if random.chance(5) { NAMESPACES.len() } else { NAMESPACES.len() - 1 };
    namespace.metadata.name = random.word(&NAMESPACES[..n_usual]);
    maybe(random, &mut namespace.metadata.labels, 70, "team", &["data", "web"]);
    namespace
}

pub fn service(random: &mut Random) -> Service {
    let mut service = Service::default();
    service.metadata.namespace = random.word(&NAMESPACES);
    service.metadata.name = random.word(&["s", "t"]);
    maybe(random, &mut service.spec.selector, 90, "app", &APPS);
    maybe(random, &mut service.spec.selector, 20, "tier", &["fe", "be"]);
    service
}

/// A budget that usually allows no disruption.
pub fn budget(random: &mut Random) -> PodDisruptionBudget {
    let mut budget = PodDisruptionBudget::default();
    budget.metadata.namespace = random.word(&NAMESPACES);
    budget.metadata.name = random.word(&["b", "c"]);
    let mut selector = LabelSelector::default();
    maybe(random, &mut selector.match_labels, 85, "app", &APPS);
    budget.spec.selector = (!random.chance(5)).then_some(selector);
    budget.status.disruptions_allowed = Some(random.below(3) as i32);
    budget
}

/// Deletes a pod, by preemption if its number is even.
pub fn terminate(pod: &mut Pod) {
    pod.metadata.deletion_timestamp = DELETED_AT.parse().ok();
    if pod.metadata.name.ends_with(['0', '2', '4', '6', '8']) {
        pod.status.conditions = vec![Condition {
            condition_type: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: "PreemptionByScheduler".to_owned(),
            ..Condition::default()
        }]
        .into();
    }
}

pub fn workload(random: &mut Random) -> WorkloadSelector {
    let mut selector = LabelSelector::default();
    maybe(random, &mut selector.match_labels, 80, "app", &APPS);
    WorkloadSelector {
        kind: random.word(&["ReplicaSet", "StatefulSet", "ReplicationController"]),
        namespace: random.word(&NAMESPACES),
        name: random.word(&WORKLOADS),
        selector,
    }
}

pub fn pod_labels(random: &mut Random) -> StringMap {
    let mut labels = StringMap::new();
    maybe(random, &mut labels, 85, "app", &APPS);
    maybe(random, &mut labels, 50, "tier", &["fe", "be"]);
    maybe(random, &mut labels, 40, "gen", &["1", "5", "30", "x"]);
    labels
}

/// A pending pod; the number makes its name unique.
pub fn pod(random: &mut Random, flavour: Flavour, number: usize) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = format!("p{number}");
    pod.metadata.uid = format!("u{number}");
    pod.metadata.namespace = random.word(&NAMESPACES);
    pod.metadata.labels = pod_labels(random).into();
    if random.chance(20) {
        let kind = random.word(&["ReplicaSet", "StatefulSet", "ReplicationController", "Job"]);
        let api_version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
        pod.metadata.owner_references.push(OwnerReference {
            api_version: api_version.to_owned(),
            kind,
            name: random.word(&WORKLOADS),
            controller: Some(true),
            ..OwnerReference::default()
        });
    }
    if random.chance(5) {
        pod.metadata.deletion_timestamp = DELETED_AT.parse().ok();
    }
    pod.spec.priority =
        random.pick(&[None, Some(0), Some(0), Some(5), Some(10), Some(-5)]).copied().flatten();
    if random.chance(5) {
        pod.spec.preemption_policy = Some("Never".to_owned());
    }
    pod.status.start_time = random
        .chance(80)
        .then(|| format!("2026-01-01T00:00:0{}Z", random.below(10)))
        .and_then(|time| time.parse().ok());
    draw_containers(random, &mut pod);
    if random.chance(8) {
        draw_resize(random, &mut pod);
    }
    while random.chance(30) {
        let exists = random.chance(50);
        let mut toleration = Toleration {
            key: if exists && random.chance(30) {
                String::new()
            } else {
                random.word(&["dedicated", "flaky"])
            },
            operator: if exists { "Exists".to_owned() } else { random.word(&["Equal", "", "Gt", "Lt"]) },
            ..Toleration::default()
        };
        let values: &[&str] = match toleration.operator.as_str() {
            "Gt" | "Lt" => &["-7", "7", "8"],
            _ => &["", "db"],
        };
        toleration.value = if exists { String::new() } else { random.word(values) };
        toleration.effect = random.word(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
        pod.spec.tolerations.push(toleration);
    }
    maybe(random, &mut pod.spec.node_selector, 8, "disk", &DISKS);
    terms::draw(random, flavour, &mut pod);
    default_pod(&mut pod);
    merge_label_keys(&mut pod);
    pod
}

fn draw_containers(random: &mut Random, pod: &mut Pod) {
    for name in ["a", "b"].iter().take(1 + random.below(2)) {
        pod.spec.containers.push(container(random, name));
    }
    if random.chance(20) {
        pod.spec.init_containers.push(container(random, "i"));
        if random.chance(50) {
            let mut sidecar = container(random, "s");
            sidecar.restart_policy = Some("Always".to_owned());
            pod.spec.init_containers.push(sidecar);
            pod.spec.init_containers.push(container(random, "j"));
        }
    }
    if random.chance(10) {
        let image = ImageVolume { reference: random.word(&IMAGES) };
        pod.spec.volumes.push(Volume { name: "image".to_owned(), image: Some(image), ..Volume::default() });
    }
    if random.chance(5) {
        (pod.spec.host_network, pod.spec.host_users) = (true, Some(false));
    }
    if random.chance(5) {
        let rule = ContainerRestartRule { action: "RestartAllContainers".to_owned() };
        pod.spec.containers[0].restart_policy_rules.push(rule);
    }
    if random.chance(10) {
        pod.spec.overhead.insert("cpu".to_owned(), quantity("50m"));
        pod.spec.overhead.insert("memory".to_owned(), quantity("100Mi"));
    }
    // Not less than the container's request.
    if pod.spec.containers.len() == 1 && pod.spec.init_containers.is_empty() && random.chance(10) {
        let requests = ResourceList::from([("cpu".to_owned(), quantity(&random.word(&["2", "3"])))]);
        pod.spec.resources =
            Some(Box::new(ResourceRequirements { requests, ..ResourceRequirements::default() }));
    }
}

/// The resources of a pod while it is resized.
fn draw_resize(random: &mut Random, pod: &mut Pod) {
    fn amounts(random: &mut Random) -> ResourceList {
        ResourceList::from([("cpu".to_owned(), quantity(&random.word(&["50m", "500m", "2"])))])
    }
    let status = &mut pod.status;
    for container in pod.spec.containers.iter().chain(&pod.spec.init_containers) {
        status.container_statuses.push(ContainerStatus {
            name: container.name.clone(),
            allocated_resources: random.chance(60).then(|| amounts(random)),
            resources: random.chance(60).then(|| ResourceRequirements {
                requests: amounts(random),
                ..ResourceRequirements::default()
            }),
        });
    }
    status.allocated_resources = random.chance(20).then(|| amounts(random));
    status.resources = random.chance(20).then(|| {
        ResourceRequirements { requests: amounts(random), ..ResourceRequirements::default() }.into()
    });
    if random.chance(50) {
        status.conditions.push(Condition {
            condition_type: "PodResizePending".to_owned(),
            status: "True".to_owned(),
            reason: random.word(&["Infeasible", "Deferred"]),
            ..Condition::default()
        });
    }
}

fn container(random: &mut Random, name: &str) -> Container {
    let mut container =
        Container { name: name.to_owned(), image: random.word(&IMAGES), ..Container::default() };
    let requests = &mut container.resources.requests;
    if random.chance(60) {
        requests.insert("cpu".to_owned(), quantity(&random.word(&["0", "100m", "250m", "1", "1500m"])));
    }
    if random.chance(60) {
        requests.insert("memory".to_owned(), quantity(&random.word(&["0", "64Mi", "1Gi", "1500Mi"])));
    }
    if random.chance(10) {
        requests.insert("ephemeral-storage".to_owned(), quantity(&random.word(&["1Gi", "15Gi"])));
    }
    if random.chance(12) {
        let amount = quantity(&random.word(&["0", "1", "2"]));
        requests.insert(GPU.to_owned(), amount);
        container.resources.limits.insert(GPU.to_owned(), amount);
    }
    // Different containers of a pod use different ports.
    let ports: &[i32] = match name {
        "a" => &[80, 8080],
        "s" => &[9090],
        _ => &[],
    };
    if let Some(&port) = random.pick(ports)
        && random.chance(25)
    {
        container.ports.push(ContainerPort {
            container_port: port,
            host_port: if random.chance(80) { port } else { 0 },
            host_ip: random.word(&["", "0.0.0.0", "127.0.0.1", "10.0.0.1"]),
            protocol: random.word(&["TCP", "UDP"]),
            ..ContainerPort::default()
        });
    }
    container
}
