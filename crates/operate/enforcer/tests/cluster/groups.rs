//! Groups that are disrupted as a whole: all of their pods are evicted, or none.

use berth_faults::{Fault, is_eviction};
use serde_json::{Value, json};

use super::support::*;

const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A gang of two on two nodes, of which the first must stay on nodes with a label. The group may go to two others.
async fn gang(world: &World) {
    for node in ["node-1", "node-3", "node-4"] {
        world.label_node(node, "disk", json!("ssd")).await;
    }
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}});
    world.create(POD_GROUPS, group).await;
    for (name, node) in [("gang-1", "node-1"), ("gang-2", "node-2")] {
        let mut pod = with(pod(name, "gang"), "nodeName", json!(node));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "gang"});
        world.run(if name == "gang-1" { on_nodes_with(pod, "disk", "ssd") } else { pod }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_pods_of_a_group_are_evicted_for_the_rule_of_one() {
    let world = World::start(4, 1).await;
    let enforcer = world.enforce(hasty()).await;
    gang(&world).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label_node("node-1", "disk", Value::Null).await;
    enforcer.until("done with both", |s| s.n_evicted == 2 && s.n_violated == 0 && s.n_evicting == 0).await;
    for name in ["gang-1", "gang-2"] {
        world.until_pod_gone(name).await;
        let entry = world.journal.ended().into_iter().find(|entry| entry.name == name).unwrap();
        let said = entry.disruption.last().expect("it has the condition DisruptionTarget");
        assert!(said.contains("disk"), "{said}");
    }
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_of_a_group_is_evicted_while_a_budget_keeps_one_of_them() {
    let world = World::start(4, 1).await;
    let enforcer = world.enforce(hasty()).await;
    // The Eviction API would allow each of them.
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "gang"}}}});
    world.create(BUDGETS, budget).await;
    gang(&world).await;
    until("the budget allows one", async || {
        let budget = world.get(&format!("{BUDGETS}/one")).await;
        if budget["status"]["disruptionsAllowed"] == 1 { Ok(()) } else { Err(budget) }
    })
    .await;
    world.label_node("node-1", "disk", Value::Null).await;
    enforcer.until("refused twice", |s| s.n_refused >= 2).await;
    assert_eq!((enforcer.shows().n_evicted, world.journal.n_ended("gang")), (0, 0));
    // It is about the pod that would have been evicted first.
    let is_said = |event: &Value| {
        let says_budget = event["note"].as_str().unwrap_or_default().contains("PodDisruptionBudget one");
        event["reason"] == "EvictionRefused" && says_budget
    };
    until("an event names the budget", async || {
        let events = world.events().await;
        if events.iter().any(is_said) { Ok(()) } else { Err(events) }
    })
    .await;
    world.patch(&format!("{BUDGETS}/one"), json!({"spec": {"minAvailable": 0}})).await;
    enforcer.until("done with both", |s| s.n_evicted == 2 && s.n_evicting == 0).await;
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_group_is_evicted_after_the_enforcer_was_killed_between_two_evictions() {
    let world = World::start(4, 1).await;
    let proxy = world.proxy();
    let mut n = 0;
    proxy.rule(move |request| {
        n += usize::from(is_eviction(request));
        if n < 2 { Fault::None } else { Fault::Hang }
    });
    let first = start_enforcer(proxy.connection(), hasty()).await;
    gang(&world).await;
    first.until("aware of both", |s| s.n_pods == 2).await;
    world.label_node("node-1", "disk", Value::Null).await;
    until("one of the two is evicted", async || match world.journal.n_ended("gang") {
        1 => Ok(()),
        n => Err(n),
    })
    .await;
    first.stop.cancel();
    // No rule is violated any more.
    world.label_node("node-1", "disk", json!("ssd")).await;
    let second = world.enforce(hasty()).await;
    for name in ["gang-1", "gang-2"] {
        world.until_pod_gone(name).await;
    }
    second.until("done with the rest", |s| s.n_evicted == 1 && s.n_evicting == 0).await;
    let is_said = |text: &String| text.contains("Its pod group is disrupted as a whole, and gang-");
    let last = until("the second one says why", async || {
        let ended = world.journal.ended();
        let last = ended.iter().find(|pod| pod.disruption.iter().any(is_said));
        last.map(|pod| pod.name.clone()).ok_or(ended.len())
    })
    .await;
    world.until_event("Pod", &last, "EvictedForAffinity").await;
    second.stopped().await;
}
