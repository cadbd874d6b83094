//! What a request may cost: large ones must not disturb others.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_apiserver::admission::Phase;
use berth_apiserver::{Admission, ApiServer, Limits, ServerOptions, StorageOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::eviction::{budget, evict, running};
use crate::support::*;

#[tokio::test]
async fn a_full_store_says_why_it_refuses() {
    // The first objects of a cluster take some ten thousand bytes, and may always be stored.
    let storage = StorageOptions { max_bytes: 1000, ..StorageOptions::default() };
    let server = ApiServer::start(ServerOptions { storage, ..ServerOptions::default() }).await.unwrap();
    let admin = admin(&server);
    let (code, refused) = post(&admin, PODS, &pod("a")).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    let why = "database space exceeded: the stored objects may take 1000 bytes; delete objects, or raise --quota-backend-bytes";
    assert_eq!(refused["message"], why);
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    assert_eq!(get(&admin, class).await.0, StatusCode::OK);
    assert_eq!(delete(&admin, class, &json!({"propagationPolicy": "Foreground"})).await.0, StatusCode::OK);
    assert_eq!(merge(&admin, class, &json!({"metadata": {"finalizers": null}})).await.0, StatusCode::OK);
    assert_eq!(get(&admin, class).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_full_store_refused_evictions_renewals_and_the_end_of_finalizers() {
    let storage = StorageOptions { max_bytes: 300_000, ..StorageOptions::default() };
    let server = ApiServer::start(ServerOptions { storage, ..ServerOptions::default() }).await.unwrap();
    let admin = admin(&server);
    running(&admin, "a", true).await;
    budget(&admin, "web", 1, 0, 1).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |at: &str| json!({"metadata": {"name": "l"}, "spec": {"renewTime": format!("2026-01-01T00:00:0{at}.000000Z")}});
    post(&admin, leases, &lease("1")).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    post(&admin, maps, &json!({"metadata": {"name": "held", "finalizers": ["example.com/a"]}})).await;
    for (size, name) in [(100_000, "large"), (1000, "small"), (0, "empty")] {
        for i in 0.. {
            let map = json!({"metadata": {"name": format!("{name}-{i}")}, "data": {"a": "x".repeat(size)}});
            if post(&admin, maps, &map).await.0 != StatusCode::CREATED {
                break;
            }
            assert!(i < 1000, "no write is refused");
        }
    }
    // Each by a manager of its own, which the server notes in the metadata.
    let by = |manager: &str| format!("?fieldManager={manager}-{}", "m".repeat(100));
    let held = format!("{maps}/held{}", by("map"));
    let more = json!({"metadata": {"annotations": {"a": "x".repeat(1000)}}});
    let (code, refused) = merge(&admin, &held, &more).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{refused}");
    let renewed = merge(&admin, &format!("{leases}/l{}", by("lease")), &lease("2")).await;
    assert_eq!(renewed.0, StatusCode::OK, "{}", renewed.1);
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "Same"}]}});
    let same = merge(&admin, &format!("{PODS}/a/status{}", by("kubelet")), &status).await;
    assert_eq!(same.0, StatusCode::OK, "{}", same.1);
    let (code, freed) = merge(&admin, &held, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, StatusCode::OK, "{freed}");
    let (code, evicted) = evict(&admin, "a").await;
    assert_eq!(code, StatusCode::CREATED, "{evicted}");
    assert_eq!(
        get(&admin, &format!("{PODS}/a")).await.1["status"]["conditions"][1]["type"],
        "DisruptionTarget"
    );
    assert_eq!(
        post(&admin, maps, &json!({"metadata": {"name": "full"}})).await.0,
        StatusCode::INTERNAL_SERVER_ERROR
    );
}

/// An admission plugin that computes until the test lets it go on: it blocks its thread.
struct Busy {
    begun: Mutex<Sender<String>>,
    go_on: Mutex<Receiver<()>>,
}

impl Admission for Busy {
    fn concerns(
        &self,
        phase: Phase,
        _: berth_apiserver::admission::Operation,
        resource: &str,
        _: &str,
    ) -> bool {
        phase == Phase::Mutating && resource == "pods"
    }

    fn review(&self, _: Phase, request: Value) -> BoxFuture<'_, Value> {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.begun.lock().unwrap().send(thread).unwrap();
        let _ = self.go_on.lock().unwrap().recv_timeout(Duration::from_secs(10));
        async move { json!({"uid": request["uid"], "allowed": true}) }.boxed()
    }
}

#[tokio::test]
async fn a_large_body_is_handled_on_its_own_threads_and_answered_at_the_deadline() {
    let (begun, threads) = channel();
    let (release, go_on) = channel();
    let busy = Arc::new(Busy { begun: Mutex::new(begun), go_on: Mutex::new(go_on) });
    let limits = Limits { request: Duration::from_millis(400), ..Limits::default() };
    let options = ServerOptions { limits, admission: Some(busy), ..ServerOptions::default() };
    let server = ApiServer::start(options).await.unwrap();
    let client = admin(&server);
    let mut large = pod("large");
    large["metadata"]["annotations"] = json!({"a": "x".repeat(100 << 10)});
    // This test has one thread: if the plugin blocked it, the other requests would not be answered.
    let request = post(&client, PODS, &large);
    let meanwhile = async {
        let thread = loop {
            match threads.try_recv() {
                Ok(thread) => break thread,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        assert_eq!(thread, "heavy-requests");
        assert_eq!(get(&client, PODS).await.0, StatusCode::OK);
    };
    let ((code, status), ()) = tokio::join!(request, meanwhile);
    assert_eq!((code, &status["reason"]), (StatusCode::GATEWAY_TIMEOUT, &json!("Timeout")));
    release.send(()).unwrap();
    // A small body needs no other thread.
    release.send(()).unwrap();
    let (code, _) = call(&client, Method::POST, PODS, &pod("small")).await;
    assert_eq!(
        (code, threads.try_recv().unwrap().as_str()),
        (
            StatusCode::CREATED,
            "limits::a_large_body_is_handled_on_its_own_threads_and_answered_at_the_deadline"
        )
    );
    server.shutdown().await;
}
