//! An API client for tests, and an observer that detects invalid pod transitions.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use berth_client::call::{self, CallError};
use berth_client::connect::Options;
use berth_client::watch::{Event, WatchOptions, watch};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::process::{DEADLINE, POLL};

pub async fn connect(kubeconfig: &Path) -> Client {
    let options = Options { kubeconfig: Some(kubeconfig.to_owned()), ..Options::default() };
    options.client().await.unwrap()
}

/// Sends a request with an optional object, and returns the response.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    object: Option<Value>,
) -> Result<Value, CallError> {
    let body = object.map_or_else(Vec::new, |o| o.to_string().into_bytes());
    let content_type = if body.is_empty() { "" } else { "application/json" };
    call::json(client, call::with_body(method, path, content_type, body), DEADLINE).await
}

pub async fn get(client: &Client, path: &str) -> Result<Value, CallError> {
    send(client, Method::GET, path, None).await
}

pub async fn create(client: &Client, path: &str, object: Value) -> Value {
    send(client, Method::POST, path, Some(object)).await.unwrap()
}

/// All objects of a collection.
pub async fn list(client: &Client, path: &str) -> Result<Vec<Value>, CallError> {
    Ok(get(client, path).await?["items"].as_array().cloned().unwrap_or_default())
}

/// Repeats until the result is `Ok`; panics with the last error after [`DEADLINE`].
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(why) if begin.elapsed() > DEADLINE => panic!("not so in time: {what}: {why}"),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A pod with required anti-affinity by host name within its group, and a CPU request.
pub fn apart(name: &str, group: &str, scheduler: &str) -> Value {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"group": group}},
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"group": group}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}],
        },
    })
}

/// Watches all pods and records their nodes: a pod must be bound only once.
pub struct Eye {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// By uid.
    nodes: HashMap<String, String>,
    /// Invalid transitions.
    wrong: Vec<String>,
    now: HashMap<String, Value>,
}

impl Seen {
    fn look(&mut self, pod: &Value) {
        let (uid, node) = (text(pod, "/metadata/uid"), text(pod, "/spec/nodeName"));
        match self.nodes.get(uid) {
            Some(before) if before != node => {
                self.wrong
                    .push(format!("Pod {} was on {before}, then on {node:?}", text(pod, "/metadata/name")));
            }
            None if !node.is_empty() => drop(self.nodes.insert(uid.to_owned(), node.to_owned())),
            _ => {}
        }
    }
}

impl Eye {
    pub fn open(client: Client) -> Eye {
        let seen = Arc::<Mutex<Seen>>::default();
        let mut pods = watch::<Value>(client, WatchOptions::new("/api/v1/pods"));
        let shared = Arc::downgrade(&seen);
        tokio::spawn(async move {
            while let (Some(event), Some(seen)) = (pods.next().await, shared.upgrade()) {
                let mut seen = seen.lock().unwrap();
                let name = |pod: &Value| text(pod, "/metadata/name").to_owned();
                match event {
                    Event::Restarted(pods) => {
                        pods.iter().for_each(|pod| seen.look(pod));
                        seen.now = pods.into_iter().map(|pod| (name(&pod), pod)).collect();
                    }
                    Event::Applied(pod) => {
                        seen.look(&pod);
                        seen.now.insert(name(&pod), pod);
                    }
                    Event::Deleted(pod) => drop(seen.now.remove(&name(&pod))),
                }
            }
        });
        Eye { seen }
    }

    /// Number of pods observed with a node.
    pub fn n_bound(&self) -> usize {
        self.seen.lock().unwrap().nodes.len()
    }

    /// Checks that there were no invalid transitions, and that the observed pods equal a list.
    pub async fn assert_true_to(&self, client: &Client) {
        eventually("the observed pods equal the list", async || {
            let listed = list(client, "/api/v1/pods").await.map_err(|e| e.to_string())?;
            let seen = self.seen.lock().unwrap();
            let versions = |pods: &mut dyn Iterator<Item = &Value>| {
                let key = |p: &Value| {
                    (text(p, "/metadata/name").to_owned(), text(p, "/metadata/resourceVersion").to_owned())
                };
                let mut versions: Vec<_> = pods.map(key).collect();
                versions.sort();
                versions
            };
            let (seen, listed) = (versions(&mut seen.now.values()), versions(&mut listed.iter()));
            if seen == listed {
                Ok(())
            } else {
                Err(format!("{} followed, {} listed", seen.len(), listed.len()))
            }
        })
        .await;
        let seen = self.seen.lock().unwrap();
        assert!(seen.wrong.is_empty(), "{}", seen.wrong.join("\n"));
    }
}
