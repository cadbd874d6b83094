//! Paths that are not resources: discovery, version, health, metrics.

use berth_api::feature_gates::KubernetesVersion;
use berth_schema::openapi;
use berth_schema::resource::{RESOURCES, Resource};
use berth_serve::health::METRICS_TYPE;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::state::State;
use crate::authn::API_AUDIENCE;
use crate::custom;
use crate::discovery::{self, Document};
use crate::handlers::Reply;
use crate::request::{ApiResult, MediaType, Query, Status, Verb, check_accept};

/// The binary form of OpenAPI v2. kubectl asks for it when v3 does not have a kind, and compares objects with it.
const OPENAPI_V2: &str = "application/com.github.proto-openapi.spec.v2";
/// A document in this form without kinds (`swagger: "2.0"`, title and version): kubectl then says that there is no such
/// kind. Its definitions are in JSON and in v3 only. The version, of seven bytes, comes between the parts.
const NO_KINDS: [&[u8]; 2] = [b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07", b"\x42\x00\x4a\x00"];

pub fn answer(state: &State, segments: &[String], query: &Query, headers: &HeaderMap) -> ApiResult<Reply> {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["version"] => Ok(Reply::value(StatusCode::OK, &version(state.api.feature_gates.version))),
        [endpoint @ ("healthz" | "livez" | "readyz"), rest @ ..] if rest.len() <= 1 => {
            health(state, endpoint, rest.first().copied(), query)
        }
        [".well-known", "openid-configuration"] => Ok(Reply::value(
            StatusCode::OK,
            &json!({
                "issuer": API_AUDIENCE,
                "jwks_uri": format!("{}/openid/v1/jwks", state.url),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["EdDSA"],
            }),
        )),
        ["openid", "v1", "jwks"] => Ok(Reply {
            content_type: "application/jwk-set+json",
            ..Reply::value(StatusCode::OK, &state.api.authenticator.tokens().key_set())
        }),
        ["metrics"] => Ok(Reply {
            content_type: METRICS_TYPE,
            ..Reply::text(StatusCode::OK, state.metrics.text(&state.api.store, state.throttle.seats()))
        }),
        _ => {
            let path = parts.join("/");
            let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
            let definitions = state.custom.get();
            let custom = custom::served(&definitions);
            if path == "openapi/v2" && accept.is_some_and(|accept| accept.starts_with(OPENAPI_V2)) {
                let version = format!("v{}.0", state.api.feature_gates.version);
                return Ok(Reply {
                    content_type: OPENAPI_V2,
                    ..Reply::object(
                        StatusCode::OK,
                        [NO_KINDS[0], version.as_bytes(), NO_KINDS[1]].concat().into(),
                    )
                });
            }
            let document = match parts.first() {
                Some(&"openapi") => {
                    let (extensions, gates) = (state.api.extensions, state.api.feature_gates);
                    let served = openapi::Served { extensions, gates, custom: &custom };
                    openapi::document(&path, served).map(Document::json)
                }
                _ => discovery::document(&path, accept, address(state), state.api.feature_gates, &custom),
            };
            let Some(document) = document else { return no_such_path(&parts, &custom) };
            let reply =
                Reply { content_type: document.content_type, ..Reply::object(StatusCode::OK, document.body) };
            let is_discovery = matches!(parts.first(), Some(&("api" | "apis")));
            if !is_discovery || reply.content_type != MediaType::Json.content_type() {
                return Ok(reply);
            }
            check_accept(headers, Verb::Get)?;
            // Discovery has no protobuf form here.
            Ok(match MediaType::preferred(headers) {
                MediaType::Yaml => reply.in_media_type(MediaType::Yaml),
                MediaType::Json | MediaType::Protobuf => reply,
            })
        }
    }
}

/// What neither the API nor a group of it has.
pub fn no_such_path(path: &[&str], custom: &[&Resource]) -> ApiResult<Reply> {
    let is_known = match path {
        ["api", ..] => true,
        ["apis", group, ..] => {
            RESOURCES.iter().any(|resource| resource.group == *group)
                || custom.iter().any(|resource| resource.group == *group)
        }
        _ => false,
    };
    if is_known {
        return Err(Status::no_such_path());
    }
    Ok(Reply::text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()))
}

fn address(state: &State) -> &str {
    state.url.trim_start_matches("https://")
}

fn version(kubernetes: KubernetesVersion) -> Value {
    let (major, minor) = kubernetes.name().split_once('.').unwrap_or_default();
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{kubernetes}.0+berth.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn health(state: &State, endpoint: &str, check: Option<&str>, query: &Query) -> ApiResult<Reply> {
    let stopping = endpoint == "readyz" && state.api.stop.is_cancelled();
    let checks: &[(&str, bool)] =
        &[("ping", true), ("storage", state.api.store.is_healthy()), ("shutdown", !stopping)];
    if let Some(name) = check {
        let Some((_, fine)) = checks.iter().find(|(n, _)| *n == name) else { return no_such_path(&[], &[]) };
        let code = if *fine { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        return Ok(Reply::text(code, if *fine { "ok" } else { "not ok" }.to_owned()));
    }
    let fine = checks.iter().all(|(_, fine)| *fine);
    if fine && !query.has("verbose") {
        return Ok(Reply::text(StatusCode::OK, "ok".to_owned()));
    }
    let mut text: String = checks
        .iter()
        .map(|(name, fine)| {
            format!("[{}]{name} {}\n", if *fine { '+' } else { '-' }, if *fine { "ok" } else { "failed" })
        })
        .collect();
    text.push_str(&format!("{endpoint} check {}\n", if fine { "passed" } else { "failed" }));
    let code = if fine { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    Ok(Reply::text(code, text))
}
