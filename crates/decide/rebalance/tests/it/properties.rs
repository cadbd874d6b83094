//! Properties of plans for random clusters.

use berth_api::object::Pod;
use berth_rebalance::{Goal, Movable, Plan, Request};
use berth_testkit::generate::seeds;
use berth_testkit::naive::World;

use crate::naive::{best, moved, values};
use crate::worlds::{Draw, after, plan_for, request, step_for};

fn of(plan: &std::collections::BTreeMap<Goal, f64>, request: &Request) -> Vec<i64> {
    request.goals.iter().map(|goal| plan[goal] as i64).collect()
}

/// Carries a plan out, and fails where a step is not legal, or the planner would not continue.
fn carry_out(world: &World, plan: &Plan, request: &Request, seed: u64) -> World {
    let mut world = world.clone();
    for (i, made) in plan.moves.iter().enumerate() {
        let step = step_for(&world, request, &plan.moves[i..])
            .unwrap_or_else(|why| panic!("seed {seed}: step {i} of {:#?} is not made: {why:?}", plan.moves));
        assert_eq!((&step.targets[..], &step.after), (&[made.to.clone()][..], &plan.after), "seed {seed}");
        assert_eq!(of(&step.before, request), values(&world, request), "seed {seed}");
        let pod = world.pods.iter().find(|pod| pod.metadata.name == made.name).expect("a pod of the world");
        assert_eq!(pod.spec.node_name, made.from, "seed {seed}: {made:?}");
        let next = moved(&world, &made.name, &made.to);
        world = next.unwrap_or_else(|| panic!("seed {seed}: {made:?} is not legal, in {:#?}", plan.moves));
    }
    world
}

#[test]
fn every_step_is_legal_values_fall_and_a_plan_for_the_result_is_empty() {
    let (seeds, mut n_exhaustive) = (seeds(0, 400), 0);
    for seed in seeds.clone() {
        let mut draw = Draw::new(seed);
        let world = draw.world(6, 10);
        let mut request = request(&draw.goals());
        request.max_states = 2_000;
        let plan = plan_for(&world, &request);
        n_exhaustive += usize::from(plan.is_exhaustive);
        let (before, then) = (of(&plan.before, &request), of(&plan.after, &request));
        assert_eq!(before, values(&world, &request), "seed {seed}: {:?}", request.goals);
        let end = carry_out(&world, &plan, &request, seed);
        assert_eq!(then, values(&end, &request), "seed {seed}: {:?}", request.goals);
        assert!(plan.moves.is_empty() || then < before, "seed {seed}: {before:?} {then:?}");
        // Pods that have got room run then, and count for the other goals.
        if !plan.placed.is_empty() && request.goals != [Goal::Defragment] {
            continue;
        }
        let result = after(&world, &plan);
        let again = plan_for(&result, &request);
        assert_eq!(again.moves, [], "seed {seed}: {:?} after {:#?}", request.goals, plan.moves);
    }
    // With a tenth of the states of the default.
    let n_clusters = seeds.count();
    assert!(n_exhaustive * 10 > n_clusters * 9, "{n_exhaustive} of {n_clusters}");
}

/// Pods that may move at all, with a check that does not share code with the planner.
type Restriction = (Movable, fn(&World, &Pod) -> bool);

fn restrictions() -> [Restriction; 5] {
    let selector = |text: &str| Some(text.parse().expect("a selector"));
    [
        (Movable { pods: selector("app!=web"), ..Movable::default() }, |_, pod| {
            pod.metadata.labels["app"] != "web"
        }),
        (Movable { nodes: selector("disk=ssd"), ..Movable::default() }, |world, pod| {
            world
                .nodes
                .iter()
                .any(|node| node.metadata.name == pod.spec.node_name && node.metadata.labels["disk"] == "ssd")
        }),
        (Movable { below_priority: Some(1), ..Movable::default() }, |_, pod| pod.spec.priority < Some(1)),
        (Movable { min_replicas: 3, ..Movable::default() }, |world, pod| {
            let is_beside = |other: &&Pod| {
                other.metadata.labels == pod.metadata.labels && !other.metadata.owner_references.is_empty()
            };
            world.pods.iter().filter(is_beside).count() >= 3
        }),
        (Movable { without_budget: false, ..Movable::default() }, |world, pod| {
            let app = &pod.metadata.labels["app"];
            world.budgets.iter().any(|budget| budget.metadata.name.starts_with(app.as_str()))
        }),
    ]
}

#[test]
fn pods_that_are_left_out_stay_and_a_plan_for_the_result_is_empty() {
    let mut n_moves = [0; 5];
    for seed in seeds(2_000_000, 600) {
        let mut draw = Draw::new(seed);
        let world = draw.world(6, 10);
        let mut request = request(&draw.goals());
        let which = (seed % 5) as usize;
        let (movable, may_move) = restrictions()[which].clone();
        (request.movable, request.max_states) = (movable, 2_000);
        let plan = plan_for(&world, &request);
        for made in &plan.moves {
            let pod = world.pods.iter().find(|pod| pod.metadata.name == made.name).expect("a pod");
            assert!(may_move(&world, pod), "seed {seed}: {made:?}");
        }
        carry_out(&world, &plan, &request, seed);
        n_moves[which] += plan.moves.len();
        if plan.placed.is_empty() {
            let again = plan_for(&after(&world, &plan), &request);
            assert_eq!(again.moves, [], "seed {seed}: {:?} after {:#?}", request.goals, plan.moves);
        }
    }
    assert!(n_moves.iter().all(|n| *n >= 10), "{n_moves:?}");
}

#[test]
fn plans_of_small_clusters_equal_an_exhaustive_search() {
    let mut n_compared = 0;
    for seed in seeds(1_000_000, 60) {
        let mut draw = Draw::new(seed);
        let world = draw.world(3, 4);
        let request = request(&draw.goals());
        let Some((values, n_moves)) = best(&world, &request, 400) else { continue };
        let plan = plan_for(&world, &request);
        let found = (of(&plan.after, &request), plan.moves.len());
        assert_eq!(found, (values, n_moves), "seed {seed}: {:?} {:#?}", request.goals, plan.moves);
        assert!(plan.is_exhaustive, "seed {seed}");
        n_compared += usize::from(n_moves > 0);
    }
    assert!(n_compared > 10, "{n_compared} plans have moves");
}
