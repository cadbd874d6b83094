//! Plans for clusters of a few nodes.

use berth_api::object::group::RemainingGroup;
use berth_rebalance::{Goal, Movable, Move, Obstacle, Pending, Plan, Request, Threshold, next_step};
use berth_testkit::naive::World;
use serde_json::json;

use crate::worlds::{
    HOSTNAME, ZONE, after, between_pods, budget, node, plan_for, plan_with, pod, request, spread, step_for,
    with_input,
};

fn moves(plan: &Plan) -> Vec<(&str, &str, &str)> {
    plan.moves.iter().map(|made| (&*made.name, &*made.from, &*made.to)).collect()
}

/// Three zones of which one came back after an outage.
fn after_an_outage() -> World {
    let nodes = vec![node("a", "a", 8), node("b", "b", 8), node("c", "c", 8)];
    let pods = (0..6).map(|i| {
        let node = if i < 3 { "a" } else { "b" };
        pod(&format!("web-{i}"), "web", node, 100, spread("web", ZONE, "DoNotSchedule"))
    });
    World { nodes, pods: pods.collect(), ..World::default() }
}

#[test]
fn pods_spread_again_after_an_outage() {
    let plan = plan_for(&after_an_outage(), &request(&[Goal::Spread]));
    assert_eq!(moves(&plan).len(), 2, "{:?}", plan.moves);
    assert!(plan.moves.iter().all(|made| made.to == "c"), "{:?}", plan.moves);
    assert_eq!((plan.before[&Goal::Spread], plan.after[&Goal::Spread]), (2.0, 0.0));
}

#[test]
fn the_rest_of_a_plan_is_checked_in_the_cluster_as_it_is() {
    let mut world = after_an_outage();
    let request = request(&[Goal::Spread]);
    let plan = plan_for(&world, &request);
    let step = step_for(&world, &request, &plan.moves).unwrap();
    assert_eq!((&step.targets[..], step.before[&Goal::Spread]), (&["c".to_owned()][..], 2.0));
    let done: Vec<_> = plan.moves.iter().map(|made| made.name.clone()).collect();
    for pod in world.pods.iter_mut().filter(|pod| done.contains(&pod.metadata.name)) {
        pod.spec.node_name = "c".to_owned();
    }
    // Both pods are there.
    assert_eq!(step_for(&world, &request, &plan.moves), Err(Obstacle::Outdated));
    // The target is full, and the node is gone.
    let mut full = after_an_outage();
    full.pods.push(pod("large", "large", "c", 7_950, json!({})));
    assert_eq!(step_for(&full, &request, &plan.moves), Err(Obstacle::Outdated));
    let mut gone = after_an_outage();
    gone.nodes.pop();
    assert_eq!(step_for(&gone, &request, &plan.moves), Err(Obstacle::Outdated));
    // Somebody else has done it.
    let mut spread_again = after_an_outage();
    for (pod, node) in spread_again.pods.iter_mut().zip(["a", "b", "c"].into_iter().cycle()) {
        pod.spec.node_name = node.to_owned();
    }
    assert!(step_for(&spread_again, &request, &plan.moves).is_err());
}

/// Two zones with as many pods each, and an empty node in both: a pod that goes to the other zone makes the skew of zones worse.
#[test]
fn no_move_of_a_plan_makes_the_spread_worse() {
    let nodes = [("a", "1"), ("b", "2"), ("c", "2"), ("d", "1")].map(|(name, zone)| node(name, zone, 8));
    let constraints = [ZONE, HOSTNAME]
        .map(|key| spread("web", key, "ScheduleAnyway")["topologySpreadConstraints"][0].clone());
    let rules = json!({"topologySpreadConstraints": constraints});
    let on = ["a", "c", "a", "c"].into_iter().enumerate();
    let pods = on.map(|(i, on)| pod(&format!("web-{i}"), "web", on, 100, rules.clone()));
    let mut world = World { nodes: nodes.into(), pods: pods.collect(), ..World::default() };
    let request = request(&[Goal::Spread]);
    let plan = plan_for(&world, &request);
    let mut values = vec![plan.before[&Goal::Spread]];
    for step in &plan.moves {
        world = after(&world, &Plan { moves: vec![step.clone()], ..plan.clone() });
        values.push(plan_for(&world, &request).before[&Goal::Spread]);
    }
    assert!(values.len() == 3 && values.is_sorted_by(|a, b| a >= b), "{:?}: {values:?}", plan.moves);
}

#[test]
fn a_scheduler_that_chooses_itself_must_reach_the_same_values() {
    let mut world = after_an_outage();
    world.nodes.push(node("c2", "c", 8));
    let request = request(&[Goal::Spread]);
    let plan = plan_for(&world, &request);
    let choosing = |world: &World, rest: &[Move]| {
        let each = |pods: Vec<_>| pods.into_iter().map(Pending::from).collect();
        with_input(world, each, |input| next_step(input, &request, rest, |_| true))
    };
    // Both nodes of the empty zone are as good.
    let step = choosing(&world, &plan.moves).unwrap();
    assert_eq!(step.targets, ["c", "c2"]);
    assert_eq!(step.after[&Goal::Spread], 0.0);
    // Without a hard constraint, the image of the pod and free nodes draw it elsewhere.
    let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 100, "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}}]}}});
    let mut drawn = spread("web", ZONE, "ScheduleAnyway");
    drawn["affinity"] = preferred["affinity"].clone();
    let pods =
        (0..6).map(|i| pod(&format!("web-{i}"), "web", if i < 3 { "a" } else { "b" }, 100, drawn.clone()));
    let soft = World { pods: pods.collect(), ..world.clone() };
    let plan = plan_for(&soft, &request);
    let from_a: Vec<Move> = plan.moves.iter().filter(|made| made.from == "a").cloned().collect();
    assert_eq!(choosing(&soft, &from_a), Err(Obstacle::Elsewhere(vec!["a".to_owned()])));
}

#[test]
fn pods_that_are_less_important_move_first_then_younger_ones() {
    let mut world = after_an_outage();
    for (i, pod) in world.pods.iter_mut().enumerate() {
        pod.spec.priority = Some(if i == 1 { 0 } else { 10 });
        pod.status.start_time = jiff::Timestamp::from_second(1_000 + i as i64).ok();
    }
    world.pods.retain(|pod| pod.spec.node_name == "a");
    world.nodes.retain(|node| node.metadata.name != "c");
    let plan = plan_for(&world, &request(&[Goal::Spread]));
    assert_eq!(moves(&plan), [("web-1", "a", "b")]);
    world.pods.remove(1);
    world.pods.push(pod("web-9", "web", "a", 100, spread("web", ZONE, "DoNotSchedule")));
    world.pods[2].spec.priority = Some(10);
    world.pods[2].status.start_time = jiff::Timestamp::from_second(5_000).ok();
    assert_eq!(moves(&plan_for(&world, &request(&[Goal::Spread]))), [("web-9", "a", "b")]);
}

#[test]
fn a_swap_uses_a_third_place_and_is_impossible_without_one() {
    let on = |disk: &str| json!({"nodeSelector": {"disk": disk}});
    let mut nodes = vec![node("n1", "a", 1), node("n2", "a", 1), node("n3", "a", 1)];
    for (node, disk) in nodes.iter_mut().zip(["ssd", "hdd", "none"]) {
        node.metadata.labels.insert("disk".to_owned(), disk.to_owned());
    }
    let pods = vec![pod("p", "p", "n1", 1000, on("hdd")), pod("q", "q", "n2", 1000, json!({}))];
    let mut world = World { nodes, pods, ..World::default() };
    let plan = plan_for(&world, &request(&[Goal::Required]));
    assert_eq!(moves(&plan), [("q", "n2", "n3"), ("p", "n1", "n2")]);
    world.pods[1] = pod("q", "q", "n2", 1000, on("ssd"));
    let plan = plan_for(&world, &request(&[Goal::Required]));
    assert_eq!((moves(&plan), plan.after[&Goal::Required], plan.is_exhaustive), (vec![], 2.0, true));
    // It is reported as impossible.
    let reasons: Vec<_> = plan.immovable.iter().map(|pod| (&*pod.name, &*pod.reason)).collect();
    let impossible = "no legal order of moves that moves it is better: all were looked at";
    assert_eq!(reasons, [("p", impossible), ("q", impossible)]);
}

#[test]
fn pods_that_another_pods_anti_affinity_rejects_are_moved() {
    let pods = vec![
        pod("db", "db", "a", 100, between_pods("podAntiAffinity", "web", HOSTNAME)),
        pod("web", "web", "a", 100, json!({})),
    ];
    let world = World { nodes: vec![node("a", "a", 8), node("b", "b", 8)], pods, ..World::default() };
    let plan = plan_for(&world, &request(&[Goal::Required]));
    assert_eq!((plan.before[&Goal::Required], plan.moves.len(), plan.after[&Goal::Required]), (2.0, 1, 0.0));
}

#[test]
fn the_affinity_of_others_holds_after_each_step() {
    // The cache goes nowhere: web needs it in its zone, and may not move itself.
    let mut web = pod("web", "web", "a", 100, between_pods("podAffinity", "cache", ZONE));
    web.metadata.owner_references.clear();
    let cache = pod("cache", "cache", "a", 100, json!({}));
    let world = World {
        nodes: vec![node("a", "a", 8), node("b", "b", 8)],
        pods: vec![web, cache],
        ..World::default()
    };
    let mut request = request(&[Goal::Balance]);
    request.threshold = Threshold { cpu: 1, memory: 1 };
    let plan = plan_for(&world, &request);
    assert_eq!((moves(&plan), plan.after[&Goal::Balance]), (vec![], 1.0));
    let reasons: Vec<_> = plan.immovable.iter().map(|pod| (&*pod.name, &*pod.reason)).collect();
    let impossible = "no legal order of moves that moves it is better: all were looked at";
    assert_eq!(reasons, [("cache", impossible), ("web", "it has no controller that creates it again")]);
}

#[test]
fn pods_make_room_for_a_pending_one() {
    let mut pods = vec![
        pod("a", "a", "n1", 1000, json!({})),
        pod("b", "b", "n1", 1000, json!({})),
        pod("c", "c", "n2", 1000, json!({})),
        pod("big", "big", "", 3500, json!({})),
    ];
    let nodes = vec![node("n1", "a", 4), node("n2", "a", 4)];
    let plan = plan_for(
        &World { nodes: nodes.clone(), pods: pods.clone(), ..World::default() },
        &request(&[Goal::Defragment]),
    );
    assert_eq!(moves(&plan), [("c", "n2", "n1")]);
    let placed: Vec<_> = plan.placed.iter().map(|placed| (&*placed.name, &*placed.node)).collect();
    assert_eq!(placed, [("big", "n2")]);
    // A pod that fits without moves needs none.
    pods[3] = pod("big", "big", "", 1000, json!({}));
    let plan = plan_for(&World { nodes, pods, ..World::default() }, &request(&[Goal::Defragment]));
    assert_eq!((moves(&plan), plan.before[&Goal::Defragment]), (vec![], 0.0));
}

#[test]
fn a_group_gets_room_as_a_whole_or_not_at_all() {
    let mut world =
        World { nodes: (1..4).map(|i| node(&format!("n{i}"), "a", 4)).collect(), ..World::default() };
    world.pods.extend((1..4).map(|i| pod(&format!("p{i}"), "p", &format!("n{i}"), 1000, json!({}))));
    world.pods.extend((0..2).map(|i| pod(&format!("member-{i}"), "group", "", 3500, json!({}))));
    let of_group = |problem: Option<String>| {
        let group = Some(RemainingGroup { min: 2, problem, ..RemainingGroup::default() });
        let unit = move |pods| vec![Pending { pods, group }];
        plan_with(&world, &request(&[Goal::Defragment]), unit)
    };
    let plan = of_group(None);
    assert_eq!((plan.before[&Goal::Defragment], plan.after[&Goal::Defragment]), (2.0, 0.0));
    assert_eq!((plan.moves.len(), plan.placed.len()), (2, 2));
    // Without its PodGroup nothing is known of it.
    let plan = of_group(Some("it is not known".to_owned()));
    assert_eq!((plan.moves.len(), plan.after[&Goal::Defragment]), (0, 2.0));
    // Three nodes have no room for three of them beside the three pods.
    let mut larger = world.clone();
    larger.pods.push(pod("member-2", "group", "", 3500, json!({})));
    let unit =
        |pods| vec![Pending { pods, group: Some(RemainingGroup { min: 3, ..RemainingGroup::default() }) }];
    let plan = plan_with(&larger, &request(&[Goal::Defragment]), unit);
    assert_eq!((plan.moves.len(), plan.is_exhaustive), (0, true));
}

#[test]
fn nodes_are_emptied_by_number_or_by_price() {
    let mut nodes: Vec<_> = (0..3).map(|i| node(&format!("n{i}"), "a", 4)).collect();
    let pods = (0..3).map(|i| pod(&format!("p{i}"), "p", &format!("n{i}"), 1500, json!({})));
    let mut world = World { nodes: nodes.clone(), pods: pods.collect(), ..World::default() };
    let plan = plan_for(&world, &request(&[Goal::Consolidate]));
    assert_eq!(
        (plan.before[&Goal::Consolidate], plan.after[&Goal::Consolidate], plan.moves.len()),
        (3.0, 2.0, 1)
    );
    for (node, price) in nodes.iter_mut().zip(["0.5", "7", "0.25"]) {
        node.metadata.labels.insert("price".to_owned(), price.to_owned());
    }
    world.nodes = nodes;
    let request = Request { price_label: Some("price".to_owned()), ..request(&[Goal::Consolidate]) };
    let plan = plan_for(&world, &request);
    assert!(plan.moves.iter().all(|made| made.from == "n1"), "{:?}", plan.moves);
    assert_eq!((plan.before[&Goal::Consolidate], plan.after[&Goal::Consolidate]), (7.75, 0.75));
}

#[test]
fn budgets_are_computed_from_their_specs_at_each_step() {
    for (spec, n_moves) in [
        (json!({"maxUnavailable": 0}), 0),
        (json!({"minAvailable": "100%"}), 0),
        // Of six pods, 1 % rounds up to one.
        (json!({"maxUnavailable": "1%"}), 2),
        (json!({"minAvailable": 5}), 2),
        (json!({"minAvailable": 6}), 0),
    ] {
        let world = World { budgets: vec![budget("web", spec.clone())], ..after_an_outage() };
        let plan = plan_for(&world, &request(&[Goal::Spread]));
        assert_eq!(
            (plan.moves.len(), plan.immovable.len()),
            (n_moves, if n_moves == 0 { 6 } else { 0 }),
            "{spec}"
        );
        let why = format!(
            "PodDisruptionBudget default/web-{spec} allows no eviction: 6 of its pods are ready, and 6 have to be"
        );
        assert!(plan.immovable.iter().all(|pod| pod.reason == why), "{:?}", plan.immovable);
    }
    let both = vec![budget("web", json!({"maxUnavailable": 3})), budget("web", json!({"maxUnavailable": 2}))];
    let plan = plan_for(&World { budgets: both, ..after_an_outage() }, &request(&[Goal::Spread]));
    assert_eq!((plan.moves.len(), plan.immovable.len()), (0, 6));
}

#[test]
fn pods_that_never_move_are_reported() {
    type Change = fn(&mut berth_api::object::Pod);
    let changes: [(Change, &str); 10] = [
        (|pod| pod.metadata.owner_references.clear(), "no controller"),
        (|pod| pod.metadata.owner_references[0].kind = "DaemonSet".to_owned(), "belongs to its node"),
        (
            |pod| _ = pod.metadata.annotations.insert("kubernetes.io/config.mirror".into(), "x".into()),
            "belongs to its node",
        ),
        (
            |pod| pod.spec.volumes = serde_json::from_value(json!([{"name": "v", "emptyDir": {}}])).unwrap(),
            "local storage",
        ),
        (|pod| pod.spec.priority_class_name = "system-node-critical".into(), "system priority"),
        (
            |pod| {
                _ = pod.metadata.annotations.insert("scheduling.berth.dev/evictable".into(), "false".into())
            },
            "evictable",
        ),
        (
            |pod| {
                _ = pod
                    .metadata
                    .annotations
                    .insert("cluster-autoscaler.kubernetes.io/safe-to-evict".into(), "false".into())
            },
            "safe-to-evict",
        ),
        (
            |pod| _ = pod.metadata.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into()),
            "do-not-disrupt",
        ),
        (
            |pod| pod.status.start_time = jiff::Timestamp::from_second(1_800_000_000 - 599).ok(),
            "less than 10 minutes",
        ),
        // No kubelet has started it yet.
        (
            |pod| {
                pod.status.start_time = None;
                pod.metadata.creation_timestamp = jiff::Timestamp::from_second(1_800_000_000 - 5).ok();
            },
            "less than 10 minutes",
        ),
    ];
    for (change, reason) in changes {
        let mut world = after_an_outage();
        world.pods.iter_mut().for_each(change);
        let plan = plan_for(&world, &request(&[Goal::Spread]));
        assert_eq!(plan.moves, [], "{reason}");
        assert_eq!(plan.immovable.len(), 6, "{reason}");
        assert!(plan.immovable[0].reason.contains(reason), "{:?}", plan.immovable[0]);
    }
    let mut world = after_an_outage();
    world.pods.iter_mut().for_each(changes[3].0);
    let movable = Movable { with_local_storage: true, ..Movable::default() };
    let plan = plan_for(&world, &Request { movable, ..request(&[Goal::Spread]) });
    assert_eq!(plan.moves.len(), 2);
}

#[test]
fn what_is_asked_for_says_which_pods_stay() {
    type Change = fn(&mut World);
    /// A change of the world, what is asked for, and why all pods stay, if they do.
    type Row<'r> = (&'r dyn Fn(&mut World), Movable, Option<&'static str>);
    let of_all = |change: fn(&mut berth_api::object::Pod)| {
        move |world: &mut World| world.pods.iter_mut().for_each(change)
    };
    let with_claim = of_all(|pod| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        pod.spec.volumes = serde_json::from_value(volumes).unwrap();
    });
    let annotated = of_all(|pod| {
        let key = "descheduler.alpha.kubernetes.io/prefer-no-eviction";
        _ = pod.metadata.annotations.insert(key.into(), String::new());
    });
    let selector = |text: &str| Some(text.parse().expect("a selector"));
    let all = Movable::default;
    let unchanged: Change = |_| {};
    let prioritized: Change = |world| world.pods.iter_mut().for_each(|pod| pod.spec.priority = Some(10));
    let budgeted: Change = |world| world.budgets.push(budget("web", json!({"maxUnavailable": 1})));
    let rows: [Row<'_>; 14] = [
        (&unchanged, Movable { pods: selector("app=web"), ..all() }, None),
        (&unchanged, Movable { pods: selector("app!=web"), ..all() }, Some("its labels are not selected")),
        (&unchanged, Movable { nodes: selector("kubernetes.io/hostname in (a,b)"), ..all() }, None),
        (&unchanged, Movable { nodes: selector("disk"), ..all() }, Some("its node is not selected")),
        (&prioritized, Movable { below_priority: Some(11), ..all() }, None),
        (&prioritized, Movable { below_priority: Some(10), ..all() }, Some("its priority is not below 10")),
        // A pod without a priority is below any.
        (&unchanged, Movable { below_priority: Some(-5), ..all() }, None),
        (&unchanged, Movable { min_replicas: 6, ..all() }, None),
        (&unchanged, Movable { min_replicas: 7, ..all() }, Some("its controller has fewer than 7 pods")),
        (&with_claim, Movable { with_claims: false, ..all() }, Some("it has a PersistentVolumeClaim")),
        (&budgeted, Movable { without_budget: false, ..all() }, None),
        (&unchanged, Movable { without_budget: false, ..all() }, Some("no PodDisruptionBudget selects it")),
        (&annotated, all(), None),
        (&annotated, Movable { preferring_no_eviction: false, ..all() }, Some("prefer-no-eviction")),
    ];
    for (change, movable, reason) in rows {
        let mut world = after_an_outage();
        change(&mut world);
        let plan = plan_for(&world, &Request { movable: movable.clone(), ..request(&[Goal::Spread]) });
        assert_eq!(plan.moves.len(), if reason.is_some() { 0 } else { 2 }, "{movable:?}");
        let reasons =
            plan.immovable.iter().filter(|pod| reason.is_some_and(|reason| pod.reason.contains(reason)));
        assert_eq!(reasons.count(), if reason.is_some() { 6 } else { 0 }, "{movable:?}");
    }
}

#[test]
fn the_threshold_of_each_resource_counts() {
    for (text, is_hot) in [
        ("cpu=10,memory=1", true),
        ("cpu=60,memory=1", false),
        ("cpu=10", true),
        ("memory=1", false),
        ("49", true),
    ] {
        let nodes = vec![node("a", "a", 8)];
        let pods = vec![pod("p", "p", "a", 4000, json!({}))];
        let threshold: Threshold = text.parse().expect("a threshold");
        let plan = plan_for(
            &World { nodes, pods, ..World::default() },
            &Request { threshold, ..request(&[Goal::Balance]) },
        );
        assert_eq!(plan.before[&Goal::Balance] > 0.0, is_hot, "{text}");
    }
    for wrong in ["0", "101", "cpu", "cpu=0", "gpu=5", "cpu=5,", ""] {
        assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
    }
    for text in ["70", "cpu=60,memory=70"] {
        assert_eq!(text.parse::<Threshold>().expect(text).to_string(), text);
    }
}

#[test]
fn namespaces_are_selected_by_their_labels() {
    let mut world = after_an_outage();
    let namespace = json!({"metadata": {"name": "default", "labels": {"team": "shop"}}});
    world.namespaces.push(serde_json::from_value(namespace).expect("a namespace"));
    for (selector, n_moves) in
        [("team=shop", 2), ("team!=shop", 0), ("kubernetes.io/metadata.name=default", 2), ("other", 0)]
    {
        let namespaces = Some(selector.parse().expect("a selector"));
        let movable = Movable { namespaces, ..Movable::default() };
        let plan = plan_for(&world, &Request { movable, ..request(&[Goal::Spread]) });
        assert_eq!(plan.moves.len(), n_moves, "{selector}");
    }
}

#[test]
fn a_plan_that_is_cut_goes_on_with_the_same_total() {
    let mut world = after_an_outage();
    world.pods.extend(
        (6..9).map(|i| pod(&format!("web-{i}"), "web", "a", 100, spread("web", ZONE, "DoNotSchedule"))),
    );
    let whole = plan_for(&world, &request(&[Goal::Spread]));
    let cut = Request { max_moves: Some(1), ..request(&[Goal::Spread]) };
    let mut n_moves = 0;
    loop {
        let plan = plan_for(&world, &cut);
        if plan.moves.is_empty() {
            break;
        }
        assert_eq!(plan.left_out, whole.moves.len() - n_moves - 1);
        world = crate::worlds::after(&world, &plan);
        n_moves += 1;
    }
    assert_eq!(n_moves, whole.moves.len());
}
