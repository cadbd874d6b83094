//! Pods that are scheduled, or cannot be.

use std::path::Path;

use berth_testkit::programs::TempDir;
use http::Method;
use kube::Client;
use serde_json::{Map, Value, json};

use super::pages::cost_of;
use super::scenes::DIMENSIONS;
use super::{Costs, FACTOR, is_even, report};
use crate::client::{connect, create, eventually, get, list, send};
use crate::process::Berth;

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Waits until a pod is placed, or the reason why it is not is known and reported.
pub async fn decided(admin: &Client, name: &str) {
    eventually("the pod is decided", async || {
        let pod = get(admin, &format!("{PODS}/{name}")).await.map_err(|error| error.to_string())?;
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let scheduled = conditions.find(|condition| condition["type"] == "PodScheduled");
        match scheduled.and_then(|condition| condition["status"].as_str()) {
            Some("True") => Ok(()),
            Some("False") => {
                let of_pod = format!("{EVENTS}?fieldSelector=involvedObject.name={name}");
                let events = list(admin, &of_pod).await.map_err(|error| error.to_string())?;
                if events.is_empty() { Err(format!("no event: {pod}")) } else { Ok(()) }
            }
            _ => Err(pod.to_string()),
        }
    })
    .await;
}

/// The cost includes all components of `berth up`, and a small pod of another user that is scheduled beside the large one.
#[tokio::test]
async fn a_pod_costs_the_scheduler_no_more_than_its_size() {
    let directory = TempDir::new("scheduling");
    let up = Berth::start(&directory, "up", &["up", "--nodes", "4", "--zones", "2"]);
    let kubeconfig = up.line_after("export KUBECONFIG=");
    let admin = connect(Path::new(&kubeconfig)).await;
    let mut failures = Vec::new();
    for (i, dimension) in DIMENSIONS.iter().enumerate() {
        let mut costs: Costs = [None; 3];
        for (cost, n) in costs.iter_mut().zip([1, dimension.size, dimension.size * FACTOR]) {
            let mut large: Value = serde_json::from_str(&dimension.objects(n).pending).unwrap();
            let [name, other] = ["large", "small"].map(|name| format!("{name}-{i}-{n}"));
            large["metadata"]["name"] = name.clone().into();
            let containers = json!([{"name": "c", "image": "i"}]);
            let small = json!({"metadata": {"name": other}, "spec": {"containers": containers}});
            *cost = cost_of(&up, async {
                // The API server refuses some of them.
                if send(&admin, Method::POST, PODS, Some(large)).await.is_ok() {
                    decided(&admin, &name).await;
                }
                create(&admin, PODS, small).await;
                decided(&admin, &other).await;
            })
            .await;
            for name in [name, other] {
                let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
                send(&admin, Method::DELETE, &path, None).await.ok();
            }
        }
        let line = report("a pod to schedule", dimension.name, costs);
        if !is_even(costs) {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "costs grow faster than the pod:\n{}", failures.join("\n"));
}

/// Fails if an object of the cluster costs the pods that are scheduled beside it more than its size.
async fn assert_pods_pay_evenly(what: &str, size: usize, collection: &str, object: impl Fn(usize) -> Value) {
    let directory = TempDir::new("large-object");
    let up = Berth::start(&directory, "up", &["up", "--nodes", "4", "--zones", "2"]);
    let admin = connect(Path::new(&up.line_after("export KUBECONFIG="))).await;
    let spec =
        |tolerations: Value| json!({"containers": [{"name": "c", "image": "i"}], "tolerations": tolerations});
    let pods = [("plain", spec(json!([]))), ("tolerant", spec(json!([{"operator": "Exists"}])))];
    let costs = async || {
        let mut costs: Costs = [None; 3];
        for (cost, n) in costs.iter_mut().zip([1, size, size * FACTOR]) {
            let mut object = object(n);
            object["metadata"]["name"] = "large".into();
            *cost = cost_of(&up, async {
                create(&admin, collection, object).await;
                for (name, spec) in &pods {
                    create(&admin, PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
                    decided(&admin, name).await;
                }
            })
            .await;
            for path in [format!("{collection}/large"), format!("{PODS}/plain"), format!("{PODS}/tolerant")] {
                send(&admin, Method::DELETE, &format!("{path}?gracePeriodSeconds=0"), None).await.ok();
            }
        }
        costs
    };
    let measured = costs().await;
    let line = report("a pod to schedule", what, measured);
    assert!(is_even(measured) || is_even(costs().await), "{line}");
}

/// Kubernetes limits neither the taints nor the labels of a node.
#[tokio::test]
async fn a_node_costs_pods_no_more_than_its_size() {
    let node = |n| {
        let taints: Value =
            (0..n).map(|i| json!({"key": format!("key-{i}"), "effect": "NoSchedule"})).collect();
        let labels: Map<_, _> = (0..n).map(|i| (format!("key-{i}"), json!("v"))).collect();
        json!({
            "metadata": {"labels": labels}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        })
    };
    assert_pods_pay_evenly("taints and labels of a node", 2000, "/api/v1/nodes", node).await;
}

/// The limit is for pods that are to be scheduled: the anti-affinity of running pods holds, whatever its size.
#[tokio::test]
async fn a_running_pod_costs_pods_no_more_than_its_terms() {
    let pod = |n| {
        let term =
            |i| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": format!("a-{i}")}}});
        let terms: Value = (0..n).map(term).collect();
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let containers = json!([{"name": "c", "image": "i"}]);
        json!({"metadata": {}, "spec": {"nodeName": "node-1", "containers": containers, "affinity": affinity}})
    };
    assert_pods_pay_evenly("terms of a running pod", 1000, PODS, pod).await;
}
