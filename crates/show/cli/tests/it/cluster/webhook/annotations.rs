//! Every request that writes annotations of a pod: the manifests send it to the webhook, and the embedded API server to its
//! own admission.

use std::fs;
use std::path::Path;

use berth_api::read::{collect_manifests, pod_template_pointer};
use berth_api::resource::RESOURCES;
use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::world::{PODS, Reply, World, ask, pod, post};
use crate::client::connect;
use crate::process::Berth;

const AFFINITY: &str = "scheduling.berth.dev/affinity";

/// Metadata with required anti-affinity to the pods of all namespaces in a zone.
fn greedy() -> Value {
    let term = json!({"topologyKey": "topology.kubernetes.io/zone", "namespaces": [], "labelSelector": {}});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    json!({"annotations": {AFFINITY: affinity.to_string()}})
}

async fn merge(client: &Client, path: &str, metadata: Value) -> Reply {
    let patch = json!({"metadata": metadata}).to_string();
    ask(client, Method::PATCH, path, "application/merge-patch+json", patch).await.unwrap()
}

async fn bind(client: &Client, path: &str, name: &str, mut metadata: Value) -> Reply {
    metadata["name"] = name.into();
    let target = json!({"kind": "Node", "name": "n"});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
    post(client, path, &binding).await
}

/// A node, a pod `bound` to it and one that is `free`.
async fn pods_of(client: &Client, pods: &str) {
    for name in ["bound", "free"] {
        let reply = post(client, pods, &pod(name, json!({}), json!({}))).await;
        assert_eq!(reply.code, 201, "{reply:?}");
    }
    assert_eq!(bind(client, &format!("{pods}/bound/binding"), "bound", json!({})).await.code, 201);
}

/// The guard of anti-affinity over all namespaces rejects each request that writes the annotation of a pod of this namespace.
async fn is_guarded(client: &Client, namespace: &str) {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    pods_of(client, &pods).await;
    let rejected = |reply: Reply| {
        assert!(
            reply.code == 403 && reply.message().contains("it would block pods of all namespaces"),
            "{reply:?}"
        );
    };
    rejected(merge(client, &format!("{pods}/bound/status"), greedy()).await);
    rejected(bind(client, &format!("{pods}/free/binding"), "free", greedy()).await);
    rejected(bind(client, &format!("/api/v1/namespaces/{namespace}/bindings"), "free", greedy()).await);
    let misspelt = json!({"annotations": {AFFINITY: "{podAntiAfinity: {}}"}});
    let reply = merge(client, &format!("{pods}/bound/status"), misspelt).await;
    assert!(reply.code == 422 && reply.message().contains("did you mean \"podAntiAffinity\"?"), "{reply:?}");
    let tolerant = json!({"annotations": {"scheduling.berth.dev/tolerates-anti-affinity": "*"}});
    let reply = merge(client, &format!("{pods}/bound/status"), tolerant).await;
    assert!(
        reply.code == 403 && reply.message().contains("may not run beside pods that reject them"),
        "{reply:?}"
    );
}

/// Each kind of object with a pod template gets the warning that the guard will refuse its pods.
async fn templates_are_checked(client: &Client) {
    for resource in RESOURCES {
        let Some(pointer) = pod_template_pointer(resource.kind) else { continue };
        let mut spec = pod("", json!({}), json!({}))["spec"].take();
        spec["restartPolicy"] = if resource.group == "batch" { "Never" } else { "Always" }.into();
        let metadata = json!({"labels": {"a": "b"}, "annotations": greedy()["annotations"]});
        let template = json!({"metadata": metadata, "spec": spec});
        let of_pods = json!({"template": template});
        let mut object = match resource.kind {
            "PodTemplate" => of_pods,
            "CronJob" => json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": of_pods}}}),
            "Job" => json!({"spec": of_pods}),
            "ReplicationController" => json!({"spec": {"selector": {"a": "b"}, "template": template}}),
            _ => json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        };
        object["metadata"] = json!({"name": "web"});
        let reply = post(client, &format!("{}?dryRun=All", resource.path("default")), &object).await;
        let refused = format!("{}: its pods will be refused: ", pointer[1..].replace('/', "."));
        assert!(
            reply.code == 201 && reply.warnings.iter().any(|warning| warning.contains(&refused)),
            "{reply:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_guarded_only_pods_that_are_created() {
    let directory = TempDir::new("admission-annotations");
    let server = Berth::start(&directory, "apiserver", &["apiserver", "--controllers=false"]);
    let client = connect(Path::new(&server.line_after("export KUBECONFIG="))).await;
    post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    is_guarded(&client, "default").await;
    let reply = merge(&client, &format!("{PODS}/bound"), greedy()).await;
    assert!(reply.code == 403, "{reply:?}");
    templates_are_checked(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_sent_only_pods_themselves_to_the_webhook() {
    let world = World::new("webhook-annotations", false).await;
    let client = &world.admin;
    world.make("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    world.make("/api/v1/namespaces", &json!({"metadata": {"name": "berth-system"}})).await;
    let webhook = world.webhook("", &[]).await;
    let text = fs::read_to_string(repository().join("deploy/kustomize/base/webhook.yaml")).unwrap();
    let manifests = collect_manifests(&text, "webhook.yaml").unwrap();
    let mut configurations = manifests.into_iter().map(|manifest| manifest.value);
    let mut configuration = configurations.find(|o| o["kind"] == "ValidatingWebhookConfiguration").unwrap();
    for entry in configuration["webhooks"].as_array_mut().unwrap() {
        let path = entry["clientConfig"]["service"]["path"].as_str().unwrap();
        entry["clientConfig"] = webhook.entry("", path, "", json!([]))["clientConfig"].clone();
        entry["timeoutSeconds"] = 10.into();
    }
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    world.make(path, &configuration).await;
    is_guarded(client, "default").await;
    templates_are_checked(client).await;
    // The namespaces whose own pods the webhook does not check are no way around it.
    is_guarded(client, "berth-system").await;
    let node = Client::try_from(world.server.node_config("n")).unwrap();
    let uid =
        ask(client, Method::GET, "/api/v1/nodes/n", "", "").await.unwrap().object["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": true});
    let mut mirror = greedy();
    mirror["annotations"]["kubernetes.io/config.mirror"] = "x".into();
    mirror["ownerReferences"] = json!([owner]);
    let pods = "/api/v1/namespaces/berth-system/pods";
    let reply = post(&node, pods, &pod("mirror", mirror, json!({"nodeName": "n"}))).await;
    assert!(
        reply.code == 403 && reply.message().contains("it would block pods of all namespaces"),
        "{reply:?}"
    );

    // Without a webhook, what changes no annotation of Berth goes on, and the rest is rejected.
    drop(webhook);
    let ready = json!({"annotations": {"example.com/ip": "10.0.0.1"}});
    assert_eq!(merge(client, &format!("{PODS}/bound/status"), ready).await.code, 200);
    let reply = merge(client, &format!("{PODS}/bound/status"), greedy()).await;
    assert!(
        reply.code == 500 && reply.message().contains("pod-annotations.scheduling.berth.dev"),
        "{reply:?}"
    );
    let relaxed = json!({"annotations": {"scheduling.berth.dev/relaxed": "spec.affinity"}});
    assert_eq!(bind(client, &format!("{PODS}/free/binding"), "free", relaxed).await.code, 201);
}
