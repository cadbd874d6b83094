//! One user's flood and clients that do not read or send hold neither others' requests nor memory.

use std::time::Duration;

use berth_apiserver::{ApiServer, InProcessServer, Limits, ServerOptions};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bad_input::{connect, token};
use crate::support::*;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, size: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"x": "y".repeat(size)}})
}

async fn limited(limits: Limits) -> ApiServer {
    ApiServer::start(ServerOptions { limits, ..ServerOptions::default() }).await.unwrap()
}

/// A server in this process, whose responses are read when the test reads them.
struct Local(InProcessServer);

type Unread = Response<UnsyncBoxBody<Bytes, std::convert::Infallible>>;

impl Local {
    async fn start(limits: Limits) -> Local {
        let options = ServerOptions { limits, ..ServerOptions::default() };
        Local(InProcessServer::start(&options, &[7; 32], 100, None).await.unwrap())
    }

    async fn send(&self, user: &str, method: &str, path: &str, body: &Value) -> Unread {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.0.admin_token()))
            .header("impersonate-user", user)
            .header("impersonate-group", "system:masters")
            .body(Full::new(body).map_err(|never| match never {}).boxed_unsync())
            .unwrap();
        self.0.respond(request).await
    }

    async fn get(&self, user: &str, path: &str) -> Unread {
        self.send(user, "GET", path, &Value::Null).await
    }
}

#[tokio::test]
async fn unread_responses_of_one_user_leave_seats_for_others() {
    let limits = Limits { in_flight: 4, queue: Duration::from_millis(50), ..Limits::default() };
    let server = Local::start(limits).await;
    let mut unread = Vec::new();
    for _ in 0..2 {
        let response = server.get("mallory", CONFIG_MAPS).await;
        assert_eq!(response.status(), StatusCode::OK);
        unread.push(response);
    }
    let refused = server.get("mallory", CONFIG_MAPS).await;
    assert_eq!(
        (refused.status(), &refused.headers()["retry-after"]),
        (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap())
    );
    assert_eq!(server.get("mallory", "/healthz").await.status(), StatusCode::OK);
    assert_eq!(server.get("alice", CONFIG_MAPS).await.status(), StatusCode::OK);
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(server.send("mallory", "POST", leases, &lease).await.status(), StatusCode::CREATED);
    // A response that is read gives its seat back.
    unread.pop().unwrap().into_body().collect().await.unwrap();
    assert_eq!(server.get("mallory", CONFIG_MAPS).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn unread_responses_hold_a_bounded_amount_of_memory() {
    let limits = Limits { response_bytes_held: 1 << 20, ..Limits::default() };
    let server = Local::start(limits).await;
    let created = server.send("alice", "POST", CONFIG_MAPS, &config_map("a", 300_000)).await;
    assert_eq!(created.status(), StatusCode::CREATED);
    drop(created);
    let one = format!("{CONFIG_MAPS}/a");
    let unread = server.get("mallory", &one).await;
    assert_eq!(server.get("mallory", &one).await.status(), StatusCode::TOO_MANY_REQUESTS);
    // A write is answered in any case: it has happened.
    let written = server.send("mallory", "POST", CONFIG_MAPS, &config_map("b", 300_000)).await;
    assert_eq!(written.status(), StatusCode::CREATED);
    assert_eq!(server.get("alice", &one).await.status(), StatusCode::OK);
    drop((unread, written));
    assert_eq!(server.get("mallory", CONFIG_MAPS).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn events_that_clients_did_not_read_held_any_amount_of_memory() {
    let server = Local::start(Limits { response_bytes_held: 1 << 20, ..Limits::default() }).await;
    for (name, size) in [("large", 300_000), ("small", 10)] {
        let created = server.send("alice", "POST", CONFIG_MAPS, &config_map(name, size)).await;
        assert_eq!(created.status(), StatusCode::CREATED);
    }
    let watch = async |user: &str, name: &str| {
        server
            .get(user, &format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3D{name}"))
            .await
            .into_body()
    };
    let mut watches = [watch("mallory", "large").await, watch("mallory", "large").await];
    let unread = watches[0].frame().await.unwrap();
    assert!(watches[1].frame().await.is_none(), "the watch ends");
    assert!(watch("mallory", "small").await.frame().await.is_some());
    assert!(watch("alice", "large").await.frame().await.is_some());
    drop(unread);
    assert!(watch("mallory", "large").await.frame().await.is_some());
}

#[tokio::test]
async fn watches_of_one_user_leave_watches_for_others() {
    let server = Local::start(Limits { watches: 4, ..Limits::default() }).await;
    let path = "/api/v1/pods?watch=1";
    let open = [server.get("mallory", path).await, server.get("mallory", path).await];
    assert_eq!(open.each_ref().map(Response::status), [StatusCode::OK; 2]);
    assert_eq!(server.get("mallory", path).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(server.get("alice", path).await.status(), StatusCode::OK);
    drop(open);
    assert_eq!(server.get("mallory", path).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let server = limited(Limits { send: Duration::from_millis(200), ..Limits::default() }).await;
    let client = admin(&server);
    let size = 1_000_000;
    for i in 0..20 {
        let (code, _) = post(&client, CONFIG_MAPS, &config_map(&format!("c{i}"), size)).await;
        assert_eq!(code, StatusCode::CREATED);
    }
    let mut stream = connect(&server).await;
    let request =
        format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", token(&server));
    stream.write_all(request.as_bytes()).await.unwrap();
    // The first bytes have arrived, the seat is taken; the rest is not read until the seat is free again.
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let is_free = async {
        loop {
            let request = Request::get("/metrics").body(kube::client::Body::empty()).unwrap();
            let bytes = client.send(request).await.unwrap().into_body().collect_bytes().await.unwrap();
            let metrics = String::from_utf8(bytes.to_vec()).unwrap();
            let seats = "apiserver_flowcontrol_current_executing_seats{priority_level=\"exempt\"} ";
            // The request for the metrics has one.
            if metrics.lines().any(|line| line.strip_prefix(seats) == Some("1")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_free).await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 20 * size, "{} bytes", rest.len());
}

#[tokio::test]
async fn announced_bodies_take_no_memory_before_they_arrive() {
    let server = limited(Limits { body_bytes_held: 3 << 20, ..Limits::default() }).await;
    let head = format!(
        "POST {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 3000000\r\n\r\n",
        token(&server)
    );
    let mut announced = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(&server).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        announced.push(stream);
    }
    assert_eq!(post(&admin(&server), PODS, &pod("a")).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn half_sent_bodies_of_one_user_leave_memory_for_others() {
    let server = limited(Limits { body_bytes_held: 16 << 20, ..Limits::default() }).await;
    let mut halves = Vec::new();
    // Three half bodies of 2 MB: the second exceeds the user's 4 MB, or the third does.
    for _ in 0..3 {
        let mut stream = connect(&server).await;
        let head = format!(
            "POST {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nImpersonate-User: mallory\r\n\
             Impersonate-Group: system:masters\r\nContent-Length: 3000000\r\n\r\n",
            token(&server)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 2_000_000]).await.unwrap();
        halves.push(stream);
    }
    // One of them is refused while the others are still being sent.
    let answers = halves.iter_mut().map(|stream| {
        Box::pin(async move {
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            status
        })
    });
    let (answer, ..) = futures::future::select_all(answers).await;
    assert_eq!(&answer, b"HTTP/1.1 429");
    let (code, _) = post(&admin(&server), CONFIG_MAPS, &config_map("a", 1_000_000)).await;
    assert_eq!(code, StatusCode::CREATED);
}

#[tokio::test]
async fn an_early_answer_does_not_lose_the_next_request() {
    let server = server().await;
    let identity = format!("Authorization: Bearer {}\r\n", token(&server));
    for (line, headers, wanted) in [
        ("POST /api/v1/gadgets", identity.clone(), "404"),
        ("PUT /healthz", identity.clone(), "405"),
        ("POST /api/v1/nodes", format!("{identity}Impersonate-User: mallory\r\n"), "403"),
        ("POST /api/v1/nodes", String::new(), "403"),
    ] {
        let mut stream = connect(&server).await;
        let body = "x".repeat(200_000);
        let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
        let next = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{body}{next}").as_bytes()).await.unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        let codes: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(codes, [wanted, "200"], "{line}");
    }
    // A body that is too large to be read without use: the answer says that the connection ends.
    let mut stream = connect(&server).await;
    let head =
        format!("POST /api/v1/gadgets HTTP/1.1\r\nHost: x\r\n{identity}Content-Length: 999999999\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("connection: close"), "{answer}");
}
