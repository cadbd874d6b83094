//! An embedded API server, simulated nodes, and a client that reads both.

use std::time::Duration;

use berth_apiserver::{ApiServer, ServerOptions};
use berth_client::call::CallError;
pub use berth_faults::observe::{self, until};
use berth_kubelet::{Kubelet, KubeletOptions, NodeControl, NodeTemplate, PodTimings};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct World {
    pub server: ApiServer,
    pub client: kube::Client,
    kubelet: Option<Running>,
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
        let server = ApiServer::start(ServerOptions::default()).await.unwrap();
        let client = berth_client::connect::client(server.admin_config()).unwrap();
        World { server, client, kubelet: None }
    }

    /// An API server with nodes that are ready.
    pub async fn with_nodes(options: KubeletOptions) -> World {
        let mut world = World::empty().await;
        world.start_nodes(options).await;
        world
    }

    /// Starts nodes and waits until the registered ones are ready.
    pub async fn start_nodes(&mut self, options: KubeletOptions) {
        self.start_nodes_through(self.server.admin_config(), options).await;
    }

    /// The same with another connection.
    pub async fn start_nodes_through(&mut self, config: kube::Config, options: KubeletOptions) {
        let n_made: usize = options.templates.iter().map(|template| template.nodes.n_nodes).sum();
        let kubelet = Kubelet::new(config, options).unwrap();
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

    pub async fn send(&self, method: Method, path: &str, body: Value) -> Result<Value, CallError> {
        observe::send(&self.client, method, path, body).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, CallError> {
        self.send(Method::GET, path, Value::Null).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Value {
        self.send(Method::PATCH, path, body).await.unwrap()
    }

    pub async fn node(&self, name: &str) -> Value {
        self.get(&node(name)).await.unwrap()
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
        self.send(Method::POST, PODS, pod).await.unwrap();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        self.send(Method::POST, &format!("{PODS}/{name}/binding"), binding).await.unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        self.send(Method::DELETE, &pod(name), Value::Null).await.unwrap();
    }

    /// Waits until the pod satisfies a predicate.
    pub async fn pod_when(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&format!("pod {name}: {what}"), async || {
            let pod = self.get(&pod(name)).await.map_err(|e| e.to_string())?;
            if is_so(&pod) { Ok(pod) } else { Err(format!("{pod:#}")) }
        })
        .await
    }

    pub async fn pod_in_phase(&self, name: &str, phase: &str) -> Value {
        self.pod_when(name, phase, |pod| pod["status"]["phase"] == phase).await
    }

    /// Waits until the pod is deleted.
    pub async fn pod_gone(&self, name: &str) {
        until(&format!("pod {name} is gone"), async || match self.get(&pod(name)).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(pod) => Err(format!("{pod:#}")),
        })
        .await;
    }

    /// Waits until the node satisfies a predicate.
    pub async fn node_when(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&format!("node {name}: {what}"), async || {
            let node = self.get(&node(name)).await.map_err(|e| e.to_string())?;
            if is_so(&node) { Ok(node) } else { Err(format!("{node:#}")) }
        })
        .await
    }

    pub async fn lease_renewed(&self, node: &str) -> Value {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
        self.get(&lease).await.map(|lease| lease["spec"]["renewTime"].clone()).unwrap_or_default()
    }
}

pub const PODS: &str = "/api/v1/namespaces/default/pods";

pub fn pod(name: &str) -> String {
    format!("{PODS}/{name}")
}

pub fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// The condition of an object, if any.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == type_)
}

pub fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|c| c["status"] == "True")
}
