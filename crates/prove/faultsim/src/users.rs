//! Users: they do what is planned for them, and repeat what fails.

use std::sync::PoisonError;
use std::time::Duration;

use berth_client::call::{self, CallError};
use http::Method;
use serde_json::{Value, json};

use crate::platform;
use crate::workload::{Action, Switches};

const TIMEOUT: Duration = Duration::from_secs(10);

pub async fn act(client: kube::Client, switches: Switches, actions: Vec<(Duration, Action)>) {
    for (at, action) in actions {
        tokio::time::sleep_until(platform::instant(at)).await;
        let (client, switches) = (client.clone(), switches.clone());
        // A drain takes its time; the next action does not wait for it.
        tokio::spawn(async move {
            match action {
                Action::Request(method, path, body) => {
                    if let Err(error) = send(&client, method, &path, body).await {
                        tracing::info!(%error, "a user gives up");
                    }
                }
                Action::Relabel(app, other) => relabel(&client, app, other).await,
                Action::Drain(node) => drain(&client, &node).await,
                Action::Power(node, on) => {
                    let controls = switches.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    for control in controls {
                        let _ =
                            if on { control.start_node(&node).await } else { control.stop_node(&node).await };
                    }
                }
            }
        });
    }
    std::future::pending::<()>().await;
}

/// Sends a request until it succeeds or cannot succeed.
async fn send(client: &kube::Client, method: Method, path: &str, body: Value) -> Result<Value, CallError> {
    let content_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    loop {
        let request = call::with_body(method.clone(), path, content_type, bytes.clone());
        match call::json(client, request, TIMEOUT).await {
            Err(error) if !matches!(error.code(), Some(400..=404 | 409 | 422)) => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            result => return result,
        }
    }
}

/// Gives a pod of an app the label of another app.
async fn relabel(client: &kube::Client, app: &str, other: &str) {
    let path = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}");
    let Ok(list) = send(client, Method::GET, &path, Value::Null).await else { return };
    if let Some(name) = list["items"][0]["metadata"]["name"].as_str() {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let _ = send(client, Method::PATCH, &path, json!({"metadata": {"labels": {"app": other}}})).await;
    }
}

/// Cordons a node and evicts its pods for a minute, as `kubectl drain`.
async fn drain(client: &kube::Client, node: &str) {
    let cordon = json!({"spec": {"unschedulable": true}});
    let _ = send(client, Method::PATCH, &format!("/api/v1/nodes/{node}"), cordon).await;
    let end = platform::now() + Duration::from_secs(60);
    while platform::now() < end {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        let Ok(list) = send(client, Method::GET, &path, Value::Null).await else { return };
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        if pods.is_empty() {
            return;
        }
        for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            let metadata =
                json!({"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]});
            let path = format!(
                "/api/v1/namespaces/{}/pods/{}/eviction",
                metadata["namespace"].as_str().unwrap_or_default(),
                metadata["name"].as_str().unwrap_or_default()
            );
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
            let request =
                call::with_body(Method::POST, &path, "application/json", eviction.to_string().into_bytes());
            let _ = call::send(client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}
