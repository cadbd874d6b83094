//! A server and clients for tests.

use std::time::Duration;

use berth_minicluster::{ApiServer, ServerOptions};
use http::{Method, Request, StatusCode};
use kube::Client;
use serde_json::{Value, json};

/// A server on a free port, in memory.
pub async fn server() -> ApiServer {
    ApiServer::start(ServerOptions::default()).await.unwrap()
}

/// A client of the admin.
pub fn admin(server: &ApiServer) -> Client {
    Client::try_from(server.admin_config()).unwrap()
}

/// A client of a node.
pub fn node(server: &ApiServer, name: &str) -> Client {
    Client::try_from(server.node_config(name)).unwrap()
}

/// One request with a body of any type; the status and the answer as JSON.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: impl Into<Vec<u8>>,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(kube::client::Body::from(body.into()))
        .unwrap();
    let response =
        tokio::time::timeout(Duration::from_secs(20), client.send(request)).await.unwrap().unwrap();
    let status = response.status();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// One request with JSON.
pub async fn call(client: &Client, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    send(client, method, path, "application/json", bytes).await
}

/// Reads.
pub async fn get(client: &Client, path: &str) -> (StatusCode, Value) {
    call(client, Method::GET, path, &Value::Null).await
}

/// Creates.
pub async fn post(client: &Client, path: &str, body: &Value) -> (StatusCode, Value) {
    call(client, Method::POST, path, body).await
}

/// Replaces.
pub async fn put(client: &Client, path: &str, body: &Value) -> (StatusCode, Value) {
    call(client, Method::PUT, path, body).await
}

/// Deletes, with options.
pub async fn delete(client: &Client, path: &str, options: &Value) -> (StatusCode, Value) {
    call(client, Method::DELETE, path, options).await
}

/// Patches by merging.
pub async fn merge(client: &Client, path: &str, patch: &Value) -> (StatusCode, Value) {
    send(client, Method::PATCH, path, "application/merge-patch+json", patch.to_string()).await
}

/// Pods of the namespace `default`.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod that says little.
pub fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Binds a pod of the namespace `default`.
pub async fn bind(client: &Client, pod: &str, node: &str) -> (StatusCode, Value) {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    post(client, &format!("{PODS}/{pod}/binding"), &binding).await
}
