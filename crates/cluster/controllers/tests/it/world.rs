//! A server, the controllers, and a simulation of the scheduler and the kubelets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_apiserver::ApiServer;
use berth_controllers::{ControllerOptions, ProvisionerOptions};
use http::StatusCode;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{admin, call, delete, get, merge, post, send, server};

/// All components of the test cluster.
pub struct World {
    pub client: Client,
    server: ApiServer,
    stop: CancellationToken,
    controllers: tokio::task::JoinHandle<()>,
    nodes: Arc<Mutex<Nodes>>,
    kubelets: tokio::task::JoinHandle<()>,
}

/// The settings and observations of the simulation.
#[derive(Default)]
struct Nodes {
    /// Nodes without heartbeats.
    dead: BTreeSet<String>,
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
    options.node_eviction_rate = 1000.0;
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
        let server = server().await;
        let client = admin(&server);
        berth_controllers::install_storage_class(client.clone()).await.unwrap();
        let stop = CancellationToken::new();
        let controllers = tokio::spawn(berth_controllers::run(admin(&server), options, stop.clone()));
        let nodes: Arc<Mutex<Nodes>> = Arc::default();
        let kubelets = tokio::spawn(kubelets(client.clone(), nodes.clone(), stop.clone()));
        let world = World { client, server, stop, controllers, nodes, kubelets };
        for i in 0..n_nodes {
            world.add_node(&format!("n{i}")).await;
        }
        world
    }

    pub async fn add_node(&self, name: &str) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}}});
        self.create("/api/v1/nodes", &node).await;
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

    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = post(&self.client, path, object).await;
        assert_eq!(code, StatusCode::CREATED, "{created}");
        created
    }

    pub async fn get(&self, path: &str) -> Option<Value> {
        let (code, object) = get(&self.client, path).await;
        (code == StatusCode::OK).then_some(object)
    }

    pub async fn list(&self, path: &str) -> Vec<Value> {
        let (code, list) = get(&self.client, path).await;
        assert_eq!(code, StatusCode::OK, "{list}");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub async fn merge(&self, path: &str, patch: Value) -> Value {
        let (code, patched) = merge(&self.client, path, &patch).await;
        assert_eq!(code, StatusCode::OK, "{patched}");
        patched
    }

    /// The answer to a merge patch that may be refused.
    pub async fn try_merge(&self, path: &str, patch: &Value) -> (StatusCode, Value) {
        merge(&self.client, path, patch).await
    }

    pub async fn delete(&self, path: &str, options: Value) {
        let (code, status) = delete(&self.client, path, &options).await;
        assert!(code.is_success(), "{path}: {code} {status}");
    }

    /// Waits until an object meets a condition.
    pub async fn until(&self, what: &str, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        for _ in 0..1500 {
            last = self.get(path).await;
            if let Some(object) = last.take_if(|object| wanted(object)) {
                return object;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not in time: {what}; {path} is {}", last.unwrap_or_default());
    }

    /// Waits until no object exists at a path.
    pub async fn until_gone(&self, path: &str) {
        let mut last = Value::Null;
        for _ in 0..1500 {
            match self.get(path).await {
                None => return,
                Some(object) => last = object,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("still there: {last}");
    }

    /// Waits until the objects of a list meet a condition.
    pub async fn until_listed(
        &self,
        what: &str,
        path: &str,
        wanted: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let list =
            self.until(what, path, |list| wanted(list["items"].as_array().unwrap_or(&Vec::new()))).await;
        list["items"].as_array().unwrap().clone()
    }

    /// Stops all components; a failure in one of them fails the test.
    pub async fn end(self) {
        self.stop.cancel();
        self.controllers.await.unwrap();
        self.kubelets.await.unwrap();
        self.server.shutdown().await;
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

async fn kubelets(client: Client, nodes: Arc<Mutex<Nodes>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let (_, listed) = get(&client, "/api/v1/nodes").await;
        let empty = Vec::new();
        let all = listed["items"].as_array().unwrap_or(&empty);
        for node in all {
            let dead = nodes.lock().unwrap().dead.contains(&name(node));
            if !dead {
                heartbeat(&client, node).await;
            }
        }
        let (_, listed) = get(&client, "/api/v1/pods").await;
        let pods = listed["items"].as_array().cloned().unwrap_or_default();
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
            step(&client, pod, held, &mut load).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Nodes {
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

/// Says that a node is there, once a second at most.
async fn heartbeat(client: &Client, node: &Value) {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
    let is_fresh = ready.is_some_and(|ready| {
        let at: Option<jiff::Timestamp> = ready["lastHeartbeatTime"].as_str().and_then(|at| at.parse().ok());
        ready["status"] == "True"
            && at.is_some_and(|at| jiff::Timestamp::now().duration_since(at).as_secs() < 1)
    });
    if !is_fresh {
        let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now(),
            "lastTransitionTime": now()});
        let path = format!("/api/v1/nodes/{}/status", name(node));
        let patch = json!({"status": {"conditions": [condition]}}).to_string();
        send(client, http::Method::PATCH, &path, "application/strategic-merge-patch+json", patch).await;
    }
}

/// Selects a node for claims that wait for one, as a scheduler does. Once all claims of a pod are bound, returns the zone
/// of their volumes, if they have one; a node of the simulation is named like its zone.
async fn claims_ready(
    client: &Client,
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
        let (code, claim) = get(client, &path).await;
        if code != StatusCode::OK || is_deleting(&claim) {
            return None;
        }
        if claim["status"]["phase"] != "Bound" {
            waits.push((path, claim));
            continue;
        }
        let volume = claim["spec"]["volumeName"].as_str().unwrap();
        let (_, volume) = get(client, &format!("/api/v1/persistentvolumes/{volume}")).await;
        let value = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
        zone = zone.or(volume.pointer(value).and_then(Value::as_str).map(str::to_owned));
    }
    if waits.is_empty() {
        return Some(zone);
    }
    let node = zone.or_else(|| load.iter().min_by_key(|(_, n)| **n).map(|(node, _)| node.clone()))?;
    for (path, claim) in waits {
        const SELECTED: &str = "volume.kubernetes.io/selected-node";
        let (_, class) = get(
            client,
            &format!(
                "/apis/storage.k8s.io/v1/storageclasses/{}",
                claim["spec"]["storageClassName"].as_str().unwrap_or("none")
            ),
        )
        .await;
        if class["volumeBindingMode"] == "WaitForFirstConsumer"
            && claim["metadata"]["annotations"][SELECTED].is_null()
        {
            merge(client, &path, &json!({"metadata": {"annotations": {SELECTED: node}}})).await;
        }
    }
    None
}

/// Moves a pod on by one step.
async fn step(client: &Client, pod: &Value, held: bool, load: &mut BTreeMap<String, usize>) {
    let metadata = &pod["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{}", name(pod));
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    if is_deleting(pod) {
        if !held {
            delete(
                client,
                &path,
                &json!({"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}),
            )
            .await;
        }
    } else if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let pin = pod.pointer(&format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0"));
        let zone = match claims_ready(client, pod, load).await {
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
        call(client, http::Method::POST, &format!("{path}/binding"), &binding).await;
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
        let content = "application/strategic-merge-patch+json";
        send(client, http::Method::PATCH, &format!("{path}/status"), content, patch.to_string()).await;
    }
}
