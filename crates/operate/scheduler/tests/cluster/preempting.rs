//! Preemption.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_faults::Fault;
use http::Method;
use serde_json::{Value, json};

use super::support::*;

pub async fn classes(world: &World) {
    for (name, value, policy) in [
        ("low", 1, "PreemptLowerPriority"),
        ("high", 1000, "PreemptLowerPriority"),
        ("patient", 1000, "Never"),
    ] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }
}

pub fn of_class(mut pod: Value, class: &str) -> Value {
    pod["spec"]["priorityClassName"] = json!(class);
    pod
}

#[tokio::test(start_paused = true)]
async fn a_lower_priority_pod_is_evicted_and_the_preemptor_gets_its_node() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(of_class(pod("low-0", "low"), "low")).await;
    world.pod(of_class(pod("low-1", "low"), "low")).await;
    world.until_n_bound(2).await;

    world.pod(of_class(pod("patient", "x"), "patient")).await;
    let condition = world.until_refused("patient").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with("preemption: not eligible due to preemptionPolicy=Never."), "{message}");

    world.pod(of_class(pod("high", "x"), "high")).await;
    let node = world.until_bound("high").await;
    scheduler.until("one pod is removed", |s| s.n_preempted == 1).await;
    let left: Vec<_> =
        world.pods().await.into_iter().filter(|p| p.metadata.name.starts_with("low")).collect();
    assert_eq!(left.len(), 1, "one victim is enough");
    assert_ne!(left[0].spec.node_name, node);
    let victim = if left[0].metadata.name == "low-0" { "low-1" } else { "low-0" };
    let event = world.until_event("Pod", victim, "Preempted").await;
    assert!(event["note"].as_str().unwrap().ends_with(&format!("on node {node}")), "{event}");
    assert_eq!(world.node_of("patient").await, "");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_preempts_on_a_node_that_a_change_opens_for_it() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(of_class(pod("low", "low"), "low")).await;
    world.until_n_bound(1).await;
    let cordon = |unschedulable: bool| json!({"spec": {"unschedulable": unschedulable}});
    world.patch(&format!("{NODES}/n0"), cordon(true)).await;
    scheduler.until("aware of the cordoned node", |s| s.n_nodes == 1).await;
    world.pod(of_class(pod("high", "x"), "high")).await;
    world.until_refused("high").await;
    world.patch(&format!("{NODES}/n0"), cordon(false)).await;
    assert_eq!(world.until_bound("high").await, "n0");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_nomination_is_written_before_the_victims_are_evicted() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(20, 1, 1).await;
    let proxy = world.proxy();
    let writes: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let seen = writes.clone();
    proxy.rule(move |request| {
        let is_eviction = request.method == Method::DELETE;
        if is_eviction || request.uri.path().ends_with("/status") {
            seen.lock().unwrap().push((request.uri.path().to_owned(), is_eviction));
        }
        Fault::None
    });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    for i in 0..20 {
        world.pod(of_class(pod(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(20).await;
    for i in 0..20 {
        world.pod(of_class(pod(&format!("high-{i}"), "high"), "high")).await;
    }
    scheduler.until("all are bound", |s| s.n_bound == 40 && s.n_preempted == 20).await;
    // Before each eviction, as many pods have been nominated.
    let (mut n_nominated, mut n_evicted) = (0, 0);
    for (path, is_eviction) in writes.lock().unwrap().iter() {
        n_evicted += usize::from(*is_eviction);
        n_nominated += usize::from(path.contains("/pods/high-"));
        assert!(n_nominated >= n_evicted, "{path}");
    }
    assert_eq!(n_evicted, 20);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_terminating_victim_is_reserved() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    let mut slow = of_class(pod("slow", "x"), "low");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(600);
    world.pod(slow).await;
    world.until_bound("slow").await;
    world.pod(of_class(pod("high", "x"), "high")).await;
    let nominated = async || {
        let pod = world.get(&format!("{PODS}/high")).await;
        if pod["status"]["nominatedNodeName"] == "n0" { Ok(()) } else { Err(pod["status"].clone()) }
    };
    until("high is nominated", nominated).await;
    let dying = async || {
        let pod = world.get(&format!("{PODS}/slow")).await;
        if pod["metadata"]["deletionTimestamp"].is_string() { Ok(pod) } else { Err(pod) }
    };
    let dying = until("slow is being deleted", dying).await;
    let conditions = dying["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "PreemptionByScheduler");
    assert_eq!(target["observedGeneration"], 1);
    let uid = world.get(&format!("{PODS}/high")).await["metadata"]["uid"].as_str().unwrap().to_owned();
    let message = format!("berth: preempting to accommodate a higher priority pod (uid {uid})");
    assert_eq!(target["message"], message);

    // A later pod must not take the capacity that the preemption frees.
    world.pod(of_class(pod("low", "x"), "low")).await;
    world.until_refused("low").await;
    world.delete(&format!("{PODS}/slow?gracePeriodSeconds=0")).await;
    assert_eq!(world.until_bound("high").await, "n0");
    assert_eq!(world.node_of("low").await, "");
    scheduler.until("only one pod was removed", |s| s.n_preempted == 1).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_violated_only_if_there_is_no_other_victim() {
    let world = World::start().await;
    classes(&world).await;
    let middle = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "middle"}, "value": 10});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", middle).await;
    world.nodes(2, 1, 1).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}});
    world.create(budgets, budget).await;
    // The test writes the status, as no controller runs here: the budget allows no disruption.
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 1}});
    world.patch(&format!("{budgets}/guard/status"), status).await;
    let scheduler = world.schedule(impatient()).await;
    let on = |mut pod: Value, node: &str| {
        pod["spec"]["nodeSelector"] = json!({HOSTNAME: node});
        pod
    };
    world.pod(on(of_class(pod("guarded", "guarded"), "low"), "n0")).await;
    world.pod(on(of_class(pod("middle", "middle"), "middle"), "n1")).await;
    world.until_n_bound(2).await;

    // Without the budget, the victim would be the pod with the lowest priority.
    world.pod(of_class(pod("high-0", "x"), "high")).await;
    assert_eq!(world.until_bound("high-0").await, "n1");
    assert_eq!(world.node_of("guarded").await, "n0");
    // Now there is no other victim.
    world.pod(of_class(pod("high-1", "x"), "high")).await;
    assert_eq!(world.until_bound("high-1").await, "n0");
    scheduler.until("two pods are removed", |s| s.n_preempted == 2).await;
    scheduler.stopped().await;
}

fn with_cpu(mut pod: Value, cpu: &str) -> Value {
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
    pod
}

/// A pod of low priority that takes its time to terminate.
fn slow() -> Value {
    let mut slow = of_class(pod("slow", "x"), "low");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(600);
    slow
}

impl World {
    /// Waits until a pod has this `status.nominatedNodeName`; null for none.
    pub async fn until_nominated(&self, name: &str, node: Value) {
        until(&format!("{name} is nominated to {node}"), async || {
            let pod = self.get(&format!("{PODS}/{name}")).await;
            if pod["status"]["nominatedNodeName"] == node { Ok(()) } else { Err(pod["status"].clone()) }
        })
        .await;
    }

    async fn nominate(&self, name: &str, node: Value) {
        let status = json!({"status": {"nominatedNodeName": node}});
        self.send(Method::PATCH, &format!("{PODS}/{name}/status"), status).await.unwrap();
    }
}

/// A node with a pod that is being deleted for a pod of middle priority, which is nominated there.
async fn world_with_nomination(room: usize) -> World {
    let world = World::start().await;
    classes(&world).await;
    let middle = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "middle"}, "value": 10});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", middle).await;
    world.nodes(1, 1, room).await;
    world
}

async fn preempted_by_middle(world: &World, cpu: &str) {
    world.pod(slow()).await;
    world.until_bound("slow").await;
    world.pod(with_cpu(of_class(pod("middle", "x"), "middle"), cpu)).await;
    world.until_nominated("middle", json!("n0")).await;
}

/// Victims of a pod that must not be in their zone have replacements, which other schedulers' rules let go to other nodes of
/// the zone: preemption never makes room.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_preemptions_make_no_room_does_not_preempt_without_end() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 2).await;
    let scheduler = world.schedule(impatient()).await;
    let web = async |i: usize| {
        let mut web = of_class(pod(&format!("web-{i}"), "web"), "low");
        web["spec"]["terminationGracePeriodSeconds"] = json!(600);
        world.pod(web).await;
        world.until_bound(&format!("web-{i}")).await;
    };
    web(0).await;
    let apart = with_term(of_class(pod("apart", "x"), "high"), "podAntiAffinity", "web", ZONE);
    world.pod(apart).await;
    for i in 0..5 {
        until("the pod is being deleted", async || {
            let pod = world.get(&format!("{PODS}/web-{i}")).await;
            if pod["metadata"]["deletionTimestamp"].is_string() { Ok(()) } else { Err(pod["status"].clone()) }
        })
        .await;
        web(i + 1).await;
        world.delete(&format!("{PODS}/web-{i}{FORCE}")).await;
    }
    until("there are no more preemptions", async || {
        let condition = world.until_refused("apart").await;
        let message = condition["message"].as_str().unwrap_or_default().to_owned();
        let end = "preemption: not tried again for 300s, as 5 preemptions have not made room.";
        if message.ends_with(end) { Ok(()) } else { Err(message) }
    })
    .await;
    world.until_nominated("apart", Value::Null).await;
    scheduler.until("5 pods are removed", |s| s.n_preempted == 5).await;

    // Room that others make is taken at once.
    world.delete(&format!("{PODS}/web-5{FORCE}")).await;
    world.until_bound("apart").await;
    scheduler.stopped().await;
}

/// Two of three equal pods may preempt; the third finds no victims while they are nominated.
#[tokio::test(start_paused = true)]
async fn pods_whose_evictions_are_refused_preempt_after_their_back_off_until_they_are_permitted() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let proxy = world.proxy();
    proxy.rule(|request| if request.method == Method::DELETE { Fault::Answer(403) } else { Fault::None });
    let scheduler = start_scheduler(proxy.connection(), impatient()).await;
    for i in 0..2 {
        world.pod(of_class(pod(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(2).await;
    let began = tokio::time::Instant::now();
    for i in 0..3 {
        world.pod(of_class(pod(&format!("high-{i}"), "high"), "high")).await;
    }
    // More often than a pod may preempt without making room.
    until("evictions are refused again and again", async || {
        let n = proxy.n_faults();
        if n >= 20 { Ok(()) } else { Err(n) }
    })
    .await;
    // Each pod pauses for 100 ms, 200 ms, 400 ms and so on.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(scheduler.shows().n_preempted, 0);
    proxy.rule(|_| Fault::None);
    scheduler.until("two are bound", |s| s.n_bound == 4 && s.n_preempted == 2).await;
    scheduler.stopped().await;
}

pub const FORCE: &str = "?gracePeriodSeconds=0";

#[tokio::test(start_paused = true)]
async fn a_nomination_is_cleared_after_a_pod_of_higher_priority_took_the_node_without_preemption() {
    let world = world_with_nomination(2).await;
    let scheduler = world.schedule(impatient()).await;
    preempted_by_middle(&world, "200m").await;
    world.pod(of_class(pod("high", "x"), "high")).await;
    assert_eq!(world.until_bound("high").await, "n0");
    world.delete(&format!("{PODS}/slow{FORCE}")).await;
    world.until_nominated("middle", Value::Null).await;
    assert_eq!(world.node_of("middle").await, "");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_nomination_is_cleared_after_its_node_was_deleted() {
    let world = world_with_nomination(1).await;
    let scheduler = world.schedule(impatient()).await;
    preempted_by_middle(&world, "100m").await;
    world.delete(&format!("{NODES}/n0")).await;
    // Nodes and pods are watched apart: if the pod ended first, the node would have room.
    scheduler.until("aware that the node is deleted", |s| s.n_nodes == 0).await;
    world.delete(&format!("{PODS}/slow{FORCE}")).await;
    world.until_nominated("middle", Value::Null).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_nomination_is_cleared_if_no_candidate_remains() {
    let world = world_with_nomination(1).await;
    world.node("tainted", "z0", 1).await;
    let taint = json!({"spec": {"taints": [{"key": "tainted", "value": "true", "effect": "NoSchedule"}]}});
    world.patch(&format!("{NODES}/tainted"), taint).await;
    let scheduler = world.schedule(impatient()).await;
    preempted_by_middle(&world, "100m").await;
    world.delete(&format!("{NODES}/n0")).await;
    scheduler.until("aware that the node is deleted", |s| s.n_nodes == 1).await;
    world.delete(&format!("{PODS}/slow{FORCE}")).await;
    world.until_nominated("middle", Value::Null).await;
    let condition = world.until_refused("middle").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with("1 Preemption is not helpful for scheduling."), "{message}");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_nomination_that_another_component_sets_is_honoured_for_a_queued_pod() {
    let world = World::start().await;
    classes(&world).await;
    world.nodes(1, 1, 2).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(of_class(pod("low", "x"), "low")).await;
    world.until_bound("low").await;
    // It needs the whole node, and may not preempt.
    world.pod(with_cpu(of_class(pod("patient", "x"), "patient"), "200m")).await;
    world.until_refused("patient").await;
    world.nominate("patient", json!("n0")).await;
    // The nomination arrives before the pod: both are read in the order of their writes.
    world.pod(of_class(pod("late", "x"), "low")).await;
    world.until_refused("late").await;
    assert_eq!(world.node_of("late").await, "");

    world.nominate("patient", Value::Null).await;
    assert_eq!(world.until_bound("late").await, "n0");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_prefers_the_node_that_another_component_nominated() {
    let world = World::start().await;
    classes(&world).await;
    let mut held = of_class(pod("held", "x"), "low");
    held["spec"]["schedulingGates"] = json!([{"name": "example.com/hold"}]);
    world.nodes(3, 1, 2).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(held).await;
    // Without the nomination, the pod goes to the first of three equal nodes.
    world.nominate("held", json!("n2")).await;
    let open = json!({"spec": {"schedulingGates": null}});
    world.patch(&format!("{PODS}/held"), open).await;
    assert_eq!(world.until_bound("held").await, "n2");
    world.until_nominated("held", Value::Null).await;

    // A pod that does not fit on its nominated node loses the nomination.
    world.pod(with_cpu(of_class(pod("large", "x"), "low"), "500m")).await;
    world.until_refused("large").await;
    world.nominate("large", json!("n0")).await;
    world.until_nominated("large", Value::Null).await;
    scheduler.stopped().await;
}
