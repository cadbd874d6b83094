//! One entry for the engine's tests: a cluster in the text form, pods placed one after another.
#![allow(dead_code, reason = "each test file uses its part")]

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, DeviceWork, PreparedPod, Settings};
use berth_input::config::{Profile, SchedulerConfig};
use berth_rules::admission::{AdmissionOptions, admit};
use berth_rules::{RuleOptions, Selector};
use berth_testkit::generate::Operation;
use berth_testkit::naive::{Options, World};
use berth_testkit::text;

/// The pod as the API server would store it.
pub fn admitted(pod: &Pod, extensions: bool) -> Pod {
    let mut pod = pod.clone();
    pod.spec.containers.iter_mut().filter(|c| c.image.is_empty()).for_each(|c| c.image = "app".to_owned());
    let feature_gates =
        FeatureGates { taint_toleration_comparison_operators: true, ..FeatureGates::default() };
    let options =
        AdmissionOptions { rules: RuleOptions { extensions, feature_gates }, ..AdmissionOptions::default() };
    let admission = admit(&mut pod, &options);
    assert!(admission.is_accepted(), "{}: {admission:?}", pod.key());
    pod
}

/// A cluster with everything of the world but the pods that wait.
pub fn cluster(world: &World, settings: Settings) -> Cluster {
    let extensions = settings.extensions;
    let mut cluster = Cluster::new(settings);
    world.namespaces.iter().for_each(|n| cluster.set_namespace(n));
    world.services.iter().for_each(|s| cluster.set_service(s));
    for workload in &world.workloads {
        let selector = Selector::parse(Some(&workload.selector)).ok();
        cluster.set_owner_selector(&workload.kind, &workload.namespace, &workload.name, selector);
    }
    world.storage.objects().for_each(|o| cluster.set_volume_object(o));
    world.devices.objects.iter().for_each(|o| cluster.set_device_object(o));
    world.nodes.iter().for_each(|n| cluster.set_node(n));
    for pod in &world.pods {
        cluster.set_pod(&admitted(pod, extensions));
    }
    for pod in &world.nominated {
        let prepared = cluster.prepare(&admitted(pod, extensions));
        cluster.nominate(&prepared, &pod.spec.node_name);
    }
    cluster
}

/// Places the waiting pods of a text in their order: `name=node` each, or `name=-` for those that are unschedulable.
pub fn placed_with(settings: Settings, text: &str) -> String {
    let world = text::world(text);
    let extensions = settings.extensions;
    let mut cluster = cluster(&world, settings);
    let waiting = world.pods.iter().filter(|p| p.spec.node_name.is_empty());
    let place = |pod: &Pod| {
        let prepared = cluster.prepare(&admitted(pod, extensions));
        let outcome = cluster.place(&prepared);
        format!("{}={}", pod.metadata.name, outcome.node().unwrap_or("-"))
    };
    waiting.map(place).collect::<Vec<_>>().join(" ")
}

/// Default settings with feature gates.
pub fn with_gates(feature_gates: FeatureGates) -> Settings {
    let config = SchedulerConfig { feature_gates, ..SchedulerConfig::default() };
    Settings { config, ..Settings::default() }
}

/// [`placed_with`] Berth's default settings.
pub fn placed(text: &str) -> String {
    placed_with(Settings::default(), text)
}

/// What the engine is told of a profile and options of the naive evaluator.
pub fn settings(profile: &Profile, options: &Options) -> Settings {
    Settings {
        config: SchedulerConfig {
            profiles: vec![profile.clone()],
            feature_gates: options.feature_gates,
            ..SchedulerConfig::default()
        },
        extensions: options.extensions,
        exempt_namespaces: options.exempt_namespaces.clone(),
        exempt_from_v1: options.exempt_for_v1,
        all_topologies: options.all_topologies.clone(),
        all_node_attributes: true,
        device_work: DeviceWork::default(),
    }
}

/// Prepares a pod, and sets the nodes again if it is the first one to mention some of their annotations or fields.
pub fn prepare(cluster: &mut Cluster, world: &World, pod: &Pod) -> PreparedPod {
    let epoch = cluster.node_attributes_epoch();
    let prepared = cluster.prepare(pod);
    set_nodes_after(epoch, cluster, world);
    prepared
}

pub fn set_nodes_after(epoch: u32, cluster: &mut Cluster, world: &World) {
    if cluster.node_attributes_epoch() != epoch {
        world.nodes.iter().for_each(|node| cluster.set_node(node));
    }
}

/// Makes the change that `world` has made already.
pub fn apply(cluster: &mut Cluster, world: &World, operation: &Operation) {
    let epoch = cluster.node_attributes_epoch();
    apply_alone(cluster, world, operation);
    set_nodes_after(epoch, cluster, world);
}

fn apply_alone(cluster: &mut Cluster, world: &World, operation: &Operation) {
    let pod = |key: &NamespacedName| world.pods.iter().find(|p| p.metadata.namespaced_name() == *key);
    match operation {
        Operation::AddNode(node) => cluster.set_node(node),
        Operation::UpdateNode(node) => {
            if world.nodes.iter().any(|n| n.metadata.name == node.metadata.name) {
                cluster.set_node(node);
            }
        }
        Operation::RemoveNode(name) => cluster.remove_node(name),
        Operation::SetNamespace(namespace) => cluster.set_namespace(namespace),
        Operation::RemoveNamespace(name) => cluster.remove_namespace(name),
        Operation::AddService(service) => cluster.set_service(service),
        Operation::RemoveService(key) => cluster.remove_service(key.namespace(), key.name()),
        Operation::AddWorkload(workload) => {
            let selector = Selector::parse(Some(&workload.selector)).ok();
            cluster.set_owner_selector(&workload.kind, &workload.namespace, &workload.name, selector);
        }
        // Labels that are added later count as labels that the pod had from the start.
        Operation::AddPod(pod) if pod.metadata.name.len() % 2 == 0 => {
            let mut unlabelled = Pod::clone(pod);
            let labels: Vec<_> = std::mem::take(&mut unlabelled.metadata.labels).into_iter().collect();
            cluster.set_pod(&unlabelled);
            cluster.add_pod_labels(&pod.metadata.namespace, &pod.metadata.name, &labels);
        }
        Operation::AddPod(pod) => _ = cluster.set_pod(pod),
        Operation::RelabelPod(key, _) | Operation::TerminatePod(key) => {
            if let Some(pod) = pod(key) {
                cluster.set_pod(pod);
            }
        }
        Operation::RemovePod(key) => cluster.remove_pod(key.namespace(), key.name()),
        Operation::Nominate(pod) => {
            let prepared = cluster.prepare(pod);
            cluster.nominate(&prepared, &pod.spec.node_name);
        }
        Operation::ClearNomination(key) => _ = cluster.clear_nomination(key.namespace(), key.name()),
        Operation::SetVolumeObject(object) => cluster.set_volume_object(object.clone()),
        Operation::RemoveVolumeObject(kind, key) => {
            cluster.remove_volume_object(*kind, key.namespace(), key.name());
        }
        Operation::SetDeviceObject(object) => cluster.set_device_object(object),
        Operation::RemoveDeviceObject(kind, key) => {
            cluster.remove_device_object(*kind, key.namespace(), key.name());
        }
        Operation::SetBudget(_) | Operation::RollBack(_) | Operation::Bind(_) | Operation::Decide(_) => {}
    }
}

/// Leaves out operations for as long as something fails with the others.
pub fn cut_down(operations: &[Operation], fails: impl Fn(&[Operation]) -> bool) -> Vec<Operation> {
    let mut operations = operations.to_vec();
    let mut i = operations.len();
    while i > 0 {
        i -= 1;
        let mut fewer = operations.clone();
        fewer.remove(i);
        if fails(&fewer) {
            operations = fewer;
        }
    }
    operations
}
