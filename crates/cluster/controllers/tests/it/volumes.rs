//! Claims, volumes and the simulated provisioner.

use http::Method;
use serde_json::{Value, json};

use super::world::*;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn volume(name: &str, size: &str, spec: Value) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
            "hostPath": {"path": "/tmp"}}});
    json_patch::merge(&mut volume["spec"], &spec);
    volume
}

fn claim(name: &str, size: &str, spec: Value) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
    json_patch::merge(&mut claim["spec"], &spec);
    claim
}

fn pod(name: &str, volume: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "run"}], "volumes": [{"name": "data"}]}});
    json_patch::merge(&mut pod["spec"]["volumes"][0], &volume);
    pod
}

fn uses(claim: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": claim}})
}

fn is_bound(object: &Value) -> bool {
    object["status"]["phase"] == "Bound"
}

async fn until_event(world: &World, reason: &str) -> Value {
    let is_it = |event: &Value| event["reason"] == reason;
    let events = world.until_listed(reason, EVENTS, |events| events.iter().any(is_it)).await;
    events.into_iter().find(|event| is_it(event)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_to_existing_volumes_and_released() {
    let world = World::new(1).await;
    let of = json!({"claimRef": {"namespace": "default", "name": "reserving"}});
    for volume in [
        volume("large", "10Gi", json!({})),
        volume("small", "1Gi", json!({})),
        volume("reserved", "5Gi", of),
        volume("named", "4Gi", json!({})),
        volume("deleted", "2Gi", json!({"persistentVolumeReclaimPolicy": "Delete"})),
    ] {
        world.create(VOLUMES, &volume).await;
    }
    // The controller watches volumes and claims apart: it has to know all volumes before it chooses.
    let is_available = |volume: &Value| volume["status"]["phase"] == "Available";
    world.until_listed("available", VOLUMES, |volumes| volumes.iter().all(is_available)).await;
    let manual = json!({"storageClassName": "manual"});
    let by_name = json!({"storageClassName": "manual", "volumeName": "named"});
    // The class exists only in names: such claims are bound, never provisioned.
    for (name, size, spec, wanted) in [
        ("reserving", "1Gi", &manual, "reserved"),
        ("naming", "1Gi", &by_name, "named"),
        ("first", "1Gi", &manual, "small"),
        ("second", "1500Mi", &manual, "deleted"),
    ] {
        world.create(CLAIMS, &claim(name, size, spec.clone())).await;
        let claim = world.until(name, &format!("{CLAIMS}/{name}"), is_bound).await;
        assert_eq!(claim["spec"]["volumeName"], wanted);
        let annotations = &claim["metadata"]["annotations"];
        assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
        let by_controller = annotations["pv.kubernetes.io/bound-by-controller"] == "yes";
        assert_eq!(by_controller, name != "naming", "{claim}");
        let volume = world.until(wanted, &format!("{VOLUMES}/{wanted}"), is_bound).await;
        assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
        assert_eq!(claim["status"]["capacity"], volume["spec"]["capacity"]);
    }
    world.create(CLAIMS, &claim("huge", "1Ti", manual)).await;
    let event = until_event(&world, "ProvisioningFailed").await;
    assert_eq!(event["message"], "storageclass.storage.k8s.io \"manual\" not found");
    // A volume that comes later is found.
    world.create(VOLUMES, &volume("late", "1Ti", json!({}))).await;
    world.until("huge", &format!("{CLAIMS}/huge"), is_bound).await;

    world.delete(&format!("{CLAIMS}/first")).await;
    let path = format!("{VOLUMES}/small");
    world.until("released", &path, |volume| volume["status"]["phase"] == "Released").await;
    world.patch(&path, json!({"spec": {"claimRef": null}})).await;
    world.until("available again", &path, |volume| volume["status"]["phase"] == "Available").await;
    world.delete(&format!("{CLAIMS}/second")).await;
    let path = format!("{VOLUMES}/deleted");
    let failed =
        world.until("no plugin deletes it", &path, |volume| volume["status"]["phase"] == "Failed").await;
    assert!(failed["status"]["message"].as_str().unwrap().contains("no deletable volume plugin matched"));

    // A bound volume is protected; without its volume a claim is lost.
    let path = format!("{VOLUMES}/named");
    world.delete(&path).await;
    let kept = world.until("protected", &path, is_deleting).await;
    assert!(is_bound(&kept));
    world.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    world.until("lost", &format!("{CLAIMS}/naming"), |claim| claim["status"]["phase"] == "Lost").await;
    until_event(&world, "ClaimLost").await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_volume_is_never_bound_to_two_claims() {
    let world = World::new(1).await;
    for i in 0..10 {
        world.create(CLAIMS, &claim(&format!("c{i}"), "1Gi", json!({"storageClassName": "manual"}))).await;
    }
    for i in 0..10 {
        world.create(VOLUMES, &volume(&format!("v{i}"), "1Gi", json!({}))).await;
    }
    let claims = world.until_listed("bound", CLAIMS, |claims| claims.iter().all(is_bound)).await;
    let volumes = world.until_listed("bound", VOLUMES, |volumes| volumes.iter().all(is_bound)).await;
    for volume in &volumes {
        let bound = claims.iter().filter(|claim| claim["spec"]["volumeName"] == name(volume).as_str());
        let uids: Vec<_> = bound.map(|claim| &claim["metadata"]["uid"]).collect();
        assert_eq!(uids, [&volume["spec"]["claimRef"]["uid"]]);
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn volumes_are_provisioned_in_the_zone_of_the_first_consumer() {
    let world = World::new(3).await;
    let standard = world.get(&format!("{CLASSES}/standard")).await;
    assert_eq!(standard["volumeBindingMode"], "WaitForFirstConsumer");
    let mut data = claim("data", "1Gi", json!({}));
    data["metadata"]["annotations"] = json!({"berth.dev/provisioning-failures": "2"});
    let created = world.create(CLAIMS, &data).await;
    assert_eq!(created["spec"]["storageClassName"], "standard", "the default class");
    let waiting = until_event(&world, "WaitForFirstConsumer").await;
    assert_eq!(waiting["message"], "waiting for first consumer to be created before binding");
    world.create(PODS, &pod("p", uses("data"))).await;
    let pod = world.until("runs", &format!("{PODS}/p"), is_ready).await;
    let failed = until_event(&world, "ProvisioningFailed").await;
    assert_eq!(
        failed["message"],
        "failed to provision volume with StorageClass \"standard\": rpc error: code = ResourceExhausted desc = \
         simulated failure"
    );
    let claim = world.get(&format!("{CLAIMS}/data")).await;
    let path = format!("{VOLUMES}/{}", claim["spec"]["volumeName"].as_str().unwrap());
    let volume = world.get(&path).await;
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let zone = &terms[0]["matchExpressions"][0];
    assert_eq!(
        (&zone["key"], &zone["values"]),
        (&json!("topology.kubernetes.io/zone"), &json!([pod["spec"]["nodeName"]]))
    );
    assert_eq!(pod["metadata"]["labels"]["topology.kubernetes.io/zone"], pod["spec"]["nodeName"]);

    // The claim stays while the pod uses it; then its volume is deleted with it.
    world.delete(&format!("{CLAIMS}/data")).await;
    world.until("protected", &format!("{CLAIMS}/data"), is_deleting).await;
    world.delete(&format!("{PODS}/p")).await;
    world.until_gone(&format!("{CLAIMS}/data")).await;
    world.until_gone(&path).await;

    // Without a selected node some zone is used.
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "now"},
        "provisioner": "csi.example.com", "reclaimPolicy": "Retain"});
    world.create(CLASSES, &class).await;
    world.create(CLAIMS, &self::claim("now", "1Gi", json!({"storageClassName": "now"}))).await;
    let claim = world.until("now", &format!("{CLAIMS}/now"), is_bound).await;
    let volume = claim["spec"]["volumeName"].as_str().unwrap();
    let volume = world.get(&format!("{VOLUMES}/{volume}")).await;
    assert_eq!(volume["spec"]["csi"]["driver"], "csi.example.com");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn ephemeral_volumes_live_as_long_as_their_pod() {
    let world = World::new(1).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": claim("", "1Gi", json!({}))["spec"]});
    let ephemeral = json!({"ephemeral": {"volumeClaimTemplate": template}});
    world.create(CLAIMS, &claim("taken-data", "1Gi", json!({}))).await;
    world.create(PODS, &pod("taken", ephemeral.clone())).await;
    let event = until_event(&world, "FailedBinding").await;
    assert_eq!(
        event["message"],
        "ephemeral volume data: PVC default/taken-data was not created for pod default/taken (pod is not owner)"
    );
    world.create(PODS, &pod("p", ephemeral)).await;
    let pod = world.until("runs", &format!("{PODS}/p"), is_ready).await;
    let claim = world.get(&format!("{CLAIMS}/p-data")).await;
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
    world.delete(&format!("{PODS}/p")).await;
    world.until_gone(&format!("{CLAIMS}/p-data")).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_gets_its_volumes_back_unless_its_policy_deletes_them() {
    let world = World::new(3).await;
    let db = format!("{STATEFUL_SETS}/db");
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "run"),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim("", "1Gi", json!({}))["spec"]}],
    }});
    world.create(STATEFUL_SETS, &set).await;
    let scaled = async |n: usize| {
        world.patch(&db, json!({"spec": {"replicas": n}})).await;
        world.until_listed("scaled", PODS, |pods| pods.len() == n && pods.iter().all(is_ready)).await
    };
    let volumes = async || -> Vec<Value> {
        let claims = world.list(CLAIMS).await;
        claims.iter().map(|claim| json!([name(claim), claim["spec"]["volumeName"]])).collect()
    };
    let nodes = |pods: &[Value]| pods.iter().map(|pod| pod["spec"]["nodeName"].clone()).collect::<Vec<_>>();
    let (placed, bound) = (nodes(&scaled(3).await), volumes().await);
    scaled(1).await;
    assert_eq!(volumes().await, bound, "claims are kept");
    assert_eq!(nodes(&scaled(3).await), placed, "the pods are at their volumes");
    assert_eq!(volumes().await, bound);

    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    world.patch(&db, json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}})).await;
    scaled(2).await;
    world.until_gone(&format!("{CLAIMS}/data-db-2")).await;
    world.until_listed("deleted with the claim", VOLUMES, |volumes| volumes.len() == 2).await;
    scaled(3).await;
    let again = volumes().await;
    assert_eq!(again[..2], bound[..2]);
    assert_ne!(again[2], bound[2], "a new volume");
    world.delete(&db).await;
    world.until_listed("deleted with the set", CLAIMS, |claims| claims.is_empty()).await;
    world.until_listed("deleted with the claims", VOLUMES, |volumes| volumes.is_empty()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_bound_claim_grows_if_its_class_allows_it() {
    let world = World::new(1).await;
    for (name, expands) in [("expands", true), ("fixed", false)] {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "csi.berth.dev", "allowVolumeExpansion": expands});
        world.create(CLASSES, &class).await;
        world.create(CLAIMS, &claim(name, "1Gi", json!({"storageClassName": name}))).await;
        world.until(name, &format!("{CLAIMS}/{name}"), is_bound).await;
    }
    let larger = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
    let refused = world.send(Method::PATCH, &format!("{CLAIMS}/fixed"), &larger).await.unwrap_err();
    assert_eq!(refused.code(), Some(403));
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
        support resize";
    assert_eq!(refused.message(), format!("persistentvolumeclaims \"fixed\" is forbidden: {why}"));
    world.patch(&format!("{CLAIMS}/expands"), &larger).await;
    let has_grown = |claim: &Value| claim["status"]["capacity"]["storage"] == "3Gi";
    let claim = world.until("grown", &format!("{CLAIMS}/expands"), has_grown).await;
    let volume = format!("{VOLUMES}/{}", claim["spec"]["volumeName"].as_str().unwrap());
    world.until("grown", &volume, |volume| volume["spec"]["capacity"]["storage"] == "3Gi").await;
}
