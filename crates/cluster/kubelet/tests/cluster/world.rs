//! An embedded API server, simulated nodes, and a client that reads both.

use std::ops::Deref;
use std::time::Duration;

use berth_client::connect::Connection;
pub use berth_faults::observe::until;
pub use berth_faults::{NODES, PODS, TestServer};
use berth_kubelet::{Kubelet, KubeletOptions, NodeControl, NodeTemplate, PodTimings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct World {
    server: TestServer,
    kubelet: Option<Running>,
}

impl Deref for World {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

struct Running {
    control: NodeControl,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// This number of nodes, whose pods start and stop without delay.
pub fn quick(n_nodes: usize) -> KubeletOptions {
    KubeletOptions {
        templates: vec![NodeTemplate::new(n_nodes, 2)],
        pods: PodTimings {
            start_after: Duration::ZERO,
            run_for: Duration::ZERO,
            stop_after: Duration::ZERO,
            restart_backoff: Duration::from_millis(100),
            ..PodTimings::default()
        },
        recheck_after: Duration::from_millis(50),
        ..KubeletOptions::default()
    }
}

impl World {
    /// An empty API server.
    pub async fn empty() -> World {
        World { server: TestServer::start().await, kubelet: None }
    }

    /// An API server with nodes that are ready.
    pub async fn with_nodes(options: KubeletOptions) -> World {
        let mut world = World::empty().await;
        world.start_nodes(options).await;
        world
    }

    /// Starts nodes and waits until the registered ones are ready.
    pub async fn start_nodes(&mut self, options: KubeletOptions) {
        self.start_nodes_through(self.connection(), options).await;
    }

    /// The same with another connection.
    pub async fn start_nodes_through(&mut self, connection: Connection, options: KubeletOptions) {
        let n_made: usize = options.templates.iter().map(|template| template.nodes.n_nodes).sum();
        let kubelet = Kubelet::new(connection, options).unwrap();
        let (control, stop) = (kubelet.control(), CancellationToken::new());
        let task = tokio::spawn(kubelet.run(stop.clone()));
        self.kubelet = Some(Running { control: control.clone(), stop, task });
        until("the nodes are ready", async || {
            let status = control.status();
            (status.nodes_ready >= n_made).then_some(()).ok_or(format!("{status:?}"))
        })
        .await;
    }

    /// Stops the agent without a last request, as a crash does.
    pub async fn stop_nodes(&mut self) {
        let Running { stop, task, .. } = self.kubelet.take().expect("nodes have been started");
        stop.cancel();
        task.await.unwrap();
    }

    pub fn control(&self) -> NodeControl {
        self.kubelet.as_ref().expect("nodes have been started").control.clone()
    }

    pub async fn node(&self, name: &str) -> Value {
        self.get(&node(name)).await
    }

    /// Creates a pod with one container and binds it, as a scheduler does it.
    pub async fn bind(&self, name: &str, node: &str, metadata: Value, spec: Value) {
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "containers": [{ "name": "c", "image": "registry.example/i:1" }] },
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        self.create(PODS, pod).await;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        self.create(&format!("{PODS}/{name}/binding"), binding).await;
    }

    pub async fn delete_pod(&self, name: &str) {
        self.delete(&pod(name)).await;
    }

    /// Waits until the pod satisfies a predicate.
    pub async fn pod_when(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until(what, &pod(name), is_so).await
    }

    pub async fn pod_in_phase(&self, name: &str, phase: &str) -> Value {
        self.pod_when(name, phase, |pod| pod["status"]["phase"] == phase).await
    }

    /// Waits until the node satisfies a predicate.
    pub async fn node_when(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until(what, &node(name), is_so).await
    }

    pub async fn lease_renewed(&self, node: &str) -> Value {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
        self.find(&lease).await.map(|lease| lease["spec"]["renewTime"].clone()).unwrap_or_default()
    }
}

pub fn pod(name: &str) -> String {
    format!("{PODS}/{name}")
}

pub fn node(name: &str) -> String {
    format!("{NODES}/{name}")
}

/// The condition of an object, if any.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == type_)
}

pub fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|c| c["status"] == "True")
}
