//! A client for tests: requests, waits, and all states of all pods.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::time::Duration;

use berth_api::object::Pod;
use berth_client::call::{self, CallError};
use berth_client::{Event, WatchOptions};
use http::Method;
use serde_json::Value;
use tokio::time::Instant;

/// Timeout of a wait: longer than any step of a test takes, in simulated time or on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Between two looks in a wait.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = DEADLINE;

/// Sends a request: a patch is a merge patch, and `null` is no body.
pub async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    body: impl Borrow<Value>,
) -> Result<Value, CallError> {
    let media_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    send_as(client, method, path, media_type, body.borrow()).await
}

/// As [`send`], with a body of this media type.
pub(crate) async fn send_as(
    client: &kube::Client,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: &Value,
) -> Result<Value, CallError> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    call::json(client, call::with_body(method, path, media_type, body), TIMEOUT).await
}

/// Retries until the answer is `Ok`.
///
/// # Panics
/// It is not within the timeout; the message has the last other answer.
pub async fn until<T, E: Debug>(what: &str, ask: impl AsyncFn() -> Result<T, E>) -> T {
    let deadline = Instant::now() + DEADLINE;
    let mut pause = Duration::from_millis(10);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(last) if Instant::now() > deadline => panic!("not in time: {what}: {last:?}"),
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Calls a function with each state of each pod; the flag is true for the last state of a deleted pod.
///
/// # Panics
/// There are pods already.
pub async fn follow_pods(client: kube::Client, note: impl Fn(&Pod, bool) + Send + 'static) {
    let mut pods = berth_client::watch::<Pod>(client, WatchOptions::new("/api/v1/pods"));
    let Some(Event::Restarted(none)) = pods.next().await else { panic!("a watch starts with a list") };
    assert!(none.is_empty(), "pods are followed before there are any");
    tokio::spawn(async move {
        while let Some(event) = pods.next().await {
            match event {
                Event::Applied(pod) => note(&pod, false),
                Event::Deleted(pod) => note(&pod, true),
                Event::Restarted(pods) => pods.iter().for_each(|pod| note(pod, false)),
            }
        }
    });
}
