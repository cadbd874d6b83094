//! The subresource `scale`: the number of replicas of a workload, in one form for all kinds.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::write;
use crate::server::status::{Cause, Status};
use crate::server::{ApiRequest, Reply, Shared, Verb};

/// Answers the reading of a scale.
///
/// # Errors
/// There is no such object.
pub fn get(shared: &Shared, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let object = super::find(shared, &request.info)?;
    Ok(Reply::value(StatusCode::OK, &scale_of(&object.value())))
}

/// Answers the changing of a scale.
///
/// # Errors
/// The scale is malformed or not valid, or the object changed since.
pub async fn change(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let dry_run = write::is_dry_run(&request.query)?;
    let sent = match request.info.verb {
        Verb::Update => {
            let mut value = write::parse_object(&request.headers, &request.body)?;
            write::agree_with_path(request, "autoscaling", "v1", "Scale", &mut value)?;
            Some(value)
        }
        _ => None,
    };
    let mut warnings = Vec::new();
    let object = write::change_object(shared, request, dry_run, &mut warnings, |current, warnings| {
        let scale = match &sent {
            Some(scale) => scale.clone(),
            None => write::patched(request, &scale_of(current), warnings)?,
        };
        let replicas = replicas(&scale, &request.info.name)?;
        let mut new = current.clone();
        for field in ["resourceVersion", "uid"] {
            match &scale["metadata"][field] {
                Value::String(text) => new["metadata"][field] = Value::from(text.as_str()),
                _ => {
                    if let Some(metadata) = new["metadata"].as_object_mut() {
                        metadata.remove(field);
                    }
                }
            }
        }
        new["spec"]["replicas"] = Value::from(replicas);
        Ok(new)
    })
    .await?;
    Ok(Reply::value(StatusCode::OK, &scale_of(&object.value())).with_warnings(warnings))
}

fn replicas(scale: &Value, name: &str) -> Result<i32, Box<Status>> {
    let invalid = |value: &Value, why: &str| {
        let message = format!("Invalid value: {value}: {why}");
        let cause =
            Cause { reason: "FieldValueInvalid".to_owned(), message, field: "spec.replicas".to_owned() };
        Status::invalid_kind("autoscaling", "Scale", name, vec![cause])
    };
    match &scale["spec"]["replicas"] {
        Value::Null => Ok(0),
        value => match value.as_i64().map(i32::try_from) {
            Some(Ok(replicas)) if replicas >= 0 => Ok(replicas),
            Some(_) => Err(invalid(value, "must be greater than or equal to 0")),
            None => Err(invalid(value, "must be an integer")),
        },
    }
}

fn scale_of(value: &Value) -> Value {
    let metadata: Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), value["metadata"].get(field)?.clone())))
        .collect();
    let mut status = json!({"replicas": value["status"]["replicas"].as_i64().unwrap_or(0)});
    let selector = selector_text(&value["spec"]["selector"]);
    if !selector.is_empty() {
        status["selector"] = Value::from(selector);
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": value["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": status,
    })
}

/// A selector as a query writes it. Replication controllers have a plain map.
fn selector_text(selector: &Value) -> String {
    let is_plain = selector.as_object().is_some_and(|map| map.values().all(Value::is_string));
    let labels = if is_plain { selector } else { &selector["matchLabels"] };
    let mut parts: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = requirement["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        match requirement["operator"].as_str() {
            Some("In") => parts.push(format!("{key} in ({values})")),
            Some("NotIn") => parts.push(format!("{key} notin ({values})")),
            Some("Exists") => parts.push(key.to_owned()),
            Some("DoesNotExist") => parts.push(format!("!{key}")),
            _ => {}
        }
    }
    parts.sort_unstable();
    parts.join(",")
}
