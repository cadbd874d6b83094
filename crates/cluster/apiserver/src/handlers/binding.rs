//! Binding a pod to a node.

use std::borrow::Cow;

use berth_api::syntax::dns_subdomain;
use berth_schema::resource::PODS;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::api::Api;
use super::decode;
use super::options::WriteOptions;
use super::reply::Reply;
use crate::lifecycle;
use crate::request::{ApiRequest, ApiResult, Reason, Status};
use crate::store::{Change, Json, Write, WriteError};
use crate::strategy::fields::{is_empty, text};
use crate::strategy::{add_labels, add_topology_labels, now};

const ATTEMPTS: usize = 64;
const BOUND: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;

/// Answers the creation of a `Binding`, under the pod or beside it.
pub async fn bind(api: &Api, request: &ApiRequest, warnings: &mut Vec<String>) -> ApiResult<Reply> {
    let WriteOptions { dry_run, validation, .. } = WriteOptions::read(request)?;
    let mut binding = decode::object(request, validation, warnings)?;
    let node = text(&binding, "/target/name").to_owned();
    add_topology_labels(api, &node, &mut binding);
    api.admission.review_sent(request, dry_run, &mut binding, warnings).await?;
    let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let pods = &PODS;
    let node = target(&binding)?;
    let n_warnings = warnings.len();
    for _ in 0..ATTEMPTS {
        warnings.truncate(n_warnings);
        let namespace = &request.info.namespace;
        let current = api.store.get(pods, namespace, &name).ok_or_else(|| Status::not_found(pods, &name))?;
        let text = current.bytes();
        let mut pod = current.json(&text);
        for (what, field, is) in [
            ("UID", "uid", string(&pod, "/metadata/uid")),
            ("ResourceVersion", "resourceVersion", current.revision.to_string()),
        ] {
            let wanted = binding["metadata"][field].as_str().unwrap_or_default();
            if !wanted.is_empty() && wanted != is {
                return Err(Status::precondition(pods, namespace, &name, what, wanted, &is));
            }
        }
        set_node(&mut pod, &binding, &node)
            .map_err(|why| Status::conflict_on("pods/binding", "", &name, &why))?;
        if !is_empty(&binding["metadata"]["annotations"]) {
            let context = api.context(&request.user, pods, "binding");
            let (mut new, old) = (pod.value().into_owned(), current.value());
            lifecycle::admit(&context, pods, &mut new, Some(&old), warnings)?;
        }
        let change = Change::Update { expected: current.revision };
        let written = match dry_run {
            true => Ok(()),
            false => api.store.write(Write { resource: pods, change, object: pod }).await.map(drop),
        };
        match written {
            Ok(()) => {
                return Ok(Reply::object(StatusCode::CREATED, Bytes::from_static(BOUND)));
            }
            Err(WriteError::Modified) => {}
            Err(error) => return Err(error.into_status(pods, &name)),
        }
    }
    Err(Status::modified(pods, &name))
}

/// The node of a binding. Problems of it are no status of the API: kube-apiserver answers them as internal errors, with nothing
/// but their text.
fn target(binding: &Value) -> ApiResult<String> {
    let target = &binding["target"];
    let (kind, node) = (text(target, "/kind"), text(target, "/name"));
    let mut problems = Vec::new();
    if !matches!(kind, "" | "Node") {
        problems.push(format!(
            r#"target.kind: Unsupported value: {kind:?}: supported values: "Node", "<empty>""#
        ));
    }
    if node.is_empty() {
        problems.push("target.name: Required value".to_owned());
    } else {
        let wrong = dns_subdomain(node).into_iter();
        problems.extend(wrong.map(|why| format!("target.name: Invalid value: {node:?}: {why}")));
    }
    match problems.as_slice() {
        [] => Ok(node.to_owned()),
        [one] => Err(Status::new(Reason::Unnamed, one)),
        all => Err(Status::new(Reason::Unnamed, format!("[{}]", all.join(", ")))),
    }
}

/// A text of an object; empty if there is none.
fn string(object: &Json<'_>, pointer: &str) -> String {
    object.pointer(pointer).and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Assigns the pod to the node.
///
/// # Errors
/// The pod is bound, being deleted or gated; the text is upstream's.
fn set_node(pod: &mut Json<'_>, binding: &Value, node: &str) -> Result<(), String> {
    let name = string(pod, "/metadata/name");
    let read = |pod: &Json<'_>, pointer| pod.pointer(pointer).map(Cow::into_owned).unwrap_or_default();
    if !read(pod, "/metadata/deletionTimestamp").is_null() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let assigned = string(pod, "/spec/nodeName");
    if !assigned.is_empty() {
        return Err(format!("pod {name} is already assigned to node \"{assigned}\""));
    }
    if read(pod, "/spec/schedulingGates").as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod.set("/spec/nodeName", Value::from(node));
    let metadata = &binding["metadata"];
    let entries = |field| metadata[field].as_object().filter(|entries: &&Map<_, _>| !entries.is_empty());
    if let Some(bound) = entries("annotations") {
        let mut annotations = read(pod, "/metadata/annotations");
        for (key, value) in bound {
            annotations[key] = value.clone();
        }
        pod.set("/metadata/annotations", annotations);
    }
    if let Some(labels) = entries("labels") {
        let mut all = read(pod, "/metadata/labels");
        add_labels(&mut all, labels);
        pod.set("/metadata/labels", all);
    }
    let mut status = read(pod, "/status");
    if let Some(status) = status.as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let condition =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now()});
    set_condition(&mut status, condition);
    pod.set("/status", status);
    Ok(())
}

/// Sets a condition in the status of a pod to `True`, unless it is already.
pub fn set_condition(status: &mut Value, condition: Value) {
    let conditions = &mut status["conditions"];
    match conditions.as_array_mut() {
        Some(list) => match list.iter_mut().find(|c| c["type"] == condition["type"]) {
            Some(old) if old["status"] == "True" => {}
            Some(old) => *old = condition,
            None => list.push(condition),
        },
        None => *conditions = Value::Array(vec![condition]),
    }
}
