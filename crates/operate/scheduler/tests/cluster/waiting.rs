//! Unschedulable pods: what the scheduler reports, and what makes it try again.

use std::time::Duration;

use berth_faults::Fault;
use serde_json::json;

use berth_api::object::PodLimits;
use berth_scheduler::SchedulerOptions;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_gets_a_reason_and_is_retried_when_it_may_fit() {
    let world = World::start().await;
    world.nodes(2, 1, 5).await;
    let scheduler = world.schedule(impatient()).await;
    for i in 0..2 {
        world.pod(with_term(pod(&format!("web-{i}"), "web"), "podAntiAffinity", "web", HOSTNAME)).await;
    }
    world.until_n_bound(2).await;
    world.pod(with_term(pod("web-2", "web"), "podAntiAffinity", "web", HOSTNAME)).await;
    let condition = world.until_refused("web-2").await;
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(
        condition["message"],
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: 0/2 nodes are \
         available: 2 No preemption victims found for incoming pod."
    );
    let event = world.until_event("Pod", "web-2", "FailedScheduling").await;
    let note = event["note"].as_str().unwrap();
    assert!(note.starts_with(condition["message"].as_str().unwrap()), "{note}");
    assert!(note.contains("Bottleneck: spec.affinity.podAntiAffinity"), "{note}");
    assert_eq!(
        (event["type"].as_str(), event["reportingController"].as_str()),
        (Some("Warning"), Some("berth"))
    );

    // A label that no rule uses changes nothing; another node makes the pod schedulable.
    let label = json!({"metadata": {"labels": {"color": "blue"}}});
    world.patch(&format!("{NODES}/n0"), label).await;
    world.node("n2", "z0", 5).await;
    assert_eq!(world.until_bound("web-2").await, "n2");
    scheduler.until("one attempt failed", |s| s.n_bound == 3 && s.n_unschedulable == 1).await;
    verify::all_is_well(&world, 3).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn of_four_hundred_equivalent_pods_only_as_many_are_tried_as_fit() {
    let world = World::start().await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    scheduler.until("ready", |s| s.is_ready()).await;
    let n = 400;
    for i in 0..n {
        world.pod(pod(&format!("p{i}"), "x")).await;
    }
    scheduler.until("all but one wait", |s| s.n_bound == 1 && s.queue.unschedulable == n - 1).await;
    let before = scheduler.shows().n_unschedulable;
    assert!(before < 20, "{before} attempts for pods just like each other");
    world.node("n1", "z0", 3).await;
    scheduler.until("three more are bound", |s| s.n_bound == 4 && s.queue.unschedulable == n - 4).await;
    let after = scheduler.shows().n_unschedulable;
    assert!(after - before <= 2, "{before} and then {after} attempts for three places");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_makes_room_for_an_unschedulable_one() {
    let world = World::start().await;
    world.nodes(1, 1, 1).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(pod("first", "x")).await;
    world.until_bound("first").await;
    world.pod(pod("second", "y")).await;
    world.until_refused("second").await;
    world.delete(&format!("{PODS}/first")).await;
    world.until_bound("second").await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_retried_after_a_toleration_is_added() {
    let world = World::start().await;
    world.nodes(1, 1, 10).await;
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    world.patch(&format!("{NODES}/n0"), taint).await;
    let scheduler = world.schedule(impatient()).await;
    world.pod(pod("tolerant", "x")).await;
    let condition = world.until_refused("tolerant").await;
    assert!(condition["message"].as_str().unwrap().contains("untolerated taint"), "{condition}");
    // Of the pod's rules, the API server allows additions to tolerations only.
    let mut tolerations = world.get(&format!("{PODS}/tolerant")).await["spec"]["tolerations"].clone();
    tolerations.as_array_mut().unwrap().push(json!({"key": "a", "operator": "Exists"}));
    let added = json!({"spec": {"tolerations": tolerations}});
    world.patch(&format!("{PODS}/tolerant"), added).await;
    assert_eq!(world.until_bound("tolerant").await, "n0");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_matches_fresh_lists() {
    let world = World::start().await;
    world.nodes(4, 2, 30).await;
    let options = SchedulerOptions {
        resync_interval: Duration::from_millis(50),
        resync_grace: Duration::from_millis(500),
        ..impatient()
    };
    let scheduler = world.schedule(options).await;
    for pod in mixed(80, 4) {
        world.pod(pod).await;
    }
    world.until_n_bound(80).await;
    for i in 40..80 {
        let name = if i % 3 == 0 { format!("near-{i}") } else { format!("plain-{i}") };
        world.delete(&format!("{PODS}/{name}")).await;
    }
    scheduler.until("all is known", |s| s.n_bound == 80 && s.n_pods == 40).await;
    assert_eq!(scheduler.shows().n_drifted, 0);
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn changes_that_the_watch_misses_are_found_by_comparison_and_corrected() {
    let world = World::start().await;
    world.nodes(1, 1, 10).await;
    let proxy = world.proxy();
    let options = SchedulerOptions {
        resync_interval: Duration::from_millis(50),
        resync_grace: Duration::from_millis(100),
        // The idle timeout does not detect the watch that hangs below.
        watch_idle_timeout: Duration::from_secs(3600),
        ..impatient()
    };
    let scheduler = start_scheduler(proxy.connection(), options).await;
    world.pod(pod("told", "x")).await;
    world.until_bound("told").await;
    scheduler.until("the binding is reported", |s| s.n_bound == 1 && s.queue.in_flight == 0).await;

    // From now on the watch sends no pods; the server answers lists only.
    proxy.rule(|request| {
        let is_watch = request.uri.query().is_some_and(|query| query.contains("watch=1"));
        if is_watch && request.uri.path() == "/api/v1/pods" { Fault::Hang } else { Fault::None }
    });
    proxy.cut();
    until("the watch hangs", async || if proxy.n_faults() > 0 { Ok(()) } else { Err("it does not") }).await;
    world.pod(pod("untold", "x")).await;
    world.delete(&format!("{PODS}/told")).await;
    assert_eq!(world.until_bound("untold").await, "n0");
    scheduler.until("both are mended", |s| s.n_drifted >= 2 && s.n_pods == 1).await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_unschedulable_for_long_is_retried_without_an_event() {
    let world = World::start().await;
    world.nodes(1, 1, 1).await;
    let options = SchedulerOptions { flush_after: Duration::from_millis(200), ..impatient() };
    let scheduler = world.schedule(options).await;
    world.pod(pod("first", "x")).await;
    world.until_bound("first").await;
    world.pod(pod("second", "y")).await;
    world.until_refused("second").await;
    // Nothing changes in the cluster: the flush causes these attempts.
    scheduler.until("three attempts failed", |s| s.n_unschedulable >= 3).await;
    assert_eq!(world.node_of("second").await, "");
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_too_many_rules_is_parked_until_the_limit_allows_it() {
    let world = World::start().await;
    world.nodes(1, 1, 5).await;
    let limited = |max_entries| SchedulerOptions { pod_limits: PodLimits { max_entries }, ..impatient() };
    let scheduler = world.schedule(limited(20)).await;
    let mut large = pod("large", "x");
    large["spec"]["tolerations"] = vec![json!({"key": "k", "operator": "Exists"}); 30].into();
    world.pod(large).await;
    let condition = world.until_refused("large").await;
    // With the two tolerations that every pod gets.
    let message = "spec.tolerations has 32 entries, more than 20 (option --max-rule-entries of the scheduler): \
                   the pod is not scheduled";
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("Unschedulable"), &json!(message)));
    assert_eq!(world.until_event("Pod", "large", "FailedScheduling").await["note"], message);
    world.pod(pod("plain", "x")).await;
    world.until_bound("plain").await;
    scheduler.until("parked", |s| s.n_bound == 1 && s.queue.gated == 1).await;
    scheduler.stopped().await;

    let scheduler = world.schedule(limited(32)).await;
    world.until_bound("large").await;
    scheduler.stopped().await;
}
