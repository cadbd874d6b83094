//! Paths that are not resources: discovery, version, health, metrics.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::resource::RESOURCES;
use crate::server::status::Status;
use crate::server::{Query, Reply, Shared, is_served};

/// What `/version` tells.
const GIT_VERSION: &str = concat!("v1.36.0+berth.", env!("CARGO_PKG_VERSION"));

/// Answers a path.
///
/// # Errors
/// Nothing is there.
pub fn answer(
    shared: &Arc<Shared>,
    segments: &[String],
    query: &Query,
    _headers: &HeaderMap,
) -> Result<Reply, Box<Status>> {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["version"] => Ok(Reply::value(StatusCode::OK, &version())),
        [endpoint @ ("healthz" | "livez" | "readyz"), rest @ ..] if rest.len() <= 1 => {
            health(shared, endpoint, rest.first().copied(), query)
        }
        ["metrics"] => Ok(Reply {
            content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ..Reply::text(StatusCode::OK, shared.metrics.text(&shared.store))
        }),
        ["api"] => Ok(ok(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address(shared)}]}))),
        ["apis"] => Ok(ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()}))),
        ["apis", group] => {
            groups().into_iter().find(|g| g["name"] == *group).map(ok).ok_or_else(Status::no_such_path)
        }
        ["api", version] if is_served("", version) => Ok(ok(resources("", version))),
        ["apis", group, version] if !group.is_empty() && is_served(group, version) => {
            Ok(ok(resources(group, version)))
        }
        _ => Err(Status::no_such_path()),
    }
}

fn ok(value: Value) -> Reply {
    Reply::value(StatusCode::OK, &value)
}

fn address(shared: &Shared) -> &str {
    shared.url.trim_start_matches("https://")
}

fn groups() -> Vec<Value> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for r in RESOURCES.iter().filter(|r| !r.group.is_empty()) {
        if !names.contains(&(r.group, r.version)) {
            names.push((r.group, r.version));
        }
    }
    names
        .into_iter()
        .map(|(group, version)| {
            let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version], "preferredVersion": version})
        })
        .collect()
}

fn resources(group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for r in RESOURCES.iter().filter(|r| r.group == group && r.version == version) {
        list.push(
            json!({"name": r.plural, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind,
            "verbs": r.verbs, "shortNames": r.short_names, "categories": r.categories}),
        );
        for s in r.subresources {
            list.push(json!({"name": format!("{}/{}", r.plural, s.name), "singularName": "", "namespaced": r.namespaced,
                "group": s.group, "version": s.version, "kind": s.kind, "verbs": s.verbs}));
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list})
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn health(shared: &Shared, endpoint: &str, check: Option<&str>, query: &Query) -> Result<Reply, Box<Status>> {
    let stopping = endpoint == "readyz" && shared.stop.is_cancelled();
    let checks: &[(&str, bool)] =
        &[("ping", true), ("storage", shared.store.is_healthy()), ("shutdown", !stopping)];
    if let Some(name) = check {
        let (_, fine) = checks.iter().find(|(n, _)| *n == name).ok_or_else(Status::no_such_path)?;
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
