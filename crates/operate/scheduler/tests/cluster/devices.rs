//! Pods with claims of devices: claims are allocated and reserved before their pods are bound.

use berth_controllers::ControllerOptions;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_scheduler::SchedulerOptions;
use http::Method;
use serde_json::{Value, json};

use super::support::devices::*;
use super::support::*;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Nodes `n0`, `n1`, ... with this many devices each, and the class `gpu`.
pub async fn world_with_devices(n_nodes: usize, n_devices: usize) -> World {
    let world = World::start().await;
    world.nodes(n_nodes, 1, 20).await;
    world.gpu_class().await;
    for i in 0..n_nodes {
        world.devices(&format!("n{i}"), n_devices, json!({})).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_allocated_and_reserved_before_its_pod_is_bound() {
    let world = world_with_devices(1, 2).await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("c", 2).await;
    let pod = world.pod(pod_with_claims("p", &["c"])).await;
    assert_eq!(world.until_bound("p").await, "n0");
    let claim = world.device_claim_of("c").await;
    assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]));
    let allocation = &claim["status"]["allocation"];
    let devices: Vec<_> =
        allocation["devices"]["results"].as_array().unwrap().iter().map(|result| &result["device"]).collect();
    assert_eq!(devices, ["d0", "d1"]);
    assert!(allocation["allocationTimestamp"].is_string(), "{claim}");
    let consumer = json!({"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]});
    assert_eq!(claim["status"]["reservedFor"], json!([consumer]));
    world.verify_devices().await;
    assert_eq!(scheduler.shows().n_errors, 0);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_share_a_claim_on_the_node_of_its_devices() {
    let world = world_with_devices(3, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("shared", 1).await;
    for i in 0..4 {
        world.pod(pod_with_claims(&format!("p{i}"), &["shared"])).await;
    }
    world.until_n_bound(4).await;
    let reserved = world.device_claim_of("shared").await["status"]["reservedFor"].clone();
    assert_eq!(reserved.as_array().unwrap().len(), 4);
    world.verify_devices().await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_device_waits_until_one_is_free() {
    let world = world_with_devices(2, 1).await;
    world.control(ControllerOptions::default());
    let scheduler = world.schedule(impatient()).await;
    for name in ["a", "b"] {
        world.device_claim(name, 1).await;
        world.pod(pod_with_claims(name, &[name])).await;
    }
    world.until_n_bound(2).await;
    world.pod(pod_with_claims("late", &["late"])).await;
    world.until_refused_with("late", r#"could not find ResourceClaim "default/late""#).await;
    world.delete(&format!("{PODS}/late")).await;
    world.device_claim("late", 1).await;
    world.pod(pod_with_claims("late", &["late"])).await;
    world.until_refused_with("late", "0/2 nodes are available: 2 cannot allocate all claims.").await;
    // The controller takes the reservation of the deleted pod away, and its claim is deleted.
    let node = world.node_of("a").await;
    world.delete(&format!("{PODS}/a")).await;
    world.delete(&format!("{DEVICE_CLAIMS}/a")).await;
    assert_eq!(world.until_bound("late").await, node);
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_made_for_extended_resources_that_devices_provide() {
    let world = world_with_devices(2, 2).await;
    let scheduler = world.schedule(impatient()).await;
    for i in 0..2 {
        world.pod(pod_with_gpus(&format!("p{i}"), 2)).await;
    }
    world.until_n_bound(2).await;
    world.verify_devices().await;
    let pod = world.get(&format!("{PODS}/p0")).await;
    let status = &pod["status"]["extendedResourceClaimStatus"];
    let name = status["resourceClaimName"].as_str().unwrap();
    assert!(name.starts_with("p0-extended-resources-"), "{name}");
    let mapping = json!({"containerName": "c", "resourceName": "example.com/gpu", "requestName":
        status["requestMappings"][0]["requestName"]});
    assert_eq!(status["requestMappings"], json!([mapping]));
    let claim = world.device_claim_of(name).await;
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&pod["metadata"]["uid"], &json!(true)));
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"], "true");
    let request = &claim["spec"]["devices"]["requests"][0];
    assert_eq!(request["name"], mapping["requestName"]);
    assert_eq!(
        (&request["exactly"]["deviceClassName"], &request["exactly"]["count"]),
        (&json!("gpu"), &json!(2))
    );
    world.pod(pod_with_gpus("late", 1)).await;
    world.until_refused_with("late", "2 cannot allocate all claims").await;
    // A node that has the resource itself needs no claim.
    let gpu =
        json!({"status": {"capacity": {"example.com/gpu": "1"}, "allocatable": {"example.com/gpu": "1"}}});
    world.node("own", "z0", 20).await;
    world.patch(&format!("{NODES}/own/status"), gpu).await;
    assert_eq!(world.until_bound("late").await, "own");
    let late = world.get(&format!("{PODS}/late")).await;
    assert_eq!(late["status"]["extendedResourceClaimStatus"], Value::Null);
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_when_the_conditions_of_its_devices_are_true() {
    let world = World::start().await;
    world.nodes(1, 1, 20).await;
    world.gpu_class().await;
    let conditions = json!({"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]});
    world.devices("n0", 1, conditions.clone()).await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("c", 1).await;
    world.pod(pod_with_claims("p", &["c"])).await;
    let event = world.until_event("Pod", "p", "BindingConditionsPending").await;
    assert_eq!(event["note"], "waiting for binding conditions for device on node n0");
    world.pod(pod("plain", "x")).await;
    world.until_bound("plain").await;
    assert_eq!(world.node_of("p").await, "", "its device is not attached");
    let nominated = world.get(&format!("{PODS}/p")).await["status"]["nominatedNodeName"].clone();
    assert_eq!(nominated, "n0");
    world.set_device_condition("c", "attached").await;
    world.until_bound("p").await;
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_is_given_back_and_the_pod_gets_another() {
    let world = World::start().await;
    world.nodes(1, 1, 20).await;
    world.gpu_class().await;
    let conditions = json!({"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]});
    world.devices("n0", 1, conditions).await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("c", 1).await;
    world.pod(pod_with_claims("p", &["c"])).await;
    world.until_event("Pod", "p", "BindingConditionsPending").await;
    world.node("n1", "z0", 20).await;
    world.devices("n1", 1, json!({})).await;
    let cordon = json!({"spec": {"unschedulable": true}});
    world.patch(&format!("{NODES}/n0"), cordon).await;
    world.set_device_condition("c", "broken").await;
    let event = world.until_event("Pod", "p", "FailedScheduling").await;
    let note = "running PreBind plugin \"DynamicResources\": claim c binding failed: reason=Tested, \
        message=\"as the test says\"";
    assert_eq!(event["note"], note);
    // PostFilter takes the allocation away.
    assert_eq!(world.until_bound("p").await, "n1");
    world.verify_devices().await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_profile_without_the_plugin_binds_pods_without_a_look_at_their_claims() {
    let world = world_with_devices(1, 1).await;
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "berth",
            "plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}],
    }));
    let settings = Settings { config: config.unwrap(), ..Settings::default() };
    let scheduler = world.schedule(SchedulerOptions { settings, ..impatient() }).await;
    world.device_claim("c", 2).await;
    world.pod(pod_with_claims("p", &["c"])).await;
    world.pod(pod_with_claims("no-claim", &["missing"])).await;
    world.until_n_bound(2).await;
    assert_eq!(world.pool_of("c").await, "", "the claim is not touched");
    scheduler.stopped().await;
}

/// The texts are those that Kubernetes' own tests of dynamic resource allocation expect, to the letter.
#[tokio::test(start_paused = true)]
async fn conditions_of_pods_without_devices_have_the_words_of_kube_scheduler() {
    let world = World::start().await;
    world.nodes(8, 1, 20).await;
    world.gpu_class().await;
    let scheduler = world.schedule(impatient()).await;
    let says = async |pod: &str, text: &str| {
        let end = "still not schedulable, preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.";
        world.device_claim(pod, 1).await;
        world.pod(pod_with_claims(pod, &[pod])).await;
        world.until_refused_with(pod, &format!("0/8 nodes are available: {text}. {end}")).await;
        assert_eq!(world.until_refused(pod).await["reason"], "Unschedulable");
    };
    says("none", "8 cannot allocate all claims").await;
    // Two slices have a device of the same name.
    let slice = |node: &str, i: usize| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-{i}")},
            "spec": {"driver": DRIVER, "nodeName": node, "devices": [{"name": "device-1"}],
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 2}}})
    };
    for i in 0..2 {
        world.create(SLICES, slice("n0", i)).await;
    }
    // The scheduler has seen them when it has bound a pod that was created after them.
    world.pod(pod("plain", "x")).await;
    world.until_bound("plain").await;
    says("invalid", "1 invalid resource pools were encountered, 7 cannot allocate all claims").await;
    world.devices("n1", 2, json!({})).await;
    assert_eq!(
        (world.until_bound("none").await, world.until_bound("invalid").await),
        ("n1".to_owned(), "n1".to_owned())
    );
    scheduler.stopped().await;
}

/// The largest number of pods that may share a claim, and more. All of them are decided at once and write the same claim.
#[tokio::test(start_paused = true)]
async fn many_pods_share_a_claim_up_to_its_limit() {
    let world = World::start().await;
    world.nodes(2, 1, 300).await;
    world.gpu_class().await;
    world.devices("n0", 1, json!({})).await;
    world.control(ControllerOptions::default());
    world.device_claim("shared", 1).await;
    for i in 0..256 {
        world.pod(pod_with_claims(&format!("p{i}"), &["shared"])).await;
    }
    let scheduler = world.schedule(impatient()).await;
    world.until_n_bound(256).await;
    for i in 0..3 {
        world.pod(pod_with_claims(&format!("more{i}"), &["shared"])).await;
    }
    assert_eq!(world.until_refused("more0").await["reason"], "SchedulerError");
    for i in 0..256 {
        let now = json!({"gracePeriodSeconds": 0});
        world.send(Method::DELETE, &format!("{PODS}/p{i}"), now).await.unwrap();
    }
    world.until_n_bound(3).await;
    until("the reservations of deleted pods are removed", async || {
        let claim = world.device_claim_of("shared").await;
        let n = claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
        if n == 3 { Ok(()) } else { Err(format!("{n} reservations")) }
    })
    .await;
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_members_of_a_group_share_a_claim() {
    let world = world_with_devices(3, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("shared", 1).await;
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 20}}}});
    world.create("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", group).await;
    for i in 0..20 {
        let mut pod = pod_with_claims(&format!("p{i}"), &["shared"]);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        world.pod(pod).await;
    }
    world.until_n_bound(20).await;
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_devices_are_not_ready_in_time_gets_others() {
    let world = World::start().await;
    world.nodes(2, 1, 20).await;
    world.gpu_class().await;
    let conditions = json!({"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]});
    world.devices("n0", 1, conditions).await;
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "berth",
            "pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "2s"}}]}],
    }));
    let settings = Settings { config: config.unwrap(), ..Settings::default() };
    let scheduler = world.schedule(SchedulerOptions { settings, ..impatient() }).await;
    world.device_claim("c", 1).await;
    world.pod(pod_with_claims("p", &["c"])).await;
    world.until_event("Pod", "p", "BindingConditionsPending").await;
    world.devices("n1", 1, json!({})).await;
    let cordon = json!({"spec": {"unschedulable": true}});
    world.patch(&format!("{NODES}/n0"), cordon).await;
    let event = world.until_event("Pod", "p", "FailedScheduling").await;
    assert_eq!(event["note"], "running PreBind plugin \"DynamicResources\": device binding timeout");
    assert_eq!(world.until_bound("p").await, "n1");
    world.verify_devices().await;
    scheduler.stopped().await;
}

/// Two pods wait for a claim whose device is on a node where they may not run. When one of them is gone, the allocation can be
/// taken away for the other.
#[tokio::test(start_paused = true)]
async fn an_allocation_that_keeps_a_pod_from_all_nodes_is_taken_away_as_soon_as_that_is_possible() {
    let world = world_with_devices(2, 1).await;
    world.device_claim("c", 1).await;
    let mut gone = pod_with_claims("gone", &["c"]);
    gone["spec"]["schedulerName"] = json!("other");
    let gone = world.pod(gone).await;
    let stays = world.pod(pod_with_claims("stays", &["c"])).await;
    let results = json!([{"request": "gpu", "driver": DRIVER, "pool": "n0", "device": "d0"}]);
    let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]);
    let consumer = |pod: &Value| json!({"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
    let status = json!({"status": {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}},
        "reservedFor": [consumer(&gone), consumer(&stays)]}});
    let status_of = format!("{DEVICE_CLAIMS}/c/status");
    world.patch(&status_of, status).await;
    let cordon = json!({"spec": {"unschedulable": true}});
    world.patch(&format!("{NODES}/n0"), cordon).await;
    let scheduler = world.schedule(impatient()).await;
    world.until_refused("stays").await;
    world.delete(&format!("{PODS}/gone")).await;
    let reserved = json!({"status": {"reservedFor": null}});
    world.patch(&status_of, reserved).await;
    assert_eq!(world.until_bound("stays").await, "n1");
    world.verify_devices().await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn device_taint_rules_were_not_watched() {
    let world = world_with_devices(1, 1).await;
    let rules = "/apis/resource.k8s.io/v1/devicetaintrules";
    let rule = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "example.com/broken", "effect": "NoSchedule"}}});
    world.create(rules, rule).await;
    let scheduler = world.schedule(impatient()).await;
    world.device_claim("c", 1).await;
    world.pod(pod_with_claims("p", &["c"])).await;
    world.until_refused_with("p", "0/1 nodes are available: 1 cannot allocate all claims.").await;
    world.delete(&format!("{rules}/broken")).await;
    assert_eq!(world.until_bound("p").await, "n0");
    scheduler.stopped().await;
}
