//! Nodes: registration, heartbeats, adoption, stop and start, deletion.

use std::sync::Arc;
use std::time::Duration;

use berth_faults::Fault;
use berth_faults::observe::send;
use berth_kubelet::{Adopt, ControlError, CsiDriverTemplate, Heartbeat, KubeletOptions, NodeCredentials};
use http::Method;
use serde_json::{Value, json};

use crate::world::{NODES, World, condition, is_true, node, quick, until};

fn with_heartbeat(options: KubeletOptions, lease: Duration, status: Duration) -> KubeletOptions {
    let heartbeat = Heartbeat { lease_interval: lease, status_interval: status, ..options.heartbeat };
    KubeletOptions { heartbeat, ..options }
}

const SOON: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn nodes_register_and_are_ready() {
    let world = World::with_nodes(quick(3)).await;
    let list = world.get("/api/v1/nodes").await;
    let nodes = list["items"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|n| n["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node-1", "node-2", "node-3"]);
    for node in nodes {
        assert!(is_true(node, "Ready"), "{node:#}");
        let status = &node["status"];
        assert_eq!(status["allocatable"]["cpu"], "4");
        assert_eq!(status["capacity"]["pods"], "110");
        assert_eq!(status["nodeInfo"]["operatingSystem"], "linux");
        assert_eq!(status["addresses"][1]["address"], node["metadata"]["name"]);
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels["kubernetes.io/hostname"], node["metadata"]["name"]);
        assert_eq!(labels["topology.kubernetes.io/region"], "region-1");
    }
    assert_eq!(nodes[2]["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-1");
    let ip = |i: usize| nodes[i]["status"]["addresses"][0]["address"].as_str().unwrap().to_owned();
    assert!(ip(0) != ip(1) && ip(1) != ip(2), "{} {} {}", ip(0), ip(1), ip(2));
}

#[tokio::test(start_paused = true)]
async fn simulated_nodes_may_have_labels_that_a_node_may_not_set_itself() {
    let mut options = quick(1);
    let role = ("node-role.kubernetes.io/worker".to_owned(), String::new());
    let restricted = ("node-restriction.kubernetes.io/pool".to_owned(), "a".to_owned());
    options.templates[0].labels = [role, restricted].into();
    let world = World::with_nodes(options).await;
    let labels = world.node("node-1").await["metadata"]["labels"].clone();
    assert_eq!(labels["node-role.kubernetes.io/worker"], "");
    assert_eq!(labels["node-restriction.kubernetes.io/pool"], "a");
}

#[tokio::test(start_paused = true)]
async fn leases_are_created_and_renewed() {
    let world = World::with_nodes(with_heartbeat(quick(2), SOON, Duration::from_secs(300))).await;
    let renewed = async || match world.lease_renewed("node-2").await {
        Value::Null => Err("no Lease".to_owned()),
        time => Ok(time),
    };
    let first = until("a Lease", renewed).await;
    until("the Lease is renewed", async || {
        let now = world.lease_renewed("node-2").await;
        if now == first { Err(now.to_string()) } else { Ok(()) }
    })
    .await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-2";
    let found = world.get(lease).await;
    assert_eq!(found["spec"]["holderIdentity"], "node-2");
    assert_eq!(found["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(found["metadata"]["ownerReferences"][0]["name"], "node-2");
    // A deleted Lease is created again.
    world.delete(lease).await;
    until("a Lease again", renewed).await;
}

#[tokio::test(start_paused = true)]
async fn changes_by_users_stay() {
    let world = World::with_nodes(with_heartbeat(quick(1), SOON, SOON)).await;
    let change = json!({
        "metadata": { "labels": { "disk": "ssd", "topology.kubernetes.io/zone": "zone-9" } },
        "spec": { "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] },
    });
    world.patch(&node("node-1"), change).await;
    let heartbeat = |node: &Value| condition(node, "Ready").unwrap()["lastHeartbeatTime"].clone();
    // Heartbeats are in seconds of the wall clock: the last one was earlier.
    let before = json!("2026-01-01T00:00:00Z");
    let earlier = json!({"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": before}]}});
    let status = format!("{}/status", node("node-1"));
    world.patch_as("application/strategic-merge-patch+json", &status, earlier).await.unwrap();
    let after = world.node_when("node-1", "another heartbeat", |node| heartbeat(node) != before).await;
    assert_eq!(after["metadata"]["labels"]["disk"], "ssd");
    assert_eq!(after["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-9");
    assert_eq!(after["spec"]["unschedulable"], true);
    assert_eq!(after["spec"]["taints"][0]["key"], "k");
    let since = |node: &Value| condition(node, "Ready").unwrap()["lastTransitionTime"].clone();
    assert!(since(&after).is_string());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_marked_not_ready_reports_again() {
    let world = World::with_nodes(quick(1)).await;
    let unknown = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown" },
    ]}});
    world.patch(&format!("{}/status", node("node-1")), unknown).await;
    world.node_when("node-1", "Ready", |node| is_true(node, "Ready")).await;
}

#[tokio::test(start_paused = true)]
async fn existing_nodes_are_adopted_as_they_are() {
    let mut world = World::empty().await;
    let create = async |name: &str, labels: Value, status: Value| {
        let body = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels }, "status": status,
        });
        world.create("/api/v1/nodes", body).await;
    };
    let capacity = json!({
        "capacity": { "cpu": "64", "memory": "1Ti", "pods": "10" }, "nodeInfo": { "kernelVersion": "6.8.0" },
    });
    create("node-1", json!({ "own": "label" }), capacity.clone()).await;
    create("big", json!({ "pool": "mine" }), capacity).await;
    create("bare", json!({ "pool": "mine" }), json!({})).await;
    create("foreign", json!({ "pool": "other" }), json!({})).await;
    let adopt = Adopt::Selected { labels: "pool=mine".to_owned(), names: Vec::new() };
    world.start_nodes(KubeletOptions { adopt, ..quick(2) }).await;

    for name in ["node-1", "node-2", "big", "bare"] {
        let offers = |node: &Value| node["status"]["allocatable"]["cpu"].is_string();
        let ready = |node: &Value| is_true(node, "Ready") && offers(node);
        world.node_when(name, "ready, with resources", ready).await;
    }
    let taken_over = world.node("node-1").await;
    assert_eq!(taken_over["metadata"]["labels"]["own"], "label");
    assert_eq!(taken_over["status"]["allocatable"]["cpu"], "64");
    let info = &taken_over["status"]["nodeInfo"];
    assert_eq!((&info["kernelVersion"], &info["kubeletVersion"]), (&json!("6.8.0"), &json!("v1.37.0")));
    let with_hostname = |node: &Value| node["metadata"]["labels"]["kubernetes.io/hostname"] == "big";
    world.node_when("big", "the labels of a kubelet", with_hostname).await;
    assert_eq!(world.node("bare").await["status"]["allocatable"]["cpu"], "4");
    assert_eq!(condition(&world.node("foreign").await, "Ready"), None);
    assert_eq!(world.control().status().nodes, 4);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_created_later_is_adopted_with_its_pods() {
    let world = World::with_nodes(KubeletOptions { adopt: Adopt::All, ..quick(1) }).await;
    // Bound before the node exists, so no watch event reports it after the node is created.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "early" },
        "spec": { "nodeName": "late", "containers": [{ "name": "c", "image": "i" }] },
    });
    world.create(crate::world::PODS, pod).await;
    let late = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "late" } });
    world.create("/api/v1/nodes", late).await;
    world.node_when("late", "Ready", |node| is_true(node, "Ready")).await;
    world.pod_in_phase("early", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn pods_start_although_another_request_fails_during_the_registration() {
    let mut world = World::empty().await;
    let proxy = world.proxy();
    let (mut is_first_node, mut is_first_csi_node) = (true, true);
    proxy.rule(move |request| match (request.method.as_str(), request.uri.path()) {
        ("POST", "/api/v1/nodes") if std::mem::take(&mut is_first_node) => Fault::HangAfter,
        ("POST", "/apis/storage.k8s.io/v1/csinodes") if std::mem::take(&mut is_first_csi_node) => {
            Fault::Answer(500)
        }
        _ => Fault::None,
    });
    // The watch reports the node before its registration is answered, and the CSINode fails in between.
    let csi_drivers = vec![CsiDriverTemplate { name: "csi.example".to_owned(), limit: None }];
    let request_timeout = Duration::from_secs(1);
    let options = KubeletOptions { csi_drivers, request_timeout, ..quick(1) };
    world.start_nodes_through(proxy.connection(), options).await;
    world.bind("web", "node-1", json!({}), json!({})).await;
    world.pod_in_phase("web", "Running").await;
    assert_eq!(proxy.n_faults(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_uses_its_own_identity_and_may_not_change_others() {
    let mut world = World::empty().await;
    let tokens = world.node_tokens();
    let as_node_1 = world.client_as(&tokens("node-1").unwrap());
    let credentials = NodeCredentials::Tokens(Arc::new(tokens));
    world.start_nodes(KubeletOptions { credentials, ..quick(2) }).await;
    world.bind("p", "node-2", json!({}), json!({})).await;
    world.pod_in_phase("p", "Running").await;

    // The same identity may not write for another node, so the requests above had the node's own identity.
    let refused = async |method: Method, path: &str, body: Value| {
        send(&as_node_1, method, path, body).await.err().and_then(|error| error.code())
    };
    let status = json!({"status": {"capacity": {"cpu": "1"}}});
    assert_eq!(
        refused(Method::PATCH, &format!("{}/status", node("node-2")), status.clone()).await,
        Some(403)
    );
    assert_eq!(refused(Method::PATCH, &format!("{}/status", node("node-1")), status).await, None);
    let other = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3"}});
    assert_eq!(refused(Method::POST, NODES, other).await, Some(403));
    let path = format!("{}/status", crate::world::pod("p"));
    assert_eq!(refused(Method::PATCH, &path, json!({"status": {"phase": "Failed"}})).await, Some(403));
}

#[tokio::test(start_paused = true)]
async fn a_node_stops_and_starts() {
    let world = World::with_nodes(with_heartbeat(quick(2), SOON, Duration::from_secs(300))).await;
    world.bind("before", "node-1", json!({}), json!({})).await;
    world.pod_in_phase("before", "Running").await;
    let control = world.control();
    control.stop_node("node-1").await.unwrap();
    assert_eq!(control.status().nodes_ready, 1);
    world.bind("meanwhile", "node-1", json!({}), json!({})).await;
    world.delete_pod("before").await;
    let last = world.lease_renewed("node-1").await;
    // The other node continues its heartbeats, this one does not.
    let other = world.lease_renewed("node-2").await;
    until("the other node's Lease is renewed", async || {
        let now = world.lease_renewed("node-2").await;
        if now == other { Err(now.to_string()) } else { Ok(()) }
    })
    .await;
    assert_eq!(world.lease_renewed("node-1").await, last);
    assert_eq!(world.get(&crate::world::pod("meanwhile")).await["status"]["phase"], "Pending");
    assert!(world.find(&crate::world::pod("before")).await.is_some());

    control.start_node("node-1").await.unwrap();
    world.until_pod_gone("before").await;
    world.pod_in_phase("meanwhile", "Running").await;
    until("the Lease is renewed again", async || {
        let now = world.lease_renewed("node-1").await;
        if now == last { Err(now.to_string()) } else { Ok(()) }
    })
    .await;
    let unknown = control.stop_node("nobody").await.unwrap_err();
    assert_eq!(unknown, ControlError::UnknownNode { node: "nobody".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_adopted_when_it_is_created_again() {
    let world = World::with_nodes(with_heartbeat(quick(2), SOON, SOON)).await;
    world.delete(&node("node-1")).await;
    until("one node is handled", async || {
        let status = world.control().status();
        (status.nodes == 1 && status.nodes_ready == 1).then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
    assert!(world.find(&node("node-1")).await.is_none());
    let again = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1" } });
    world.create("/api/v1/nodes", again).await;
    world.node_when("node-1", "Ready", |node| is_true(node, "Ready")).await;
    world.bind("p", "node-1", json!({}), json!({})).await;
    world.pod_in_phase("p", "Running").await;
}

#[tokio::test]
async fn nodes_wait_for_a_server_that_starts_later() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dir = std::env::temp_dir().join(format!("berth-kubelet-{}-{}", std::process::id(), address.port()));
    let options = berth_apiserver::ServerOptions {
        listen: address,
        data_dir: Some(dir.clone()),
        ..berth_apiserver::ServerOptions::default()
    };
    // The first start creates the certificates, so that the client configuration is known before the server runs.
    drop(listener);
    let server = berth_apiserver::ApiServer::start(options.clone()).await.unwrap();
    let config = server.admin_config();
    server.shutdown().await;
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let kubelet = berth_kubelet::Kubelet::new(config, quick(1)).unwrap();
    let (control, stop) = (kubelet.control(), tokio_util::sync::CancellationToken::new());
    let task = tokio::spawn(kubelet.run(stop.clone()));
    // Its first attempt fails.
    drop(listener.accept().await.unwrap());
    drop(listener);
    assert_eq!(control.status().nodes_ready, 0);
    let server = berth_apiserver::ApiServer::start(options).await.unwrap();
    until("the node is ready", async || {
        let status = control.status();
        (status.nodes_ready == 1).then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
    stop.cancel();
    task.await.unwrap();
    server.shutdown().await;
    std::fs::remove_dir_all(dir).unwrap();
}
