//! Accepted and rejected requests with their messages, and requests without a running webhook.

use http::Method;
use serde_json::{Value, json};

use super::world::{PODS, World, ask, pod, post, rules};
use crate::client::{eventually, text};

const ANTI: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn anti_affinity(term: Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {ANTI: [term]}}})
}

fn annotated(affinity: &Value) -> Value {
    json!({"annotations": {"scheduling.berth.dev/affinity": affinity.to_string()}})
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_accepted_changed_and_rejected_with_exact_messages() {
    // The server ignores the annotation, as a standard API server does.
    let world = World::new("webhook-pods", false).await;
    let mut webhook = world.webhook("limitPodHardAntiAffinityTopology: true\n", &[]).await;
    let validating = webhook.entry(
        "pods.berth.dev",
        "/validate-pods",
        "Fail",
        json!([
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE", "UPDATE"]},
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["*"]},
        ]),
    );
    let merging = webhook.entry("merge.berth.dev", "/mutate-pods", "Fail", rules("", &["pods"], &["CREATE"]));
    world.register("Validating", "berth", validating).await;
    world.register("Mutating", "berth", merging).await;

    let create = async |pod: Value| post(&world.admin, PODS, &pod).await;
    let reply = create(pod("plain", json!({}), json!({}))).await;
    assert_eq!((reply.code, reply.warnings.as_slice()), (201, &[] as &[String]));

    let zone = "topology.kubernetes.io/zone";
    let path = "metadata.annotations[scheduling.berth.dev/affinity].podAntiAffinity";
    let everybody = json!({"labelSelector": {}, "namespaces": [], "topologyKey": "kubernetes.io/hostname"});
    let reply =
        create(pod("alone", annotated(&json!({"podAntiAffinity": {ANTI: [everybody]}})), json!({}))).await;
    assert_eq!(reply.code, 201, "a node of one's own: {reply:?}");
    let told = format!(
        "{path}.{ANTI}[0].namespaces: an empty list is all namespaces; in v1 fields: an empty list is the \
                        pod's own namespace"
    );
    assert!(reply.warnings.iter().any(|warning| warning.contains(&told)), "{:?}", reply.warnings);

    for (name, metadata, spec, code, expected) in [
        (
            "broken",
            annotated(&json!({"podAntiAffinity": {ANTI: [{"topologyKey": "a b"}]}})),
            json!({}),
            422,
            format!(
                "admission webhook \"pods.berth.dev\" denied the request: Pod \"broken\" is invalid: {path}.{ANTI}[0].topologyKey: \
                 Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
                 and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                 validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
        (
            "limited",
            json!({}),
            anti_affinity(json!({"labelSelector": {}, "topologyKey": zone})),
            403,
            format!(
                "admission webhook \"pods.berth.dev\" denied the request: pods \"limited\" is forbidden: \
                 affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {zone} but only key \
                 kubernetes.io/hostname is allowed"
            ),
        ),
    ] {
        let reply = create(pod(name, metadata, spec)).await;
        assert_eq!((reply.code, reply.message()), (code, expected.as_str()));
    }

    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash"]});
    let merged =
        create(pod("merged", json!({"labels": {"app": "web", "hash": "1"}}), anti_affinity(term))).await;
    assert_eq!(merged.code, 201, "{merged:?}");
    let selector = &merged.object["spec"]["affinity"]["podAntiAffinity"][ANTI][0]["labelSelector"];
    let once = json!([{"key": "hash", "operator": "In", "values": ["1"]}]);
    assert_eq!(selector["matchExpressions"], once, "this server also merges by itself");

    let template = pod(
        "",
        json!({"labels": {"a": "b"}}),
        anti_affinity(json!({"labelSelector": {}, "topologyKey": zone})),
    );
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": template["spec"]});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let reply = post(&world.admin, "/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    assert_eq!(reply.code, 201, "{reply:?}");
    let told = "spec.template: its pods will be refused: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey";
    assert!(reply.warnings.iter().any(|warning| warning.contains(told)), "{:?}", reply.warnings);
    webhook.process.signal("TERM");
    assert_eq!(webhook.process.wait().code(), Some(0), "{}", webhook.process.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guard_holds_by_default() {
    let world = World::new("webhook-guard", false).await;
    let webhook = world.webhook("", &[]).await;
    let rules = rules("", &["pods"], &["CREATE"]);
    let entry = webhook.entry("pods.berth.dev", "/validate-pods", "Fail", rules);
    world.register("Validating", "berth", entry).await;
    let term =
        json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "topology.kubernetes.io/zone"});
    let reply = post(&world.admin, PODS, &pod("greedy", json!({}), anti_affinity(term))).await;
    let expected = format!(
        "admission webhook \"pods.berth.dev\" denied the request: pods \"greedy\" is forbidden: \
         spec.affinity.podAntiAffinity.{ANTI}[0]: required anti-affinity over all namespaces may only have topologyKey \
         \"kubernetes.io/hostname\", not topologyKey \"topology.kubernetes.io/zone\": it would block pods of all namespaces \
         from whole domains; select fewer namespaces, or use \"kubernetes.io/hostname\""
    );
    assert_eq!((reply.code, reply.message()), (403, expected.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_webhook_behaves_by_its_failure_policy() {
    let world = World::new("webhook-dead", false).await;
    let mut webhook = world.webhook("", &[]).await;
    let pods = || rules("", &["pods"], &["CREATE"]);
    world
        .register("Validating", "strict", webhook.entry("strict.berth.dev", "/validate-pods", "Fail", pods()))
        .await;
    assert_eq!(post(&world.admin, PODS, &pod("before", json!({}), json!({}))).await.code, 201);
    webhook.process.kill();
    let reply = post(&world.admin, PODS, &pod("after", json!({}), json!({}))).await;
    assert_eq!(reply.code, 500, "{reply:?}");
    let begin =
        "Internal error occurred: failed calling webhook \"strict.berth.dev\": failed to call webhook: Post ";
    assert!(reply.message().starts_with(begin), "{reply:?}");

    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/strict";
    ask(&world.admin, Method::DELETE, path, "", "").await.unwrap();
    world
        .register("Validating", "lax", webhook.entry("lax.berth.dev", "/validate-pods", "Ignore", pods()))
        .await;
    assert_eq!(post(&world.admin, PODS, &pod("after", json!({}), json!({}))).await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_restricted_to_their_own_objects() {
    let world = World::new("webhook-nodes", true).await;
    let webhook = world.webhook("", &[]).await;
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"color": "red"}}});
    world.make("/api/v1/nodes", &node).await;
    let entry =
        webhook.entry("nodes.berth.dev", "/validate-nodes", "Fail", rules("", &["pods", "nodes"], &["*"]));
    world.register("Validating", "berth", entry).await;
    let identity = kube::Client::try_from(world.server.node_config("a")).unwrap();

    // The server applies the same rule before it calls the webhook.
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    let reply = post(&identity, PODS, &pod("static-a", mirror, json!({"nodeName": "a"}))).await;
    let expected = "pods \"static-a\" is forbidden: node \"a\" can only create pods with an owner reference set to itself";
    assert_eq!((reply.code, reply.message()), (403, expected));
    let path = "/api/v1/nodes/a";
    let merge = "application/merge-patch+json";
    let labels = |labels: Value| json!({"metadata": {"labels": labels}}).to_string();
    let restricted = labels(json!({"node-restriction.kubernetes.io/tier": "gold"}));
    let reply = ask(&identity, Method::PATCH, path, merge, restricted.clone()).await.unwrap();
    assert_eq!(reply.code, 403, "{reply:?}");
    let free = labels(json!({"color": "blue", "topology.kubernetes.io/zone": "z1"}));
    let reply = ask(&identity, Method::PATCH, path, merge, free).await.unwrap();
    assert_eq!(reply.code, 200, "{reply:?}");
    let reply = ask(&world.admin, Method::PATCH, path, merge, restricted).await.unwrap();
    assert_eq!(reply.code, 200, "others may: {reply:?}");

    // The request as kube-apiserver sends it, sent directly because the server also restricts nodes.
    let client = webhook.client(&world.directory, &webhook.ca).await;
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "UPDATE", "name": "a", "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "userInfo": {"username": "system:node:a", "groups": ["system:nodes"]},
        "object": {"metadata": {"name": "a", "labels": {"node-restriction.kubernetes.io/tier": "gold"}}},
        "oldObject": {"metadata": {"name": "a"}},
    }});
    let reply = post(&client, "/validate-nodes", &review).await;
    let message =
        "nodes \"a\" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/tier";
    let status = json!({"code": 403, "reason": "Forbidden", "message": message});
    assert_eq!(reply.object["response"], json!({"uid": "1", "allowed": false, "status": status}));
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_are_charged_and_released() {
    let world = World::new("webhook-budgets", true).await;
    let policy = "budgets:\n- namespaces: [default]\n  exclusiveNodes: {nodes: 1, cpu: 100}\n  blastRadius: {nodes: 2}\n";
    let webhook = world.webhook(policy, &[]).await;
    for name in ["a", "b", "c"] {
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        let labels = json!({"kubernetes.io/hostname": name, "zone": "z"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable, "capacity": allocatable}});
        world.make("/api/v1/nodes", &node).await;
    }
    let entry = webhook.entry("pods.berth.dev", "/validate-pods", "Fail", rules("", &["pods"], &["CREATE"]));
    world.register("Validating", "berth", entry).await;
    let alone = |name: &str| {
        let term =
            json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"});
        pod(name, json!({}), anti_affinity(term))
    };
    assert_eq!(post(&world.admin, PODS, &alone("first")).await.code, 201);
    let reply = post(&world.admin, PODS, &alone("second")).await;
    assert_eq!(reply.code, 403, "{reply:?}");
    assert!(
        reply.message().contains("namespace \"default\" would take 2 of 1 nodes that its budget allows"),
        "{reply:?}"
    );
    ask(&world.admin, Method::DELETE, &format!("{PODS}/first"), "", "").await.unwrap();
    eventually("the budget is given back", async || {
        let reply = post(&world.admin, PODS, &alone("second")).await;
        if reply.code == 201 { Ok(()) } else { Err(format!("{reply:?}")) }
    })
    .await;
    let apart =
        anti_affinity(json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}));
    let wide = eventually("the nodes are seen", async || {
        let reply =
            post(&world.admin, PODS, &pod("wide", json!({"generateName": "wide-"}), apart.clone())).await;
        if reply.code == 403 { Ok(reply) } else { Err(format!("{reply:?}")) }
    });
    let wide = wide.await;
    let told = "by symmetry, required anti-affinity would block 3 nodes (its largest domain, zone=z)";
    assert!(wide.message().contains(told), "{wide:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_get_an_error_response() {
    let world = World::new("webhook-http", true).await;
    let health = ["--health-listen", "127.0.0.1:0"];
    let webhook = world.webhook("", &health).await;
    let client = webhook.client(&world.directory, &webhook.ca).await;
    let json = "application/json";
    let large = vec![b' '; 9 << 20];
    for (method, path, content_type, body, code, words) in [
        (Method::GET, "/validate-pods", json, b"".to_vec(), 405, "only POST"),
        (
            Method::POST,
            "/validate-everything",
            json,
            b"{}".to_vec(),
            404,
            "no such path; served are /validate-pods",
        ),
        (Method::POST, "/validate-pods", "text/plain", b"{}".to_vec(), 415, "must be application/json"),
        (Method::POST, "/validate-pods", json, b"{".to_vec(), 400, "no AdmissionReview"),
        (Method::POST, "/validate-pods", json, b"{}".to_vec(), 400, "admissionReviewVersions"),
        (Method::POST, "/validate-pods", json, large, 413, "larger than"),
        (Method::POST, "/healthz", json, b"".to_vec(), 405, "only GET"),
        (Method::GET, "/healthz", json, b"".to_vec(), 200, "ok"),
        (Method::GET, "/readyz", json, b"".to_vec(), 200, "ok"),
    ] {
        let reply = ask(&client, method.clone(), path, content_type, body).await.unwrap();
        let said = reply.object.as_str().unwrap_or_default();
        assert!(reply.code == code && said.contains(words), "{method} {path}: {reply:?}");
    }
    let metrics = ask(&client, Method::GET, "/metrics", json, "").await.unwrap();
    let metrics = text(&metrics.object, "").to_owned();
    assert!(metrics.contains("berth_admission_refused_requests_total{code=\"415\"} 1"), "{metrics}");
    assert!(webhook.process.stderr().contains("serving /healthz, /readyz and /metrics at http://127.0.0.1:"));
}
