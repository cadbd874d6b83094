//! One HTTP request.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::Limits;
use super::metrics::Metrics;
use crate::admission::Admission;
use crate::answer::Unanswered;
use crate::request::AdmissionRequest;
use crate::review::Endpoint;

/// What requests are answered with.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) admission: Arc<Admission>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
}

/// Which address a request came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// Webhooks and health.
    Webhooks,
    /// Health alone.
    Health,
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

/// Answers one request, whatever it is.
pub(super) async fn serve(
    served: Served,
    port: Port,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let endpoint = Endpoint::ALL.into_iter().find(|e| e.path() == path && port == Port::Webhooks);
    let response = match (path, endpoint) {
        (_, Some(endpoint)) => match review(&served, endpoint, request).await {
            Ok(body) => answer(StatusCode::OK, "application/json", body),
            Err(Refusal { status, why }) => {
                served.metrics.refused(status.as_u16());
                tracing::debug!(path = endpoint.path(), %status, why, "a request is not reviewed");
                let mut response = text(status, why);
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
                }
                response
            }
        },
        ("/healthz" | "/livez" | "/readyz" | "/metrics", None) if !is_read => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            response
        }
        ("/healthz" | "/livez", None) => text(StatusCode::OK, "ok"),
        ("/readyz", None) => match served.admission.waits_for().as_slice() {
            [] => text(StatusCode::OK, "ok"),
            missing => {
                let why = format!("not listed yet: {}", missing.join(", "));
                text(StatusCode::SERVICE_UNAVAILABLE, why)
            }
        },
        ("/metrics", None) => match served.metrics.text(served.admission.n_held()) {
            Some(metrics) => {
                answer(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics)
            }
            None => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
        },
        _ => {
            let paths: Vec<_> = Endpoint::ALL.iter().map(|e| e.path()).collect();
            let health = "/healthz, /readyz, /metrics";
            let known = match port {
                Port::Webhooks => format!("{}, {health}", paths.join(", ")),
                Port::Health => health.to_owned(),
            };
            text(StatusCode::NOT_FOUND, format!("no such path; served are {known}"))
        }
    };
    Ok(response)
}

async fn review(served: &Served, endpoint: Endpoint, request: Request<Incoming>) -> Result<String, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only POST, with an AdmissionReview"));
    }
    if !is_json(request.headers()) {
        let why = "the Content-Type must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let body = body(served, request.into_body()).await?;
    let begin = Instant::now();
    let request = AdmissionRequest::from_review(&body)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    drop(body);
    let answer = served.admission.review(endpoint, &request).await;
    served.metrics.reviewed(endpoint, &answer, begin.elapsed());
    match answer {
        Ok(answer) => {
            if let Some(denial) = &answer.denied {
                let rule = denial.rule.name();
                tracing::info!(rule, user = request.user_info.username, "denied: {}", denial.text());
            }
            Ok(answer.review(&request.uid).to_string())
        }
        Err(error @ Unanswered::BadRequest(_)) => {
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

async fn body(served: &Served, mut body: Incoming) -> Result<Bytes, Refusal> {
    let Limits { body_bytes, body_timeout, .. } = served.limits;
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

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

fn text(status: StatusCode, body: impl Into<String>) -> Response<Full<Bytes>> {
    let mut body: String = body.into();
    body.push('\n');
    answer(status, "text/plain; charset=utf-8", body)
}
