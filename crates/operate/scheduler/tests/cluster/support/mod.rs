//! An API server with a scheduler, and the helpers that observe them.

pub mod devices;
pub mod groups;
pub mod journal;
pub mod verify;

use std::time::Duration;

use berth_api::object::Pod;
pub use berth_api::syntax::labels::HOSTNAME;
use berth_apiserver::{ApiServer, ServerOptions};
use berth_client::call::CallError;
use berth_engine::Settings;
pub use berth_faults::observe::{self, DEADLINE, until};
use berth_scheduler::{Handle, SchedulerOptions};
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::journal::Journal;

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const NODES: &str = "/api/v1/nodes";

/// An API server and a client of it.
pub struct World {
    pub server: ApiServer,
    pub client: kube::Client,
    pub journal: Journal,
}

/// A scheduler under test.
pub struct Scheduler {
    pub handle: Handle,
    pub stop: CancellationToken,
}

/// Options with short timeouts.
pub fn impatient() -> SchedulerOptions {
    SchedulerOptions {
        settings: Settings::default(),
        bind_timeout: Duration::from_millis(700),
        first_backoff: Duration::from_millis(100),
        longest_backoff: Duration::from_millis(800),
        watch_idle_timeout: Duration::from_secs(2),
        ..SchedulerOptions::default()
    }
}

/// Shows the log of a test that is run with `RUST_LOG`.
fn show_log() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
}

impl World {
    pub async fn start() -> World {
        World::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> World {
        show_log();
        let server = ApiServer::start(options).await.unwrap();
        let client = berth_client::connect::client(server.admin_config()).unwrap();
        let journal = Journal::start(client.clone()).await;
        World { server, client, journal }
    }

    pub async fn schedule(&self, options: SchedulerOptions) -> Scheduler {
        start_scheduler(self.server.admin_config(), options).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> Result<Value, CallError> {
        observe::send(&self.client, method, path, body).await
    }

    pub async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, object).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, Value::Null).await.unwrap()
    }

    pub async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, Value::Null).await.unwrap();
    }

    /// Nodes `n0`, `n1`, ... assigned in turn to zones `z0`, `z1`, ..., with capacity for this many pods of [`pod`].
    pub async fn nodes(&self, n: usize, n_zones: usize, room: usize) {
        for i in 0..n {
            self.node(&format!("n{i}"), &format!("z{}", i % n_zones), room).await;
        }
    }

    pub async fn node(&self, name: &str, zone: &str, room: usize) {
        let amounts =
            json!({"cpu": format!("{}m", 100 * room), "memory": "64Gi", "pods": room.max(110).to_string()});
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
            "status": {"capacity": amounts, "allocatable": amounts},
        });
        self.create(NODES, node).await;
    }

    pub async fn pod(&self, pod: Value) -> Value {
        self.create(PODS, pod).await
    }

    pub async fn pods(&self) -> Vec<Pod> {
        berth_client::list(&self.client, &berth_client::WatchOptions::new("/api/v1/pods")).await.unwrap()
    }

    pub async fn node_of(&self, name: &str) -> String {
        let pod = self.get(&format!("{PODS}/{name}")).await;
        pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
    }

    pub async fn until_bound(&self, name: &str) -> String {
        until(&format!("{name} is bound"), async || {
            let node = self.node_of(name).await;
            if node.is_empty() { Err("not yet") } else { Ok(node) }
        })
        .await
    }

    /// Waits until `n` pods are bound.
    pub async fn until_n_bound(&self, n: usize) {
        until(&format!("{n} pods are bound"), async || {
            let n_bound = self.pods().await.iter().filter(|p| !p.spec.node_name.is_empty()).count();
            if n_bound >= n { Ok(()) } else { Err(format!("{n_bound} are")) }
        })
        .await;
    }

    /// Waits for the condition `PodScheduled` of a pod.
    pub async fn until_refused(&self, name: &str) -> Value {
        until(&format!("{name} has a condition"), async || {
            let pod = self.get(&format!("{PODS}/{name}")).await;
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found =
                conditions.into_iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
            found.ok_or("there is none")
        })
        .await
    }

    /// Waits until the condition of a pod says a text: what it waits for may come by another watch than the pod.
    pub async fn until_refused_with(&self, name: &str, text: &str) {
        until(&format!("the condition of {name} says {text:?}"), async || {
            let said = self.until_refused(name).await["message"].as_str().unwrap().to_owned();
            if said.contains(text) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Waits for the first event with a reason about a pod.
    pub async fn until_event(&self, pod: &str, reason: &str) -> Value {
        until(&format!("an event {reason} of {pod}"), async || {
            let events = self.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
            let events = events["items"].as_array().cloned().unwrap_or_default();
            let is_it = |e: &Value| e["reason"] == reason && e["regarding"]["name"] == pod;
            events.into_iter().find(is_it).ok_or("there is none")
        })
        .await
    }
}

pub async fn start_scheduler(config: kube::Config, options: SchedulerOptions) -> Scheduler {
    let stop = CancellationToken::new();
    let handle = berth_scheduler::start(config, options, stop.clone()).await.unwrap();
    Scheduler { handle, stop }
}

impl Scheduler {
    /// Waits until its status meets a condition.
    pub async fn until(&self, what: &str, is_so: impl Fn(&berth_scheduler::Status) -> bool) {
        let mut status = self.handle.status();
        let waited = tokio::time::timeout(DEADLINE, status.wait_for(|s| is_so(s))).await;
        if !matches!(waited, Ok(Ok(_))) {
            panic!("not {what}: {:?}", *self.handle.status().borrow());
        }
    }

    pub async fn stopped(self) {
        self.stop.cancel();
        self.handle.stopped().await.unwrap();
    }

    pub fn shows(&self) -> berth_scheduler::Status {
        self.handle.status().borrow().clone()
    }
}

/// A pod that takes a tenth of a CPU.
pub fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": "berth",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "registry.example/i:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
        },
    })
}

/// The same, away from (or near) pods of an app.
pub fn with_term(mut pod: Value, kind: &str, app: &str, topology_key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key});
    pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
    pod
}

pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Many pods with rules about each other: each `web` pod is on its own node, each `near` pod is in
/// a zone with a `web` pod, and the others have no rules.
pub fn mixed(n: usize, n_web: usize) -> Vec<Value> {
    let make = |i: usize| match i {
        i if i < n_web => with_term(pod(&format!("web-{i}"), "web"), "podAntiAffinity", "web", HOSTNAME),
        i if i % 3 == 0 => with_term(pod(&format!("near-{i}"), "near"), "podAffinity", "web", ZONE),
        i => pod(&format!("plain-{i}"), "plain"),
    };
    (0..n).map(make).collect()
}
