//! Test objects.

pub use berth_api::syntax::labels::HOSTNAME;
use serde_json::{Value, json};

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const EXECUTING: &str = "requiredDuringSchedulingRequiredDuringExecution";

/// A pod with minimal requests.
pub fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}, "annotations": {}},
        "spec": {
            "schedulerName": "berth",
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "c", "image": "registry.example/i:1",
                "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}],
        },
    })
}

/// The same, on nodes with a label only, enforced during execution.
pub fn on_nodes_with(mut pod: Value, key: &str, value: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    pod["spec"]["affinity"]["nodeAffinity"][EXECUTING] = json!({"nodeSelectorTerms": [term]});
    pod
}

/// The same, near (`podAffinity`) or away from (`podAntiAffinity`) pods of an app, enforced during execution.
pub fn with_term(mut pod: Value, kind: &str, app: &str, topology_key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key});
    pod["spec"]["affinity"][kind][EXECUTING] = json!([term]);
    pod
}

/// The same, with a field of its `spec`.
pub fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

/// The same, with its own grace period.
pub fn with_grace(mut pod: Value, grace: &str) -> Value {
    pod["metadata"]["annotations"]["scheduling.berth.dev/eviction-grace"] = json!(grace);
    pod
}

/// A pod that says what happens if no node is feasible.
pub fn without_target(mut pod: Value, text: &str) -> Value {
    pod["metadata"]["annotations"]["scheduling.berth.dev/without-target"] = json!(text);
    pod
}

/// `n` copies of a pod.
pub fn replica_set(replicas: usize, pod: Value) -> Value {
    let mut metadata = pod["metadata"].clone();
    let (name, namespace, labels) =
        (metadata["name"].take(), metadata["namespace"].take(), metadata["labels"].clone());
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": pod["metadata"]["annotations"]},
                "spec": pod["spec"]},
        },
    })
}
