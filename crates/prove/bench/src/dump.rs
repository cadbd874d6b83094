//! A dump of a generated cluster, as large as `kubectl get -o json` prints one: most of its fields do not affect
//! placement.

use std::io::{self, Write};

use berth_api::object::{Node, OwnerReference, Pod};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value, json};

use crate::count;
use crate::scale::Order;
use crate::scale::nodes::{N_ZONES, NODES_PER_RACK, node, node_name};
use crate::scale::pod_name;
use crate::scale::templates::{PodTemplate, namespaces, templates};

const TIME: &str = "2026-01-01T00:00:00Z";

/// The size of a dump.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Dump {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = count(1..=9_999_999))]
    pub nodes: usize,
    /// Number of pods; they run on the nodes in turn
    #[arg(long, value_name = "N", value_parser = count(0..=99_999_999))]
    pub pods: usize,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Percentage of the pods that run in the first zone instead, for plans of `berth rebalance`
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = count(0..=100))]
    pub displaced: usize,
}

/// Writes a `List` of namespaces, nodes, and pods that run on them in turn; one object is held at a time.
pub fn write(out: &mut impl Write, dump: &Dump) -> io::Result<()> {
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
    for i in 0..dump.nodes {
        item(out, &full_node(&node(dump.seed, i), i)?)?;
    }
    for pod in dump.all_pods() {
        item(out, &pod?)?;
    }
    out.write_all(b"\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n")
}

impl Dump {
    /// The pods, one at a time.
    pub fn all_pods(self) -> impl Iterator<Item = io::Result<Value>> {
        let templates = templates(false);
        let mut order = Order::new(self.seed, templates.len());
        (0..self.pods).map(move |i| {
            let template = &templates[order.next_template()];
            full_pod(template, i, self.node_of(i))
        })
    }

    /// The number of the node of a pod. The pods of a template are in the zones in turn, but for those that are displaced.
    fn node_of(&self, i: usize) -> usize {
        const OF_ONE_ROUND: usize = N_ZONES * NODES_PER_RACK;
        let node = i % self.nodes;
        if i * 7919 % 100 < self.displaced {
            node / OF_ONE_ROUND * OF_ONE_ROUND + node % NODES_PER_RACK
        } else {
            node
        }
    }
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

fn full_pod(template: &PodTemplate, i: usize, node: usize) -> io::Result<Value> {
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
    pod.spec.node_name = node_name(node);
    pod.status.phase = "Running".to_owned();
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
