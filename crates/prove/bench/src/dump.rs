//! A dump of a generated cluster, as large as `kubectl get -o json` prints one: most of its fields do not affect
//! placement.

use std::io::{self, Write};

use berth_api::object::{Node, OwnerReference, Pod};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value, json};

use crate::scale::Order;
use crate::scale::nodes::{node, node_name};
use crate::scale::pod_name;
use crate::scale::templates::{PodTemplate, namespaces, templates};

const TIME: &str = "2026-01-01T00:00:00Z";

/// Writes a `List` of namespaces, nodes, and pods that run on them in turn; one object is held at a time.
///
/// # Errors
/// `out` cannot be written.
pub fn write(out: &mut impl Write, n_nodes: usize, n_pods: usize, seed: u64) -> io::Result<()> {
    out.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        ")?;
    let mut first = true;
    let mut item = |out: &mut dyn Write, value: &Value| {
        if !std::mem::take(&mut first) {
            out.write_all(b",\n        ")?;
        }
        let mut text = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    ")))?;
        // JSON strings have no raw line ends: every line end is between values.
        for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if i > 0 {
                out.write_all(b"\n        ")?;
            }
            out.write_all(line)?;
        }
        Ok::<(), io::Error>(())
    };
    for namespace in namespaces() {
        let metadata = serde_json::to_value(&namespace.metadata)?;
        item(out, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))?;
    }
    for node in nodes(n_nodes, seed) {
        item(out, &node?)?;
    }
    for pod in pods(n_nodes, n_pods, seed) {
        item(out, &pod?)?;
    }
    out.write_all(b"\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n")
}

/// The nodes of a dump, one at a time.
pub fn nodes(n_nodes: usize, seed: u64) -> impl Iterator<Item = io::Result<Value>> {
    (0..n_nodes).map(move |i| full_node(&node(seed, i), i))
}

/// The pods of a dump, one at a time.
pub fn pods(n_nodes: usize, n_pods: usize, seed: u64) -> impl Iterator<Item = io::Result<Value>> {
    let templates = templates(false);
    let mut order = Order::new(seed, templates.len());
    (0..n_pods).map(move |i| {
        let template = &templates[order.next_template()];
        let node = (n_nodes > 0).then(|| node_name(i % n_nodes));
        full_pod(template, i, node)
    })
}

fn full_node(node: &Node, i: usize) -> io::Result<Value> {
    let mut value = serde_json::to_value(node)?;
    value["status"]["capacity"] = value["status"]["allocatable"].clone();
    value["status"]["conditions"] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .map(|kind| {
            json!({"lastHeartbeatTime": TIME, "lastTransitionTime": TIME, "message": "kubelet has said so",
               "reason": "KubeletHasSaidSo", "status": if kind == "Ready" { "True" } else { "False" }, "type": kind})
        })
        .into();
    let paths = ["f:capacity", "f:allocatable", "f:conditions", "f:images", "f:nodeInfo"];
    Ok(stored(value, "Node", i, "f:status", &paths))
}

fn full_pod(template: &PodTemplate, i: usize, node: Option<String>) -> io::Result<Value> {
    let mut pod: Pod = template.pod.clone();
    let owner = &template.pod.metadata.name;
    pod.metadata.name = pod_name(owner, i);
    pod.metadata.owner_references = vec![OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: owner.clone(),
        controller: Some(true),
        ..OwnerReference::default()
    }]
    .into();
    pod.spec.node_name = node.unwrap_or_default();
    pod.status.phase = if pod.spec.node_name.is_empty() { "Pending" } else { "Running" }.to_owned();
    let mut value = serde_json::to_value(&pod)?;
    let container = &mut value["spec"]["containers"][0];
    container["env"] = (0..5)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n} of {}", pod.metadata.name)}))
        .collect();
    container["volumeMounts"] = json!([{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "name": "kube-api-access", "readOnly": true}]);
    container["terminationMessagePath"] = "/dev/termination-log".into();
    value["spec"]["serviceAccountName"] = "default".into();
    value["spec"]["volumes"] = json!([{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}}]}}]);
    value["status"]["conditions"] = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(
            |kind| json!({"lastProbeTime": null, "lastTransitionTime": TIME, "status": "True", "type": kind}),
        )
        .into();
    value["status"]["containerStatuses"] = json!([{"containerID": format!("containerd://{i:064x}"),
        "image": "registry.example.com/app:1", "imageID": format!("registry.example.com/app@sha256:{i:064x}"),
        "lastState": {}, "name": "main", "ready": true, "restartCount": 0, "started": true,
        "state": {"running": {"startedAt": TIME}}}]);
    let paths = [
        "f:affinity",
        "f:containers",
        "f:dnsPolicy",
        "f:enableServiceLinks",
        "f:restartPolicy",
        "f:schedulerName",
        "f:securityContext",
        "f:terminationGracePeriodSeconds",
        "f:tolerations",
        "f:topologySpreadConstraints",
        "f:volumes",
    ];
    Ok(stored(value, "Pod", i, "f:spec", &paths))
}

/// The object with what the API server adds when it stores one, `managedFields` above all.
fn stored(value: Value, kind: &str, i: usize, part: &str, paths: &[&str]) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), "v1".into());
    object.insert("kind".to_owned(), kind.into());
    object.extend(value.as_object().cloned().unwrap_or_default());
    let managed = |manager: &str| {
        let fields: Map<String, Value> = paths.iter().map(|path| ((*path).to_owned(), json!({}))).collect();
        json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {part: fields}, "manager": manager,
               "operation": "Update", "time": TIME})
    };
    let metadata = &mut object["metadata"];
    metadata["creationTimestamp"] = TIME.into();
    metadata["managedFields"] = json!([managed("kubelet")]);
    metadata["resourceVersion"] = i.to_string().into();
    metadata["uid"] = format!("00000000-0000-4000-8000-{i:012x}").into();
    Value::Object(object)
}
