//! Claims of devices that the pods of a PodGroup share (enhancement 5729).

use berth_controllers::ControllerOptions;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_scheduler::SchedulerOptions;
use serde_json::{Value, json};

use super::devices::world_with_devices;
use super::support::*;

const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";

fn sharing() -> SchedulerOptions {
    let mut config = SchedulerConfig::default();
    config.feature_gates.dra_workload_resource_claims = true;
    SchedulerOptions { settings: Settings { config, ..Settings::default() }, ..impatient() }
}

fn member(name: &str, group: &str, source: &Value) -> Value {
    let mut pod = pod(name, "devices");
    let mut entry = source.clone();
    entry["name"] = "gpu".into();
    pod["spec"]["resourceClaims"] = json!([entry]);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    pod
}

async fn group(world: &World, name: &str, policy: Value, source: &Value) -> Value {
    let mut entry = source.clone();
    entry["name"] = "gpu".into();
    let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy, "resourceClaims": [entry]}});
    world.create(POD_GROUPS, object).await
}

fn consumer(group: &Value) -> Value {
    json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": group["metadata"]["name"],
        "uid": group["metadata"]["uid"]}])
}

#[tokio::test(start_paused = true)]
async fn a_gang_shares_the_claim_that_is_made_for_it_until_it_is_gone() {
    let world = world_with_devices(2, 1).await;
    let mut options = ControllerOptions::default();
    options.feature_gates.dra_workload_resource_claims = true;
    world.control(options);
    let scheduler = world.schedule(sharing()).await;
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [request]}}}});
    world.create(TEMPLATES, template).await;
    let source = json!({"resourceClaimTemplateName": "one"});
    let mut claims = Vec::new();
    for name in ["red", "blue"] {
        let object = group(&world, name, json!({"gang": {"minCount": 3}}), &source).await;
        for i in 0..3 {
            world.pod(member(&format!("{name}-{i}"), name, &source)).await;
        }
        let mut nodes = Vec::new();
        for i in 0..3 {
            nodes.push(world.until_bound(&format!("{name}-{i}")).await);
        }
        assert!(nodes.iter().all(|node| *node == nodes[0]), "{nodes:?}");
        let shown =
            world.get(&format!("{POD_GROUPS}/{name}")).await["status"]["resourceClaimStatuses"].clone();
        let claim = shown[0]["resourceClaimName"].as_str().unwrap().to_owned();
        assert_eq!(world.device_claim_of(&claim).await["status"]["reservedFor"], consumer(&object));
        assert_eq!(world.pool_of(&claim).await, nodes[0], "the device of the node of its pods");
        claims.push(claim);
    }
    assert_ne!(world.pool_of(&claims[0]).await, world.pool_of(&claims[1]).await, "a device for each group");

    // A third group waits until one of them is gone.
    group(&world, "green", json!({"basic": {}}), &source).await;
    world.pod(member("green-0", "green", &source)).await;
    world.until_refused_with("green-0", "cannot allocate all claims").await;
    let node = world.node_of("red-0").await;
    world.delete(&format!("{POD_GROUPS}/red")).await;
    for i in 0..3 {
        world.delete(&format!("{PODS}/red-{i}")).await;
    }
    assert_eq!(world.until_bound("green-0").await, node);
    assert_eq!(scheduler.shows().n_errors, 0);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_basic_group_share_a_named_claim_one_after_the_other() {
    let world = world_with_devices(3, 1).await;
    let scheduler = world.schedule(sharing()).await;
    world.device_claim("shared", 1).await;
    let source = json!({"resourceClaimName": "shared"});
    let object = group(&world, "team", json!({"basic": {}}), &source).await;
    for i in 0..4 {
        world.pod(member(&format!("p{i}"), "team", &source)).await;
    }
    world.until_n_bound(4).await;
    assert_eq!(world.device_claim_of("shared").await["status"]["reservedFor"], consumer(&object));
    let pool = world.pool_of("shared").await;
    for i in 0..4 {
        assert_eq!(world.node_of(&format!("p{i}")).await, pool);
    }
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}
