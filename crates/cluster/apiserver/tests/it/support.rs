//! A server and clients for tests.

use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::{ApiServer, Limits, ServerOptions};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};

/// A request that takes longer failed: long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// `spec.request` of a CertificateSigningRequest.
pub const SIGNING_REQUEST: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

/// A server on a free port, in memory.
pub async fn server() -> ApiServer {
    server_with(FeatureGates::default()).await
}

/// A server with features that gates turn on.
pub async fn server_with(feature_gates: FeatureGates) -> ApiServer {
    // A busy machine takes long for what is much work: the requests of these tests end by what they count.
    let limits = Limits { request: PATIENCE, ..Limits::default() };
    ApiServer::start(ServerOptions { feature_gates, limits, ..ServerOptions::default() }).await.unwrap()
}

/// A server as `berth up` has it.
pub async fn whole_server_with(feature_gates: FeatureGates) -> ApiServer {
    let options = ServerOptions { feature_gates, taints_new_nodes: true, ..ServerOptions::default() };
    ApiServer::start(options).await.unwrap()
}

/// A server with the kinds that gates turn on.
pub async fn server_of_all_kinds() -> ApiServer {
    server_with(FeatureGates { composite_pod_group: true, ..FeatureGates::default() }).await
}

/// A client of the admin.
pub fn admin(server: &ApiServer) -> Client {
    client(server.admin_config())
}

/// A client of a node.
pub fn node(server: &ApiServer, name: &str) -> Client {
    client(server.node_config(name))
}

/// A client without retries.
pub fn client(mut config: kube::Config) -> Client {
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// The admin's client, impersonating a user.
pub fn acting_as(server: &ApiServer, user: &str, groups: &[&str]) -> Client {
    let mut config = server.admin_config();
    config.headers.push(("impersonate-user".parse().unwrap(), user.parse().unwrap()));
    for group in groups {
        config.headers.push(("impersonate-group".parse().unwrap(), group.parse().unwrap()));
    }
    client(config)
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
    let response = tokio::time::timeout(PATIENCE, client.send(request)).await.unwrap().unwrap();
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

/// Sends a merge patch.
pub async fn merge(client: &Client, path: &str, patch: &Value) -> (StatusCode, Value) {
    send(client, Method::PATCH, path, "application/merge-patch+json", patch.to_string()).await
}

/// The warnings in the answer to a request that is granted.
pub async fn warnings(client: &Client, method: Method, path: &str, body: &Value) -> Vec<String> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(body))
        .unwrap();
    let response = tokio::time::timeout(PATIENCE, client.send(request)).await.unwrap().unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    let told = response.headers().get_all("warning").iter();
    told.map(|value| value.to_str().unwrap().to_owned()).collect()
}

/// Pods of the namespace `default`.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// A minimal pod.
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

/// The lines of a watch, read one by one.
pub struct Lines {
    body: kube::client::Body,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` when the watch ends.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.unwrap()?;
            if let Ok(data) = frame.unwrap().into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }

    /// Type and name of the next event.
    pub async fn told(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

/// Opens a watch; the status if it is refused.
pub async fn watch(client: &Client, path: &str) -> Result<Lines, Value> {
    let request = Request::get(path).body(kube::client::Body::empty()).unwrap();
    let response = tokio::time::timeout(PATIENCE, client.send(request)).await.unwrap().unwrap();
    if response.status() == StatusCode::OK {
        return Ok(Lines { body: response.into_body(), rest: Vec::new() });
    }
    let bytes = response.into_body().collect_bytes().await.unwrap();
    Err(serde_json::from_slice(&bytes).unwrap())
}

/// The version of an object or list.
pub fn version(value: &Value) -> &str {
    value["metadata"]["resourceVersion"].as_str().unwrap()
}

/// The names of a list's items.
pub fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// A data directory that is removed after the test.
pub struct DataDir(pub std::path::PathBuf);

impl DataDir {
    /// Creates an empty directory.
    pub fn new() -> DataDir {
        DataDir(std::env::temp_dir().join(format!("berth-it-{}", uuid::Uuid::new_v4().simple())))
    }

    /// A server on it.
    pub async fn server(&self) -> ApiServer {
        let options = ServerOptions { data_dir: Some(self.0.clone()), ..ServerOptions::default() };
        ApiServer::start(options).await.unwrap()
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
