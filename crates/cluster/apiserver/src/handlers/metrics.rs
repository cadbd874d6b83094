//! `metrics.k8s.io`: the resource usage of pods and nodes, as a metrics server serves it. Simulated pods use what their
//! annotations say; pods without such annotations have no metrics.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::simulated_nodes::{CPU_USAGE, MEMORY_USAGE, USAGE_PREFIX};
use berth_api::syntax::quantity::Quantity;
use berth_schema::resource::{NODE_METRICS, NODES, POD_METRICS, PODS, Resource};
use http::StatusCode;
use memchr::memmem;
use serde_json::{Value, json};

use super::api::Api;
use super::read_options::filter;
use super::reply::Reply;
use crate::request::{ApiRequest, ApiResult, RequestInfo, Status, Verb};
use crate::store::{Filter, Object};
use crate::strategy::fields::{items, text};
use crate::strategy::now;

/// Over what time the usage was measured: it is what the annotations say now.
const WINDOW: &str = "1s";

#[derive(Clone, Copy, Default)]
struct Usage {
    cpu: Quantity,
    memory: Quantity,
}

impl Usage {
    /// What a pod uses; `None` without a valid annotation.
    fn of(pod: &Value) -> Option<Usage> {
        let annotations = &pod["metadata"]["annotations"];
        let read = |key| annotations[key].as_str().and_then(|text| Quantity::parse(text).ok());
        let (cpu, memory) = (read(CPU_USAGE), read(MEMORY_USAGE));
        let usage = Usage { cpu: cpu.unwrap_or_default(), memory: memory.unwrap_or_default() };
        (cpu.is_some() || memory.is_some()).then_some(usage)
    }

    fn to_value(self) -> Value {
        json!({"cpu": self.cpu.to_string(), "memory": self.memory.to_string()})
    }

    /// Equal parts; the first ones have the rest.
    fn split(self, n: usize) -> impl Iterator<Item = Usage> {
        let n_parts = i64::try_from(n.max(1)).unwrap_or(i64::MAX);
        let part = move |total: i64, i: i64| total / n_parts + i64::from(i < total % n_parts);
        (0..n_parts).map(move |i| Usage {
            cpu: Quantity::from_millis(part(self.cpu.millis(), i)),
            memory: Quantity::from_units(part(self.memory.units(), i)),
        })
    }
}

pub fn metrics(api: &Api, request: &ApiRequest) -> ApiResult<Reply> {
    let info = &request.info;
    let resource = info.resource;
    let of_pods = *resource == POD_METRICS;
    let measured: &'static Resource = if of_pods { &PODS } else { &NODES };
    let objects = if info.verb == Verb::Get {
        api.store.get(measured, &info.namespace, &info.name).into_iter().collect()
    } else {
        let info = RequestInfo { resource: measured, ..info.clone() };
        api.store.list(measured, &filter(&api.store, &info, &request.query)?).1
    };
    let mut found = if of_pods { of_running_pods(objects) } else { of_nodes(api, &objects) };
    if info.verb == Verb::Get {
        let of_name = found.pop().ok_or_else(|| Status::not_found(resource, &info.name))?;
        return Ok(Reply::value(StatusCode::OK, &of_name));
    }
    let (kind, api_version) = (resource.list_kind(), resource.api_version());
    let list = json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": found});
    Ok(Reply::value(StatusCode::OK, &list))
}

/// The running pods with annotations.
fn measured_pods(pods: Vec<Arc<Object>>) -> impl Iterator<Item = (Value, Usage)> {
    let prefix = memmem::Finder::new(USAGE_PREFIX);
    // Most pods have none, and reading them all would take long.
    pods.into_iter().filter(move |pod| prefix.find(&pod.bytes()).is_some()).filter_map(|pod| {
        let pod = pod.value();
        let usage = Usage::of(&pod)?;
        (pod["status"]["phase"] == "Running").then_some((pod, usage))
    })
}

fn of_running_pods(pods: Vec<Arc<Object>>) -> Vec<Value> {
    let metrics = |(pod, usage): (Value, Usage)| {
        let containers = items(&pod["spec"], "containers");
        let containers = containers.iter().zip(usage.split(containers.len()));
        let containers: Vec<Value> =
            containers.map(|(c, usage)| json!({"name": c["name"], "usage": usage.to_value()})).collect();
        let mut metrics = measurement(&POD_METRICS, &pod);
        metrics["containers"] = containers.into();
        metrics
    };
    measured_pods(pods).map(metrics).collect()
}

fn of_nodes(api: &Api, nodes: &[Arc<Object>]) -> Vec<Value> {
    let mut by_node: HashMap<String, Usage> = HashMap::new();
    for (pod, usage) in measured_pods(api.store.list(&PODS, &Filter::default()).1) {
        let sum = by_node.entry(text(&pod, "/spec/nodeName").to_owned()).or_default();
        *sum = Usage { cpu: sum.cpu + usage.cpu, memory: sum.memory + usage.memory };
    }
    let metrics = |node: Value| {
        let usage = by_node.get(text(&node, "/metadata/name")).copied().unwrap_or_default();
        let mut metrics = measurement(&NODE_METRICS, &node);
        metrics["usage"] = usage.to_value();
        metrics
    };
    nodes.iter().map(|node| metrics(node.value())).collect()
}

/// Metrics of an object without their values.
fn measurement(resource: &Resource, object: &Value) -> Value {
    let mut metadata = json!({"name": object["metadata"]["name"], "creationTimestamp": now()});
    for field in ["namespace", "labels"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata, "timestamp": now(),
        "window": WINDOW})
}
