//! A console that an API server guards: viewers have tokens of the cluster.

use std::sync::Arc;

use berth_client::connect;
use berth_client::delegated::DelegatedAuthorizer;
use berth_console_server::{Authenticator, Console};
use berth_faults::{Fault, TestServer};
use serde_json::json;

use crate::client::{Answer, Served, serve_to, serve_with, state};
use crate::writes::{digest, writer};

const NODE: &str =
    "{apiVersion: v1, kind: Node, metadata: {name: node-a}, status: {allocatable: {cpu: 2, pods: 10}}}";

/// A token of a new service account, which may list these resources.
async fn token(server: &TestServer, name: &str, resources: &[&str]) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    server.create(accounts, json!({"metadata": {"name": name}})).await;
    let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": ["list"]}]);
    let role = json!({"metadata": {"name": name}, "rules": rules});
    server.create(&format!("{rbac}/clusterroles"), role).await;
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
    server.create(&format!("{rbac}/clusterrolebindings"), binding).await;
    let path = format!("{accounts}/{name}/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    server.create(&path, request).await["status"]["token"].as_str().unwrap().to_owned()
}

async fn login(served: &Served, token: &str) -> Answer {
    let form = format!("token={token}");
    let headers = [
        served.host(),
        "Content-Type: application/x-www-form-urlencoded".to_owned(),
        format!("Content-Length: {}", form.len()),
    ];
    served.send("POST /login", &headers, form.as_bytes()).await
}

#[tokio::test]
async fn viewers_need_a_token_of_the_cluster_and_the_right_to_list() {
    let server = TestServer::start().await;
    let viewer = token(&server, "viewer", &["nodes", "pods"]).await;
    let limited = token(&server, "limited", &["nodes"]).await;
    let proxy = server.proxy();
    let client = connect::client(proxy.connection()).unwrap();
    let authorizer = Arc::new(DelegatedAuthorizer::new(client, Vec::new()));
    let served = serve_to(Console::new(state(NODE)), false, Authenticator::Delegated(authorizer)).await;

    let answer = served.send("GET /", &[served.host()], b"").await;
    assert_eq!(answer.status, 401);
    assert!(answer.body.contains("action=\"/login\"") && !answer.body.contains("node-a"), "{}", answer.body);
    for wrong in ["", "x", "a%3Bb%0D%0ASet-Cookie%3A+c%3Dd"] {
        let answer = login(&served, wrong).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{wrong}");
    }
    let answer = login(&served, &limited).await;
    assert_eq!((answer.status, answer.header("set-cookie")), (403, None));
    assert!(answer.body.contains("cannot list resource &quot;pods&quot;"), "{}", answer.body);

    let answer = login(&served, &viewer).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = format!("Cookie: berth-console-{}={viewer}", served.address.port());
    for header in [cookie, format!("Authorization: Bearer {viewer}")] {
        let page = served.send("GET /topology", &[served.host(), header], b"").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("node-a") && !page.body.contains(&viewer));
    }
    let bearer = format!("Authorization: Bearer {limited}");
    assert_eq!(served.send("GET /", &[served.host(), bearer], b"").await.status, 403);
    proxy.rule(|_| Fault::Hang);
    let health = served.send("GET /healthz", &["Host: 10.0.0.1".to_owned()], b"").await;
    assert_eq!((health.status, health.body.as_str()), (200, "ok"));
}

#[tokio::test]
async fn writes_have_the_token_of_the_viewer_who_confirmed_them() {
    let server = TestServer::start().await;
    let one = token(&server, "one", &["nodes", "pods"]).await;
    let other = token(&server, "other", &["nodes", "pods"]).await;
    let authorizer =
        Authenticator::Delegated(Arc::new(DelegatedAuthorizer::new(server.client.clone(), Vec::new())));
    let (write, written) = writer("");
    let served = serve_with(Console::new(state(NODE)), true, authorizer, Some(write)).await;
    let path = |step: &str| format!("/what-if/{step}?set-label=node-a+x%3D1");
    let cookie = format!("Cookie: berth-console-{}={one}", served.address.port());
    let page = served.post(&path("confirm"), &[cookie.clone(), served.origin()], "").await.body;
    let form = format!("digest={}", digest(&page));
    let bearer = format!("Authorization: Bearer {other}");
    let answer = served.post(&path("apply"), &[bearer.clone(), served.origin()], &form).await;
    assert!(answer.status == 409 && written.lock().unwrap().is_empty(), "{}", answer.body);
    let answer = served.post(&path("apply"), &[cookie.clone(), served.origin()], &form).await;
    let line = format!("GET {}", answer.header("location").unwrap());
    let of_another = served.send(&line, &[served.host(), bearer], b"").await;
    assert!(of_another.status == 404 && !of_another.body.contains("Applied"), "{}", of_another.body);
    let page = served.send(&line, &[served.host(), cookie], b"").await;
    assert!(page.status == 200 && page.body.contains("1 of 1 change written"), "{}", page.body);
    assert_eq!(written.lock().unwrap()[0].1.as_deref(), Some(one.as_str()));
}
