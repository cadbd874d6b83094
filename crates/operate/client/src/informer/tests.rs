use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use berth_api::object::Pod;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// A server response to one request: part of the expected query, the status and the body.
struct Answer(&'static str, StatusCode, String);

fn list(version: &str, token: &str, pods: Vec<Value>) -> String {
    json!({"metadata": {"resourceVersion": version, "continue": token}, "items": pods}).to_string()
}

fn pod(name: &str, uid: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": version}})
}

fn event(kind: &str, object: Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// Runs an informer on these responses; returns the reported changes and the cache content.
async fn delivered(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let n_answers = answers.len();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let left = answers.clone();
    let client = kube::Client::new(
        tower::service_fn(move |request: Request<Body>| {
            let answer = answers.lock().unwrap().pop_front();
            async move {
                let Some(Answer(query, status, body)) = answer else { std::future::pending().await };
                let uri = request.uri().to_string();
                assert!(uri.contains(query), "{uri} was requested where {query} was expected");
                let response = Response::builder().status(status).body(Body::from(body.into_bytes()));
                Ok::<_, tower::BoxError>(response.unwrap())
            }
        }),
        "default",
    );
    let mut informer = Informer::<Pod>::new(WatchOptions {
        first_retry: Duration::from_millis(100),
        ..WatchOptions::new("/api/v1/pods")
    });
    let changes: Arc<Mutex<Vec<String>>> = Arc::default();
    let handler = changes.clone();
    informer.on_change(move |change| {
        let version = |pod: &Arc<Pod>| pod.metadata.resource_version.clone();
        let name = &change.latest().unwrap().metadata.name;
        let delivered = match (change.old, change.new) {
            (None, Some(new)) => format!("{name} came at {}", version(new)),
            (Some(old), Some(new)) => format!("{name} from {} to {}", version(old), version(new)),
            _ => format!("{name} went"),
        };
        handler.lock().unwrap().push(delivered);
    });
    let cache = informer.cache();
    let stop = CancellationToken::new();
    let running = tokio::spawn(informer.run(client, stop.clone()));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !left.lock().unwrap().is_empty() {
        assert!(
            !running.is_finished() && tokio::time::Instant::now() < deadline,
            "of {n_answers} answers some are left"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The last request stays open: the informer has processed all earlier responses.
    stop.cancel();
    running.await.unwrap();
    let mut held: Vec<String> = cache.all().iter().map(|pod| pod.metadata.name.clone()).collect();
    held.sort();
    (std::mem::take(&mut changes.lock().unwrap()), held)
}

#[tokio::test]
async fn a_watch_resumes_and_relists_when_the_version_has_expired() {
    let ok = StatusCode::OK;
    let gone = json!({"kind": "Status", "code": 410, "message": "too old"});
    let (delivered, held) = delivered(vec![
        Answer("sendInitialEvents=true", StatusCode::BAD_REQUEST, String::new()),
        Answer("limit=500", ok, list("10", "more/x", vec![pod("a", "1", "3")])),
        Answer("continue=more%2Fx", ok, list("10", "", vec![pod("b", "2", "4")])),
        Answer(
            "resourceVersion=10",
            ok,
            event("ADDED", pod("c", "3", "11"))
                + &event("BOOKMARK", json!({"metadata": {"resourceVersion": "15"}})),
        ),
        Answer("resourceVersion=15", StatusCode::INTERNAL_SERVER_ERROR, String::new()),
        Answer("resourceVersion=15", ok, event("DELETED", pod("b", "2", "16")) + &event("ERROR", gone)),
        // Meanwhile `a` has changed, `c` was recreated and `d` was created.
        Answer(
            "limit=500",
            ok,
            list("30", "", vec![pod("a", "1", "20"), pod("c", "9", "21"), pod("d", "4", "22")]),
        ),
        Answer("resourceVersion=30", StatusCode::GONE, String::new()),
        Answer("limit=500", ok, list("40", "", vec![pod("a", "1", "20"), pod("c", "9", "21")])),
        Answer("resourceVersion=40", ok, event("MODIFIED", pod("a", "1", "41"))),
        Answer("resourceVersion=41", ok, String::new()),
    ])
    .await;
    let expected = [
        "a came at 3",
        "b came at 4",
        "c came at 11",
        "b went",
        "a from 3 to 20",
        "c went",
        "c came at 21",
        "d came at 22",
        "d went",
        "a from 20 to 41",
    ];
    assert_eq!(delivered, expected);
    assert_eq!(held, ["a", "c"]);
}

#[tokio::test]
async fn an_unreadable_object_does_not_block_others() {
    let odd = |name: &str, version: &str| {
        let mut odd = pod(name, name, version);
        odd["status"] = json!({"conditions": "many"});
        odd
    };
    let ok = StatusCode::OK;
    let (delivered, held) = delivered(vec![
        Answer("sendInitialEvents=true", StatusCode::BAD_REQUEST, String::new()),
        Answer("limit=500", ok, list("5", "", vec![odd("x", "1"), pod("a", "1", "2")])),
        Answer(
            "resourceVersion=5",
            ok,
            event("MODIFIED", odd("a", "6")) + &event("ADDED", pod("b", "2", "7")),
        ),
        Answer("resourceVersion=7", ok, String::new()),
    ])
    .await;
    assert_eq!(delivered, ["a came at 2", "a went", "b came at 7"]);
    assert_eq!(held, ["b"]);
}
