//! Plans of moves, carried out in a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::object::placement::MOVE_CONDITION;
use berth_enforcer::{EnforcerOptions, LimitOptions, RebalanceOptions};
use berth_faults::{Fault, is_eviction};
use berth_rebalance::{Goal, Movable, Request};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::support::*;

const STATUS: &str = "/api/v1/namespaces/kube-system/configmaps/berth-rebalance";

/// Rebalances for these goals, without a pause.
fn for_goals(goals: &[Goal]) -> EnforcerOptions {
    let request = Request {
        movable: Movable { settle: SignedDuration::ZERO, ..Movable::default() },
        ..Request::new(goals.to_vec(), Timestamp::UNIX_EPOCH)
    };
    let rebalance =
        RebalanceOptions { interval: Duration::from_millis(300), ..RebalanceOptions::new(request) };
    EnforcerOptions { rebalance: Some(rebalance), ..hasty() }
}

/// Pods that spread softly over zones.
fn spread(name: &str) -> Value {
    let constraint = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}}});
    with(pod(name, name), "topologySpreadConstraints", json!([constraint]))
}

/// The same, whose scheduler prefers a node.
fn drawn_to(node: &str) -> Value {
    let mut pod = spread("web");
    pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([{"weight": 100,
        "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}}]);
    pod
}

/// Three zones of a node each, of which the third was away when the pods came.
async fn after_an_outage(n_pods: usize, template: Value) -> World {
    let world = World::start(3, 3).await;
    cordon(&world, "node-3", true).await;
    // The scheduler has seen it when it finds no node for this one.
    let only = json!({HOSTNAME: "node-3"});
    world.create(PODS, with(pod("probe", "probe"), "nodeSelector", only)).await;
    until("the probe is unschedulable", async || {
        let conditions = world.get(&format!("{PODS}/probe")).await["status"]["conditions"].clone();
        if conditions[0]["reason"] == "Unschedulable" { Ok(()) } else { Err(conditions) }
    })
    .await;
    world.delete_pod("probe").await;
    let name = template["metadata"]["name"].as_str().unwrap().to_owned();
    world.create(REPLICA_SETS, replica_set(n_pods, template)).await;
    world.until_ready(&name, n_pods).await;
    cordon(&world, "node-3", false).await;
    // A controller takes the taint of a cordoned node away.
    until("node-3 has no taint", async || {
        let taints = world.get("/api/v1/nodes/node-3").await["spec"]["taints"].clone();
        if taints.as_array().is_none_or(Vec::is_empty) { Ok(()) } else { Err(taints) }
    })
    .await;
    world
}

async fn cordon(world: &World, node: &str, is_cordoned: bool) {
    world.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": is_cordoned}})).await;
}

/// The number of pods of an app by node, when all are ready.
async fn by_node(world: &World, app: &str, n: usize) -> BTreeMap<String, usize> {
    let mut by_node = BTreeMap::new();
    for pod in world.until_ready(app, n).await {
        *by_node.entry(pod.spec.node_name.clone()).or_default() += 1;
    }
    by_node
}

fn each(n: usize) -> BTreeMap<String, usize> {
    (1..=3).map(|i| (format!("node-{i}"), n)).collect()
}

/// The status of rebalancing, when it is as expected.
async fn status(world: &World, is_so: impl Fn(&Value) -> bool) -> Value {
    until("the status is as expected", async || {
        let object = world.send(http::Method::GET, STATUS, Value::Null).await;
        let text = object.map_or(String::new(), |object| object["data"]["status.json"].to_string());
        let status: String = serde_json::from_str(&text).unwrap_or_default();
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        if is_so(&status) { Ok(status) } else { Err(status) }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn pods_spread_again_after_an_outage_with_the_fewest_evictions() {
    let world = after_an_outage(6, spread("web")).await;
    let enforcer = world.enforce(for_goals(&[Goal::Required, Goal::Spread])).await;
    enforcer.until("done", |s| s.n_moved == 2 && s.n_moves_left == 0).await;
    assert_eq!(by_node(&world, "web", 6).await, each(2));
    let mut ended = world.journal.ended();
    ended.retain(|pod| pod.name.starts_with("web"));
    assert_eq!(ended.len(), 2, "{ended:?}");
    for pod in &ended {
        let said = pod.disruption.last().unwrap();
        assert!(said.starts_with("Rebalanced: It moves from node-"), "{said}");
        assert!(said.ends_with("to node-3 for the goal spread"), "{said}");
        world.until_event("Pod", &pod.name, "EvictedForRebalance").await;
    }
    let status = status(&world, |status| status["nLeft"] == 0 && status["now"]["spread"] == 0.0).await;
    let done = status["done"].as_array().unwrap();
    assert_eq!(done.len(), 2, "{status}");
    assert!(done.iter().all(|made| made["result"] == "moved" && made["to"] == "node-3"), "{status}");
    // The next plans find nothing.
    let n_plans = enforcer.shows().n_plans;
    enforcer.until("planned again", |s| s.n_plans >= n_plans + 3).await;
    assert_eq!(world.journal.n_ended("web"), 2);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_puts_the_replacement_where_the_plan_has_it_against_its_own_scores() {
    let world = after_an_outage(4, drawn_to("node-1")).await;
    let before = by_node(&world, "web", 4).await;
    assert!(before["node-1"] >= 2, "{before:?}");
    let enforcer = world.enforce(for_goals(&[Goal::Spread])).await;
    enforcer.until("done", |s| s.n_moved >= 1 && s.n_moves_left == 0).await;
    let after = by_node(&world, "web", 4).await;
    assert!(
        after.values().max().unwrap() - after.values().min().unwrap() <= 1 && after.len() == 3,
        "{after:?}"
    );
    assert_eq!(world.journal.n_ended("web") as u64, enforcer.shows().n_moved, "one eviction for each move");
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_another_scheduler_move_only_where_it_would_put_them() {
    let world = after_an_outage(4, drawn_to("node-1")).await;
    let mut options = for_goals(&[Goal::Spread]);
    options.rebalance.as_mut().unwrap().following_schedulers.clear();
    let enforcer = world.enforce(options.clone()).await;
    let status = status(&world, |status| status["nHeld"].as_u64() > Some(0) && status["nLeft"] == 0).await;
    let reason = status["held"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("its scheduler berth might put it on node-1 instead of "), "{reason}");
    assert_eq!(world.journal.n_ended("web"), 0);
    enforcer.stopped().await;
    // Without the preference its scores agree with the plan.
    let world = after_an_outage(6, spread("web")).await;
    let enforcer = world.enforce(options).await;
    enforcer.until("done", |s| s.n_moved == 2 && s.n_moves_left == 0).await;
    assert_eq!(by_node(&world, "web", 6).await, each(2));
    let pods = world.pods().await;
    assert!(pods.iter().all(|pod| pod.status.conditions.iter().all(|c| c.condition_type != MOVE_CONDITION)));
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_plans_and_evicts_nothing() {
    let world = after_an_outage(6, spread("web")).await;
    let options = EnforcerOptions { dry_run: true, ..for_goals(&[Goal::Spread]) };
    let enforcer = world.enforce(options).await;
    enforcer.until("planned", |s| s.n_plans >= 2).await;
    assert_eq!((enforcer.shows().n_moved, world.journal.n_ended("web")), (0, 0));
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_evictions_hold_for_moves() {
    let world = after_an_outage(6, spread("web")).await;
    let limits = LimitOptions { max_per_namespace: 1, window: LONG, ..hasty().limits };
    let enforcer = world.enforce(EnforcerOptions { limits, ..for_goals(&[Goal::Spread]) }).await;
    let waits = |status: &Value| {
        status["doing"].as_str().is_some_and(|doing| doing.contains("waits: ")) && status["nLeft"] == 1
    };
    let shown = status(&world, waits).await;
    assert!(shown["doing"].as_str().unwrap().contains("namespace"), "{shown}");
    assert_eq!(world.journal.n_ended("web"), 1);
    // The ledger counts it, also for the next process.
    enforcer.stopped().await;
    let limits = LimitOptions { max_per_namespace: 1, window: LONG, ..hasty().limits };
    let next = world.enforce(EnforcerOptions { limits, ..for_goals(&[Goal::Spread]) }).await;
    let again = status(&world, |status| waits(status) && status["plannedAt"] != shown["plannedAt"]).await;
    assert!(again["doing"].as_str().unwrap().contains("namespace"), "{again}");
    assert_eq!(world.journal.n_ended("web"), 1);
    next.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_a_killed_enforcer_leaves_no_pod_evicted_twice() {
    let world = after_an_outage(6, spread("web")).await;
    let proxy = world.proxy();
    // The eviction is carried out without an answer; then this enforcer hears and says nothing any more.
    proxy.rule(|request| if is_eviction(request) { Fault::HangAfter } else { Fault::None });
    let first = start_enforcer(proxy.connection(), for_goals(&[Goal::Spread])).await;
    until("an eviction", async || {
        let n = world.journal.n_ended("web");
        if n > 0 { Ok(()) } else { Err(n) }
    })
    .await;
    proxy.rule(|_| Fault::Hang);
    proxy.cut();
    first.stop.cancel();
    let second = world.enforce(for_goals(&[Goal::Spread])).await;
    second.until("nothing is left", |s| s.n_plans >= 2 && s.n_moves_left == 0).await;
    until("the pods are spread", async || {
        let now = by_node(&world, "web", 6).await;
        if now == each(2) { Ok(()) } else { Err(now) }
    })
    .await;
    assert_eq!(world.journal.n_ended("web"), 2);
    second.stopped().await;
}

/// So that two plans were made in place of one.
#[tokio::test(start_paused = true)]
async fn the_first_plan_held_the_pods_of_a_budget_that_was_not_counted_yet() {
    let world = after_an_outage(6, spread("web")).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await;
    let enforcer = world.enforce(for_goals(&[Goal::Spread])).await;
    let planned = status(&world, |status| !status["plannedAt"].is_null()).await;
    assert_eq!((&planned["nHeld"], &planned["after"]["spread"]), (&json!(0), &json!(0.0)), "{planned}");
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_room_is_reported_and_respected() {
    let world = after_an_outage(6, spread("web")).await;
    world
        .create(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
                "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}}),
        )
        .await;
    let enforcer = world.enforce(for_goals(&[Goal::Spread])).await;
    enforcer.until("planned", |s| s.n_plans >= 3).await;
    assert_eq!(world.journal.n_ended("web"), 0);
    let shown = status(&world, |status| status["nHeld"] == 6).await;
    assert!(shown["doing"].as_str().unwrap().starts_with("plans again at 20"), "{shown}");
    let held = &shown["held"][0];
    let why = "PodDisruptionBudget default/all allows no eviction: 6 of its pods are ready, and 6 have to be";
    assert_eq!(held["reason"], why);
    world
        .patch(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets/all",
            json!({"spec": {"maxUnavailable": 1}}),
        )
        .await;
    enforcer.until("done", |s| s.n_moved == 2 && s.n_moves_left == 0).await;
    assert_eq!(by_node(&world, "web", 6).await, each(2));
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn room_is_made_for_a_pending_group_as_a_whole() {
    let world = World::start(3, 3).await;
    let apart = with_term(pod("web", "web"), "podAntiAffinity", "web", HOSTNAME);
    let mut apart = with(apart, "nodeSelector", json!({}));
    // The scheduler alone keeps them apart when they come.
    let terms = apart["spec"]["affinity"]["podAntiAffinity"][EXECUTING].take();
    apart["spec"]["affinity"]["podAntiAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 100, "podAffinityTerm": terms[0]}]});
    world.create(REPLICA_SETS, replica_set(2, apart)).await;
    let before = by_node(&world, "web", 2).await;
    assert_eq!(before.len(), 2, "{before:?}");
    let gang = |n: u32| {
        json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": format!("gang-of-{n}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": n}}}})
    };
    let groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
    let member = |of: u32, i: u32| {
        let group = format!("gang-of-{of}");
        let mut pod =
            with(pod(&format!("{group}-{i}"), &group), "schedulingGroup", json!({"podGroupName": group}));
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
        pod
    };
    // One of three would find a node, and none does: no move makes room for all.
    world.create(groups, gang(3)).await;
    for i in 1..=3 {
        world.create(PODS, member(3, i)).await;
    }
    let enforcer = world.enforce(for_goals(&[Goal::Defragment])).await;
    let shown = status(&world, |status| status["now"]["defragment"] == 3.0).await;
    assert_eq!((&shown["nLeft"], world.journal.n_ended("web")), (&json!(0), 0), "{shown}");
    // Of two, both do after one move.
    world.create(groups, gang(2)).await;
    for i in 1..=2 {
        world.create(PODS, member(2, i)).await;
    }
    world.until_ready("gang-of-2", 2).await;
    let is_done = |status: &Value| status["nLeft"] == 0 && status["done"][0]["result"] == "moved";
    let shown = status(&world, |status| is_done(status) && status["now"]["defragment"] == 3.0).await;
    assert_eq!(shown["done"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(world.journal.n_ended("web"), 1);
    enforcer.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn pods_whose_controller_does_not_exist_were_evicted_by_plans_and_lost() {
    let world = World::start(3, 3).await;
    // The garbage collector leaves pods alone whose owner is of a kind that the server does not have.
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "gone", "uid": "gone", "controller": true});
    for i in 0..2 {
        let mut alone = with(spread("web"), "nodeName", json!("node-1"));
        alone["metadata"]["name"] = json!(format!("web-{i}"));
        alone["metadata"]["ownerReferences"] = json!([owner]);
        world.create(PODS, alone).await;
    }
    let enforcer = world.enforce(for_goals(&[Goal::Spread])).await;
    let why = "its controller Widget gone does not exist";
    status(&world, |status| status["nHeld"] == 2 && status["held"][1]["reason"] == why).await;
    assert_eq!((world.pods().await.len(), world.journal.n_ended("web")), (2, 0));
    enforcer.stopped().await;
}
