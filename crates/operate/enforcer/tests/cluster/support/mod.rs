//! A cluster with a scheduler and an enforcer, and the helpers that observe them.

pub mod journal;
pub mod objects;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::Pod;
use berth_apiserver::ServerOptions;
use berth_client::connect::Connection;
use berth_controllers::ControllerOptions;
use berth_enforcer::{EnforcerOptions, Graces, Handle, HoldOptions, HoldPeriod, LimitOptions, Status};
pub use berth_faults::observe::{DEADLINE, until};
pub use berth_faults::{NODES, PODS, TestServer};
use berth_kubelet::{KubeletOptions, NodeCredentials, NodeTemplate, PodTimings};
use berth_scheduler::SchedulerOptions;
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::journal::Journal;
pub use self::objects::*;

pub const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// An hour: longer than any test.
pub const LONG: Duration = Duration::from_secs(3600);

/// A cluster without an enforcer.
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

/// An enforcer under test.
pub struct Enforcer {
    pub handle: Handle,
    pub stop: CancellationToken,
}

/// No grace period, no limits, and short timeouts.
pub fn hasty() -> EnforcerOptions {
    EnforcerOptions {
        graces: Graces {
            node_affinity: Duration::ZERO,
            pod_affinity: Duration::ZERO,
            pod_anti_affinity: Duration::ZERO,
        },
        limits: LimitOptions {
            evictions_per_second: 1000.0,
            max_per_node: 1000,
            max_per_namespace: 1000,
            max_cluster_share: 1.0,
            max_workload_share: 1.0,
            ..LimitOptions::default()
        },
        request_timeout: Duration::from_millis(700),
        first_backoff: Duration::from_millis(100),
        longest_backoff: Duration::from_millis(500),
        look_again: Duration::from_millis(200),
        watch_idle_timeout: Duration::from_secs(2),
        ..EnforcerOptions::default()
    }
}

/// Pods without a feasible node are held for this number of milliseconds.
pub fn held_for(millis: u64) -> HoldOptions {
    HoldOptions { default: HoldPeriod::For(Duration::from_millis(millis)), ..HoldOptions::default() }
}

impl World {
    /// Nodes `node-1` (or `node-01`) to `node-n`, assigned in turn to `zone-1` to `zone-z`.
    pub async fn start(n_nodes: usize, n_zones: usize) -> World {
        World::start_with(ServerOptions::default(), n_nodes, n_zones).await
    }

    pub async fn start_with(options: ServerOptions, n_nodes: usize, n_zones: usize) -> World {
        let server = TestServer::start_with(options).await;
        let journal = Journal::start(server.client.clone()).await;
        let mut options = ControllerOptions::default();
        options.node_monitor_grace_period = LONG;
        tokio::spawn(berth_controllers::run(server.client.clone(), options, server.stop()));
        let kubelet = KubeletOptions {
            templates: vec![NodeTemplate::new(n_nodes, n_zones)],
            credentials: NodeCredentials::Tokens(Arc::new(server.node_tokens())),
            pods: PodTimings {
                start_after: Duration::from_millis(20),
                stop_after: Duration::from_millis(300),
                ..PodTimings::default()
            },
            ..KubeletOptions::default()
        };
        tokio::spawn(berth_kubelet::run(server.connection(), kubelet, server.stop()));
        let scheduler = SchedulerOptions {
            first_backoff: Duration::from_millis(100),
            longest_backoff: Duration::from_millis(500),
            ..SchedulerOptions::default()
        };
        tokio::spawn(berth_scheduler::run(server.connection(), scheduler, server.stop()));
        let world = World { server, journal };
        until("all nodes are there", async || {
            let n = world.list(NODES).await.len();
            if n == n_nodes { Ok(()) } else { Err(n) }
        })
        .await;
        world
    }

    pub async fn enforce(&self, options: EnforcerOptions) -> Enforcer {
        start_enforcer(self.connection(), options).await
    }

    /// Deletes a pod and waits until it does not exist.
    pub async fn delete_pod(&self, name: &str) {
        let path = format!("{PODS}/{name}");
        self.send(Method::DELETE, &path, json!({"gracePeriodSeconds": 0})).await.unwrap();
        self.until_pod_gone(name).await;
    }

    pub async fn label(&self, path: &str, key: &str, value: Value) {
        self.patch(path, json!({"metadata": {"labels": {key: value}}})).await;
    }

    pub async fn label_node(&self, node: &str, key: &str, value: Value) {
        self.label(&format!("/api/v1/nodes/{node}"), key, value).await;
    }

    /// Waits until exactly `n` pods of an app exist and are ready on nodes; returns them.
    pub async fn until_ready(&self, app: &str, n: usize) -> Vec<Pod> {
        until(&format!("{n} pods of {app} are ready"), async || {
            let mut pods = self.pods().await;
            pods.retain(|p| p.metadata.labels.get("app").is_some_and(|a| a == app));
            let is_ready = |p: &Pod| {
                p.metadata.deletion_timestamp.is_none()
                    && p.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True")
            };
            if pods.len() == n && pods.iter().all(is_ready) {
                return Ok(pods);
            }
            let describe = |p: &Pod| (p.key(), p.spec.node_name.clone(), p.status.phase.clone());
            Err(pods.iter().map(describe).collect::<Vec<_>>())
        })
        .await
    }

    /// Creates a pod and waits until it is ready; returns its node.
    pub async fn run(&self, pod: Value) -> String {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let path = format!("/api/v1/namespaces/{}/pods", pod["metadata"]["namespace"].as_str().unwrap());
        self.create(&path, pod).await;
        until(&format!("{name} is ready"), async || {
            let pod = self.get(&format!("{path}/{name}")).await;
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            if is_ready { Ok(pod["spec"]["nodeName"].as_str().unwrap().to_owned()) } else { Err(conditions) }
        })
        .await
    }

    /// All events of the enforcer.
    pub async fn events(&self) -> Vec<Value> {
        let mut events = self.list("/apis/events.k8s.io/v1/events").await;
        events.retain(|e| e["reportingController"] == "berth-enforcer");
        events
    }
}

pub async fn start_enforcer(connection: impl Into<Connection>, options: EnforcerOptions) -> Enforcer {
    let stop = CancellationToken::new();
    let handle = berth_enforcer::start(connection, options, stop.clone()).await.unwrap();
    Enforcer { handle, stop }
}

impl Enforcer {
    /// Waits until its status meets a condition.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
        let mut status = self.handle.status();
        let waited = tokio::time::timeout(DEADLINE, status.wait_for(|s| is_so(s))).await;
        match waited {
            Ok(Ok(shown)) => shown.clone(),
            _ => panic!("not {what}: {:?}", *self.handle.status().borrow()),
        }
    }

    pub async fn stopped(self) {
        self.stop.cancel();
        self.handle.stopped().await.unwrap();
    }

    pub fn shows(&self) -> Status {
        self.handle.status().borrow().clone()
    }
}

/// The uids of pods.
pub fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(|p| p.metadata.uid.clone()).collect()
}
