//! Malformed requests: every response is a `Status`, and the server keeps running.

use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::{ApiServer, Limits, ServerOptions};
use berth_serve::ConnectionLimits;
use http::{Method, StatusCode};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::*;

/// A TLS connection for a test that speaks HTTP/1.1 itself.
pub async fn connect(server: &ApiServer) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    for der in server.admin_config().root_cert.unwrap() {
        roots.add(CertificateDer::from(der)).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = server.url().strip_prefix("https://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends text as it is, and reads the answer's status line and body.
async fn raw(server: &ApiServer, text: &str) -> (u16, Value) {
    let mut stream = connect(server).await;
    let text = text.replace("TOKEN", &token(server)).replace('\n', "\r\n");
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (code, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The token of the admin.
pub fn token(server: &ApiServer) -> String {
    let kubeconfig = std::fs::read_to_string(server.kubeconfig_path()).unwrap();
    kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap().to_owned()
}

#[tokio::test]
async fn malformed_bodies_get_specific_errors() {
    let server = server().await;
    let client = admin(&server);
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    // Ten nested lists with ten references each: a few hundred bytes that expand to ten billion items.
    let aliases = (1..11).fold("l0: &l0 [x]\n".to_owned(), |text, i| {
        let items = vec![format!("*l{}", i - 1); 10].join(",");
        format!("{text}l{i}: &l{i} [{items}]\n")
    });
    let json = "application/json";
    for (content_type, body, wanted, reason) in [
        (json, "{".to_owned(), 400, "BadRequest"),
        (json, String::new(), 400, "BadRequest"),
        (json, "[]".to_owned(), 400, "BadRequest"),
        (json, "\u{0}".to_owned(), 400, "BadRequest"),
        (json, deep, 400, "BadRequest"),
        (json, json!({"metadata": []}).to_string(), 400, "BadRequest"),
        (json, json!({"metadata": {"name": 5}}).to_string(), 400, "BadRequest"),
        (json, json!({"kind": "Node", "metadata": {"name": "a"}}).to_string(), 400, "BadRequest"),
        (json, json!({"metadata": {"name": "a", "namespace": "other"}}).to_string(), 400, "BadRequest"),
        (
            json,
            json!({"metadata": {"name": "a"}, "spec": {"containers": "x"}}).to_string(),
            400,
            "BadRequest",
        ),
        (json, json!({"metadata": {"name": "a"}}).to_string(), 422, "Invalid"),
        (json, json!({"metadata": {"name": "a", "resourceVersion": "5"}}).to_string(), 400, "BadRequest"),
        ("application/yaml", aliases, 400, "BadRequest"),
        (
            "application/yaml",
            format!("a: &a {}\nb: [{}]\n", "x".repeat(1000), "*a,".repeat(100)),
            400,
            "BadRequest",
        ),
        ("application/yaml", "a: [".to_owned(), 400, "BadRequest"),
        ("text/plain", "x".to_owned(), 415, "UnsupportedMediaType"),
        ("application/vnd.kubernetes.protobuf", "k8s".to_owned(), 400, "BadRequest"),
        ("application/vnd.kubernetes.protobuf", "k8s\0\u{1}\u{7f}".to_owned(), 400, "BadRequest"),
        (json, format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20)), 413, "RequestEntityTooLarge"),
    ] {
        let shown: String = body.chars().take(60).collect();
        let (code, status) = send(&client, Method::POST, PODS, content_type, body).await;
        assert_eq!((code.as_u16(), &status["reason"]), (wanted, &json!(reason)), "{shown}: {status}");
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(wanted)), "{shown}");
    }
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: fine\nspec:\n  containers:\n  - name: c\n    image: i\n";
    let (code, _) = send(&client, Method::POST, PODS, "application/yaml", yaml).await;
    assert_eq!(code, StatusCode::CREATED);
    for (content_type, patch, wanted) in [
        ("application/merge-patch+json", "[", 400),
        ("application/json-patch+json", r#"[{"op":"test","path":"/metadata/name","value":"x"}]"#, 422),
        ("application/json-patch+json", r#"[{"op":"remove","path":"/none"}]"#, 422),
        ("application/json-patch+json", r#"[{"op":"replace","path":"/metadata","value":5}]"#, 422),
        ("application/strange", "{}", 415),
    ] {
        let (code, status) = send(&client, Method::PATCH, &format!("{PODS}/fine"), content_type, patch).await;
        assert_eq!((code.as_u16(), &status["kind"]), (wanted, &json!("Status")), "{patch}: {status}");
    }
}

#[tokio::test]
async fn malformed_paths_are_refused() {
    let server = server().await;
    let client = admin(&server);
    for (method, path, wanted) in [
        (Method::GET, "/api/v1/gadgets", 404),
        (Method::POST, "/api/v1/nodes/n", 405),
        (Method::PUT, "/healthz", 405),
        (Method::GET, "/api/v1/namespaces/default/pods/..%2f..%2fsecrets", 400),
        (Method::GET, "/api/v1/namespaces/%2e%2e/pods", 404),
        (Method::GET, "/api/v1/namespaces/default/pods/a%00b", 400),
        (Method::GET, "/api/v1/pods?limit=x", 400),
        (Method::GET, "/api/v1/pods?limit=%zz", 400),
    ] {
        let (code, status) = call(&client, method, path, &Value::Null).await;
        assert_eq!((code.as_u16(), &status["kind"]), (wanted, &json!("Status")), "{path}: {status}");
    }
    for path in ["/nonsense", "/apis/none.example.com/v1/things"] {
        let answer = call(&client, Method::GET, path, &Value::Null).await;
        assert_eq!(answer, (StatusCode::NOT_FOUND, Value::Null), "{path}: the answer is no JSON");
    }
    let (code, _) = raw(
        &server,
        "GET /api/v1/../../etc/passwd HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nConnection: close\n\n",
    )
    .await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn malformed_connections_are_closed() {
    let server = server().await;
    // Not HTTP; oversized headers; an invalid length; a missing body with the connection closed.
    assert_eq!(raw(&server, "\u{1}\u{2}\u{3}\n\n").await.0, 400);
    let huge = format!("GET /healthz HTTP/1.1\nHost: x\nX-Long: {}\n\n", "x".repeat(600_000));
    assert!(matches!(raw(&server, &huge).await.0, 0 | 431));
    let length =
        "POST /api/v1/nodes HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nContent-Length: 9999999999\n\n";
    let (code, status) = raw(&server, length).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    for bad in ["Bearer", "Bearer ", "Basic YWRtaW46YWRtaW4=", "Bearer admin..", "\u{7f}"] {
        let text =
            format!("GET /api/v1/nodes HTTP/1.1\nHost: x\nAuthorization: {bad}\nConnection: close\n\n");
        assert!(matches!(raw(&server, &text).await.0, 400 | 401), "{bad}");
    }
    let mut cut = connect(&server).await;
    let text = format!(
        "POST {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 1000\r\n\r\n{{\"a\":",
        token(&server)
    );
    cut.write_all(text.as_bytes()).await.unwrap();
    drop(cut);
    assert_eq!(get(&admin(&server), "/healthz").await.0, StatusCode::OK);
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_accepts_no_served_media_type_gets_406() {
    let server = server().await;
    for (accept, wanted) in
        [("text/html", 406), ("application/vnd.kubernetes.protobuf,application/json", 200)]
    {
        let text = format!(
            "GET /api/v1/nodes HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nAccept: {accept}\nConnection: close\n\n"
        );
        assert_eq!(raw(&server, &text).await.0, wanted, "{accept}");
    }
}

#[tokio::test]
async fn slow_clients_time_out() {
    let limits = Limits {
        connections: ConnectionLimits {
            first_request: Duration::from_millis(300),
            ..ConnectionLimits::default()
        },
        body: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = ApiServer::start(ServerOptions { limits, ..ServerOptions::default() }).await.unwrap();
    // Headers that never end: the server closes the connection.
    let (code, _) = raw(&server, "GET /healthz HTTP/1.1\nHost: x\n").await;
    assert_eq!(code, 0);
    // A body that never arrives: the server answers with a status.
    let body = "POST /api/v1/nodes HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nContent-Length: 10\nConnection: close\n\n{";
    let (code, status) = raw(&server, body).await;
    assert_eq!((code, &status["reason"]), (408, &json!("Timeout")));
    // The client sends nothing.
    let mut silent = TcpStream::connect(server.url().strip_prefix("https://").unwrap()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut answer)).await.unwrap();
    assert!(read.is_err() || answer.is_empty());
}

#[tokio::test]
async fn excess_watches_get_retry_after() {
    let limits = Limits { watches: 1, ..Limits::default() };
    let server = ApiServer::start(ServerOptions { limits, ..ServerOptions::default() }).await.unwrap();
    let client = admin(&server);
    let first = watch(&client, "/api/v1/pods?watch=1").await;
    assert!(first.is_ok());
    let refused = watch(&client, "/api/v1/pods?watch=1").await.err().unwrap();
    assert_eq!((&refused["code"], &refused["details"]["retryAfterSeconds"]), (&json!(429), &json!(1)));
}

#[tokio::test]
async fn bodies_of_subresources_are_read_by_their_types() {
    let server = server().await;
    let client = admin(&server);
    assert_eq!(post(&client, PODS, &pod("p")).await.0, StatusCode::CREATED);
    let node = json!({"kind": "Node", "name": "n"});
    for metadata in [json!({"labels": {"a": 1}}), json!({"annotations": {"a": {}}}), json!("x")] {
        let binding = json!({"metadata": metadata, "target": node});
        let (code, answer) = post(&client, &format!("{PODS}/p/binding"), &binding).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{answer}");
    }
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    for spec in [
        json!("x"),
        json!([]),
        json!({"expirationSeconds": "600"}),
        json!({"audiences": "x"}),
        json!({"audiences": [1]}),
    ] {
        let (code, answer) = post(&client, token, &json!({ "spec": spec })).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{answer}");
    }
    assert_eq!(post(&client, token, &json!({})).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn slices_of_nodes_and_mirror_pods_stay_what_they_are() {
    let server = server().await;
    let client = admin(&server);
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d.example.com", "pool": pool, "nodeName": "a"}});
    assert_eq!(post(&client, slices, &slice).await.0, StatusCode::CREATED);
    for spec in [
        json!({"nodeName": "b"}),
        json!({"nodeName": null, "allNodes": true}),
        json!({"driver": "e.example.com"}),
    ] {
        let (code, answer) = merge(&client, &format!("{slices}/s"), &json!({ "spec": spec })).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    }
    assert_eq!(post(&client, PODS, &pod("p")).await.0, StatusCode::CREATED);
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    for path in [format!("{PODS}/p"), format!("{PODS}/p/status")] {
        assert_eq!(merge(&client, &path, &mirror).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    }
}
