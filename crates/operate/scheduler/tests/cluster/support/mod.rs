//! An API server with a scheduler, and the helpers that observe them.

pub mod devices;
pub mod groups;
pub mod journal;
pub mod verify;

use std::ops::Deref;
use std::time::Duration;

pub use berth_api::syntax::labels::HOSTNAME;
use berth_apiserver::ServerOptions;
use berth_client::connect::Connection;
use berth_controllers::ControllerOptions;
use berth_engine::Settings;
pub use berth_faults::observe::{DEADLINE, until};
pub use berth_faults::{NODES, PODS, TestServer};
use berth_scheduler::{Handle, SchedulerOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::journal::Journal;

/// An API server and the history of its pods.
pub struct World {
    server: TestServer,
    pub journal: Journal,
}

impl Deref for World {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
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

impl World {
    pub async fn start() -> World {
        World::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> World {
        let server = TestServer::start_with(options).await;
        let journal = Journal::start(server.client.clone()).await;
        World { server, journal }
    }

    pub async fn schedule(&self, options: SchedulerOptions) -> Scheduler {
        start_scheduler(self.connection(), options).await
    }

    /// Starts controllers. The nodes of these tests send no heartbeats.
    pub fn control(&self, mut options: ControllerOptions) {
        options.node_monitor_grace_period = Duration::from_secs(100_000);
        tokio::spawn(berth_controllers::run(self.client.clone(), options, self.stop()));
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
}

pub async fn start_scheduler(connection: impl Into<Connection>, options: SchedulerOptions) -> Scheduler {
    let stop = CancellationToken::new();
    let handle = berth_scheduler::start(connection, options, stop.clone()).await.unwrap();
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
