//! Pods with volumes: claims are bound and provisioned before their pods are bound, and failures are rolled back.

use std::collections::HashMap;
use std::time::Duration;

use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_controllers::{ControllerOptions, DELAY_ANNOTATION, FAILURES_ANNOTATION, ProvisionerOptions};
use berth_engine::Settings;
use berth_faults::Fault;
use berth_input::config::SchedulerConfig;
use berth_scheduler::SchedulerOptions;
use http::Method;
use serde_json::{Value, json};

use super::leaders::replica;
use super::support::*;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Controllers with the simulated provisioner.
fn controllers(world: &World) {
    let mut options = ControllerOptions::default();
    options.provisioner = Some(ProvisionerOptions::default());
    world.control(options);
}

/// The class of the provisioner, which binds when the first pod is scheduled, and one for local volumes.
async fn classes(world: &World) {
    for (name, provisioner) in [("zonal", "berth.dev/simulated"), ("local", "kubernetes.io/no-provisioner")] {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
        world.create(CLASSES, class).await;
    }
}

async fn claim(world: &World, name: &str, class: &str, annotations: Value) {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}});
    world.create(CLAIMS, claim).await;
}

async fn local_volume(world: &World, name: &str, node: &str) {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "local": {"path": "/disk"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]}}}});
    world.create(VOLUMES, volume).await;
}

fn pod_with(name: &str, claim: &str) -> Value {
    let mut pod = pod(name, "volumes");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

async fn claim_of(world: &World, name: &str) -> Value {
    world.get(&format!("{CLAIMS}/{name}")).await
}

/// No volume belongs to two claims, and each bound pod's claims are bound to volumes that its node can use.
async fn verify_volumes(world: &World) {
    let volumes = world.list(VOLUMES).await;
    let mut claim_of_volume = HashMap::new();
    let claims = world.list(CLAIMS).await;
    for claim in claims.iter().filter(|claim| claim["status"]["phase"] == "Bound") {
        let before = claim_of_volume.insert(&claim["spec"]["volumeName"], claim);
        assert!(before.is_none(), "two claims have a volume: {claim} {before:?}");
    }
    let pods = world.list(PODS).await;
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()) {
        let node = world.get(&format!("{NODES}/{}", pod["spec"]["nodeName"].as_str().unwrap())).await;
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() else { continue };
            let claim = claims.iter().find(|claim| claim["metadata"]["name"] == name).unwrap();
            let is_it = |v: &&Value| v["metadata"]["name"] == claim["spec"]["volumeName"];
            let volume = volumes.iter().find(is_it).unwrap_or_else(|| panic!("{name} is not bound"));
            assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
            let required = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
            let holds = |e: &Value| {
                let value = &node["metadata"]["labels"][e["key"].as_str().unwrap()];
                e["values"].as_array().unwrap().contains(value)
            };
            let matches = |term: &Value| term["matchExpressions"].as_array().unwrap().iter().all(holds);
            assert!(required.as_array().unwrap().iter().any(matches), "{volume} {node}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn claims_are_provisioned_for_the_nodes_of_their_pods() {
    let world = World::start().await;
    world.nodes(3, 3, 10).await;
    classes(&world).await;
    controllers(&world);
    let scheduler = world.schedule(impatient()).await;
    for i in 0..12 {
        claim(&world, &format!("c{i}"), "zonal", json!({})).await;
        world.pod(pod_with(&format!("p{i}"), &format!("c{i}"))).await;
    }
    world.until_n_bound(12).await;
    for i in 0..12 {
        let claim = claim_of(&world, &format!("c{i}")).await;
        let node = world.node_of(&format!("p{i}")).await;
        assert_eq!(claim["metadata"]["annotations"][SELECTED_NODE], node, "{claim}");
        assert_eq!(claim["status"]["phase"], "Bound", "the claim is bound before the pod");
    }
    verify_volumes(&world).await;
    assert_eq!(scheduler.shows().n_errors, 0);
    // Another pod with a bound claim goes where its volume is.
    let zone_of = async |pod: &str| {
        let node = world.node_of(pod).await;
        world.get(&format!("{NODES}/{node}")).await["metadata"]["labels"][ZONE].clone()
    };
    let zone = zone_of("p5").await;
    world.delete(&format!("{PODS}/p5")).await;
    world.pod(pod_with("again", "c5")).await;
    world.until_bound("again").await;
    assert_eq!(zone_of("again").await, zone);
    verify_volumes(&world).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn local_volumes_are_given_to_one_claim_each() {
    let world = World::start().await;
    world.nodes(3, 1, 10).await;
    classes(&world).await;
    controllers(&world);
    for i in 0..6 {
        local_volume(&world, &format!("v{i}"), &format!("n{}", i % 3)).await;
        claim(&world, &format!("c{i}"), "local", json!({})).await;
    }
    claim(&world, "late", "local", json!({})).await;
    let scheduler = world.schedule(impatient()).await;
    for i in 0..6 {
        world.pod(pod_with(&format!("p{i}"), &format!("c{i}"))).await;
    }
    world.until_n_bound(6).await;
    world.pod(pod_with("late", "late")).await;
    let condition = world.until_refused("late").await;
    let message = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
    assert!(condition["message"].as_str().unwrap().starts_with(message), "{condition}");
    assert_eq!(condition["reason"], "Unschedulable");
    local_volume(&world, "v6", "n1").await;
    assert_eq!(world.until_bound("late").await, "n1");
    verify_volumes(&world).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_volume_while_others_are_bound() {
    let world = World::start().await;
    world.nodes(2, 1, 10).await;
    classes(&world).await;
    controllers(&world);
    let scheduler = world.schedule(impatient()).await;
    claim(&world, "slow", "zonal", json!({DELAY_ANNOTATION: "1h"})).await;
    world.pod(pod_with("slow", "slow")).await;
    until("the node is selected", async || {
        let claim = claim_of(&world, "slow").await;
        if claim["metadata"]["annotations"][SELECTED_NODE].is_string() { Ok(()) } else { Err(claim) }
    })
    .await;
    for i in 0..5 {
        world.pod(pod(&format!("p{i}"), "plain")).await;
    }
    world.until_n_bound(5).await;
    scheduler.until("only the pod with the volume is in flight", |s| s.queue.in_flight == 1).await;
    assert_eq!(world.node_of("slow").await, "");
    let nominated =
        async |pod: &str| world.get(&format!("{PODS}/{pod}")).await["status"]["nominatedNodeName"].clone();
    let node = claim_of(&world, "slow").await["metadata"]["annotations"][SELECTED_NODE].clone();
    assert_eq!(nominated("slow").await, node, "other components see where the pod is going to be");
    assert_eq!(
        nominated("p0").await,
        Value::Null,
        "a pod that waits for nothing is bound without nomination"
    );
    // The wait ends with the pod.
    world.delete(&format!("{PODS}/slow")).await;
    scheduler.until("nothing is in flight", |s| s.n_queued() == 0 && s.n_pods == 5).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_cannot_be_provisioned_is_tried_again() {
    let world = World::start().await;
    world.nodes(2, 2, 10).await;
    classes(&world).await;
    controllers(&world);
    let scheduler = world.schedule(impatient()).await;
    claim(&world, "c", "zonal", json!({FAILURES_ANNOTATION: "2"})).await;
    world.pod(pod_with("p", "c")).await;
    let event = world.until_event("Pod", "p", "FailedScheduling").await;
    let note = "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"c\"";
    assert_eq!(event["note"], note);
    assert_eq!(event["reportingController"], "berth");
    world.until_bound("p").await;
    assert_eq!(scheduler.shows().n_errors, 2);
    verify_volumes(&world).await;
    scheduler.stopped().await;
}

/// The events of a pod and of its claim come in any order.
#[tokio::test(start_paused = true)]
async fn the_message_of_a_pod_said_that_its_claim_does_not_exist_while_no_volume_fitted_it() {
    let world = World::start().await;
    world.nodes(2, 2, 10).await;
    classes(&world).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(pod_with("p", "c")).await;
    world.until_refused_with("p", "persistentvolumeclaim \"c\" not found").await;
    let began = tokio::time::Instant::now();
    claim(&world, "c", "local", json!({})).await;
    world.until_refused_with("p", "node(s) didn't find available persistent volumes to bind").await;
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "not only when all unschedulable pods are decided again"
    );
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_is_not_bound_in_time_is_rolled_back() {
    let world = World::start().await;
    world.nodes(1, 1, 1).await;
    classes(&world).await;
    controllers(&world);
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]}],
    }));
    let settings = Settings { config: config.unwrap(), ..Settings::default() };
    let longest_backoff = Duration::from_secs(60);
    let options =
        SchedulerOptions { settings, first_backoff: longest_backoff, longest_backoff, ..impatient() };
    let scheduler = world.schedule(options).await;
    claim(&world, "slow", "zonal", json!({DELAY_ANNOTATION: "1h"})).await;
    world.pod(pod_with("slow", "slow")).await;
    let condition = world.until_refused("slow").await;
    assert_eq!(condition["reason"], "SchedulerError");
    let message = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert_eq!(condition["message"], message);
    let slow = world.get(&format!("{PODS}/slow")).await;
    assert_eq!(slow["status"]["nominatedNodeName"], Value::Null);
    // Its place is free again.
    world.pod(pod("plain", "a")).await;
    world.until_bound("plain").await;
    scheduler.stopped().await;
}

/// Members of a group whose volumes are being bound; the claim `slow` takes an hour.
async fn group_with_volumes(world: &World, claims: &[&str], timeout: u32) {
    let definition = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../deploy/kustomize/components/pod-groups/pod-group.yaml"
    ));
    let mut objects = Vec::new();
    let read = &mut |manifest: Manifest| -> Result<(), ReadError> {
        objects.push(manifest.value);
        Ok(())
    };
    read_manifests(definition.unwrap().as_bytes(), "pod-group.yaml", read).unwrap();
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", objects.remove(0)).await;
    let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"minMember": claims.len() + 1, "scheduleTimeoutSeconds": timeout}});
    world.create(POD_GROUPS, group).await;
    let labels = json!({"scheduling.x-k8s.io/pod-group": "g"});
    for name in claims {
        let annotations = match *name {
            "slow" => json!({DELAY_ANNOTATION: "1h"}),
            "failing" => json!({FAILURES_ANNOTATION: "1"}),
            _ => json!({}),
        };
        claim(world, name, "zonal", annotations).await;
        let mut pod = pod_with(name, name);
        pod["metadata"]["labels"] = labels.clone();
        world.pod(pod).await;
    }
    let mut plain = pod("plain", "x");
    plain["metadata"]["labels"] = labels;
    world.pod(plain).await;
}

const POD_GROUPS: &str = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups";

#[tokio::test(start_paused = true)]
async fn members_of_a_group_wait_for_the_volumes_of_others_and_are_taken_back_together() {
    let world = World::start().await;
    world.nodes(2, 1, 3).await;
    classes(&world).await;
    controllers(&world);
    let scheduler = world.schedule(impatient()).await;
    group_with_volumes(&world, &["fast", "slow"], 1).await;
    let condition = world.until_refused("plain").await;
    assert_eq!(condition["message"], "pod group default/g: volumes of members are not bound in time");
    assert_eq!(scheduler.shows().n_bound, 0);
    // A new claim is provisioned at once.
    world.delete(&format!("{PODS}/slow")).await;
    claim(&world, "quick", "zonal", json!({})).await;
    let mut pod = pod_with("quick", "quick");
    pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "g"});
    world.pod(pod).await;
    world.until_n_bound(3).await;
    until("the group is scheduled", async || {
        let phase = world.get(&format!("{POD_GROUPS}/g")).await["status"]["phase"].clone();
        if phase == "Scheduled" { Ok(()) } else { Err(phase) }
    })
    .await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    verify_volumes(&world).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_with_a_volume_that_cannot_be_provisioned_is_tried_again() {
    let world = World::start().await;
    world.nodes(2, 1, 3).await;
    classes(&world).await;
    controllers(&world);
    let scheduler = world.schedule(impatient()).await;
    group_with_volumes(&world, &["fast", "failing"], 60).await;
    world.until_n_bound(3).await;
    assert_eq!(scheduler.shows().n_errors, 1);
    verify_volumes(&world).await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_condition_of_a_group_with_failing_volumes_said_that_it_is_unschedulable() {
    let world = World::start().await;
    world.nodes(2, 1, 3).await;
    classes(&world).await;
    controllers(&world);
    let scheduler = world.schedule(impatient()).await;
    let groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
    world.create(groups, group).await;
    claim(&world, "failing", "zonal", json!({FAILURES_ANNOTATION: "1000000"})).await;
    let mut pod = pod_with("failing", "failing");
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    world.pod(pod).await;
    until("the condition has the reason", async || {
        let condition = world.get(&format!("{groups}/g")).await["status"]["conditions"][0].clone();
        if condition["reason"] == "SchedulerError" { Ok(()) } else { Err(condition) }
    })
    .await;
    scheduler.stopped().await;
}

/// A pod that waits for its volumes, for a local volume of `n0` or for a provisioned one; no controller runs.
async fn world_with_wait(class: &str) -> (World, Scheduler) {
    let world = World::start().await;
    world.nodes(1, 1, 10).await;
    classes(&world).await;
    local_volume(&world, "v", "n0").await;
    // As the controller would.
    let status = json!({"status": {"phase": "Available"}});
    world.patch(&format!("{VOLUMES}/v/status"), status).await;
    let scheduler = world.schedule(impatient()).await;
    claim(&world, "c", class, json!({})).await;
    world.pod(pod_with("p", "c")).await;
    scheduler.until("waiting", |s| s.queue.in_flight == 1).await;
    (world, scheduler)
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_is_deleted_while_it_waits_for_its_volume_returns_to_the_queue() {
    let (world, scheduler) = world_with_wait("local").await;
    until("the volume is reserved", async || {
        let volume = world.get(&format!("{VOLUMES}/v")).await;
        if volume["spec"]["claimRef"]["name"] == "c" { Ok(()) } else { Err(volume) }
    })
    .await;
    world.delete(&format!("{NODES}/n0")).await;
    let event = world.until_event("Pod", "p", "FailedScheduling").await;
    let note = "running PreBind plugin \"VolumeBinding\": binding volumes: failed to get node \"n0\": \
        node \"n0\" not found";
    assert_eq!(event["note"], note);
    scheduler.until("nothing is assumed", |s| s.queue.in_flight == 0 && s.n_pods == 0).await;
    // The next node of this name has the reserved volume.
    world.node("other", "z0", 10).await;
    world.node("n0", "z0", 10).await;
    controllers(&world);
    assert_eq!(world.until_bound("p").await, "n0");
    verify_volumes(&world).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_bound_to_its_node_if_the_provisioned_volume_is_elsewhere() {
    let (world, scheduler) = world_with_wait("zonal").await;
    until("the node is selected", async || {
        let claim = claim_of(&world, "c").await;
        if claim["metadata"]["annotations"][SELECTED_NODE] == "n0" { Ok(()) } else { Err(claim) }
    })
    .await;
    // A provisioner that ignores the selected node.
    world.node("n1", "z1", 10).await;
    let uid = claim_of(&world, "c").await["metadata"]["uid"].clone();
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "wrong"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "zonal",
            "csi": {"driver": "d", "volumeHandle": "h"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": uid},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1"]}]}]}}}});
    world.create(VOLUMES, volume).await;
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "wrong"}});
    world.patch(&format!("{CLAIMS}/c"), bound).await;
    let event = world.until_event("Pod", "p", "FailedScheduling").await;
    let note = "running PreBind plugin \"VolumeBinding\": binding volumes: pv \"wrong\" node affinity doesn't match \
        node \"n0\": no matching NodeSelectorTerms";
    assert_eq!(event["note"], note);
    let phase = json!({"status": {"phase": "Bound"}});
    world.patch(&format!("{CLAIMS}/c/status"), phase).await;
    assert_eq!(world.until_bound("p").await, "n1");
    verify_volumes(&world).await;
    scheduler.stopped().await;
}

/// The leader is killed after it has started to bind volumes; the controllers start afterwards.
#[tokio::test(start_paused = true)]
async fn the_next_leader_continues_where_volumes_were_being_bound() {
    let world = World::start().await;
    world.nodes(6, 3, 10).await;
    classes(&world).await;
    for i in 0..3 {
        local_volume(&world, &format!("v{i}"), &format!("n{i}")).await;
        // As the controller would, which is not running yet.
        let status = json!({"status": {"phase": "Available"}});
        world.patch(&format!("{VOLUMES}/v{i}/status"), status).await;
    }
    let proxy = world.proxy();
    let first = start_scheduler(proxy.connection(), replica("first")).await;
    first.until("leader", |s| s.leads && s.is_ready()).await;
    let second = world.schedule(replica("second")).await;
    second.until("waiting for the lease", |s| s.is_ready()).await;
    for (name, class) in [("l0", "local"), ("l1", "local"), ("z0", "zonal"), ("z1", "zonal")] {
        claim(&world, name, class, json!({})).await;
        world.pod(pod_with(name, name)).await;
    }
    let selected =
        async |name: &str| claim_of(&world, name).await["metadata"]["annotations"][SELECTED_NODE].clone();
    let reserved = async || {
        let volumes = world.list(VOLUMES).await;
        let of = |v: &Value| {
            let claim = v["spec"]["claimRef"]["name"].as_str()?;
            Some((claim.to_owned(), v["metadata"]["name"].as_str()?.to_owned()))
        };
        volumes.iter().filter_map(of).collect::<HashMap<_, _>>()
    };
    until("all is written", async || {
        let nodes = [selected("z0").await, selected("z1").await];
        if reserved().await.len() == 2 && nodes.iter().all(Value::is_string) { Ok(()) } else { Err(nodes) }
    })
    .await;
    let (nodes, volumes) = ([selected("z0").await, selected("z1").await], reserved().await);
    first.handle.abort();
    proxy.rule(|_| Fault::Hang);
    second.until("leader", |s| s.leads).await;
    controllers(&world);
    world.until_n_bound(4).await;
    assert_eq!(nodes, [world.node_of("z0").await, world.node_of("z1").await]);
    for claim in ["l0", "l1"] {
        assert_eq!(claim_of(&world, claim).await["spec"]["volumeName"], volumes[claim], "{volumes:?}");
    }
    verify_volumes(&world).await;
    second.until("no pod is queued", |s| s.n_queued() == 0).await;
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn writes_of_volumes_that_fail_are_tried_again() {
    let world = World::start().await;
    world.nodes(3, 3, 10).await;
    classes(&world).await;
    controllers(&world);
    let proxy = world.proxy();
    let mut n = 0;
    proxy.rule(move |request| {
        if request.method != Method::PATCH || !request.uri.path().contains("persistentvolume") {
            return Fault::None;
        }
        n += 1;
        match n % 5 {
            0 => Fault::Answer(500),
            2 => Fault::LoseAnswer,
            4 => Fault::Answer(409),
            _ => Fault::None,
        }
    });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    for i in 0..10 {
        let class = if i % 2 == 0 { "zonal" } else { "local" };
        if class == "local" {
            local_volume(&world, &format!("v{i}"), &format!("n{}", i % 3)).await;
        }
        claim(&world, &format!("c{i}"), class, json!({})).await;
        world.pod(pod_with(&format!("p{i}"), &format!("c{i}"))).await;
    }
    world.until_n_bound(10).await;
    scheduler.until("no pod is queued", |s| s.n_queued() == 0).await;
    verify_volumes(&world).await;
    assert!(proxy.n_faults() >= 3, "this showed nothing");
    scheduler.stopped().await;
}
