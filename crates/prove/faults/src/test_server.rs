//! An API server in process, and the requests that tests repeat.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::sync::Arc;

use berth_api::object::Pod;
use berth_apiserver::{InProcessServer, ServerOptions};
use berth_client::call::CallError;
use berth_client::connect::{self, Connection};
use berth_client::{WatchOptions, list};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Proxy;
use crate::observe::{self, until};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const NODES: &str = "/api/v1/nodes";

/// An empty API server, and its administrator. Components that a test starts for its whole length stop with it.
/// Its requests panic unless the server accepts them; [`TestServer::send`] and [`TestServer::patch_as`] do not.
pub struct TestServer {
    server: Arc<InProcessServer>,
    pub client: kube::Client,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl TestServer {
    pub async fn start() -> TestServer {
        TestServer::start_with(ServerOptions::default()).await
    }

    /// Also shows the log of a test that is run with `RUST_LOG`.
    pub async fn start_with(options: ServerOptions) -> TestServer {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let server = Arc::new(InProcessServer::start(&options, &[7; 32], 1000, None).await.unwrap());
        let client = connect::client(transport(server.clone(), server.admin_token())).unwrap();
        let stop = CancellationToken::new();
        TestServer { server, client, _stop: stop.clone().drop_guard(), stop }
    }

    /// How components reach the server, as its administrator.
    pub fn connection(&self) -> Connection {
        transport(self.server.clone(), self.server.admin_token())
    }

    pub fn node_tokens(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + use<> {
        let server = self.server.clone();
        move |name| Some(server.node_token(name))
    }

    pub fn client_as(&self, token: &str) -> kube::Client {
        connect::client(transport(self.server.clone(), token)).unwrap()
    }

    pub fn proxy(&self) -> Proxy {
        Proxy::new(self.client.clone())
    }

    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: impl Borrow<Value>,
    ) -> Result<Value, CallError> {
        observe::send(&self.client, method, path, body).await
    }

    pub async fn create(&self, path: &str, object: impl Borrow<Value>) -> Value {
        self.send(Method::POST, path, object).await.unwrap()
    }

    /// An object or a list, which exists.
    pub async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, Value::Null).await.unwrap()
    }

    pub async fn find(&self, path: &str) -> Option<Value> {
        match self.send(Method::GET, path, Value::Null).await {
            Err(error) if error.is_not_found() => None,
            answer => Some(answer.unwrap()),
        }
    }

    pub async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().unwrap().clone()
    }

    /// Sends a merge patch.
    pub async fn patch(&self, path: &str, patch: impl Borrow<Value>) -> Value {
        self.send(Method::PATCH, path, patch).await.unwrap()
    }

    /// Sends a patch of another media type.
    pub async fn patch_as(
        &self,
        media_type: &'static str,
        path: &str,
        patch: Value,
    ) -> Result<Value, CallError> {
        observe::send_as(&self.client, Method::PATCH, path, media_type, &patch).await
    }

    pub async fn delete(&self, path: &str) {
        self.delete_with(path, Value::Null).await;
    }

    pub async fn delete_with(&self, path: &str, options: Value) {
        self.send(Method::DELETE, path, options).await.unwrap();
    }

    pub async fn pods(&self) -> Vec<Pod> {
        list(&self.client, &WatchOptions::new("/api/v1/pods")).await.unwrap()
    }

    /// Waits until the object or the list at a path meets a condition.
    pub async fn until(&self, what: &str, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&format!("{path}: {what}"), async || {
            let object = self.find(path).await;
            object.clone().filter(|object| is_so(object)).ok_or(Shown(object))
        })
        .await
    }

    /// Waits until the objects of a list meet a condition.
    pub async fn until_listed(
        &self,
        what: &str,
        path: &str,
        are_so: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
        items(&self.until(what, path, |list| are_so(&items(list))).await)
    }

    pub async fn until_gone(&self, path: &str) {
        until(&format!("{path} is gone"), async || {
            self.find(path).await.map_or(Ok(()), |object| Err(Shown(Some(object))))
        })
        .await;
    }

    /// Waits until no pod of the namespace `default` has this name.
    pub async fn until_pod_gone(&self, name: &str) {
        self.until_gone(&format!("{PODS}/{name}")).await;
    }

    /// Waits for the first event with a reason about an object of this kind and name.
    pub async fn until_event(&self, kind: &str, name: &str, reason: &str) -> Value {
        until(&format!("an event {reason} of {kind} {name}"), async || {
            let events = self.list("/apis/events.k8s.io/v1/events").await;
            let regarding = |e: &&Value| e["regarding"]["name"] == name && e["regarding"]["kind"] == kind;
            let found = events.iter().find(|e| e["reason"] == reason && regarding(e)).cloned();
            found.ok_or_else(|| events.iter().map(|e| json!([e["reason"], e["note"]])).collect::<Vec<_>>())
        })
        .await
    }
}

/// An object in a failure, as JSON.
struct Shown(Option<Value>);

impl Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0.clone().unwrap_or_default())
    }
}

/// Passes requests to a server, with this token if they have none.
fn transport(server: Arc<InProcessServer>, token: &str) -> Connection {
    let bearer = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
    Connection::Transport(Arc::new(move |request| {
        let (server, bearer) = (server.clone(), bearer.clone());
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let body = Full::new(body.collect().await?.to_bytes());
            parts.headers.entry(AUTHORIZATION).or_insert(bearer);
            let response = server.respond(Request::from_parts(parts, body)).await;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }))
}
