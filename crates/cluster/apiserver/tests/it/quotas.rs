//! ResourceQuota and LimitRange.

use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::{InProcessServer, Latency, ServerOptions, StorageOptions};
use futures::FutureExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::support::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const LIMITS: &str = "/api/v1/namespaces/default/limitranges";

fn sized(name: &str, requests: &Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

async fn quota(client: &Client, name: &str, spec: Value) {
    let (code, answer) = post(client, QUOTAS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

/// Waits until the quota shows an amount.
async fn until_used(client: &Client, quota: &str, name: &str, wanted: &str) {
    for _ in 0..6000 {
        let (_, quota) = get(client, &format!("{QUOTAS}/{quota}")).await;
        if quota["status"]["used"][name] == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("{quota} does not show {name}={wanted}: {:?}", get(client, &format!("{QUOTAS}/{quota}")).await);
}

#[tokio::test]
async fn concurrent_creations_use_a_quota_up_and_never_exceed_it() {
    let server = server().await;
    let admin = admin(&server);
    post(&admin, PODS, &sized("earlier", &json!({"cpu": "1"}))).await;
    quota(&admin, "q", json!({"hard": {"pods": "10", "requests.cpu": "8", "count/configmaps": "3"}})).await;
    let pods = (0..40).map(|i| sized(&format!("p{i}"), &json!({"cpu": "500m"})));
    let created = futures::future::join_all(pods.map(|pod| {
        let admin = admin.clone();
        async move { post(&admin, PODS, &pod).await }
    }));
    let created = created.await;
    let n = created.iter().filter(|(code, _)| *code == StatusCode::CREATED).count();
    assert_eq!(n, 9, "{created:?}");
    until_used(&admin, "q", "pods", "10").await;
    until_used(&admin, "q", "requests.cpu", "5500m").await;
    let (code, refused) = post(&admin, PODS, &sized("more", &json!({"cpu": "3"}))).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "pods \"more\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=3, used: \
         pods=10,requests.cpu=5500m, limited: pods=10,requests.cpu=8"
    );
    let (_, refused) = post(&admin, PODS, &pod("unsized")).await;
    assert_eq!(
        refused["message"],
        "pods \"unsized\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    // A deleted pod and one that has ended make room; so does a larger quota.
    delete(&admin, &format!("{PODS}/earlier"), &Value::Null).await;
    until_used(&admin, "q", "pods", "9").await;
    let (_, list) = get(&admin, PODS).await;
    merge(&admin, &format!("{PODS}/{}/status", names(&list)[0]), &json!({"status": {"phase": "Succeeded"}}))
        .await;
    until_used(&admin, "q", "pods", "8").await;
    assert_eq!(post(&admin, PODS, &sized("next", &json!({"cpu": "1"}))).await.0, StatusCode::CREATED);
    until_used(&admin, "q", "requests.cpu", "5").await;
    // A creation that fails later is not charged.
    let (_, list) = get(&admin, PODS).await;
    let again = sized(names(&list)[0], &json!({"cpu": "1"}));
    assert_eq!(post(&admin, PODS, &again).await.0, StatusCode::CONFLICT);
    until_used(&admin, "q", "requests.cpu", "5").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (name, wanted) in [("a", 201), ("b", 201), ("c", 201), ("d", 403)] {
        let (code, answer) = post(&admin, maps, &json!({"metadata": {"name": name}})).await;
        assert_eq!(code.as_u16(), wanted, "{answer}");
    }
}

#[tokio::test]
async fn scopes_select_pods() {
    let server = server().await;
    let admin = admin(&server);
    let none = json!({"pods": "0"});
    let class = json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]});
    for (name, spec) in [
        ("crossing", json!({"hard": none, "scopes": ["CrossNamespacePodAffinity"]})),
        ("ending", json!({"hard": none, "scopes": ["Terminating"]})),
        ("critical", json!({"hard": none, "scopeSelector": class})),
    ] {
        quota(&admin, name, spec).await;
    }
    let term = |namespaces: Value| {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": namespaces}]}}})
    };
    for (name, spec, refused_by) in [
        ("plain", json!({}), None),
        ("own-namespace", term(Value::Null), None),
        ("all-namespaces", term(json!({})), Some("crossing")),
        ("short", json!({"activeDeadlineSeconds": 5}), Some("ending")),
        ("system", json!({"priorityClassName": "system-node-critical"}), Some("critical")),
        ("cluster", json!({"priorityClassName": "system-cluster-critical"}), None),
    ] {
        let mut pod = pod(name);
        json_patch::merge(&mut pod["spec"], &spec);
        let (code, answer) = post(&admin, PODS, &pod).await;
        assert_eq!(code == StatusCode::CREATED, refused_by.is_none(), "{name} {answer}");
        if let Some(quota) = refused_by {
            assert!(
                answer["message"].as_str().unwrap().contains(&format!("exceeded quota: {quota}")),
                "{answer}"
            );
        }
    }
    let bad = json!({"metadata": {"name": "bad"}, "spec": {"hard": {"pods": "-1"}, "scopes": ["Nonsense"]}});
    assert_eq!(post(&admin, QUOTAS, &bad).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn claims_and_services_are_charged_when_they_change() {
    let server = server().await;
    let admin = admin(&server);
    quota(
        &admin,
        "q",
        json!({"hard": {"requests.storage": "5Gi", "services.nodeports": "1",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}}),
    )
    .await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str, class: &str, size: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}}})
    };
    assert_eq!(post(&admin, claims, &claim("a", "gold", "2Gi")).await.0, StatusCode::CREATED);
    assert_eq!(post(&admin, claims, &claim("b", "gold", "1Gi")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(post(&admin, claims, &claim("b", "tin", "4Gi")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(post(&admin, claims, &claim("b", "tin", "3Gi")).await.0, StatusCode::CREATED);
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}});
    assert_eq!(post(&admin, services, &service).await.0, StatusCode::CREATED);
    let (code, refused) =
        merge(&admin, &format!("{services}/s"), &json!({"spec": {"type": "NodePort"}})).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");
    assert_eq!(
        refused["message"],
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
         limited: services.nodeports=1"
    );
}

#[tokio::test]
async fn limit_ranges_set_defaults_and_bound_pods_and_claims() {
    let server = server().await;
    let admin = admin(&server);
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m", "memory": "10Mi"},
            "defaultRequest": {"cpu": "200m"}, "maxLimitRequestRatio": {"cpu": "4"}},
        {"type": "Pod", "max": {"cpu": "3"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}]}});
    let (code, stored) = post(&admin, LIMITS, &range).await;
    assert_eq!(code, StatusCode::CREATED, "{stored}");
    let container = &stored["spec"]["limits"][0];
    assert_eq!(
        (&container["default"], &container["defaultRequest"]),
        (&json!({"cpu": "2"}), &json!({"cpu": "200m", "memory": "10Mi"}))
    );
    let with = |name: &str, resources: Value| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] = resources;
        pod
    };
    let (code, created) = post(&admin, PODS, &with("p", json!({"limits": {"cpu": "400m"}}))).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let resources = &created["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"limits": {"cpu": "400m"}, "requests": {"cpu": "400m", "memory": "10Mi"}}));
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container c"
    );
    assert_eq!(created["status"]["qosClass"], "Burstable");
    let amounts =
        |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
    for (resources, wanted) in [
        (json!({}), "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000"),
        (amounts("50m", "100m"), "minimum cpu usage per Container is 100m, but request is 50m"),
        (amounts("1", "3"), "maximum cpu usage per Container is 2, but limit is 3"),
    ] {
        let (code, refused) = post(&admin, PODS, &with("q", resources)).await;
        assert_eq!(code, StatusCode::FORBIDDEN);
        assert!(refused["message"].as_str().unwrap().contains(wanted), "{refused}");
    }
    let mut two = with("two", amounts("1", "2"));
    two["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "d", "image": "i", "resources": amounts("1", "2")}));
    let (_, refused) = post(&admin, PODS, &two).await;
    assert_eq!(
        refused["message"],
        "pods \"two\" is forbidden: maximum cpu usage per Pod is 3, but limit is 4"
    );
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}}}});
    let (code, refused) = post(&admin, "/api/v1/namespaces/default/persistentvolumeclaims", &claim).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 10Gi, but request \
         is 20Gi"
    );
}

/// A request to a server without a listener.
async fn respond(server: &InProcessServer, method: &str, path: &str, body: Value) -> Value {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {}", server.admin_token()))
        .header(
            "content-type",
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
        );
    let request = request.body(Full::new(body.to_string().into_bytes().into())).unwrap();
    let answer = server.respond(request).await.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&answer).unwrap()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server whose quota of config maps counts one.
async fn server_with_quota(storage: StorageOptions) -> InProcessServer {
    let options = ServerOptions { storage, ..ServerOptions::default() };
    let server = InProcessServer::start(&options, &[7; 32], 1, None).await.unwrap();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "9"}}});
    respond(&server, "POST", QUOTAS, quota).await;
    until(&server, "0", 0).await;
    respond(&server, "POST", MAPS, json!({"metadata": {"name": "first"}})).await;
    assert_eq!(used(&server).await, "1");
    server
}

async fn used(server: &InProcessServer) -> Value {
    let quota = respond(server, "GET", &format!("{QUOTAS}/q"), Value::Null).await;
    quota["status"]["used"]["count/configmaps"].clone()
}

/// Waits until the quota shows this and as many config maps exist.
async fn until(server: &InProcessServer, wanted: &str, n: usize) {
    let mut found = (Value::Null, 0);
    for _ in 0..40_000 {
        let maps = respond(server, "GET", MAPS, Value::Null).await;
        found = (used(server).await, maps["items"].as_array().unwrap().len());
        if found == (wanted.into(), n) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("used and counted: {found:?}");
}

#[tokio::test]
async fn a_client_that_hung_up_left_a_charge_without_an_object() {
    // Each write says that it waits, and waits for a permit.
    let (waiting, mut waits) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let permits = gate.clone();
    let latency = Latency(Arc::new(move || {
        let (waiting, permits) = (waiting.clone(), permits.clone());
        async move {
            let _ = waiting.send(());
            permits.acquire().await.unwrap().forget();
        }
        .boxed()
    }));
    let storage = StorageOptions { latency: Some(latency), ..StorageOptions::default() };
    let server = server_with_quota(storage).await;
    while waits.try_recv().is_ok() {}
    gate.forget_permits(Semaphore::MAX_PERMITS);
    {
        let mut creation = Box::pin(respond(&server, "POST", MAPS, json!({"metadata": {"name": "second"}})));
        for n_permits in [1, 0] {
            tokio::select! {
                _ = &mut creation => panic!("the write waits"),
                _ = waits.recv() => gate.add_permits(n_permits),
            }
        }
        // The quota is charged, and the object is not written. The client hangs up.
    }
    assert_eq!(used(&server).await, "2");
    gate.add_permits(1000);
    until(&server, "2", 2).await;
}

#[tokio::test]
async fn a_quota_that_counted_too_much_was_not_corrected_while_its_namespace_grew() {
    let server = server_with_quota(StorageOptions::default()).await;
    let wrong = json!({"status": {"used": {"count/configmaps": "5"}}});
    respond(&server, "PATCH", &format!("{QUOTAS}/q/status"), wrong).await;
    respond(&server, "POST", MAPS, json!({"metadata": {"name": "second"}})).await;
    assert_eq!(used(&server).await, "6");
    // A restart counts all, as every interval does.
    let restarted =
        InProcessServer::start(&ServerOptions::default(), &[7; 32], 1, Some(&server)).await.unwrap();
    drop(server);
    until(&restarted, "2", 2).await;
}
