//! Groups of groups, and what else of groups is behind feature gates.

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::ServerOptions;
use berth_scheduler::SchedulerOptions;
use serde_json::{Value, json};

use super::support::groups::*;
use super::support::*;

const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const COMPOSITES: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups";

/// A world and a scheduler with the gates of groups.
async fn gated() -> (World, SchedulerOptions) {
    let feature_gates = FeatureGates {
        composite_pod_group: true,
        pod_group_preemption_policy: true,
        ..FeatureGates::default()
    };
    let mut options = impatient();
    options.settings.config.feature_gates = feature_gates;
    (World::start_with(ServerOptions { feature_gates, ..ServerOptions::default() }).await, options)
}

async fn composite(world: &World, name: &str, parent: Option<&str>, policy: Value) {
    let spec = json!({"schedulingPolicy": policy, "parentCompositePodGroupName": parent,
        "workloadRef": {"workloadName": "job", "templateName": name}});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": name}, "spec": spec});
    world.create(COMPOSITES, object).await;
}

/// A PodGroup of two pods, which both have to be placed.
async fn group(world: &World, name: &str, parent: &str) {
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": parent,
        "workloadRef": {"workloadName": "job", "templateName": name}});
    let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": spec});
    world.create(GROUPS, object).await;
    for i in 0..2 {
        world.pod(member(&format!("{name}-{i}"), name)).await;
    }
}

async fn until_composite(world: &World, name: &str, status: &str, reason: &str) {
    let condition = until_shown(world, &format!("{COMPOSITES}/{name}"), status, reason).await;
    assert_eq!(condition["type"], "CompositePodGroupInitiallyScheduled");
}

/// Enhancement 6012: the condition of each group is about its own pods, also if the groups that the root requires are placed.
#[tokio::test(start_paused = true)]
async fn a_group_beyond_the_required_ones_says_that_it_is_not_placed() {
    let (world, options) = gated().await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(options).await;
    composite(&world, "job", None, json!({"basic": {}})).await;
    group(&world, "servers", "job").await;
    world.until_n_bound(2).await;
    until_status(&world, "servers", "True", "Scheduled").await;
    composite(&world, "training", Some("job"), json!({"gang": {"minGroupCount": 1}})).await;
    group(&world, "workers", "training").await;
    until_status(&world, "workers", "False", "Unschedulable").await;
    until_composite(&world, "training", "False", "Unschedulable").await;
    until_status(&world, "servers", "True", "Scheduled").await;
    scheduler.stopped().await;
}

/// Enhancement 6012: `minGroupCount` groups are placed, each with its required pods, or none.
#[tokio::test(start_paused = true)]
async fn the_groups_of_a_composite_group_are_bound_together() {
    let (world, options) = gated().await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(options).await;
    for name in ["workers", "servers"] {
        group(&world, name, "job").await;
    }
    until_message(&world, "workers-0", "its CompositePodGroup default/job does not exist: create it").await;
    composite(&world, "job", None, json!({"gang": {"minGroupCount": 2}})).await;
    until_composite(&world, "job", "False", "Unschedulable").await;
    let nodes = nodes_of(&world, "").await;
    assert!(nodes.iter().all(String::is_empty), "{nodes:?}");
    for node in ["n2", "n3"] {
        world.node(node, "z0", 1).await;
    }
    world.until_n_bound(4).await;
    until_composite(&world, "job", "True", "Scheduled").await;
    for name in ["workers", "servers"] {
        until_status(&world, name, "True", "Scheduled").await;
    }
    // "Once this condition transitions to True, it serves as a terminal state".
    world.delete(&format!("{PODS}/workers-0?gracePeriodSeconds=0")).await;
    world.pod(member("workers-2", "workers")).await;
    world.until_bound("workers-2").await;
    until_composite(&world, "job", "True", "Scheduled").await;
    scheduler.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_preempted_for_a_group_that_never_preempts() {
    let (world, options) = gated().await;
    classes(&world).await;
    world.nodes(2, 1, 1).await;
    let scheduler = world.schedule(options).await;
    for i in 0..2 {
        world.pod(of_class(pod(&format!("low-{i}"), "low"), "low")).await;
    }
    world.until_n_bound(2).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "never"},
        "value": 1000, "preemptionPolicy": "Never"});
    world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    for (name, class) in [("never", "never"), ("usual", "high")] {
        let mut fields = json!({"priorityClassName": class, "priority": 1000});
        if class == "never" {
            fields["preemptionPolicy"] = "Never".into();
        }
        gang_with(&world, name, 2, fields).await;
        for i in 0..2 {
            world.pod(of_class(member(&format!("{name}-{i}"), name), class)).await;
        }
        if name == "never" {
            until_message(&world, "never-0", "not eligible due to preemptionPolicy=Never").await;
            assert_eq!(nodes_of(&world, "low-").await.iter().filter(|node| !node.is_empty()).count(), 2);
        }
    }
    for victim in ["low-0", "low-1"] {
        let event = world.until_event("Pod", victim, "Preempted").await;
        assert_eq!(event["related"]["name"], "usual");
    }
    scheduler.stopped().await;
}
