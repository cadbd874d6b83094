//! Pods that have to go and have no feasible node: held for a time, and then evicted. In real time: holds are counted by the
//! wall clock, so that they go on in another process.

use berth_api::object::placement::HELD_CONDITION;
use berth_api::object::{Condition, Pod, find_condition};
use berth_enforcer::{EnforcerOptions, Graces, HoldOptions, HoldPeriod, LimitOptions};
use jiff::ToSpan;
use serde_json::{Value, json};

use super::support::*;

fn held(pod: &Value) -> Option<Condition> {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    find_condition(&pod.status.conditions, HELD_CONDITION).cloned()
}

/// The condition of a pod once it is so.
async fn until_held(world: &World, pod: &str, is_so: impl Fn(&Condition) -> bool) -> Condition {
    until("the condition is written", async || {
        held(&world.get(&format!("{PODS}/{pod}")).await).filter(|condition| is_so(condition)).ok_or("not yet")
    })
    .await
}

/// Node 1 has lost the label that these pods require, and no other node has it.
async fn lost_label(world: &World, enforcer: &Enforcer, pods: Vec<Value>) {
    world.label_node("node-1", "disk", json!("ssd")).await;
    let n = pods.len();
    for pod in pods {
        world.run(on_nodes_with(pod, "disk", "ssd")).await;
    }
    enforcer.until("aware of them", |s| s.n_pods == n).await;
    world.label_node("node-1", "disk", Value::Null).await;
}

#[tokio::test]
async fn the_system_evicts_eventually_and_says_when_and_why() {
    let world = World::start(1, 1).await;
    // One replica: six times as long.
    let enforcer = world.enforce(EnforcerOptions { holds: held_for(500), ..hasty() }).await;
    lost_label(&world, &enforcer, vec![pod("web", "web")]).await;
    let condition = until_held(&world, "web", |condition| condition.is_true()).await;
    assert!(condition.message.starts_with("Held until 20"), "{condition:?}");
    assert!(condition.message.contains("then evicted: no node is feasible: 0/1 nodes"), "{condition:?}");
    assert_eq!(condition.reason, "NoFeasibleNode");
    let event = world.until_event("Pod", "web", "EvictionHeld").await;
    let note = event["note"].as_str().unwrap();
    assert!(note.contains("disk") && note.contains("Held until 20"), "{note}");
    world.until_pod_gone("web").await;
    let event = world.until_event("Pod", "web", "EvictedForAffinity").await;
    assert!(event["note"].as_str().unwrap().contains("No node is feasible for the pod"), "{event}");
    enforcer.stopped().await;
}

#[tokio::test]
async fn a_pod_decides_for_itself_and_a_namespace_for_its_pods() {
    let world = World::start(1, 1).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "batch"}});
    world.create("/api/v1/namespaces", namespace).await;
    let namespaces = [("batch".to_owned(), held_for(0).default)].into();
    let holds = HoldOptions { default: HoldPeriod::Always, namespaces };
    let enforcer = world.enforce(EnforcerOptions { holds, ..hasty() }).await;
    let mut of_batch = pod("of-batch", "x");
    of_batch["metadata"]["namespace"] = json!("batch");
    let mut stays = without_target(pod("stays", "x"), "hold");
    stays["metadata"]["namespace"] = json!("batch");
    let pods = vec![
        without_target(pod("goes", "x"), "evict"),
        without_target(pod("later", "x"), "1s"),
        without_target(pod("unclear", "x"), "at once"),
        of_batch,
        stays,
    ];
    lost_label(&world, &enforcer, pods).await;
    for name in ["goes", "later"] {
        world.until_pod_gone(name).await;
    }
    let held = |s: &berth_enforcer::Status| s.held.get("no_target") == Some(&2);
    enforcer.until("done", |s| s.n_evicted == 3 && held(s)).await;
    let event = world.until_event("Pod", "unclear", "InvalidWithoutTarget").await;
    let note = event["note"].as_str().unwrap();
    assert!(note.contains("is not evict, hold, or a duration such as 90s"), "{note}");
    let condition = until_held(&world, "unclear", |condition| condition.is_true()).await;
    assert!(condition.message.starts_with("Held until a node is feasible: "), "{condition:?}");
    // It may change its mind.
    world
        .patch(
            &format!("{PODS}/unclear"),
            json!({"metadata": {"annotations": {"scheduling.berth.dev/without-target": "evict"}}}),
        )
        .await;
    world.until_pod_gone("unclear").await;
    assert_eq!(world.journal.n_ended("stays"), 0);
    enforcer.stopped().await;
}

#[tokio::test]
async fn a_new_enforcer_goes_on_from_the_condition_and_the_next_violation_starts_a_new_time() {
    let world = World::start(1, 1).await;
    let options =
        |default| EnforcerOptions { holds: HoldOptions { default, ..HoldOptions::default() }, ..hasty() };
    let enforcer = world.enforce(options(HoldPeriod::Always)).await;
    lost_label(&world, &enforcer, vec![pod("web", "web")]).await;
    let first = until_held(&world, "web", |condition| condition.is_true()).await;
    enforcer.stopped().await;
    // Conditions have whole seconds: it began a minute earlier.
    let earlier = first.last_transition_time.map(|time| time - 60.seconds());
    let condition = Condition { last_transition_time: earlier, ..first };
    let status = json!({"status": {"conditions": [condition]}});
    world
        .patch_as("application/strategic-merge-patch+json", &format!("{PODS}/web/status"), status)
        .await
        .unwrap();
    let enforcer = world.enforce(options(HoldPeriod::For(LONG))).await;
    let second = until_held(&world, "web", |condition| condition.message.contains("then evicted")).await;
    assert_eq!(second.last_transition_time, earlier);
    world.label_node("node-1", "disk", json!("ssd")).await;
    let ended = until_held(&world, "web", |condition| !condition.is_true()).await;
    assert_eq!((ended.status.as_str(), ended.reason.as_str()), ("False", "NotHeld"));
    assert_eq!(ended.message, "No violated rule requires the eviction of the pod");
    world.label_node("node-1", "disk", Value::Null).await;
    let third = until_held(&world, "web", |condition| condition.is_true()).await;
    assert!(third.last_transition_time > earlier, "{second:?} {third:?}");
    assert_eq!(world.journal.n_ended("web"), 0);
    enforcer.stopped().await;
}

#[tokio::test]
async fn the_time_continues_after_a_restart_also_in_the_grace_period_of_the_rule() {
    let world = World::start(2, 1).await;
    let holds = HoldOptions { default: HoldPeriod::For(LONG), ..HoldOptions::default() };
    let enforcer = world.enforce(EnforcerOptions { holds: holds.clone(), ..hasty() }).await;
    world.run(pod("s2", "s2")).await;
    world.run(with_term(pod("s1", "s1"), "podAffinity", "s2", ZONE)).await;
    for key in ["disk", "gpu"] {
        world.label_node("node-1", key, json!("yes")).await;
        world.run(without_target(on_nodes_with(pod(key, key), key, "yes"), "evict")).await;
    }
    enforcer.until("aware of all", |s| s.n_pods == 4).await;
    world.delete_pod("s2").await;
    let first = until_held(&world, "s1", |condition| condition.is_true()).await;
    enforcer.stopped().await;
    let graces = Graces { pod_affinity: LONG, ..hasty().graces };
    let enforcer = world.enforce(EnforcerOptions { graces, holds, ..hasty() }).await;
    enforcer.until("aware of the violation", |s| s.n_violated == 1).await;
    // Selections with another rule that is due, and with none.
    for key in ["disk", "gpu"] {
        world.label_node("node-1", key, Value::Null).await;
        world.until_pod_gone(key).await;
    }
    let condition = held(&world.get(&format!("{PODS}/s1")).await).unwrap();
    assert_eq!(
        (condition.status, condition.last_transition_time),
        ("True".to_owned(), first.last_transition_time)
    );
    world.run(pod("s2", "s2")).await;
    let ended = until_held(&world, "s1", |condition| !condition.is_true()).await;
    assert_eq!(ended.message, "No violated rule requires the eviction of the pod");
    enforcer.stopped().await;
}

#[tokio::test]
async fn the_second_of_two_replicas_is_held_no_longer_than_the_first_and_then_says_which_limit_delays_it() {
    let world = World::start(1, 1).await;
    let limits = LimitOptions { max_workload_share: 0.5, window: LONG, ..hasty().limits };
    let enforcer = world.enforce(EnforcerOptions { limits, holds: held_for(1500), ..hasty() }).await;
    world.label_node("node-1", "disk", json!("ssd")).await;
    world.create(REPLICA_SETS, replica_set(2, on_nodes_with(pod("web", "web"), "disk", "ssd"))).await;
    let pods = world.until_ready("web", 2).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.label_node("node-1", "disk", Value::Null).await;
    enforcer.until("done with the first", |s| s.n_evicted == 1).await;
    let condition = until("the other says why it stays", async || {
        let pods: Vec<_> = world.pods().await;
        let conditions = pods.iter().filter_map(|pod| find_condition(&pod.status.conditions, HELD_CONDITION));
        let conditions: Vec<Condition> = conditions.cloned().collect();
        let delayed = conditions.iter().find(|condition| condition.reason == "EvictionDelayed").cloned();
        delayed.ok_or(conditions)
    })
    .await;
    assert!(condition.message.starts_with("Held until 20"), "{condition:?}");
    let why = ". Not evicted yet: --max-workload-share delays the eviction";
    assert!(condition.is_true() && condition.message.ends_with(why), "{condition:?}");
    assert_eq!((pods.len(), world.journal.n_ended("web")), (2, 1));
    enforcer.stopped().await;
}

#[tokio::test]
async fn a_pod_whose_hold_is_over_says_that_a_budget_rejects_its_eviction() {
    let world = World::start(1, 1).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await;
    let enforcer = world.enforce(hasty()).await;
    lost_label(&world, &enforcer, vec![without_target(pod("web", "web"), "1s")]).await;
    let condition = until_held(&world, "web", |condition| condition.reason == "EvictionDelayed").await;
    assert!(condition.message.starts_with("Held until 20"), "{condition:?}");
    let why = ". Not evicted yet: the API server rejected the eviction: ";
    assert!(condition.message.contains(why) && condition.message.contains("budget"), "{condition:?}");
    let event = world.until_event("Pod", "web", "EvictionRefused").await;
    let note = event["note"].as_str().unwrap();
    assert!(note.contains(". Eviction rejected") && !note.contains(".. "), "{note}");
    enforcer.stopped().await;
}

#[tokio::test]
async fn when_s2_terminates_s1_is_terminated_eventually() {
    let world = World::start(2, 1).await;
    let enforcer = world.enforce(EnforcerOptions { holds: held_for(200), ..hasty() }).await;
    world.run(pod("s2", "s2")).await;
    world.run(with_term(pod("s1", "s1"), "podAffinity", "s2", ZONE)).await;
    enforcer.until("aware of both", |s| s.n_pods == 2).await;
    world.delete_pod("s2").await;
    until_held(&world, "s1", |condition| condition.is_true()).await;
    world.until_pod_gone("s1").await;
    enforcer.stopped().await;
}
