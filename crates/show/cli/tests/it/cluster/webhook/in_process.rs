//! Admission inside the embedded API server.

use std::fs;
use std::path::Path;

use berth_testkit::programs::TempDir;
use http::Method;
use serde_json::{Value, json};

use super::bindings::{race, zones};
use super::world::{PODS, ask, pod, post};
use crate::client::{connect, eventually};
use crate::process::Berth;

/// An API server with these arguments, and an administrator's client.
async fn apiserver(directory: &TempDir, args: &[&str]) -> (Berth, kube::Client) {
    let mut all = vec!["apiserver", "--controllers=false"];
    all.extend(args);
    let server = Berth::start(directory, "apiserver", &all);
    let kubeconfig = server.line_after("export KUBECONFIG=");
    let client = connect(Path::new(&kubeconfig)).await;
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guard_is_on_by_default_and_can_be_disabled() {
    let directory = TempDir::new("admission-default");
    let term =
        json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "topology.kubernetes.io/zone"});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let greedy = pod("greedy", json!({}), json!({"affinity": {"podAntiAffinity": {required: [term]}}}));
    for (args, code) in [(&[][..], 403), (&["--no-admission"], 201), (&["--strict-v1"], 201)] {
        let (_server, client) = apiserver(&directory, args).await;
        let reply = post(&client, PODS, &greedy).await;
        assert_eq!(reply.code, code, "{reply:?}");
        if code == 403 {
            let begin = format!(
                "pods \"greedy\" is forbidden: spec.affinity.podAntiAffinity.{required}[0]: required anti-affinity over all \
                 namespaces may only have topologyKey \"kubernetes.io/hostname\""
            );
            assert!(reply.message().starts_with(&begin), "{reply:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guard_of_a_cluster_holds_wherever_a_pod_gets_a_rule() {
    let directory = TempDir::new("admission-ways");
    let berth = Berth::start(&directory, "up", &["up", "--no-summary", "--nodes", "1"]);
    let client = connect(Path::new(&berth.line_after("export KUBECONFIG="))).await;
    let anti_affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [
        {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "topology.kubernetes.io/zone"}]}});
    let annotations = json!({"scheduling.berth.dev/affinity": anti_affinity.to_string()});
    let plain = pod("plain", json!({}), json!({"schedulerName": "none"}));
    assert_eq!(post(&client, PODS, &plain).await.code, 201);
    let path = format!("{PODS}/plain");
    let binding = |annotations: &Value| {
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": "node-1"});
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "plain", "annotations": annotations}, "target": node})
    };
    let patch = json!({"metadata": {"annotations": annotations}}).to_string();
    let patched = async |path: &str| {
        ask(&client, Method::PATCH, path, "application/merge-patch+json", patch.as_str()).await.unwrap()
    };
    for (way, reply) in [
        ("creation", post(&client, PODS, &pod("new", json!({"annotations": annotations}), json!({}))).await),
        ("update", patched(&path).await),
        ("status", patched(&format!("{path}/status")).await),
        ("binding", post(&client, &format!("{path}/binding"), &binding(&annotations)).await),
        ("bindings", post(&client, "/api/v1/namespaces/default/bindings", &binding(&annotations)).await),
    ] {
        let is_guarded =
            reply.code == 403 && reply.message().contains("required anti-affinity over all namespaces");
        assert!(is_guarded, "{way}: {reply:?}");
    }
    let policy = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "greedy"},
        "spec": {"podSelector": {"matchLabels": {"app": "greedy"}}, "extendedAffinity": anti_affinity}});
    let policies = "/apis/scheduling.berth.dev/v1alpha1/namespaces/default/placementpolicies";
    assert_eq!(post(&client, policies, &policy).await.code, 201);
    let greedy = pod("greedy", json!({"labels": {"app": "greedy"}}), json!({}));
    eventually("the rule of the policy is guarded", async || {
        let reply = post(&client, &format!("{PODS}?dryRun=All"), &greedy).await;
        if reply.code == 403 { Ok(()) } else { Err(format!("{reply:?}")) }
    })
    .await;
    assert_eq!(post(&client, &format!("{path}/binding"), &binding(&json!({}))).await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_namespaces_and_required_labels_are_checked_without_the_state_of_the_cluster() {
    let directory = TempDir::new("admission-labels");
    let file = directory.file("policy.yaml");
    let policy =
        "apiVersion: admission.berth.dev/v1alpha1\nkind: AdmissionPolicy\nrequiredLabels: {keys: [team]}\n";
    fs::write(&file, policy).unwrap();
    let (_server, client) = apiserver(&directory, &["--admission-config", &file.display().to_string()]).await;
    let created = async |name: &str, labels: Value, other: &str| {
        let names = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [other]});
        let term = json!({"labelSelector": {}, "topologyKey": "topology.kubernetes.io/zone",
            "namespaceSelector": {"matchExpressions": [names]}});
        let affinity = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
        let reply = post(&client, PODS, &pod(name, json!({"labels": labels}), affinity)).await;
        (reply.code, reply.message().to_owned())
    };
    let team = || json!({"team": "a"});
    // Every cluster has the namespaces default and kube-system.
    let (code, message) = created("greedy", team(), "nonexistent").await;
    assert!(code == 403 && message.contains("every existing namespace"), "{message}");
    assert_eq!(created("modest", team(), "kube-system").await.0, 201);
    let (code, message) = created("unlabelled", json!({}), "kube-system").await;
    let expected = "pods \"unlabelled\" is forbidden: metadata.labels: the pods lack the label team, which all pods must carry";
    assert_eq!((code, message.as_str()), (403, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_file_enables_the_binding_guard() {
    let directory = TempDir::new("admission-policy");
    let file = directory.file("policy.yaml");
    let policy =
        "apiVersion: admission.berth.dev/v1alpha1\nkind: AdmissionPolicy\nbindingGuard: {enabled: true}\n";
    fs::write(&file, policy).unwrap();
    let (server, client) = apiserver(&directory, &["--admission-config", &file.display().to_string()]).await;
    zones(&client).await;
    let other = client.clone();
    race(&client, &other, "podAffinity", ["z1", "z2"], "node(s) didn't match pod affinity rules").await;
    drop(server);

    fs::write(&file, policy.replace("enabled", "enable")).unwrap();
    for command in ["apiserver", "webhook"] {
        let flag = if command == "webhook" { "--config" } else { "--admission-config" };
        let mut failed = Berth::start(&directory, "failed", &[command, flag, &file.display().to_string()]);
        assert_eq!(failed.wait().code(), Some(2));
        let expected =
            format!("{}:1: bindingGuard.enable: unknown field; did you mean \"enabled\"?", file.display());
        assert!(failed.stderr().contains(&expected), "{}", failed.stderr());
    }
}
