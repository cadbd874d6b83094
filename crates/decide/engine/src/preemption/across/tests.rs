//! The work of a search, in steps.

use std::fmt::Write as _;

use berth_testkit::generate::Random;
use berth_testkit::text;

use super::super::Leaving;
use super::super::budget::Budgets;
use super::*;
use crate::cycle::context::CycleState;
use crate::cycle::nomination::Nominations;
use crate::state::Settings;

/// The search for the victims of the pod that waits.
fn found(text: &str) -> Found {
    let (world, mut state) = (text::world(text), State::new(Settings::default()));
    world.nodes.iter().for_each(|node| state.set_node(node));
    let (waiting, running): (Vec<_>, Vec<_>) = world.pods.iter().partition(|p| p.spec.node_name.is_empty());
    running.into_iter().for_each(|pod| assert!(state.set_pod(pod)));
    let pod = state.prepare(waiting.first().expect("a pod waits"));
    let cycle = CycleState::new(&state, &Nominations::default(), &pod);
    let context = Context::new(&state, &cycle).expect("a profile");
    let (filters, relevant) = (plugins::filters(context), RelevantMatchers::new(context));
    let (budgets, priority) = (Budgets::new(&state, &[]), pod.precedence.priority);
    let leaving = Leaving::Evicted;
    let search =
        Search { context, filters: &filters, relevant: &relevant, budgets: &budgets, priority, leaving };
    find(&search, None)
}

#[test]
fn the_work_follows_the_number_of_nodes_and_victims() {
    let n_steps = |n: usize, rule: &str| {
        let mut text = String::new();
        for i in 0..n {
            _ = writeln!(text, "node n{i} zone=z{}\npod default/x{i} on n{i} app=x", i % 3);
        }
        // The other zones cannot help.
        _ = writeln!(text, "pod default/y on n1 app=x priority:9\npod default/z on n2 app=x priority:9");
        let Found { best, n_steps } = found(&format!("{text}pod default/p app=x priority:9 {rule}"));
        let n_victims = best.map_or(0, |(_, victims)| victims.pods.len());
        assert!(n_victims >= n / 6, "{n} {n_victims} {rule}");
        n_steps
    };
    for rule in ["anti(app=x @zone)", "spread(1 app=x @zone) anti(app=x @zone)"] {
        let (small, large) = (n_steps(150, rule), n_steps(600, rule));
        assert!(small < 150 * 20 && large <= 4 * small + small / 10, "{rule}: {small} {large}");
    }
}

#[test]
fn a_search_through_too_many_sets_ends_at_its_limit() {
    let mut random = Random::new(1);
    let mut text = "node m zone=m\npod default/m on m app=x priority:9\n".to_owned();
    for i in 0..100 {
        _ = writeln!(text, "node n{i:02} zone=z cpu=25\npod default/x{i} on n{i:02} app=x");
        for j in 0..25 {
            let (size, priority) = (500 + random.below(500), random.below(3));
            _ = writeln!(text, "pod default/y{i}-{j} on n{i:02} cpu={size}m priority:{priority}");
        }
    }
    let found = found(&format!("{text}pod default/p cpu=20 priority:9 anti(app=x @zone)"));
    assert!(found.is_cut() && found.best.is_some());
    // What was begun is finished: the pods of one node leave and return.
    assert!(found.n_steps < MAX_STEPS + 1000, "{}", found.n_steps);
}
