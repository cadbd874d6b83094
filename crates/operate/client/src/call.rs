//! One request and its response: with a deadline, a response size limit, and errors that determine the next step.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Answers to requests about one object are smaller than this: a server stores no object of more than some MiB.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;
/// What is kept of an answer that is an error.
const MAX_STATUS_BYTES: usize = 64 << 10;
/// The longest a server's `Retry-After` is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("{method} {path}: {code} {reason}: {message}")]
    Status {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// HTTP status code.
        code: u16,
        /// `reason` of the Status object, such as `AlreadyExists`.
        reason: String,
        /// `message` of the Status object.
        message: String,
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No response in time. It is unknown whether the request was carried out.
    #[error("{method} {path}: no answer within {timeout:?}")]
    Timeout {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// The connection failed. It is unknown whether the request was carried out.
    #[error("{method} {path}: {message}")]
    Connection {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// What happened.
        message: String,
    },
    /// The response is invalid.
    #[error("{method} {path}: the answer cannot be read: {message}")]
    Answer {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// What is wrong with it.
        message: String,
    },
}

impl CallError {
    /// HTTP status code of the server's error.
    pub fn code(&self) -> Option<u16> {
        match self {
            CallError::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The server's message; the whole error if there is none.
    pub fn message(&self) -> String {
        match self {
            CallError::Status { message, .. } if !message.is_empty() => message.clone(),
            error => error.to_string(),
        }
    }

    fn reason(&self) -> &str {
        match self {
            CallError::Status { reason, .. } => reason,
            _ => "",
        }
    }

    /// Whether an object of this name exists already.
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

    /// Whether the server certainly did not execute the request: it answered with a client error (4xx), including a
    /// request to retry later. A 5xx leaves it open.
    pub fn is_refusal(&self) -> bool {
        self.code().is_some_and(|code| (400..500).contains(&code))
    }
}

/// A request as errors name it.
struct Name {
    method: Method,
    path: String,
}

impl Name {
    fn connection(&self, error: &dyn std::error::Error) -> CallError {
        CallError::Connection {
            method: self.method.clone(),
            path: self.path.clone(),
            message: with_sources(error),
        }
    }

    fn answer(&self, message: impl ToString) -> CallError {
        CallError::Answer {
            method: self.method.clone(),
            path: self.path.clone(),
            message: message.to_string(),
        }
    }

    fn timeout(&self, timeout: Duration) -> CallError {
        CallError::Timeout { method: self.method.clone(), path: self.path.clone(), timeout }
    }
}

/// An error with all its sources, each once, without those that only name a type of the client library.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text.strip_prefix("ServiceError: ").unwrap_or(&text);
        if !text.starts_with("client error (") && !texts.iter().any(|known| known.contains(text)) {
            texts.push(text.to_owned());
        }
        next = error.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
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
    let name = Name { method: request.method().clone(), path: request.uri().path().to_owned() };
    let answered = async {
        let response = client.send(request.map(Body::from)).await.map_err(|e| name.connection(&e))?;
        if response.status().is_success() { Ok(response) } else { Err(refused(&name, response).await) }
    };
    tokio::time::timeout(timeout, answered).await.unwrap_or_else(|_| Err(name.timeout(timeout)))
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
    let name = Name { method: request.method().clone(), path: request.uri().path().to_owned() };
    let answered = async {
        let response = open(client, request, timeout).await?;
        let (bytes, complete) =
            read(response.into_body(), max_bytes).await.map_err(|e| name.connection(&e))?;
        if complete { Ok(bytes) } else { Err(name.answer(format!("it is larger than {max_bytes} bytes"))) }
    };
    tokio::time::timeout(timeout, answered).await.unwrap_or_else(|_| Err(name.timeout(timeout)))
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
    let name = Name { method: request.method().clone(), path: request.uri().path().to_owned() };
    let bytes = send(client, request, timeout, MAX_OBJECT_BYTES).await?;
    serde_json::from_slice(&bytes).map_err(|e| name.answer(e))
}

/// A `GET` of a path of the server.
pub fn get(path: &str) -> Request<Vec<u8>> {
    with_body(Method::GET, path, "", Vec::new())
}

/// A request with a body.
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
}

async fn refused(name: &Name, response: Response<Body>) -> CallError {
    let status = response.status();
    let seconds = response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let body = read(response.into_body(), MAX_STATUS_BYTES).await.map(|(bytes, _)| bytes).unwrap_or_default();
    status_error(name, status, seconds.map(Duration::from_secs), &body)
}

fn status_error(name: &Name, status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> CallError {
    let parsed: StatusBody = serde_json::from_slice(body).unwrap_or_else(|_| StatusBody {
        message: String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned(),
        ..StatusBody::default()
    });
    CallError::Status {
        method: name.method.clone(),
        path: name.path.clone(),
        code: status.as_u16(),
        reason: Some(parsed.reason)
            .filter(|r| !r.is_empty())
            .unwrap_or_else(|| status.canonical_reason().unwrap_or("Unknown").replace(' ', "")),
        message: parsed.message,
        retry_after: retry_after.map(|d| d.min(MAX_RETRY_AFTER)),
    }
}

/// Reads a body up to a limit; returns whether it was complete.
async fn read(mut body: Body, max_bytes: usize) -> Result<(Bytes, bool), kube::Error> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if read.len() + data.len() > max_bytes {
            return Ok((read.freeze(), false));
        }
        read.extend_from_slice(&data);
    }
    Ok((read.freeze(), true))
}
