//! The simulated driver of devices, and pods that wait for their claims.

use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_kubelet::{DeviceTemplate, run_device_driver};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::{World, quick};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

const DEVICES: &str = "
apiVersion: simulation.berth.dev/v1alpha1
kind: SimulatedDevices
driver: gpu.example.com
nodes: topology.kubernetes.io/zone=zone-1
devices:
- {model: a100, count: 2, capacity: {memory: 40Gi}, bindingConditions: [attached], bindingFailureConditions: [lost]}
";

fn template() -> DeviceTemplate {
    let mut manifests: Vec<Manifest> = Vec::new();
    read_manifests::<ReadError>(DEVICES.as_bytes(), "devices.yaml", &mut |manifest| {
        manifests.push(manifest);
        Ok(())
    })
    .unwrap();
    DeviceTemplate::read(&manifests[0]).unwrap()
}

async fn slices(world: &World, n: usize) -> Vec<Value> {
    world.until_listed("slices", SLICES, |slices| slices.len() == n).await
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_when_its_devices_are_reserved_for_it() {
    let world = World::with_nodes(quick(2)).await;
    let stop = CancellationToken::new();
    let driver = tokio::spawn(run_device_driver(world.connection(), vec![template()], stop.clone()));
    let published = slices(&world, 1).await;
    let name = published[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        (name, published[0]["spec"]["nodeName"].as_str()),
        ("node-1-gpu.example.com-0", Some("node-1"))
    );
    assert_eq!(published[0]["spec"]["devices"][1]["name"], "a100-1");
    // A deleted slice comes back.
    world.delete(&format!("{SLICES}/{name}")).await;
    let is_new = |slice: &Value| slice["metadata"]["uid"] != published[0]["metadata"]["uid"];
    world.until("another slice", &format!("{SLICES}/{name}"), is_new).await;

    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}});
    world.create(CLAIMS, claim).await;
    let spec = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]});
    world.bind("train", "node-1", json!({}), spec).await;
    let waits = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    };
    let pod = world.pod_when("train", "waits", waits).await;
    world.until_event("Pod", "train", "FailedPrepareDynamicResources").await;

    let status = format!("{CLAIMS}/gpu/status");
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "a100-0",
        "bindingConditions": ["attached"], "bindingFailureConditions": ["lost"]});
    world.patch(&status, json!({"status": {"allocation": {"devices": {"results": [result]}}}})).await;
    let reported = |claim: &Value| claim["status"]["devices"][0]["conditions"].is_array();
    let claim = world.until("the driver reports", &format!("{CLAIMS}/gpu"), reported).await;
    let conditions = claim["status"]["devices"][0]["conditions"].as_array().unwrap();
    let shown: Vec<_> = conditions.iter().map(|c| (c["type"].as_str(), c["status"].as_str())).collect();
    assert_eq!(shown, [(Some("attached"), Some("True")), (Some("Ready"), Some("True"))]);
    assert_eq!(world.get("/api/v1/namespaces/default/pods/train").await["status"]["phase"], "Pending");

    let consumer = json!({"resource": "pods", "name": "train", "uid": pod["metadata"]["uid"]});
    world.patch(&status, json!({"status": {"reservedFor": [consumer]}})).await;
    world.pod_in_phase("train", "Running").await;
    stop.cancel();
    driver.await.unwrap().unwrap();
}
