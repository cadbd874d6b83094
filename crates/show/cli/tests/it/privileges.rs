//! Least privilege: each component runs as its service account with the roles of `deploy/`, does all its work without a
//! rejected request, and uses all its permissions.

mod drop_in;
mod world;

use std::net::SocketAddr;
use std::time::Duration;

use berth_client::call;
use berth_client::lease::LeaseOptions;
use berth_client::serving::{SecureServingOptions, ServingOptions};
use berth_enforcer::{EnforcerOptions, RebalanceOptions};
use berth_rebalance::{Goal, Request};
use berth_scheduler::{SchedulerOptions, Status};
use berth_serve::CertificateSource;
use berth_testkit::programs::TempDir;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use world::{NAMESPACE, Requests, Right, World, right};

use crate::client::eventually;
use crate::process::{Berth, DEADLINE};

fn lease(part: &str) -> LeaseOptions {
    LeaseOptions { retry_period: Duration::from_millis(50), ..LeaseOptions::new(NAMESPACE, part, "test") }
}

async fn start_scheduler(world: &World, stop: &CancellationToken) -> berth_scheduler::Handle {
    let leader_election = Some(lease("berth-scheduler"));
    let options = SchedulerOptions { leader_election, serving: serving(), ..SchedulerOptions::default() };
    let config = world.config_of("berth-scheduler").await;
    berth_scheduler::start(config, options, stop.clone()).await.unwrap()
}

async fn wait_for(handle: &berth_scheduler::Handle, what: &str, is_so: impl Fn(&Status) -> bool) {
    let mut statuses = handle.status();
    let seen = tokio::time::timeout(DEADLINE, statuses.wait_for(|s| is_so(s))).await;
    assert!(seen.is_ok(), "not so in time: {what}: {:?}", handle.status().borrow());
}

/// Two pods, of which the second is preempted, and an unschedulable pod.
async fn schedule(world: &World, handle: &berth_scheduler::Handle) {
    world.node("a", "1", json!({})).await;
    world.pod("low", "berth", json!({}), "800m").await;
    wait_for(handle, "low is bound", |s| s.n_bound == 1).await;
    world.pod("high", "berth", json!({"priorityClassName": "high"}), "800m").await;
    wait_for(handle, "high is bound in the place of low", |s| s.n_bound == 2 && s.n_preempted == 1).await;
    world.pod("huge", "berth", json!({}), "64").await;
    wait_for(handle, "huge is found to be unschedulable", |s| s.n_unschedulable > 1).await;
    volumes(world).await;
    devices(world).await;
    pod_groups(world).await;
}

/// A pod with a claim of a device, and one whose extended resource is such a device.
async fn devices(world: &World) {
    let api = "/apis/resource.k8s.io/v1";
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let class = object("DeviceClass", "gpu", json!({"extendedResourceName": "example.com/gpu"}));
    world.create(&format!("{api}/deviceclasses"), class).await;
    let pool = json!({"name": "a", "generation": 1, "resourceSliceCount": 1});
    let slice = json!({"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": [{"name": "g0"}, {"name": "g1"}]});
    world.create(&format!("{api}/resourceslices"), object("ResourceSlice", "a", slice)).await;
    let requests = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
    let claim = object("ResourceClaim", "claim", requests);
    world.create(&format!("{api}/namespaces/default/resourceclaims"), claim).await;
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]});
    world.pod("claiming", "berth", claims, "10m").await;
    let resources = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "extended"},
        "spec": {"schedulerName": "berth", "containers": [{"name": "c", "image": "i", "resources": resources}]}});
    world.create("/api/v1/namespaces/default/pods", pod).await;
}

/// A pod in a PodGroup of each API group, and one whose group is that of its Job.
async fn pod_groups(world: &World) {
    world.define_pod_groups().await;
    let of = |group: &str, version: &str, spec| {
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": "PodGroup",
            "metadata": {"name": "g"}, "spec": spec});
        (format!("/apis/{group}/{version}/namespaces/default/podgroups"), object)
    };
    let gang = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
    for (path, object) in [
        of("scheduling.k8s.io", "v1beta1", gang),
        of("scheduling.x-k8s.io", "v1alpha1", json!({"minMember": 2})),
    ] {
        world.create(&path, object).await;
    }
    world.pod("gang", "berth", json!({"schedulingGroup": {"podGroupName": "g"}}), "100m").await;
    let labels = json!({"scheduling.x-k8s.io/pod-group": "g"});
    world.labelled_pod("cogang", labels, "berth", json!({}), "100m").await;
    pod_of_job(world).await;
}

/// A pod that is a group with the others of its Job.
async fn pod_of_job(world: &World) {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true});
    let annotations = json!({"scheduling.berth.dev/group": "owner"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "of-job", "annotations": annotations, "ownerReferences": [job]},
        "spec": {"schedulerName": "berth", "containers": [{"name": "c", "image": "i"}]}});
    world.create("/api/v1/namespaces/default/pods", pod).await;
}

/// A pod with a claim to be bound to an existing volume, and one whose volume is to be provisioned.
async fn volumes(world: &World) {
    for (class, provisioner) in [("static", "kubernetes.io/no-provisioner"), ("dynamic", "example.com/p")] {
        let object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
        world.create("/apis/storage.k8s.io/v1/storageclasses", object).await;
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": class},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}});
        world.create("/api/v1/namespaces/default/persistentvolumeclaims", claim).await;
    }
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"storageClassName": "static", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/v"}}});
    world.create("/api/v1/persistentvolumes", volume).await;
    world.patch("/api/v1/persistentvolumes/v/status", json!({"status": {"phase": "Available"}})).await;
    let volume = |claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    world.pod("stored", "berth", json!({"volumes": [volume("static"), volume("dynamic")]}), "100m").await;
}

/// The permissions that this test must use. Watches of this server stream the lists, so `list` is not used. Some requests
/// are too rare for this test: reads after a lost response, deletions of claims after failed attempts, and updates of repeated events after half a
/// minute. The faults of `tests/cluster` and the tests of `berth-watch` and `berth-scheduler` have these. The server checks the permission for
/// `resourceclaims/binding` with that for the status.
async fn granted(world: &World, part: &str) -> Vec<Right> {
    let rare = [
        right("", "pods", "get"),
        right("events.k8s.io", "events", "patch"),
        right("resource.k8s.io", "resourceclaims", "get"),
        right("resource.k8s.io", "resourceclaims", "delete"),
        right("resource.k8s.io", "resourceclaims/binding", "update"),
    ];
    let mut granted = world.granted(part).await;
    let watched: Vec<_> = granted.iter().filter(|right| right.verb == "watch").cloned().collect();
    let is_watched =
        |right: &Right| watched.iter().any(|w| (&w.group, &w.resource) == (&right.group, &right.resource));
    granted.retain(|right| !(rare.contains(right) || right.verb == "list" && is_watched(right)));
    granted
}

/// Waits until a component has sent all requests that it may send, and checks that none was refused.
async fn uses_all_permissions(world: &World, component: &str, before: &Requests) {
    let granted = granted(world, component).await;
    eventually("every granted request was sent", async || {
        let sent = world.requests().await.since(before);
        assert_eq!(sent.refused(), [], "{sent:?}");
        sent.has_all(&granted)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_uses_all_its_permissions_and_needs_no_others() {
    let world = World::with(&["scheduler.yaml"]).await;
    world.priority_class("high", 1000).await;
    let stop = CancellationToken::new();
    let before = world.requests().await;
    let handle = start_scheduler(&world, &stop).await;
    schedule(&world, &handle).await;
    scrape(&world, "berth-scheduler", handle.https_address()).await;
    uses_all_permissions(&world, "berth-scheduler", &before).await;
    stop.cancel();
    handle.stopped().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_is_rejected_without_one_of_its_permissions() {
    for missing in
        [right("", "pods/status", "patch"), right("", "pods", "delete"), right("", "pods/binding", "create")]
    {
        let world = World::with(&["scheduler.yaml"]).await;
        world.priority_class("high", 1000).await;
        world.take_away("berth-scheduler", &missing).await;
        let stop = CancellationToken::new();
        let handle = start_scheduler(&world, &stop).await;
        world.node("a", "1", json!({})).await;
        world.pod("low", "berth", json!({}), "800m").await;
        wait_for(&handle, "low is bound or refused", |s| s.n_bound + s.n_errors > 0).await;
        world.pod("high", "berth", json!({"priorityClassName": "high"}), "800m").await;
        eventually(&format!("{missing:?} is refused"), async || {
            let refused = world.requests().await.refused();
            if refused.contains(&missing) { Ok(()) } else { Err(format!("{refused:?}")) }
        })
        .await;
        stop.cancel();
        handle.stopped().await.unwrap();
    }
}

/// A pod on this node that requires an SSD during execution.
async fn running_pod(world: &World, name: &str, node: &str, volumes: Value) {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}});
    world
        .pod(name, "berth", json!({"affinity": affinity, "nodeName": node, "volumes": volumes}), "100m")
        .await;
    let status = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
    world.patch(&format!("/api/v1/namespaces/default/pods/{name}/status"), status).await;
}

/// HTTPS on a free port, with a generated certificate.
fn serving() -> ServingOptions {
    let certificate = CertificateSource::Own { common_name: "berth", names: vec!["127.0.0.1".to_owned()] };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let https =
        SecureServingOptions { address, certificate, always_allowed_paths: Vec::new(), client_ca_file: None };
    ServingOptions { http: None, https: Some(https) }
}

/// Asks for the metrics as a service account, which has no permission to read them: the API server is asked.
async fn scrape(world: &World, account: &str, address: Option<SocketAddr>) {
    let mut config = kube::Config::new(format!("https://{}", address.unwrap()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = world.config_of(account).await.auth_info.token;
    let client = berth_client::connect::client(config).unwrap();
    let error = call::send(&client, call::get("/metrics"), DEADLINE, 1 << 20).await.unwrap_err();
    assert_eq!(error.code(), Some(403), "{error}");
}

async fn start_enforcer(world: &World, stop: &CancellationToken) -> berth_enforcer::Handle {
    let options = EnforcerOptions {
        leader_election: Some(lease("berth-enforcer")),
        ledger_namespace: NAMESPACE.to_owned(),
        serving: serving(),
        // With it, the budgets are watched, and the plan is written.
        rebalance: Some(RebalanceOptions::new(Request::new(vec![Goal::Spread], Timestamp::UNIX_EPOCH))),
        ..EnforcerOptions::default()
    };
    berth_enforcer::start(world.config_of("berth-enforcer").await, options, stop.clone()).await.unwrap()
}

/// Removes the label that the pod requires from the node.
async fn break_rule(world: &World, node: &str) {
    world.patch(&format!("/api/v1/nodes/{node}"), json!({"metadata": {"labels": {"disk": "hdd"}}})).await;
}

async fn enforced_world() -> World {
    let world = World::with(&["enforcer.yaml"]).await;
    world.define_pod_groups().await;
    for node in ["a", "b", "c"] {
        world.node(node, "4", json!({"disk": "ssd", "kubernetes.io/hostname": node})).await;
    }
    running_pod(&world, "first", "a", json!([])).await;
    running_pod(&world, "second", "b", json!([])).await;
    pod_of_job(&world).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn the_enforcer_uses_all_its_permissions_and_needs_no_others() {
    let world = enforced_world().await;
    let stop = CancellationToken::new();
    let before = world.requests().await;
    let handle = start_enforcer(&world, &stop).await;
    for (pod, node) in [("first", "a"), ("second", "b")] {
        break_rule(&world, node).await;
        eventually(&format!("{pod} is evicted"), async || world.is_gone(pod).await).await;
    }
    scrape(&world, "berth-enforcer", handle.https_address()).await;
    uses_all_permissions(&world, "berth-enforcer", &before).await;
    stop.cancel();
    handle.stopped().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_enforcer_is_rejected_without_the_permission_to_evict() {
    let world = enforced_world().await;
    let missing = right("", "pods/eviction", "create");
    world.take_away("berth-enforcer", &missing).await;
    let stop = CancellationToken::new();
    let handle = start_enforcer(&world, &stop).await;
    break_rule(&world, "a").await;
    eventually("an eviction is refused", async || {
        let refused = world.requests().await.refused();
        if refused.contains(&missing) { Ok(()) } else { Err(format!("{refused:?}")) }
    })
    .await;
    assert!(world.is_gone("first").await.is_err());
    stop.cancel();
    handle.stopped().await.unwrap();
}

/// The pending pods as a service account sees them in the console: the status, and the page.
async fn pending_page(world: &World, account: &str, address: &str) -> Result<String, u16> {
    let mut config = kube::Config::new(address.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = world.config_of(account).await.auth_info.token;
    let client = berth_client::connect::client(config).unwrap();
    match call::send(&client, call::get("/pending"), DEADLINE, 1 << 20).await {
        Ok(page) => Ok(String::from_utf8(page.to_vec()).unwrap()),
        Err(error) => Err(error.code().unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_uses_all_its_permissions_and_shows_viewers_what_they_may_list() {
    let files = [
        "../components/placement-policies/crds.yaml",
        "../components/console/console.yaml",
        "enforcer.yaml",
        "placement-quota.yaml",
    ];
    let world = World::with(&files).await;
    world.define_pod_groups().await;
    world.define_monitors().await;
    world.pod("web", "berth", json!({}), "64").await;
    let directory = TempDir::new("console");
    let kubeconfig = directory.file("kubeconfig");
    std::fs::write(&kubeconfig, world.kubeconfig_of("berth-console").await.to_string()).unwrap();
    let before = world.requests().await;
    let args = [
        "console",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--secure-port=0",
        "--bind-address=127.0.0.1",
        "--ledger-namespace",
        NAMESPACE,
    ];
    let running = Berth::start(&directory, "console", &args);
    let address = eventually("the console is served", async || {
        let stderr = running.stderr();
        let found = stderr.lines().find_map(|line| line.split_once("serving the console at "));
        found.map(|(_, address)| address.to_owned()).ok_or(stderr)
    })
    .await;
    // The enforcer may list nodes and pods. The webhook's account has no role here.
    let page = pending_page(&world, "berth-enforcer", &address).await.unwrap();
    assert!(page.contains("web"), "{page}");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "without-rights"}});
    world.create(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), account).await;
    assert_eq!(pending_page(&world, "without-rights", &address).await, Err(403));
    uses_all_permissions(&world, "berth-console", &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_uses_all_its_permissions_and_needs_no_others() {
    let files = [
        "placement-quota.yaml",
        "../components/placement-policies/crds.yaml",
        "../components/placement-policies/webhook.yaml",
        "../components/binding-guard/webhook.yaml",
        "webhook.yaml",
    ];
    let world = World::with(&files).await;
    let quota = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "PlacementQuota",
        "metadata": {"name": "q"}, "spec": {"hard": {"nodes": 1}}});
    let quotas = "/apis/scheduling.berth.dev/v1alpha1/namespaces/default/placementquotas";
    eventually("the definition of quotas is served", async || world.try_create(quotas, &quota).await).await;
    let directory = TempDir::new("privileges");
    let policy = directory.file("policy.yaml");
    let text = json!({"apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy", "placementQuotas": true,
        "bindingGuard": {"enabled": true, "ledgerNamespace": NAMESPACE}});
    std::fs::write(&policy, text.to_string()).unwrap();
    world.node("a", "4", json!({})).await;
    for (kind, collection) in [
        ("PlacementPolicy", "namespaces/default/placementpolicies"),
        ("ClusterPlacementPolicy", "clusterplacementpolicies"),
    ] {
        let object = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": kind, "metadata": {"name": "p"},
            "spec": {"podSelector": {"matchLabels": {"a": "b"}}}});
        world.create(&format!("/apis/scheduling.berth.dev/v1alpha1/{collection}"), object).await;
    }
    let kubeconfig = directory.file("kubeconfig");
    std::fs::write(&kubeconfig, world.kubeconfig_of("berth-webhook").await.to_string()).unwrap();
    let before = world.requests().await;
    let [kubeconfig, policy] = [&kubeconfig, &policy].map(|file| file.to_str().unwrap());
    let args = ["webhook", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--config", policy];
    let running = Berth::start(&directory, "webhook", &args);
    let url = eventually("the webhook serves", async || {
        let stderr = running.stderr();
        let found = stderr.lines().find_map(|line| line.split_once("serving webhooks at "));
        found.map(|(_, url)| url.to_owned()).ok_or(stderr)
    })
    .await;
    let mut config = kube::Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    let webhook = berth_client::connect::client(config).unwrap();
    // The first binding creates the ledger, the second changes it.
    for name in ["p", "q"] {
        world.pod(name, "other", json!({}), "10m").await;
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default"},
            "target": {"kind": "Node", "name": "a"}});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": name, "operation": "CREATE", "name": name, "namespace": "default", "subResource": "binding",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": binding}});
        eventually("the binding is allowed", async || {
            let body = review.to_string().into_bytes();
            let request = call::with_body(Method::POST, "/validate-bindings", "application/json", body);
            let answer = call::json::<Value>(&webhook, request, DEADLINE).await.map_err(|e| e.to_string())?;
            if answer["response"]["allowed"] == true { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
    }
    uses_all_permissions(&world, "berth-webhook", &before).await;
}
