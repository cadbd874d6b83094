//! Required rules that become preferences while a pod is pending.

use serde_json::json;

use super::support::*;

/// In real time: how long a pod is pending is counted from its creation timestamp.
#[tokio::test]
async fn a_pod_is_bound_without_the_rules_that_it_has_been_pending_for() {
    let world = World::start().await;
    world.nodes(1, 1, 10).await;
    let path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let apart = |name: &str, relax_after: &str| {
        let mut pod = with_term(pod(name, "web"), "podAntiAffinity", "web", "kubernetes.io/hostname");
        pod["metadata"]["annotations"] = json!({"scheduling.berth.dev/relax-after": relax_after});
        pod
    };
    let scheduler = world.schedule(impatient()).await;
    world.pod(apart("first", "1h")).await;
    world.until_bound("first").await;
    world.pod(apart("patient", "1h")).await;
    world.until_refused("patient").await;
    // It has relaxed its rule, so that the equal one of the first pod does not reject it.
    world.pod(apart("second", "1s")).await;
    world.until_bound("second").await;
    let event = world.until_event("Pod", "second", "RulesRelaxed").await;
    assert!(event["note"].as_str().unwrap().ends_with(&format!("required rules become preferences: {path}")));
    let pods = world.pods().await;
    let annotation = |name: &str| {
        let pod = pods.iter().find(|pod| pod.metadata.name == name).unwrap();
        pod.metadata.annotation("scheduling.berth.dev/relaxed").map(str::to_owned)
    };
    assert_eq!((annotation("first"), annotation("second")), (None, Some(path.to_owned())));
    assert_eq!(world.node_of("patient").await, "");

    // No node fits even so: the condition names the rule.
    let mut huge = apart("huge", "1s");
    huge["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000");
    world.pod(huge).await;
    until("the condition names the relaxed rule", async || {
        let pod = world.get(&format!("{PODS}/huge")).await;
        let message = pod["status"]["conditions"].to_string();
        if message.contains(&format!("Relaxed: {path}.")) { Ok(()) } else { Err(message) }
    })
    .await;
    scheduler.stopped().await;
}
