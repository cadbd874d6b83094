//! A server, the controllers, and a simulation of the scheduler and the kubelets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_apiserver::ServerOptions;
use berth_controllers::{ControllerOptions, ProvisionerOptions};
pub use berth_faults::{NODES, PODS, TestServer};
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// All components of the test cluster.
pub struct World {
    server: Arc<TestServer>,
    stop: CancellationToken,
    controllers: tokio::task::JoinHandle<()>,
    nodes: Arc<Mutex<Nodes>>,
    kubelets: tokio::task::JoinHandle<()>,
}

impl Deref for World {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

/// The settings and observations of the simulation.
#[derive(Default)]
struct Nodes {
    /// Nodes without heartbeats.
    dead: BTreeSet<String>,
    /// When each node last said that it is there.
    beat_at: BTreeMap<String, Instant>,
    /// Names of terminating pods that stay.
    held: bool,
    /// By the label `app`: the maximum of concurrent non-terminating pods, and the minimum of ready pods after the
    /// current number was ready for the first time.
    extremes: BTreeMap<String, (usize, usize)>,
}

/// Options with short delays.
pub fn options() -> ControllerOptions {
    let mut options = ControllerOptions::default();
    options.node_monitor_grace_period = Duration::from_secs(3600);
    options.node_monitor_period = Duration::from_millis(100);
    options.eviction_rates.normal = 1000.0;
    options.pod_gc_quarantine = Duration::from_millis(100);
    options.pod_gc_period = Duration::from_millis(100);
    options.provisioner = Some(ProvisionerOptions::default());
    options
}

impl World {
    /// A cluster with `n` nodes.
    pub async fn new(n_nodes: usize) -> World {
        World::with(n_nodes, options()).await
    }

    pub async fn with(n_nodes: usize, options: ControllerOptions) -> World {
        let feature_gates = options.feature_gates;
        let server = TestServer::start_with(ServerOptions { feature_gates, ..ServerOptions::default() });
        let server = Arc::new(server.await);
        berth_controllers::install_storage_class(server.client.clone()).await.unwrap();
        let stop = server.stop();
        let controllers = tokio::spawn(berth_controllers::run(server.client.clone(), options, stop.clone()));
        let nodes: Arc<Mutex<Nodes>> = Arc::default();
        let kubelets = tokio::spawn(kubelets(server.clone(), nodes.clone(), stop.clone()));
        let world = World { server, stop, controllers, nodes, kubelets };
        for i in 0..n_nodes {
            world.add_node(&format!("n{i}")).await;
        }
        world
    }

    pub async fn add_node(&self, name: &str) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}}});
        self.create(NODES, node).await;
    }

    /// Stops or resumes the heartbeats of a node.
    pub fn set_dead(&self, node: &str, dead: bool) {
        let mut nodes = self.nodes.lock().unwrap();
        if dead {
            nodes.dead.insert(node.to_owned());
        } else {
            nodes.dead.remove(node);
        }
    }

    /// Whether terminating pods stay or are removed.
    pub fn hold_pods(&self, held: bool) {
        self.nodes.lock().unwrap().held = held;
    }

    /// Resets the recorded extremes of an app.
    pub fn watch_extremes(&self, app: &str, n_now: usize) {
        self.nodes.lock().unwrap().extremes.insert(app.to_owned(), (n_now, n_now));
    }

    /// The maximum of pods and the minimum of ready pods since the reset.
    pub fn extremes(&self, app: &str) -> (usize, usize) {
        self.nodes.lock().unwrap().extremes[app]
    }

    /// Stops all components; a failure in one of them fails the test.
    pub async fn end(self) {
        self.stop.cancel();
        self.controllers.await.unwrap();
        self.kubelets.await.unwrap();
    }
}

/// Name of an object.
pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Names of objects, sorted.
pub fn names(objects: &[Value]) -> Vec<String> {
    let mut names: Vec<_> = objects.iter().map(name).collect();
    names.sort();
    names
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

pub fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// A pod template; the image says how its pods fare: `run`, `stuck` (never ready), `succeed` or `fail`.
pub fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

async fn kubelets(server: Arc<TestServer>, nodes: Arc<Mutex<Nodes>>, stop: CancellationToken) {
    // Heartbeats differ by their seconds, also when simulated seconds pass faster than those of the wall clock.
    let (start, started) = (jiff::Timestamp::now(), Instant::now());
    while !stop.is_cancelled() {
        let all = server.list(NODES).await;
        for node in &all {
            if nodes.lock().unwrap().beats(node) {
                heartbeat(&server, node, (start + started.elapsed()).to_string()).await;
            }
        }
        let pods = server.list("/api/v1/pods").await;
        nodes.lock().unwrap().look(&pods);
        let mut load: BTreeMap<String, usize> = all
            .iter()
            .filter(|node| node["spec"]["taints"].as_array().is_none_or(Vec::is_empty))
            .map(|n| (name(n), 0))
            .collect();
        for pod in &pods {
            if let Some(n) = pod["spec"]["nodeName"].as_str().and_then(|node| load.get_mut(node)) {
                *n += 1;
            }
        }
        for pod in &pods {
            let held = nodes.lock().unwrap().held;
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if nodes.lock().unwrap().dead.contains(node)
                || !node.is_empty() && !all.iter().any(|n| name(n) == node)
            {
                continue;
            }
            step(&server, pod, held, &mut load).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Nodes {
    /// Whether a node says now that it is there: once a second at most.
    fn beats(&mut self, node: &Value) -> bool {
        let (name, now) = (name(node), Instant::now());
        let is_fresh = self.beat_at.get(&name).is_some_and(|at| now - *at < Duration::from_secs(1));
        let is_ready = is_ready(node);
        if self.dead.contains(&name) || is_ready && is_fresh {
            return false;
        }
        self.beat_at.insert(name, now);
        true
    }

    fn look(&mut self, pods: &[Value]) {
        for (app, (most, fewest_ready)) in &mut self.extremes {
            let mut of_app =
                pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == **app && !is_deleting(pod));
            let (n, n_ready) =
                of_app.by_ref().fold((0, 0), |(n, r), pod| (n + 1, r + usize::from(is_ready(pod))));
            *most = (*most).max(n);
            *fewest_ready = (*fewest_ready).min(n_ready);
        }
    }
}

async fn heartbeat(server: &TestServer, node: &Value, at: String) {
    let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": at,
        "lastTransitionTime": at});
    // The node may be gone.
    let path = format!("{NODES}/{}/status", name(node));
    let _ = server.patch_as(STRATEGIC, &path, json!({"status": {"conditions": [condition]}})).await;
}

/// Selects a node for claims that wait for one, as a scheduler does. Once all claims of a pod are bound, returns the zone
/// of their volumes, if they have one; a node of the simulation is named like its zone.
async fn claims_ready(
    server: &TestServer,
    pod: &Value,
    load: &BTreeMap<String, usize>,
) -> Option<Option<String>> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap();
    let (mut zone, mut waits) = (None, Vec::new());
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let claim = match volume["persistentVolumeClaim"]["claimName"].as_str() {
            Some(claim) => claim.to_owned(),
            None if volume["ephemeral"].is_null() => continue,
            None => format!("{}-{}", name(pod), volume["name"].as_str().unwrap()),
        };
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}");
        let claim = server.find(&path).await.filter(|claim| !is_deleting(claim))?;
        if claim["status"]["phase"] != "Bound" {
            waits.push((path, claim));
            continue;
        }
        let volume = claim["spec"]["volumeName"].as_str().unwrap();
        let volume = server.find(&format!("/api/v1/persistentvolumes/{volume}")).await.unwrap_or_default();
        let value = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
        zone = zone.or(volume.pointer(value).and_then(Value::as_str).map(str::to_owned));
    }
    if waits.is_empty() {
        return Some(zone);
    }
    let node = zone.or_else(|| load.iter().min_by_key(|(_, n)| **n).map(|(node, _)| node.clone()))?;
    for (path, claim) in waits {
        const SELECTED: &str = "volume.kubernetes.io/selected-node";
        let class = claim["spec"]["storageClassName"].as_str().unwrap_or("none");
        let class = server.find(&format!("/apis/storage.k8s.io/v1/storageclasses/{class}")).await;
        let class = class.unwrap_or_default();
        if class["volumeBindingMode"] == "WaitForFirstConsumer"
            && claim["metadata"]["annotations"][SELECTED].is_null()
        {
            let selected = json!({"metadata": {"annotations": {SELECTED: node}}});
            let _ = server.send(Method::PATCH, &path, selected).await;
        }
    }
    None
}

/// Moves a pod on by one step; it may be gone.
async fn step(server: &TestServer, pod: &Value, held: bool, load: &mut BTreeMap<String, usize>) {
    let metadata = &pod["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{}", name(pod));
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    if is_deleting(pod) {
        if !held {
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}});
            let _ = server.send(Method::DELETE, &path, options).await;
        }
    } else if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let pin = pod.pointer(&format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0"));
        let zone = match claims_ready(server, pod, load).await {
            Some(zone) => zone,
            None => return,
        };
        let node = match pin.and_then(Value::as_str).or(zone.as_deref()) {
            Some(node) => node.to_owned(),
            None => match load.iter_mut().min_by_key(|(_, n)| **n) {
                Some((node, n)) => {
                    *n += 1;
                    node.clone()
                }
                None => return,
            },
        };
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name(pod)},
            "target": {"kind": "Node", "name": node}});
        let _ = server.send(Method::POST, &format!("{path}/binding"), binding).await;
    } else if phase == "Pending" {
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        let (phase, ready) = match image {
            "succeed" => ("Succeeded", "False"),
            "fail" | "fail-42" => ("Failed", "False"),
            "stuck" => ("Running", "False"),
            _ => ("Running", "True"),
        };
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": now()});
        let mut status = json!({"phase": phase, "startTime": now(), "conditions": [condition]});
        if image == "fail-42" {
            let container = &pod["spec"]["containers"][0]["name"];
            let ended = json!({"terminated": {"exitCode": 42, "finishedAt": now()}});
            status["containerStatuses"] = json!([{"name": container, "image": image, "state": ended}]);
        }
        let patch = json!({"metadata": {"uid": metadata["uid"]}, "status": status});
        let _ = server.patch_as(STRATEGIC, &format!("{path}/status"), patch).await;
    }
}
