//! One request and its response: with a deadline, a response size limit, and errors that determine the next step.

use std::time::Duration;

use berth_serve::with_sources;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Answers to requests about one object are smaller than this: a server stores no object of more than some MiB.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;
/// What is kept of an answer that is an error.
const MAX_STATUS_BYTES: usize = 64 << 10;
/// The longest a server's `Retry-After` is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why a request failed, with its method and path.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: {failure}")]
pub struct CallError {
    method: Method,
    path: String,
    failure: Failure,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The server answered with an error, in a Status object.
    #[error("{code} {reason}: {message}")]
    Status {
        code: u16,
        reason: Box<str>,
        message: Box<str>,
        retry_after: Option<Duration>,
        causes: Box<[Cause]>,
    },
    /// It is unknown whether the request was carried out.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It is unknown whether the request was carried out.
    #[error("{0}")]
    Connection(String),
    #[error("the request cannot be written: {0}")]
    Content(serde_json::Error),
    #[error("the answer cannot be read: {0}")]
    Answer(String),
}

impl CallError {
    /// HTTP status code of the server's error.
    pub fn code(&self) -> Option<u16> {
        match &self.failure {
            Failure::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match &self.failure {
            Failure::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The server's message; the whole error if there is none.
    pub fn message(&self) -> String {
        match &self.failure {
            Failure::Status { message, .. } if !message.is_empty() => message.to_string(),
            _ => self.to_string(),
        }
    }

    /// The message of the server's cause with this reason, from `details.causes` of its Status.
    pub fn cause(&self, reason: &str) -> Option<&str> {
        let Failure::Status { causes, .. } = &self.failure else { return None };
        causes.iter().find(|cause| cause.reason == reason).map(|cause| cause.message.as_str())
    }

    /// A request that is not sent: the server would refuse it later, when it is too late.
    pub(crate) fn too_many(path: &str, message: &str) -> CallError {
        let failure = Failure::Status {
            code: 429,
            reason: "TooManyRequests".into(),
            message: message.into(),
            retry_after: None,
            causes: Box::default(),
        };
        CallError { method: Method::POST, path: path.to_owned(), failure }
    }

    /// A request that is not sent: its content is not JSON.
    pub(crate) fn not_written(method: Method, path: &str, error: serde_json::Error) -> CallError {
        CallError { method, path: path.to_owned(), failure: Failure::Content(error) }
    }

    /// An answer that is not what was asked for.
    pub(crate) fn unreadable(method: Method, path: &str, why: String) -> CallError {
        CallError { method, path: path.to_owned(), failure: Failure::Answer(why) }
    }

    fn reason(&self) -> &str {
        match &self.failure {
            Failure::Status { reason, .. } => reason,
            _ => "",
        }
    }

    pub fn is_already_exists(&self) -> bool {
        self.is_conflict() && self.reason() == "AlreadyExists"
    }

    /// Whether a precondition (uid, resourceVersion) did not hold.
    pub fn is_stale(&self) -> bool {
        self.is_conflict() && !self.is_already_exists()
    }

    /// Whether the namespace is being deleted: nothing can be created in it.
    pub fn is_namespace_terminating(&self) -> bool {
        self.code() == Some(403) && self.message().contains("being terminated")
    }

    /// Whether the object is not what the request took it for, or exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the server certainly did not execute the request: it was not sent, or answered with a client error (4xx),
    /// including a request to retry later. A 5xx leaves it open.
    pub fn is_refusal(&self) -> bool {
        matches!(self.failure, Failure::Content(_))
            || self.code().is_some_and(|code| (400..500).contains(&code))
    }
}

/// What to do about a request that is forbidden (403).
pub fn rule_to_add(group: &str, resource: &str, verbs: &[&str]) -> String {
    format!(
        "give this identity a role with the rule {{apiGroups: [{group:?}], resources: [{resource:?}], verbs: {verbs:?}}}"
    )
}

/// A request as errors name it.
struct Name {
    method: Method,
    uri: Uri,
}

impl Name {
    fn of(request: &Request<Vec<u8>>) -> Name {
        Name { method: request.method().clone(), uri: request.uri().clone() }
    }

    fn failed(&self, failure: Failure) -> CallError {
        CallError { method: self.method.clone(), path: self.uri.path().to_owned(), failure }
    }

    /// Waits for an answer, but not longer than a time.
    async fn within<T>(
        &self,
        timeout: Duration,
        answer: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let late = |_| Err(self.failed(Failure::Timeout(timeout)));
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(late)
    }

    /// Sends the request and waits for the head of the answer.
    async fn head(
        &self,
        client: &kube::Client,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Body>, CallError> {
        let response = client.send(request.map(Body::from)).await;
        let response = response.map_err(|e| self.failed(Failure::Connection(with_sources(&e))))?;
        if response.status().is_success() { Ok(response) } else { Err(refused(self, response).await) }
    }
}

/// Sends a request and waits for the head of the answer. The body has no deadline.
///
/// # Errors
/// No answer within `timeout`, no connection, or an answer that is not a success.
pub async fn open(
    client: &kube::Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
) -> Result<Response<Body>, CallError> {
    let name = Name::of(&request);
    name.within(timeout, name.head(client, request)).await
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// As [`open`], or the answer is larger than `max_bytes`.
pub async fn send(
    client: &kube::Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
    max_bytes: usize,
) -> Result<Bytes, CallError> {
    let name = Name::of(&request);
    let answer = send_while(client, request, timeout, up_to(max_bytes)).await?;
    answer.ok_or_else(|| name.failed(Failure::Answer(format!("it is larger than {max_bytes} bytes"))))
}

/// As [`send`], but `takes` decides for each part of the answer, from its bytes, whether it is read. Returns none if it is not.
pub(crate) async fn send_while(
    client: &kube::Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
    takes: impl FnMut(usize) -> bool,
) -> Result<Option<Bytes>, CallError> {
    let name = Name::of(&request);
    let answer = async {
        let response = name.head(client, request).await?;
        let read = read(response.into_body(), takes).await;
        let (bytes, complete) = read.map_err(|e| name.failed(Failure::Connection(with_sources(&e))))?;
        Ok(complete.then_some(bytes))
    };
    name.within(timeout, answer).await
}

/// Sends a request and reads the answer's JSON.
///
/// # Errors
/// As [`send`], or the answer is not the JSON of a `T`.
pub async fn json<T: DeserializeOwned>(
    client: &kube::Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
) -> Result<T, CallError> {
    let name = Name::of(&request);
    let bytes = send(client, request, timeout, MAX_OBJECT_BYTES).await?;
    serde_json::from_slice(&bytes).map_err(|e| name.failed(Failure::Answer(e.to_string())))
}

pub fn get(path: &str) -> Request<Vec<u8>> {
    with_body(Method::GET, path, "", Vec::new())
}

pub fn with_json(method: Method, path: &str, body: &Value) -> Request<Vec<u8>> {
    with_body(method, path, "application/json", body.to_string().into_bytes())
}

pub fn with_body(method: Method, path: &str, content_type: &'static str, body: Vec<u8>) -> Request<Vec<u8>> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    // The server refuses an invalid path: names come from the server, selectors are encoded.
    *request.uri_mut() = path.parse().unwrap_or_else(|_| http::Uri::from_static("/"));
    let json = header::HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, json);
    if !content_type.is_empty() {
        let content_type = header::HeaderValue::from_static(content_type);
        request.headers_mut().insert(header::CONTENT_TYPE, content_type);
    }
    request
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusBody {
    code: u16,
    reason: String,
    message: String,
    details: Option<StatusDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusDetails {
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

async fn refused(name: &Name, response: Response<Body>) -> CallError {
    let status = response.status();
    let seconds = response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let body =
        read(response.into_body(), up_to(MAX_STATUS_BYTES)).await.map(|(bytes, _)| bytes).unwrap_or_default();
    status_error(name, status, seconds.map(Duration::from_secs), &body)
}

fn status_error(name: &Name, status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> CallError {
    let parsed: StatusBody = serde_json::from_slice(body).unwrap_or_else(|_| StatusBody {
        message: String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned(),
        ..StatusBody::default()
    });
    name.failed(Failure::Status {
        code: status.as_u16(),
        reason: Some(parsed.reason)
            .filter(|r| !r.is_empty())
            .unwrap_or_else(|| status.canonical_reason().unwrap_or("Unknown").replace(' ', ""))
            .into(),
        message: parsed.message.into(),
        causes: parsed.details.unwrap_or_default().causes.into(),
        retry_after: retry_after.map(|d| d.min(MAX_RETRY_AFTER)),
    })
}

/// Takes parts of together at most this many bytes.
fn up_to(max_bytes: usize) -> impl FnMut(usize) -> bool {
    let mut left = Some(max_bytes);
    move |n_bytes| {
        left = left.and_then(|left| left.checked_sub(n_bytes));
        left.is_some()
    }
}

/// Reads a body while its parts are taken; returns whether it was complete, and if not, its first part. It never takes more than
/// twice its size: a buffer that grows might.
async fn read(mut body: Body, mut takes: impl FnMut(usize) -> bool) -> Result<(Bytes, bool), kube::Error> {
    let (mut parts, mut is_complete) = (Vec::new(), true);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if !takes(data.len()) {
            is_complete = false;
            parts.truncate(1);
            break;
        }
        parts.push(data);
    }
    let whole = if parts.len() == 1 { parts.pop() } else { None };
    Ok((whole.unwrap_or_else(|| parts.concat().into()), is_complete))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_a_status_are_read_by_their_reason_and_may_be_missing() {
        let name = Name { method: Method::POST, uri: Uri::from_static("/eviction") };
        let error = |details: &str| {
            let body = format!(r#"{{"code": 429, "message": "later", "details": {details}}}"#);
            status_error(&name, StatusCode::TOO_MANY_REQUESTS, None, body.as_bytes())
        };
        let cause = r#"{"reason": "DisruptionBudget", "message": "The disruption budget pg needs 2 healthy pods and has 2 currently"}"#;
        let refused = error(&format!(r#"{{"causes": [{{}}, {cause}]}}"#));
        let text = crate::eviction::refused_for_now(&refused).unwrap();
        assert_eq!(
            text,
            "blocked by PodDisruptionBudget pg: 0 disruptions allowed, needs 2 healthy pods and has 2 currently"
        );
        for details in ["null", "{}", r#"{"causes": []}"#] {
            assert_eq!(crate::eviction::refused_for_now(&error(details)).unwrap(), "later");
        }
    }
}
