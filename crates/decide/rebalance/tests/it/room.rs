//! Room in clusters with too many pods and nodes for an exhaustive search.

use berth_api::object::group::RemainingGroup;
use berth_rebalance::{Goal, Pending, Plan, Request};
use berth_testkit::naive::World;
use serde_json::{Value, json};

use crate::worlds::{HOSTNAME, ZONE, between_pods, node, plan_for, plan_with, pod, request, spread};

/// The world beside so many full nodes without a zone that not all states are looked at.
fn in_large_cluster(mut world: World) -> World {
    for i in 0..50 {
        let mut full = node(&format!("full-{i}"), "", 1);
        full.metadata.labels.remove(ZONE);
        world.nodes.push(full);
        let (name, node) = (format!("filler-{i}"), format!("full-{i}"));
        world.pods.insert(0, pod(&name, "filler", &node, 1000, json!({"priority": 1})));
    }
    world
}

fn lines(plan: &Plan) -> Vec<String> {
    let moves = plan.moves.iter().map(|made| format!("{} {} {}", made.name, made.from, made.to));
    moves.chain(plan.placed.iter().map(|placed| format!("{} {}", placed.name, placed.node))).collect()
}

/// Nodes `a` and `b` of a zone, and `c` of another one, which has no room for the pending pod.
fn plan_beside(running: &[(&str, &str, Value)], pending: Value) -> Plan {
    let nodes = vec![node("a", "z1", 3), node("b", "z1", 1), node("c", "z2", 1)];
    let mut pods: Vec<_> =
        running.iter().map(|(name, node, spec)| pod(name, name, node, 500, spec.clone())).collect();
    pods.push(pod("p", "p", "", 2000, pending));
    let world = in_large_cluster(World { nodes, pods, ..World::default() });
    let plan = plan_for(&world, &request(&[Goal::Defragment]));
    assert!(!plan.is_exhaustive);
    plan
}

#[test]
fn whatever_pods_are_the_reason_they_move() {
    // Its anti-affinity in the zone: the node of the other pod has no room for it.
    let plan = plan_beside(&[("x", "b", json!({}))], between_pods("podAntiAffinity", "x", ZONE));
    assert_eq!(lines(&plan), ["x b c", "p a"]);
    // That of the running pod.
    let x = between_pods("podAntiAffinity", "p", ZONE);
    assert_eq!(lines(&plan_beside(&[("x", "b", x)], json!({}))), ["x b c", "p a"]);
    // The pod that its affinity needs comes.
    let plan = plan_beside(&[("x", "c", json!({}))], between_pods("podAffinity", "x", ZONE));
    assert_eq!((&plan.moves[0].name[..], plan.moves.len(), lines(&plan)[1].as_str()), ("x", 1, "p a"));
    // A hard constraint: of two pods in the zone, one goes.
    let running = [("x", "a", json!({})), ("y", "b", json!({}))];
    let mut constraint = spread("x", ZONE, "DoNotSchedule");
    constraint["topologySpreadConstraints"][0]["labelSelector"] =
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y", "p"]}]});
    let plan = plan_beside(&running, constraint);
    assert_eq!((plan.moves.len(), plan.moves[0].to.as_str(), plan.placed.len()), (1, "c", 1));
    // A host port.
    let port = |i: usize| {
        json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": format!("{i}m")}}}]})
    };
    assert_eq!(lines(&plan_beside(&[("x", "a", port(500))], port(2000))), ["x a b", "p a"]);
}

#[test]
fn pods_whose_rules_keep_them_stay_and_others_are_tried() {
    // Of the two pods in the zone, both are the reason; one may not go.
    let running = [("x", "a", json!({})), ("x2", "b", json!({"nodeSelector": {HOSTNAME: "b"}}))];
    let mut pending = between_pods("podAntiAffinity", "x", ZONE);
    pending["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] =
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "x2"]}]});
    assert_eq!(lines(&plan_beside(&running, pending)), Vec::<String>::new());
}

#[test]
fn several_reasons_on_a_node_are_lifted_one_after_the_other() {
    let nodes = vec![node("a", "z1", 3), node("b", "z1", 1), node("c", "z2", 2)];
    let pods = vec![
        pod("x", "x", "b", 500, json!({})),
        pod("large", "large", "a", 1500, json!({})),
        pod("p", "p", "", 3000, between_pods("podAntiAffinity", "x", ZONE)),
    ];
    let world = in_large_cluster(World { nodes, pods, ..World::default() });
    let plan = plan_for(&world, &request(&[Goal::Defragment]));
    assert_eq!((plan.moves.len(), plan.placed.len()), (2, 1), "{plan:?}");
}

#[test]
fn a_group_gets_room_in_a_large_cluster() {
    let of_group = |n_members: usize| {
        let nodes = (1..5).map(|i| node(&format!("n{i}"), "a", 4)).collect();
        let running = |i| pod(&format!("p{i}"), "p", &format!("n{i}"), 1000, json!({}));
        let mut pods: Vec<_> = (1..5).map(running).collect();
        pods.extend((0..n_members).map(|i| pod(&format!("member-{i}"), "group", "", 3500, json!({}))));
        let world = in_large_cluster(World { nodes, pods, ..World::default() });
        let group = Some(RemainingGroup { min: n_members, ..RemainingGroup::default() });
        plan_with(&world, &request(&[Goal::Defragment]), |pods| vec![Pending { pods, group }])
    };
    let plan = of_group(3);
    assert_eq!((plan.moves.len(), plan.placed.len(), plan.is_exhaustive), (3, 3, false), "{plan:?}");
    // There can be no room for all: nothing moves.
    assert_eq!(of_group(4).moves, []);
}

#[test]
fn pods_that_only_the_rule_of_a_pending_pod_distinguishes_are_not_taken_for_the_same() {
    let nodes = vec![node("a", "z1", 3), node("b", "z2", 1)];
    // The one that does not matter is younger and would be the first to move.
    let mut pods = vec![pod("x", "x", "a", 500, json!({})), pod("other", "other", "a", 500, json!({}))];
    for (pod, second) in pods.iter_mut().zip([1, 2]) {
        pod.status.start_time = jiff::Timestamp::from_second(second).ok();
    }
    let mut pending = between_pods("podAntiAffinity", "x", ZONE);
    pending["nodeSelector"] = json!({HOSTNAME: "a"});
    pods.push(pod("p", "p", "", 1000, pending));
    let world = World { nodes, pods, ..World::default() };
    let plan = plan_for(&world, &request(&[Goal::Defragment]));
    assert_eq!((lines(&plan), plan.is_exhaustive), (vec!["x a b".to_owned(), "p a".to_owned()], true));
}

#[test]
fn room_for_many_pending_pods_is_bounded_as_a_whole() {
    let nodes = vec![node("a", "z1", 3), node("b", "z1", 1), node("c", "z2", 1)];
    let mut pods = vec![pod("x", "x", "a", 500, json!({}))];
    // The first one gets room; the others are too large for every node.
    pods.push(pod("p", "p", "", 3000, json!({})));
    let large = |i: i64| pod(&format!("large-{i}"), "large", "", 4000 + i, json!({}));
    pods.extend((0..60).map(large));
    let world = in_large_cluster(World { nodes, pods, ..World::default() });
    let within = |max_steps: u64| plan_for(&world, &Request { max_steps, ..request(&[Goal::Defragment]) });
    let whole = within(u64::MAX);
    assert_eq!((whole.moves.len(), whole.is_cut), (1, false), "{whole:?}");
    let cut = within(whole.n_work_steps / 4);
    assert!(cut.is_cut && cut.n_work_steps < whole.n_work_steps, "{cut:?}");
    assert_eq!(cut.after[&Goal::Defragment], 60.0);
}
