//! Devices: objects for tests, and an independent check of what is allocated.

use std::collections::HashSet;

use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

pub const DEVICE_CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
pub const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
pub const DRIVER: &str = "gpu.example.com";

impl World {
    /// The class `gpu`, which also provides an extended resource.
    pub async fn gpu_class(&self) {
        let selector = json!({"cel": {"expression": format!("device.driver == {DRIVER:?}")}});
        let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [selector], "extendedResourceName": "example.com/gpu"}});
        self.create(CLASSES, class).await;
    }

    /// Devices `d0`, `d1`, ... of a node; `fields` are added to each.
    pub async fn devices(&self, node: &str, n: usize, fields: Value) {
        let device = |i: usize| {
            let mut device = fields.clone();
            device["name"] = format!("d{i}").into();
            device
        };
        let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("{node}-gpus")},
            "spec": {"driver": DRIVER, "nodeName": node, "devices": (0..n).map(device).collect::<Vec<_>>(),
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
        self.create(SLICES, slice).await;
    }

    /// A claim for this many devices.
    pub async fn device_claim(&self, name: &str, count: usize) -> Value {
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}});
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
        self.create(DEVICE_CLAIMS, claim).await
    }

    pub async fn device_claim_of(&self, name: &str) -> Value {
        self.get(&format!("{DEVICE_CLAIMS}/{name}")).await
    }

    /// Sets a condition of the devices of a claim, as a driver does.
    pub async fn set_device_condition(&self, claim: &str, condition: &str) {
        let mut claim = self.device_claim_of(claim).await;
        let results = claim["status"]["allocation"]["devices"]["results"].as_array().unwrap().clone();
        let status = |result: &Value| {
            json!({"driver": result["driver"], "pool": result["pool"], "device": result["device"], "conditions": [
                {"type": condition, "status": "True", "reason": "Tested", "message": "as the test says",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
        };
        claim["status"]["devices"] = results.iter().map(status).collect();
        let path = format!("{DEVICE_CLAIMS}/{}/status", claim["metadata"]["name"].as_str().unwrap());
        self.send(Method::PUT, &path, claim).await.unwrap();
    }

    /// The node whose device is allocated to a claim; empty while there is none.
    pub async fn pool_of(&self, claim: &str) -> String {
        let claim = self.device_claim_of(claim).await;
        let pool = &claim["status"]["allocation"]["devices"]["results"][0]["pool"];
        pool.as_str().unwrap_or_default().to_owned()
    }

    /// Allocations are right by the check of `berth_testkit`, each reservation has a living pod, and each bound pod has its claims, on devices of its
    /// node.
    pub async fn verify_devices(&self) {
        let list = async |path: &str| self.list(path).await;
        let (claims, pods) = (list(DEVICE_CLAIMS).await, list(PODS).await);
        let living: HashSet<&str> = pods.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap()).collect();
        let (all, slices) = (typed(&claims), typed(&list(SLICES).await));
        assert_eq!(berth_testkit::check::devices::check(&all, &slices), Vec::<String>::new());
        for claim in &claims {
            let status = &claim["status"];
            for consumer in status["reservedFor"].as_array().into_iter().flatten() {
                let uid = consumer["uid"].as_str().unwrap();
                assert!(living.contains(uid), "it is reserved for a pod that is gone: {claim}");
                assert!(status["allocation"].is_object(), "it is reserved and not allocated: {claim}");
            }
        }
        for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()) {
            let named = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
            let named = named.map(|entry| &entry["resourceClaimName"]);
            let extended = &pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"];
            for name in named.chain([extended]).filter(|name| name.is_string()) {
                let claim = claims.iter().find(|claim| claim["metadata"]["name"] == *name);
                let claim = claim.unwrap_or_else(|| panic!("{pod} has no claim {name}"));
                let reserved = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
                let is_its = |consumer: &Value| consumer["uid"] == pod["metadata"]["uid"];
                assert!(reserved.iter().any(is_its), "{name} is not reserved for {pod}: {claim}");
                let results = claim["status"]["allocation"]["devices"]["results"].as_array().unwrap();
                assert!(results.iter().all(|r| r["pool"] == pod["spec"]["nodeName"]), "{claim} {pod}");
            }
        }
    }
}

fn typed<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
}

/// A pod with claims.
pub fn pod_with_claims(name: &str, claims: &[&str]) -> Value {
    let mut pod = pod(name, "devices");
    let entry = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
    pod["spec"]["resourceClaims"] = claims.iter().map(entry).collect();
    pod["spec"]["containers"][0]["resources"]["claims"] =
        claims.iter().map(|claim| json!({"name": claim})).collect();
    pod
}

/// A pod that requests the extended resource of the class.
pub fn pod_with_gpus(name: &str, n: usize) -> Value {
    let mut pod = pod(name, "devices");
    for amounts in ["requests", "limits"] {
        pod["spec"]["containers"][0]["resources"][amounts]["example.com/gpu"] = json!(n.to_string());
    }
    pod
}
