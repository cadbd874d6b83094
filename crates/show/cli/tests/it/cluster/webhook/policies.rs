//! Placement policies while the webhook is down.

use std::fs;

use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_testkit::documents::repository;
use serde_json::json;

use super::world::{PODS, Reply, World, pod, post, rules};
use crate::client::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn while_the_webhook_is_down_pods_are_rejected_or_get_no_rules() {
    let world = World::new("policies-down", true).await;
    let file = repository().join("deploy/kustomize/components/placement-policies/crds.yaml");
    let mut definitions = Vec::new();
    let keep = &mut |manifest: Manifest| {
        definitions.push(manifest.value);
        Ok::<(), ReadError>(())
    };
    read_manifests(fs::read(file).unwrap().as_slice(), "crds.yaml", keep).unwrap();
    for definition in &definitions {
        world.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    }
    let policy = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "gpu"}, "spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}});
    let policies = "/apis/scheduling.berth.dev/v1alpha1/clusterplacementpolicies";
    eventually("the policy is created", async || match post(&world.admin, policies, &policy).await {
        Reply { code: 201, .. } => Ok(()),
        reply => Err(format!("{reply:?}")),
    })
    .await;
    let webhook = world.webhook("", &[]).await;
    for failure_policy in ["Fail", "Ignore"] {
        let name = failure_policy.to_lowercase();
        let pods = rules("", &["pods"], &["CREATE"]);
        let mut entry = webhook.entry(&format!("{name}.berth.dev"), "/mutate-pods", failure_policy, pods);
        entry["objectSelector"] = json!({"matchLabels": {"policy": name}});
        world.register("Mutating", &name, entry).await;
    }
    let create = async |name: &str, policy: &str| {
        post(&world.admin, PODS, &pod(name, json!({"labels": {"policy": policy}}), json!({}))).await
    };
    let has_rule = |reply: &Reply| reply.object["spec"]["tolerations"].to_string().contains("gpu");
    assert!(has_rule(&create("before", "fail").await));
    drop(webhook);
    let rejected = create("rejected", "fail").await;
    assert_eq!(rejected.code, 500, "{rejected:?}");
    assert!(rejected.message().contains("failed calling webhook \"fail.berth.dev\""), "{rejected:?}");
    let without = create("without", "ignore").await;
    assert_eq!((without.code, has_rule(&without)), (201, false));
}
