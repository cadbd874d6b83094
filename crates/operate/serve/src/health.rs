//! `/healthz`, `/livez`, `/readyz` and `/metrics` of a component.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use prometheus_client::registry::Registry;

/// The paths that [`answer`] answers.
pub const PATHS: &str = "/healthz, /livez, /readyz, /metrics";
/// The media type of [`encode`]'s text.
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A component with health endpoints.
pub trait Health {
    fn is_alive(&self) -> bool {
        true
    }

    /// The resources that it has not listed yet; the component is ready when none is left.
    fn waits_for(&self) -> Vec<&'static str>;

    /// Its metrics, as [`encode`] writes them.
    fn metrics(&self) -> Result<String, fmt::Error>;
}

/// A state of a component that tells whether it is ready.
pub trait Readiness: Send + Sync + 'static {
    /// The resources that the component has not listed yet.
    fn waits_for(&self) -> &[&'static str];
}

/// The answer to a request for one of [`PATHS`]; `None` for any other path.
pub fn answer<B>(health: &impl Health, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    let path = request.uri().path();
    if !matches!(path, "/healthz" | "/livez" | "/readyz" | "/metrics") {
        return None;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(method_not_allowed("GET, HEAD", "only GET and HEAD"));
    }
    Some(match path {
        "/metrics" => match health.metrics() {
            Ok(metrics) => response(StatusCode::OK, METRICS_TYPE, metrics),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
        },
        "/readyz" => match health.waits_for().as_slice() {
            [] => text(StatusCode::OK, "ok"),
            missing => {
                let why = format!("not listed yet: {}", missing.join(", "));
                text(StatusCode::SERVICE_UNAVAILABLE, why)
            }
        },
        _ if health.is_alive() => text(StatusCode::OK, "ok"),
        _ => text(StatusCode::INTERNAL_SERVER_ERROR, "the component has stopped"),
    })
}

/// Metrics in the OpenMetrics text format.
pub fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}

/// A response with a body of a media type.
pub fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub fn text(status: StatusCode, body: impl Into<String>) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", body.into())
}

/// 404, with the paths that are served.
pub fn not_found(paths: &str) -> Response<Full<Bytes>> {
    text(StatusCode::NOT_FOUND, format!("no such path; served are {paths}"))
}

/// 405, with the methods that are allowed.
pub fn method_not_allowed(allowed: &'static str, why: impl Into<String>) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
