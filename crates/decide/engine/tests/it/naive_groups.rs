//! Gangs with a topology, by the engine and by the naive evaluator, in random clusters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use berth_api::object::Pod;
use berth_api::object::group::TopologyLevel;
use berth_engine::{Group, GroupLevel, GroupOutcome, Outcome, PreparedPod, Settings};
use berth_testkit::generate::{Random, seeds};
use berth_testkit::naive::{Gang, Options, World, place_gang};
use berth_testkit::text;

use crate::common::{admitted, cluster};

const RACK: &str = "example.com/rack";

/// A cluster of up to eight nodes with running pods, and up to eight equal pods that wait.
fn draw(random: &mut Random) -> String {
    let mut text = String::new();
    let n_nodes = 2 + random.below(7);
    for i in 0..n_nodes {
        let rack = if random.chance(95) { format!("rack=r{}", random.below(3)) } else { String::new() };
        let taint = if random.chance(10) { "taint:full:NoSchedule" } else { "" };
        let (cpu, memory) = (1 + random.below(6), 2 + random.below(8));
        _ = writeln!(text, "node n{i} {rack} zone=z{} cpu={cpu} mem={memory}Gi {taint}", random.below(2));
    }
    for i in 0..random.below(5) {
        let (node, app) = (random.below(n_nodes), random.word(&["a", "b"]));
        _ = writeln!(text, "pod default/run{i} on n{node} app={app} cpu=500m mem=1Gi");
    }
    let rule = match random.below(6) {
        0 => "anti(app=b @hostname)",
        1 => "anti(app=a @hostname)",
        2 => "port:8080",
        3 => "aff(app=b @zone)",
        _ => "",
    };
    let memory = if random.chance(50) { "mem=1Gi" } else { "" };
    let cpu = 500 * (1 + random.below(3));
    for i in 0..1 + random.below(8) {
        _ = writeln!(text, "pod default/m{i} app=a cpu={cpu}m {memory} {rule}");
    }
    text
}

/// The domain and the nodes by the engine.
fn by_engine(world: &World, members: &[Pod], min: usize) -> Option<(String, Vec<String>)> {
    let mut cluster = cluster(world, Settings::default());
    let members: Vec<PreparedPod> = members.iter().map(|pod| cluster.prepare(pod)).collect();
    let level = GroupLevel { rule: &TopologyLevel::required(RACK), value: None };
    match cluster.place_group(&Group { members: &members, min, levels: &[level], composite: None }) {
        GroupOutcome::Placed { domain, members } => {
            let nodes = members.iter().filter_map(Outcome::node).map(str::to_owned).collect();
            Some((domain?, nodes))
        }
        GroupOutcome::Unplaced(_) => None,
    }
}

#[test]
fn engine_and_naive_evaluator_agree_on_gangs_in_one_domain() {
    let mut counts = BTreeMap::<&str, usize>::new();
    // Two domains with one score: the first by name, although the other takes fewer members. And a domain that takes most members and
    // cannot have the best score, which is the measure of others.
    let seeds = seeds(0, 200);
    for seed in seeds.clone().chain([2580, 17903]) {
        let mut random = Random::new(seed);
        let text = draw(&mut random);
        let world = text::world(&text);
        let waiting = world.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
        let members: Vec<Pod> = waiting.map(|pod| admitted(pod, true)).collect();
        let min = 1 + random.below(members.len());
        let mut running = world.clone();
        running.pods.retain(|pod| !pod.spec.node_name.is_empty());
        let gang = Gang { members: &members, min, topology_key: RACK };
        let profile = &Settings::default().config.profiles[0];
        let expected = place_gang(&running, gang, profile, &Options::default());
        let mut found = by_engine(&running, &members, min);
        let mut expected = expected.map(|placement| (placement.domain, placement.nodes));
        // Which of the equal members has which node makes no difference.
        for (_, nodes) in [&mut found, &mut expected].into_iter().flatten() {
            nodes.sort();
        }
        assert_eq!(found, expected, "seed {seed}, at least {min}\n{text}");
        let all = expected.as_ref().map(|(_, nodes)| nodes.len() == members.len());
        let kind = all.map_or("none", |all| if all { "all" } else { "some" });
        *counts.entry(kind).or_default() += 1;
    }
    let is_covered = |kind: &str| counts.get(kind).is_some_and(|n| *n > seeds.clone().count() / 20);
    assert!(["none", "some", "all"].into_iter().all(is_covered), "{counts:?}");
}
