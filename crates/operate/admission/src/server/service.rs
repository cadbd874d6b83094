//! One HTTP request.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use berth_serve::health::{self, Health};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::Limits;
use super::metrics::Metrics;
use crate::admission::AdmissionController;
use crate::answer::ReviewError;
use crate::request::AdmissionRequest;
use crate::review::Endpoint;

pub(super) struct Server {
    pub(super) admission: Arc<AdmissionController>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
}

impl Health for Server {
    fn waits_for(&self) -> Vec<&'static str> {
        self.admission.pending_sources()
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        self.metrics.text(self.admission.n_held())
    }
}

/// A request that is not answered by a review.
struct Refusal {
    status: StatusCode,
    why: String,
}

impl Refusal {
    fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }
}

impl Server {
    /// Answers a request to the address of the webhooks.
    pub(super) async fn webhook(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let Some(endpoint) = Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path) else {
            let paths = Endpoint::ALL.map(|endpoint| endpoint.path()).join(", ");
            let health = health::answer(&*self, &request);
            return health.unwrap_or_else(|| health::not_found(&format!("{paths}, {}", health::PATHS)));
        };
        match review(&self, endpoint, request).await {
            Ok(body) => health::response(StatusCode::OK, "application/json", body),
            Err(Refusal { status, why }) => {
                self.metrics.refused(status.as_u16());
                tracing::debug!(path = endpoint.path(), %status, why, "a request is not reviewed");
                match status {
                    StatusCode::METHOD_NOT_ALLOWED => health::method_not_allowed("POST", why),
                    status => health::text(status, why),
                }
            }
        }
    }

    /// Answers a request to the address of the health endpoints.
    pub(super) async fn health(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        health::answer(&*self, &request).unwrap_or_else(|| health::not_found(health::PATHS))
    }
}

async fn review(
    server: &Arc<Server>,
    endpoint: Endpoint,
    request: Request<Incoming>,
) -> Result<String, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only POST, with an AdmissionReview"));
    }
    if !is_json(request.headers()) {
        let why = "the Content-Type must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let body = body(server, request.into_body()).await?;
    let begin = Instant::now();
    let request = AdmissionRequest::from_review(&body)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    drop(body);
    // A caller that gives up does not stop a charge between the writes of two quotas, or the write of a ledger.
    let admission = server.admission.clone();
    let reviewed = tokio::spawn(async move {
        let answer = admission.review(endpoint, &request).await;
        (request, answer)
    });
    let (request, answer) = reviewed.await.map_err(|error| {
        tracing::error!(%error, "a review panicked");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be reviewed")
    })?;
    server.metrics.reviewed(endpoint, &answer, begin.elapsed());
    match answer {
        Ok(answer) => {
            if let Some(denial) = &answer.denied {
                let rule = denial.rule.name();
                tracing::info!(rule, user = request.user_info.username, "denied: {}", denial.text());
            }
            Ok(answer.review(&request.uid).to_string())
        }
        Err(error @ ReviewError::BadRequest(_)) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))
        }
        Err(error) => {
            tracing::warn!(path = endpoint.path(), "no answer: {error}");
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

async fn body(server: &Server, mut body: Incoming) -> Result<Bytes, Refusal> {
    let Limits { body_bytes, body_timeout, .. } = server.limits;
    let read = async {
        let read = Limited::new(&mut body, body_bytes).collect().await;
        if read.as_ref().is_err_and(|error| error.is::<LengthLimitError>()) {
            discard(&mut body, body_bytes).await;
        }
        read
    };
    match tokio::time::timeout(body_timeout, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = format!("the body is larger than {body_bytes} bytes");
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Err(error)) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}")))
        }
        Err(_) => {
            let why = format!("the body took longer than {} s", body_timeout.as_secs());
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

/// Reads on without keeping anything, so far: who is still sending when the connection closes does not see the answer.
async fn discard(body: &mut Incoming, n_bytes: usize) {
    let mut n_read = 0;
    while n_read <= n_bytes
        && let Some(Ok(frame)) = body.frame().await
    {
        n_read += frame.data_ref().map_or(0, Bytes::len);
    }
}
