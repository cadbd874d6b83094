//! Lifecycles of pods: running, completion, deletion.

use std::time::Duration;

use berth_kubelet::{KubeletOptions, PodTimings};
use serde_json::{Value, json};

use crate::world::{PODS, World, condition, is_true, pod, quick, until};

fn annotated(pairs: &[(&str, &str)]) -> Value {
    let pairs: serde_json::Map<_, _> =
        pairs.iter().map(|(k, v)| (format!("berth.dev/{k}"), json!(v))).collect();
    json!({ "annotations": pairs })
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs() {
    let world = World::with_nodes(quick(2)).await;
    world.bind("a", "node-1", json!({}), json!({})).await;
    world.bind("b", "node-2", json!({}), json!({})).await;
    world.bind("host", "node-2", json!({}), json!({ "hostNetwork": true })).await;
    let a = world.pod_in_phase("a", "Running").await;
    let b = world.pod_in_phase("b", "Running").await;
    let host = world.pod_in_phase("host", "Running").await;
    for type_ in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
        assert!(is_true(&a, type_), "{type_}: {a:#}");
    }
    let container = &a["status"]["containerStatuses"][0];
    assert_eq!((&container["name"], &container["ready"]), (&json!("c"), &json!(true)));
    assert!(container["state"]["running"]["startedAt"].is_string(), "{container:#}");
    assert!(a["status"]["startTime"].is_string());
    assert_ne!(a["status"]["podIP"], b["status"]["podIP"]);
    assert!(a["status"]["podIP"].as_str().unwrap().starts_with("10."), "{a:#}");
    let node = world.node("node-2").await;
    assert_eq!(b["status"]["hostIP"], node["status"]["addresses"][0]["address"]);
    assert_eq!(host["status"]["podIP"], b["status"]["hostIP"]);
    let status = world.control().status();
    assert_eq!((status.pods_running, status.pods_ready), (3, 3), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready_later_and_init_containers_come_first() {
    let world = World::with_nodes(quick(1)).await;
    let metadata = annotated(&[("init-run-for", "100ms"), ("ready-after", "200ms")]);
    let spec = json!({ "initContainers": [{ "name": "i", "image": "i" }] });
    world.bind("p", "node-1", metadata, spec).await;
    world.pod_when("p", "initializes", |p| p["status"]["initContainerStatuses"].is_array()).await;
    let running = world.pod_in_phase("p", "Running").await;
    let init = &running["status"]["initContainerStatuses"][0];
    assert_eq!(init["state"]["terminated"]["reason"], "Completed", "{running:#}");
    let ready = world.pod_when("p", "ready", |p| is_true(p, "Ready")).await;
    assert!(is_true(&ready, "PodScheduled"), "{ready:#}");
}

#[tokio::test(start_paused = true)]
async fn pods_that_run_to_completion_end() {
    let world = World::with_nodes(quick(1)).await;
    let never = json!({ "restartPolicy": "Never" });
    world.bind("succeeds", "node-1", json!({}), never.clone()).await;
    world.bind("fails", "node-1", annotated(&[("exit-code", "3")]), never).await;
    let on_failure = json!({ "restartPolicy": "OnFailure" });
    world.bind("recovers", "node-1", annotated(&[("exit-code", "1,1,0")]), on_failure).await;
    let succeeded = world.pod_in_phase("succeeds", "Succeeded").await;
    assert_eq!(condition(&succeeded, "Ready").unwrap()["reason"], "PodCompleted");
    let failed = world.pod_in_phase("fails", "Failed").await;
    assert_eq!(failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    let recovered = world.pod_in_phase("recovers", "Succeeded").await;
    assert_eq!(recovered["status"]["containerStatuses"][0]["restartCount"], 2, "{recovered:#}");
    until("nothing runs any more", async || {
        let status = world.control().status();
        (status.pods_running == 0 && status.pods_ended == 3).then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_the_containers_to_end() {
    let timings = PodTimings { stop_after: Duration::from_secs(2), ..quick(1).pods };
    let world = World::with_nodes(KubeletOptions { pods: timings, ..quick(1) }).await;
    world.bind("p", "node-1", json!({}), json!({})).await;
    world.pod_in_phase("p", "Running").await;
    world.delete_pod("p").await;
    let ending = world.get(&pod("p")).await;
    assert!(ending["metadata"]["deletionTimestamp"].is_string(), "{ending:#}");
    assert_eq!(ending["status"]["phase"], "Running");
    world.until_pod_gone("p").await;
    until("the pod is not counted any more", async || {
        let status = world.control().status();
        (status.pods_running == 0).then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_finalizers_reports_its_end_and_stays() {
    let world = World::with_nodes(quick(1)).await;
    world.bind("p", "node-1", json!({ "finalizers": ["example.com/keep"] }), json!({})).await;
    world.pod_in_phase("p", "Running").await;
    world.delete_pod("p").await;
    let ended = world.pod_in_phase("p", "Succeeded").await;
    assert!(ended["status"]["containerStatuses"][0]["state"]["terminated"].is_object(), "{ended:#}");
    assert!(ended["status"]["podIP"].is_string(), "{ended:#}");
    world.patch(&pod("p"), json!({ "metadata": { "finalizers": null } })).await;
    world.until_pod_gone("p").await;
}

#[tokio::test(start_paused = true)]
async fn ended_pods_and_pods_that_never_started_are_removed() {
    let timings = PodTimings { start_after: Duration::from_secs(3600), ..quick(1).pods };
    let world = World::with_nodes(KubeletOptions { pods: timings, ..quick(1) }).await;
    let at_once = annotated(&[("start-after", "0")]);
    world.bind("ended", "node-1", at_once, json!({ "restartPolicy": "Never" })).await;
    world.pod_in_phase("ended", "Succeeded").await;
    world.bind("waiting", "node-1", json!({}), json!({})).await;
    let waiting =
        |p: &Value| p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating";
    world.pod_when("waiting", "ContainerCreating", waiting).await;
    world.delete_pod("ended").await;
    world.delete_pod("waiting").await;
    world.until_pod_gone("ended").await;
    world.until_pod_gone("waiting").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_in_container_creating_until_its_containers_run() {
    let world = World::with_nodes(quick(1)).await;
    let list = world.get(PODS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    world.bind("p", "node-1", annotated(&[("start-after", "1s")]), json!({})).await;
    world.pod_in_phase("p", "Running").await;
    // All changes since the start, so that the test does not depend on when it looks.
    let history = format!("{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let history = http::Request::get(history).body(Vec::new()).unwrap();
    let history = world.client.request_text(history).await.unwrap();
    let reasons = history.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        let state = &event["object"]["status"]["containerStatuses"][0]["state"];
        state["waiting"]["reason"].as_str().map(str::to_owned)
    });
    assert_eq!(reasons.collect::<Vec<_>>(), ["ContainerCreating"]);
}

#[tokio::test(start_paused = true)]
async fn readiness_gates_are_respected() {
    let world = World::with_nodes(quick(1)).await;
    let spec = json!({ "readinessGates": [{ "conditionType": "example.com/gate" }] });
    world.bind("p", "node-1", json!({}), spec).await;
    let running = world.pod_in_phase("p", "Running").await;
    assert!(!is_true(&running, "Ready") && is_true(&running, "ContainersReady"), "{running:#}");
    let mut conditions = running["status"]["conditions"].clone();
    let gate = json!({ "type": "example.com/gate", "status": "True" });
    conditions.as_array_mut().unwrap().push(gate);
    world.patch(&format!("{}/status", pod("p")), json!({ "status": { "conditions": conditions } })).await;
    world.pod_when("p", "ready", |p| is_true(p, "Ready")).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_resumes_running_pods() {
    let mut world = World::with_nodes(quick(2)).await;
    let labels = json!({ "labels": { "app": "a" } });
    let spec = json!({ "nodeSelector": { "topology.kubernetes.io/zone": "zone-1" } });
    world.bind("runs", "node-1", labels, spec).await;
    let before = world.pod_in_phase("runs", "Running").await;
    world.stop_nodes().await;
    // In the meantime: a binding, a deletion, and a node that no longer satisfies the rules of its pod.
    let zone = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "zone-2" } } });
    world.patch(&crate::world::node("node-1"), zone).await;
    world.bind("bound", "node-1", json!({}), json!({})).await;
    world.start_nodes(quick(2)).await;
    let bound = world.pod_in_phase("bound", "Running").await;
    let after = world.get(&pod("runs")).await;
    assert_eq!(
        after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
        "nothing is rewritten"
    );
    assert_ne!(bound["status"]["podIP"], after["status"]["podIP"]);
    world.delete_pod("runs").await;
    world.until_pod_gone("runs").await;
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_is_another_pod() {
    let world = World::with_nodes(quick(2)).await;
    world.bind("p", "node-1", json!({}), json!({})).await;
    let first = world.pod_in_phase("p", "Running").await;
    let at_once = json!({ "gracePeriodSeconds": 0 });
    world.delete_with(&pod("p"), at_once).await;
    world.bind("p", "node-2", json!({}), json!({})).await;
    let second = world.pod_in_phase("p", "Running").await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_ne!(first["status"]["hostIP"], second["status"]["hostIP"]);
}

#[tokio::test(start_paused = true)]
async fn events_are_recorded_when_enabled() {
    let world = World::with_nodes(KubeletOptions { events: true, ..quick(1) }).await;
    world.bind("p", "node-1", json!({}), json!({})).await;
    until("the events of a start", async || {
        let events = world.list("/api/v1/namespaces/default/events").await;
        let about = events.iter().filter(|e| e["involvedObject"]["name"] == "p");
        let reasons: Vec<_> = about.map(|e| e["reason"].as_str().unwrap_or_default().to_owned()).collect();
        let all = ["Pulled", "Created", "Started"].iter().all(|r| reasons.iter().any(|found| found == r));
        if all { Ok(()) } else { Err(format!("{reasons:?}")) }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_pods_on_many_nodes_settle_with_addresses_of_their_own() {
    const N_PODS: usize = 200;
    let world = World::with_nodes(quick(50)).await;
    let bound = (0..N_PODS).map(|i| {
        let (world, node) = (&world, format!("node-{:02}", i % 50 + 1));
        async move { world.bind(&format!("p-{i}"), &node, json!({}), json!({})).await }
    });
    futures::future::join_all(bound).await;
    let list = until("all pods are ready", async || {
        let pods = world.list(PODS).await;
        let n_ready = pods.iter().filter(|p| is_true(p, "Ready")).count();
        if n_ready == N_PODS { Ok(pods) } else { Err(format!("{n_ready} ready")) }
    })
    .await;
    let ips: std::collections::HashSet<_> = list.iter().map(|p| p["status"]["podIP"].to_string()).collect();
    assert_eq!(ips.len(), N_PODS);
    let status = world.control().status();
    assert_eq!((status.pods_ready, status.nodes_ready), (N_PODS, 50), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_allocated_or_deferred() {
    let mut options = quick(1);
    options.pods.start_after = Duration::from_millis(300);
    let world = World::with_nodes(options).await;
    let cpu = |cpu: &str| json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
    world.bind("p", "node-1", json!({}), cpu("1")).await;
    world.bind("other", "node-1", json!({}), cpu("2")).await;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    let running = world.pod_in_phase("p", "Running").await;
    world.pod_in_phase("other", "Running").await;
    assert_eq!(container(&running)["allocatedResources"], json!({"cpu": "1"}));
    assert_eq!(container(&running)["resources"], json!({"requests": {"cpu": "1"}}));
    let resize = async |cpu: &str| {
        let path = format!("{}/resize", pod("p"));
        let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
        world.patch(&path, json!({"spec": {"containers": containers}})).await
    };
    let is = |pod: &Value, reason: &str, message: &str| {
        condition(pod, "PodResizePending").is_some_and(|c| c["reason"] == reason && c["message"] == message)
    };
    // The API server refuses what does not fit on the node; here, the node becomes smaller after that.
    let has_cpus = async |cpu: &str| {
        let status = json!({"status": {"allocatable": {"cpu": cpu}}});
        world.patch("/api/v1/nodes/node-1/status", status).await
    };
    has_cpus("8").await;
    resize("7").await;
    let why = "Node didn't have enough resource: cpu, requested: 7000, used: 2000, capacity: 8000";
    world.pod_when("p", "deferred", |pod| is(pod, "Deferred", why)).await;
    has_cpus("4").await;
    let never = "Node didn't have enough capacity: cpu, requested: 7000, capacity: 4000";
    world.pod_when("p", "infeasible", |pod| is(pod, "Infeasible", never)).await;
    has_cpus("8").await;
    world.pod_when("p", "deferred again", |pod| is(pod, "Deferred", why)).await;
    has_cpus("4").await;
    world.pod_when("p", "infeasible again", |pod| is(pod, "Infeasible", never)).await;
    let resized = resize("3").await;
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"]["cpu"], "3");
    let why = "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000";
    world.pod_when("p", "deferred", |pod| is(pod, "Deferred", why)).await;
    world.delete_pod("other").await;
    let in_progress = world.pod_when("p", "in progress", |pod| is_true(pod, "PodResizeInProgress")).await;
    assert_eq!(container(&in_progress)["allocatedResources"], json!({"cpu": "3"}));
    assert_eq!(container(&in_progress)["resources"], json!({"requests": {"cpu": "1"}}));
    assert!(condition(&in_progress, "PodResizePending").is_none());
    let done = world.pod_when("p", "resized", |pod| condition(pod, "PodResizeInProgress").is_none()).await;
    assert_eq!(container(&done)["resources"], json!({"requests": {"cpu": "3"}}));
    assert_eq!(container(&done)["restartCount"], 0);
}
