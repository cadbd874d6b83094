//! Claims of devices: those of templates, consumers, allocations, and taints of devices.

use serde_json::{Value, json};

use super::world::*;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn spec() -> Value {
    json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}})
}

fn pod(name: &str, claim: Value) -> Value {
    let mut entry = json!({"name": "gpu"});
    json_patch::merge(&mut entry, &claim);
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "run",
        "resources": {"claims": [{"name": "gpu"}]}}], "resourceClaims": [entry]}})
}

/// Allocates a device to a claim, as a scheduler does.
async fn allocate(world: &World, claim: &str) {
    let path = format!("{CLAIMS}/{claim}");
    let finalizers = json!(["resource.kubernetes.io/delete-protection"]);
    world.patch(&path, json!({"metadata": {"finalizers": finalizers}})).await;
    let results = json!([{"request": "r", "driver": "example.com", "pool": "n0", "device": "gpu-0"}]);
    let allocation = json!({"devices": {"results": results}, "allocationTimestamp": "2026-01-01T00:00:00Z"});
    world.patch(&format!("{path}/status"), json!({"status": {"allocation": allocation}})).await;
}

fn consumers(claim: &Value) -> Vec<&str> {
    let consumers = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    consumers.filter_map(|consumer| consumer["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_template_lives_as_long_as_its_pod_needs_it() {
    let world = World::new(1).await;
    world.create(PODS, &pod("train", json!({"resourceClaimTemplateName": "gpu"}))).await;
    let failed = |event: &Value| event["reason"] == "FailedResourceClaimCreation";
    world.until_listed("the template is missing", EVENTS, |events| events.iter().any(failed)).await;
    world.create(TEMPLATES, &json!({"metadata": {"name": "gpu"}, "spec": {"spec": spec()}})).await;
    let recorded = |pod: &Value| !pod["status"]["resourceClaimStatuses"].is_null();
    let path = format!("{PODS}/train");
    let pod = world.until("the status names the claim", &path, recorded).await;
    let claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap();
    assert!(claim.starts_with("train-gpu-"), "{claim}");

    allocate(&world, claim).await;
    let is_reserved = |claim: &Value| consumers(claim) == ["train"];
    world.until("reserved for the bound pod", &format!("{CLAIMS}/{claim}"), is_reserved).await;
    assert_eq!(world.list(CLAIMS).await.len(), 1, "one claim for the entry");
    world.patch(&format!("{path}/status"), json!({"status": {"phase": "Succeeded"}})).await;
    world.until_gone(&format!("{CLAIMS}/{claim}")).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_claim_is_deallocated_when_its_last_pod_is_gone() {
    let world = World::new(1).await;
    world.create(CLAIMS, &json!({"metadata": {"name": "shared"}, "spec": spec()})).await;
    for name in ["a", "b"] {
        world.create(PODS, &pod(name, json!({"resourceClaimName": "shared"}))).await;
    }
    allocate(&world, "shared").await;
    let path = format!("{CLAIMS}/shared");
    world.until("two consumers", &path, |claim| consumers(claim).len() == 2).await;
    world.delete(&format!("{PODS}/a")).await;
    let claim = world.until("one consumer", &path, |claim| consumers(claim) == ["b"]).await;
    assert!(!claim["status"]["allocation"].is_null() && !claim["metadata"]["finalizers"].is_null());
    world.delete(&format!("{PODS}/b")).await;
    let is_free =
        |claim: &Value| claim["status"]["allocation"].is_null() && claim["metadata"]["finalizers"].is_null();
    world.until("free", &path, is_free).await;

    allocate(&world, "shared").await;
    world.delete(&path).await;
    world.until_gone(&path).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_devices_with_a_taint_that_evicts() {
    let world = World::new(1).await;
    let slice = json!({"metadata": {"name": "n0"}, "spec": {"driver": "example.com", "nodeName": "n0",
        "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}});
    world.create(SLICES, &slice).await;
    world.create(CLAIMS, &json!({"metadata": {"name": "one"}, "spec": spec()})).await;
    let made = world.create(PODS, &pod("p", json!({"resourceClaimName": "one"}))).await;
    allocate(&world, "one").await;
    world.until("reserved", &format!("{CLAIMS}/one"), |claim| consumers(claim) == ["p"]).await;
    let path = format!("{PODS}/p");
    world.until("ready", &path, is_ready).await;
    assert_eq!(world.get(&path).await["metadata"]["uid"], made["metadata"]["uid"]);
    let taints = json!([{"key": "example.com/broken", "effect": "NoExecute"}]);
    let devices = json!([{"name": "gpu-0", "taints": taints}]);
    world.patch(&format!("{SLICES}/n0"), json!({"spec": {"devices": devices}})).await;
    world.until_gone(&path).await;
    let evicted = |event: &Value| event["reason"] == "DeviceTaintManagerEviction";
    world.until_listed("the event says why", EVENTS, |events| events.iter().any(evicted)).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_group_has_one_claim_for_all_of_its_pods_until_it_is_gone() {
    let mut options = options();
    options.feature_gates.dra_workload_resource_claims = true;
    let world = World::with(1, options).await;
    world.create(TEMPLATES, &json!({"metadata": {"name": "gpu"}, "spec": {"spec": spec()}})).await;
    let member = |name: &str| {
        let mut pod = pod(name, json!({"resourceClaimTemplateName": "gpu"}));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "ring"});
        pod
    };
    world.create(PODS, &member("early")).await;
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "ring"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}});
    let group = world.create(POD_GROUPS, &group).await;
    world.create(PODS, &member("late")).await;

    let path = format!("{POD_GROUPS}/ring");
    let named = |object: &Value| !object["status"]["resourceClaimStatuses"].is_null();
    let shown =
        world.until("the group names its claim", &path, named).await["status"]["resourceClaimStatuses"]
            .clone();
    let claim = shown[0]["resourceClaimName"].as_str().unwrap();
    assert!(claim.starts_with("ring-gpu-"), "{claim}");
    for pod in ["early", "late"] {
        let pod = world.until("the pod names the claim of the group", &format!("{PODS}/{pod}"), named).await;
        assert_eq!(pod["status"]["resourceClaimStatuses"], shown);
    }
    let made = world.list(CLAIMS).await;
    assert_eq!(names(&made), [claim], "one claim for all");
    assert_eq!(made[0]["metadata"]["ownerReferences"][0]["uid"], group["metadata"]["uid"]);

    allocate(&world, claim).await;
    let path = format!("{CLAIMS}/{claim}");
    let reserved = world.until("reserved for the group", &path, |claim| consumers(claim) == ["ring"]).await;
    let consumer = json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring", "uid": group["metadata"]["uid"]});
    assert_eq!(reserved["status"]["reservedFor"], json!([consumer]));

    // The pods use the devices for as long as they run, whether their group is there or not.
    world.delete(&format!("{PODS}/early")).await;
    world.delete(&format!("{POD_GROUPS}/ring")).await;
    world.until("the claim is being deleted", &path, is_deleting).await;
    let still = world.get(&path).await;
    assert!(!still["status"]["allocation"].is_null() && consumers(&still) == ["ring"], "{still}");
    world.delete(&format!("{PODS}/late")).await;
    world.until_gone(&path).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_protected_pod_group_stays_until_its_pods_are_gone() {
    let world = World::new(1).await;
    let metadata = json!({"name": "ring", "finalizers": ["scheduling.k8s.io/podgroup-protection"]});
    world
        .create(POD_GROUPS, &json!({"metadata": metadata, "spec": {"schedulingPolicy": {"basic": {}}}}))
        .await;
    let mut member = pod("member", json!({"resourceClaimName": "none"}));
    member["spec"]["schedulingGroup"] = json!({"podGroupName": "ring"});
    world.create(PODS, &member).await;
    let path = format!("{POD_GROUPS}/ring");
    world.delete(&path).await;
    world.until("the group is being deleted", &path, is_deleting).await;
    world.delete(&format!("{PODS}/member")).await;
    world.until_gone(&path).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_each_pod_of_a_group_has_a_claim_of_its_own() {
    let world = World::new(1).await;
    world.create(TEMPLATES, &json!({"metadata": {"name": "gpu"}, "spec": {"spec": spec()}})).await;
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
    let group = json!({"metadata": {"name": "ring"}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}});
    world.create(POD_GROUPS, &group).await;
    for name in ["a", "b"] {
        let mut pod = pod(name, json!({"resourceClaimTemplateName": "gpu"}));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "ring"});
        world.create(PODS, &pod).await;
    }
    world.until_listed("two claims", CLAIMS, |claims| claims.len() == 2).await;
    assert!(world.get(&format!("{POD_GROUPS}/ring")).await["status"]["resourceClaimStatuses"].is_null());
    world.end().await;
}
