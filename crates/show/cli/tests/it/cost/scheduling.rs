//! Pods that are scheduled, or cannot be.

use std::path::Path;

use berth_testkit::programs::TempDir;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::pages::cost_of;
use super::scenes::DIMENSIONS;
use super::{Costs, FACTOR, is_even, report};
use crate::client::{connect, create, eventually, get, list, send};
use crate::process::Berth;

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Waits until a pod is placed, or the reason why it is not is known and reported.
async fn decided(admin: &Client, name: &str) {
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
