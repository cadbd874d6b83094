//! What is assumed of claims of devices, and for how long.

use berth_api::object::Pod;
use berth_api::object::device::{DeviceDecision, DeviceKind, DeviceObject, ResourceClaim};
use berth_engine::{Cluster, Outcome, PreparedPod, Settings};
use berth_testkit::text;
use serde_json::{Value, json};

use crate::common::cluster;

fn set(cluster: &mut Cluster, kind: DeviceKind, object: &Value) {
    cluster.set_device_object(&DeviceObject::decode(kind, object).expect("an object"));
}

/// A node with one device, which also provides `example.com/gpu`.
fn one_device() -> Cluster {
    let mut cluster = cluster(&text::world("node a"), Settings::default());
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    set(&mut cluster, DeviceKind::DeviceClass, &class);
    let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "a", "devices": [{"name": "d0"}],
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}}});
    set(&mut cluster, DeviceKind::ResourceSlice, &slice);
    cluster
}

fn pod(cluster: &mut Cluster, name: &str) -> PreparedPod {
    let pod = json!({"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}});
    cluster.prepare(&serde_json::from_value::<Pod>(pod).expect("a pod"))
}

fn decide(cluster: &Cluster, pod: &PreparedPod) -> Result<Box<DeviceDecision>, String> {
    match cluster.decide(pod) {
        Outcome::Placed { devices: Some(devices), .. } => Ok(devices),
        other => Err(other.message().into_owned()),
    }
}

#[test]
fn devices_assumed_for_extended_resources_are_not_given_to_another_pod() {
    let mut cluster = one_device();
    let (first, second) = (pod(&mut cluster, "p"), pod(&mut cluster, "q"));
    let decided = decide(&cluster, &first).unwrap();
    let assumed = first.assumed_devices(&decided, true);
    cluster.assume_devices(&assumed);
    let message = decide(&cluster, &second).unwrap_err();
    assert!(message.starts_with("0/1 nodes are available: 1 cannot allocate all claims."), "{message}");
    cluster.restore_devices(&assumed);
    assert!(decide(&cluster, &second).is_ok());
    let sizes = cluster.table_sizes();
    assert_eq!((sizes["allocated devices"], sizes["claims assumed for extended resources"]), (0, 0));
}

#[test]
fn an_assumption_about_extended_resources_ends_with_the_claim_of_the_pod() {
    let mut cluster = one_device();
    let (first, second) = (pod(&mut cluster, "p"), pod(&mut cluster, "q"));
    let decided = decide(&cluster, &first).unwrap();
    cluster.assume_devices(&first.assumed_devices(&decided, true));
    let claim = |allocation: Value| {
        json!({"metadata": {"name": "p-extended-resources-x", "namespace": "d", "uid": "c",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]},
            "spec": {"devices": {"requests": decided.claims[0].extended.as_ref().unwrap().requests}},
            "status": {"allocation": allocation}})
    };
    set(&mut cluster, DeviceKind::ResourceClaim, &claim(Value::Null));
    assert!(decide(&cluster, &second).is_err(), "it is not allocated yet");
    let written: ResourceClaim = serde_json::from_value(claim(json!(decided.claims[0].allocation))).unwrap();
    cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(written)));
    assert_eq!(cluster.table_sizes()["claims assumed for extended resources"], 0);
    assert!(decide(&cluster, &second).is_err(), "the device is allocated");
    cluster.remove_device_object(DeviceKind::ResourceClaim, "d", "p-extended-resources-x");
    assert!(decide(&cluster, &second).is_ok());
}
