//! The webhook server on the wire: slow requests, large requests and shutdown.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_admission::server::{Limits, Running, ServerOptions, start};
use berth_admission::{AdmissionController, Policy};
use berth_serve::{CertificateSource, ConnectionLimits};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

async fn server(admission: Arc<AdmissionController>, limits: Limits) -> (Running, CancellationToken) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let certificate =
        CertificateSource::Own { common_name: "berth webhook", names: vec!["127.0.0.1".to_owned()] };
    let options =
        ServerOptions { health_listen: Some(listen), limits, ..ServerOptions::new(listen, certificate) };
    let stop = CancellationToken::new();
    (start(admission, options, stop.clone()).await.unwrap(), stop)
}

async fn connect(server: &Running) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.ca_pem().unwrap().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: \
         {length}\r\n\r\n"
    )
}

fn review(resource: Value) -> String {
    let request = json!({
        "uid": "1", "operation": "CREATE", "name": "p", "namespace": "default", "resource": resource, "object": {
            "metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
}

fn pods() -> Value {
    json!({"group": "", "version": "v1", "resource": "pods"})
}

/// Reads until the server closes the connection.
async fn rest(mut stream: TlsStream<TcpStream>) -> String {
    let mut text = Vec::new();
    // The server may close without a TLS close_notify; the test ignores that.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_request_is_answered_during_shutdown() {
    let (server, stop) = server(AdmissionController::stateless(Policy::default()), Limits::default()).await;
    let body = review(pods());
    let (begin, end) = body.split_at(10);
    let mut stream = connect(&server).await;
    let head = head("/validate-pods", body.len()).replace("\r\nhost", "\r\nexpect: 100-continue\r\nhost");
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server sends `100 Continue` when it starts to read the body: the request is open.
    let mut answer = vec![0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(begin.as_bytes()).await.unwrap();
    // An idle connection does not delay the shutdown.
    let other = connect(&server).await;

    let address = server.address();
    stop.cancel();
    let stopped = tokio::spawn(server.stopped());
    // The server accepts no new connections.
    while TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream.write_all(end.as_bytes()).await.unwrap();
    let answer = rest(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains(r#""allowed":true"#), "{answer}");
    rest(other).await;
    stopped.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_large_requests_are_cut_off() {
    let limits = Limits {
        body_bytes: 1000,
        body_timeout: Duration::from_millis(50),
        connections: ConnectionLimits {
            first_request: Duration::from_millis(500),
            ..ConnectionLimits::default()
        },
    };
    let (server, stop) = server(AdmissionController::stateless(Policy::default()), limits).await;
    for (request, expected) in [
        (head("/validate-pods", 100), "HTTP/1.1 408 Request Timeout"),
        (format!("{}{}", head("/validate-pods", 2000), "x".repeat(2000)), "HTTP/1.1 413 Payload Too Large"),
        // No answer: the server closes the connection.
        (String::new(), ""),
        ("POST".to_owned(), ""),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)), "HTTP/1.1 4"),
    ] {
        let mut stream = connect(&server).await;
        // The server may close the connection before the write completes.
        let _ = stream.write_all(request.as_bytes()).await;
        if expected.is_empty() {
            assert_eq!(rest(stream).await, "");
            continue;
        }
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), expected);
    }
    stop.cancel();
    server.stopped().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_need_an_unsynced_state_get_an_error() {
    let budgets = json!({"apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy",
        "bindingGuard": {"enabled": true, "waitFor": "10ms"}});
    let policy = Policy::from_value(&budgets).unwrap();
    let admission = AdmissionController::stateful(policy, vec!["nodes", "pods"]);
    let (server, stop) = server(admission.clone(), Limits::default()).await;
    let bindings = json!({"group": "", "version": "v1", "resource": "bindings"});
    let mut body: Value = serde_json::from_str(&review(bindings)).unwrap();
    body["request"]["object"]["target"] = json!({"kind": "Node", "name": "a"});
    let body = body.to_string();
    let ask = async |path: &str, body: &str| {
        let mut stream = connect(&server).await;
        let head = head(path, body.len()).replace("\r\nhost", "\r\nconnection: close\r\nhost");
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        rest(stream).await
    };
    let ready = async || {
        let mut stream = TcpStream::connect(server.health_address().unwrap()).await.unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let answer = ask("/validate-bindings", &body).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("not listed: nodes, pods"), "{answer}");
    assert!(ready().await.contains("503 Service Unavailable"));
    // Requests that need no state are answered.
    assert!(ask("/validate-pods", &review(pods())).await.contains(r#""allowed":true"#));
    admission.listed("nodes");
    admission.listed("pods");
    assert!(ready().await.contains("200 OK"));
    let answer = ask("/validate-bindings", &body).await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("pod default/p has not been seen yet"),
        "{answer}"
    );
    stop.cancel();
    server.stopped().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_waits_until_the_cache_shows_its_pod() {
    let policy = json!({"apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy",
        "bindingGuard": {"enabled": true, "waitFor": "10m"}});
    let admission = AdmissionController::stateful(Policy::from_value(&policy).unwrap(), vec![]);
    let world = berth_testkit::text::world("node a\npod default/p");
    let request = json!({"uid": "1", "operation": "CREATE", "name": "p", "namespace": "default",
        "resource": pods(), "subResource": "binding", "object": {"target": {"name": "a"}}});
    let request = berth_admission::AdmissionRequest::from_value(request).unwrap();
    let asking = admission.clone();
    let answer =
        tokio::spawn(
            async move { asking.review(berth_admission::Endpoint::ValidateBindings, &request).await },
        );
    tokio::task::yield_now().await;
    admission.update(|state| {
        state.cluster().set_node(&world.nodes[0]);
        state.node_applied(&world.nodes[0]);
    });
    admission.update(|state| state.pod_applied(&world.pods[0]));
    assert!(answer.await.unwrap().unwrap().is_allowed());
    assert_eq!(admission.n_held(), 1);
}

/// Waits for what another task does.
async fn until(happens: impl Fn() -> bool) {
    let waits = async {
        while !happens() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hung_up_ended_the_review() {
    let policy = json!({"apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy",
        "bindingGuard": {"enabled": true, "waitFor": "10m"}});
    let admission = AdmissionController::stateful(Policy::from_value(&policy).unwrap(), vec![]);
    let (server, stop) = server(admission.clone(), Limits::default()).await;
    let mut body: Value = serde_json::from_str(&review(pods())).unwrap();
    body["request"]["subResource"] = "binding".into();
    body["request"]["object"] = json!({"target": {"name": "a"}});
    let body = body.to_string();
    let n_users = Arc::strong_count(&admission);
    let mut stream = connect(&server).await;
    stream.write_all(format!("{}{body}", head("/validate-bindings", body.len())).as_bytes()).await.unwrap();
    // The task of the review, which waits for the pod, has its own reference.
    until(|| Arc::strong_count(&admission) > n_users).await;
    drop(stream);
    stop.cancel();
    // No connection is left.
    server.stopped().await.unwrap();
    let world = berth_testkit::text::world("node a\npod default/p");
    admission.update(|state| {
        state.cluster().set_node(&world.nodes[0]);
        state.node_applied(&world.nodes[0]);
    });
    admission.update(|state| state.pod_applied(&world.pods[0]));
    until(|| admission.n_held() == 1).await;
}
