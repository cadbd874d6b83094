//! The subresource `scale`: the number of replicas of a workload, in one form for all kinds.

use berth_schema::resource::{Custom, Resource};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::api::Api;
use super::object::find;
use super::reply::Reply;
use crate::request::{ApiRequest, ApiResult, Cause, Status};
use crate::store::Object;
use crate::strategy::metadata::take;

pub fn get(api: &Api, request: &ApiRequest) -> ApiResult<Reply> {
    answer(request.info.resource, &*find(api, &request.info)?)
}

pub fn answer(resource: &Resource, object: &Object) -> ApiResult<Reply> {
    Ok(Reply::value(StatusCode::OK, &Paths::of(resource).scale_of(&object.value())))
}

/// Where an object has what its scale shows, as JSON pointers.
pub struct Paths {
    replicas: String,
    current: String,
    selector: String,
}

impl Paths {
    pub fn of(resource: &Resource) -> Paths {
        let schema = resource.custom.map(Custom::schema);
        let custom = schema.as_ref().and_then(|schema| schema.scale.as_ref());
        let path = |field: &str, usual: &str| match custom {
            None => usual.to_owned(),
            Some(scale) => scale[field].as_str().unwrap_or_default().replace('.', "/"),
        };
        Paths {
            replicas: path("specReplicasPath", "/spec/replicas"),
            current: path("statusReplicasPath", "/status/replicas"),
            selector: path("labelSelectorPath", "/spec/selector"),
        }
    }

    /// The object with the replicas of a scale, and the version that the scale names.
    pub fn changed(&self, object: &Value, scale: &Value, name: &str) -> ApiResult<Value> {
        let mut new = self.with_replicas(object, scale, name)?;
        for field in ["resourceVersion", "uid"] {
            take(&mut new["metadata"], &scale["metadata"], field);
        }
        Ok(new)
    }

    pub fn with_replicas(&self, object: &Value, scale: &Value, name: &str) -> ApiResult<Value> {
        let mut new = object.clone();
        self.set(&mut new, replicas(scale, name)?)?;
        Ok(new)
    }

    fn set(&self, object: &mut Value, replicas: i32) -> ApiResult {
        let mut place = object;
        for field in self.replicas.split('/').skip(1) {
            if !place.is_object() && !place.is_null() {
                let path = self.replicas.replace('/', ".");
                return Err(Status::bad_request(format!(
                    "{path}: the object has no place for replicas there"
                )));
            }
            place = &mut place[field];
        }
        *place = replicas.into();
        Ok(())
    }

    /// Converts an applied scale into an apply of its object.
    pub fn applied(&self, resource: &Resource, scale: &Value, name: &str) -> ApiResult<Value> {
        let mut object = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"name": scale["metadata"]["name"], "namespace": scale["metadata"]["namespace"]},
        });
        if !scale["spec"]["replicas"].is_null() {
            self.set(&mut object, replicas(scale, name)?)?;
        }
        Ok(object)
    }

    pub fn scale_of(&self, value: &Value) -> Value {
        let fields = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let field = |field: &str| Some((field.to_owned(), value["metadata"].get(field)?.clone()));
        let metadata: Map<String, Value> = fields.into_iter().filter_map(field).collect();
        let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let mut status = json!({"replicas": number(&self.current)});
        let selector = match value.pointer(&self.selector).filter(|_| !self.selector.is_empty()) {
            Some(Value::String(text)) => text.clone(),
            Some(selector) => selector_text(selector),
            None => String::new(),
        };
        if !selector.is_empty() {
            status["selector"] = Value::from(selector);
        }
        json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": if number(&self.replicas) == 0 { json!({}) } else { json!({"replicas": number(&self.replicas)}) },
            "status": status,
        })
    }
}

fn replicas(scale: &Value, name: &str) -> ApiResult<i32> {
    let invalid = |value: &Value, why: &str| {
        Status::invalid_kind("autoscaling", "Scale", name, vec![Cause::invalid("spec.replicas", value, why)])
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

/// A selector as a query writes it. Replication controllers have a plain map.
fn selector_text(selector: &Value) -> String {
    let is_plain = selector.as_object().is_some_and(|map| map.values().all(Value::is_string));
    let labels = if is_plain { selector } else { &selector["matchLabels"] };
    let mut parts: Vec<(&str, String)> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = requirement["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        match requirement["operator"].as_str() {
            Some("In") => parts.push((key, format!("{key} in ({values})"))),
            Some("NotIn") => parts.push((key, format!("{key} notin ({values})"))),
            Some("Exists") => parts.push((key, key.to_owned())),
            Some("DoesNotExist") => parts.push((key, format!("!{key}"))),
            _ => {}
        }
    }
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}
