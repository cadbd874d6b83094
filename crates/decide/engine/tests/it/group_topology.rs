//! Groups whose members share the domains of topologies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_api::object::Pod;
use berth_api::object::group::TopologyLevel;
use berth_engine::{Group, GroupLevel, GroupOutcome, PreparedPod, Settings};
use berth_testkit::generate::Random;
use berth_testkit::naive::World;
use berth_testkit::text;

use crate::common::{admitted, cluster};

const RACK: &str = "example.com/rack";

fn waiting(world: &World) -> Vec<Pod> {
    let waiting = world.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
    waiting.map(|pod| admitted(pod, true)).collect()
}

/// The nodes of the waiting pods of a text, as one group: `-` for one without; none if no pod is placed.
fn nodes(text: &str, min: usize, levels: &[TopologyLevel]) -> Option<Vec<String>> {
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    let members: Vec<PreparedPod> = waiting(&world).iter().map(|pod| cluster.prepare(pod)).collect();
    let levels: Vec<_> = levels.iter().map(|rule| GroupLevel { rule, value: None }).collect();
    match cluster.place_group(&Group { members: &members, min, levels: &levels, composite: None }) {
        GroupOutcome::Placed { members, .. } => {
            Some(members.iter().map(|outcome| outcome.node().unwrap_or("-").to_owned()).collect())
        }
        GroupOutcome::Unplaced(_) => None,
    }
}

fn placed(text: &str, min: usize, levels: &[TopologyLevel]) -> String {
    nodes(text, min, levels).map_or_else(|| "none".to_owned(), |nodes| nodes.join(" "))
}

/// Racks of nodes with 2 CPUs: `r1-0`, `r1-1` and so on.
fn racks(sizes: &[(&str, usize)]) -> String {
    let node = |rack: &str, i: usize| format!("node {rack}-{i} rack={rack} zone=z cpu=2\n");
    sizes.iter().flat_map(|(rack, n)| (0..*n).map(move |i| node(rack, i))).collect()
}

fn pods(n: usize, cpu: u32) -> String {
    (0..n).map(|i| format!("pod default/p{i} cpu={cpu}\n")).collect()
}

fn rack() -> [TopologyLevel; 1] {
    [TopologyLevel::required(RACK)]
}

fn rack_of(node: &str) -> &str {
    node.split_once('-').map_or("", |(rack, _)| rack)
}

#[test]
fn of_domains_that_take_all_members_the_one_whose_nodes_are_then_used_most_is_chosen() {
    let used = "pod default/a on r2-0 cpu=2\npod default/b on r3-2 cpu=1\n";
    let nodes = racks(&[("r1", 2), ("r2", 3), ("r3", 3), ("r4", 1)]);
    // (0 + 3) of 4, (2 + 3) of 6, (1 + 3) of 6; r4 does not take three.
    let chosen = placed(&format!("{nodes}{used}{}", pods(3, 1)), 3, &rack());
    assert!(chosen.split(' ').all(|node| rack_of(node) == "r2"), "{chosen}");
    let chosen = placed(&format!("{nodes}{}", pods(3, 1)), 3, &rack());
    assert!(chosen.split(' ').all(|node| rack_of(node) == "r1"), "{chosen}");
}

#[test]
fn more_members_count_as_much_as_used_nodes() {
    // Two of three members in r1: 66 + half of 100. All in r2: 100 + half of 75.
    let chosen = placed(&format!("{}{}", racks(&[("r1", 1), ("r2", 2)]), pods(3, 1)), 2, &rack());
    assert!(chosen.split(' ').all(|node| rack_of(node) == "r2"), "{chosen}");
    let nodes = "node r1-0 rack=r1 cpu=2\nnode r2-0 rack=r2 cpu=32\n";
    // 66 + half of 100, and 100 + half of 9: of the memory, hardly anything is in use.
    assert_eq!(placed(&format!("{nodes}{}", pods(3, 1)), 2, &rack()), "r1-0 r1-0 -");
    assert_eq!(placed(&format!("{nodes}{}", pods(3, 1)), 3, &rack()), "r2-0 r2-0 r2-0");
}

#[test]
fn equal_scores_are_decided_by_name() {
    assert_eq!(placed(&format!("{}{}", racks(&[("r2", 1), ("r1", 1)]), pods(2, 1)), 2, &rack()), "r1-0 r1-0");
}

#[test]
fn a_basic_group_gets_the_places_that_its_domain_has() {
    let text = format!("{}{}", racks(&[("r1", 1), ("r2", 1)]), pods(3, 1));
    assert_eq!(placed(&text, 1, &rack()), "r1-0 r1-0 -");
    assert_eq!(placed(&format!("{}{}", racks(&[("r1", 1)]), pods(2, 3)), 1, &rack()), "none");
    let mixed = "node r1-0 rack=r1 cpu=2\npod default/large cpu=3\npod default/small cpu=1";
    assert_eq!(placed(mixed, 1, &rack()), "- r1-0");
}

/// As kube-scheduler 1.37.2 places them: r2-0 has no member, so that no node gets a second one.
#[test]
fn spread_constraints_of_members_counted_only_the_nodes_of_their_domain() {
    let nodes = "node r1-0 rack=r1 cpu=4\nnode r1-1 rack=r1 cpu=4\nnode r2-0 rack=r2 cpu=0\n";
    let pod = |i| format!("pod default/p{i} app=a cpu=1 spread(1 app=a @hostname)\n");
    let text = format!("{nodes}{}", (0..4).map(pod).collect::<String>());
    assert_eq!(placed(&text, 1, &rack()), "r1-0 r1-1 - -");
    assert_eq!(placed(&text, 4, &rack()), "none");
}

#[test]
fn the_message_names_the_domain_that_takes_most_members() {
    let world = text::world(&format!("{}{}", racks(&[("r1", 2), ("r2", 3), ("r3", 1)]), pods(8, 1)));
    let mut cluster = cluster(&world, Settings::default());
    let members: Vec<PreparedPod> = waiting(&world).iter().map(|pod| cluster.prepare(pod)).collect();
    let level = GroupLevel { rule: &rack()[0], value: None };
    let group = Group { members: &members, min: 8, levels: &[level], composite: None };
    let GroupOutcome::Unplaced(failure) = cluster.place_group(&group) else { panic!("placed") };
    let why =
        "6 of 8 pods fit in r2, 8 have to; pod p6 does not: 0/3 nodes are available: 3 Insufficient cpu.";
    assert_eq!(failure.message(&group), why);
}

#[test]
fn members_are_spread_over_as_few_domains_of_each_level_as_possible() {
    let node =
        |name: &str, block: &str, rack: &str| format!("node {name} zone=z block={block} rack={rack} cpu=2\n");
    let nodes: String = [("b1", "r1", 1), ("b1", "r2", 2), ("b2", "r3", 3), ("b2", "r4", 1)]
        .iter()
        .flat_map(|(block, rack, n)| (0..*n).map(move |i| node(&format!("{rack}-{i}"), block, rack)))
        .collect();
    let levels = [
        TopologyLevel::required("topology.kubernetes.io/zone"),
        TopologyLevel::preferred("block"),
        TopologyLevel::preferred(RACK),
    ];
    let racks = |n: usize| {
        let nodes = super::group_topology::nodes(&format!("{nodes}{}", pods(n, 1)), n, &levels).unwrap();
        let racks: BTreeSet<&str> = nodes.iter().map(|node| rack_of(node)).collect();
        racks.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(racks(2), "r1", "one rack, the one that is then full");
    assert_eq!(racks(4), "r2");
    assert_eq!(racks(6), "r3", "one rack in place of the two of the other block");
    assert_eq!(racks(8), "r3 r4");
    assert_eq!(
        racks(10),
        "r1 r3 r4",
        "the block that takes most is full; the rest goes to the rack of the other that is then full"
    );
}

#[test]
fn neighbours_in_rank_share_racks_and_nodes() {
    let text = format!("{}{}", racks(&[("r1", 2), ("r2", 1)]), pods(6, 1));
    let nodes = nodes(&text, 6, &[TopologyLevel::preferred(RACK)]).unwrap();
    let mut changes = nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(changes, 2, "{nodes:?}");
    changes = nodes.windows(2).filter(|pair| rack_of(&pair[0]) != rack_of(&pair[1])).count();
    assert_eq!(changes, 1, "{nodes:?}");
}

#[test]
fn each_domain_takes_whole_slices() {
    let by_rack = |text: &str, min: usize, n: usize| {
        let nodes = nodes(text, min, &[slices_of_racks(n)])?;
        let mut counts = BTreeMap::<&str, usize>::new();
        nodes
            .iter()
            .filter(|node| *node != "-")
            .for_each(|node| *counts.entry(rack_of(node)).or_default() += 1);
        Some(counts.iter().map(|(rack, n)| format!("{rack}:{n}")).collect::<Vec<_>>().join(" "))
    };
    let nodes = racks(&[("r1", 2), ("r2", 3)]);
    let text = format!("{nodes}{}", pods(8, 1));
    assert_eq!(by_rack(&text, 8, 2).as_deref(), Some("r1:2 r2:6"));
    assert_eq!(by_rack(&text, 8, 4).as_deref(), Some("r1:4 r2:4"));
    assert_eq!(by_rack(&text, 8, 8), None);
    assert_eq!(by_rack(&format!("{nodes}{}", pods(10, 1)), 10, 5), None, "r1 takes four");
    assert_eq!(by_rack(&format!("{nodes}{}", pods(7, 1)), 6, 3).as_deref(), Some("r2:6"));
}

#[test]
fn slices_hold_where_a_coarser_preference_does_not() {
    let zones = [TopologyLevel::preferred("topology.kubernetes.io/zone"), slices_of_racks(4)];
    let text = |n| format!("{}{}", racks(&[("r1", 2), ("r2", 1)]), pods(n, 1));
    assert_eq!(
        nodes(&text(4), 4, &zones).map(|nodes| nodes.iter().all(|node| rack_of(node) == "r1")),
        Some(true)
    );
    assert_eq!(placed(&text(6), 6, &zones), "none", "r2 takes half a slice");
}

fn slices_of_racks(n: usize) -> TopologyLevel {
    TopologyLevel { multiple_of: n, ..TopologyLevel::preferred(RACK) }
}

#[test]
fn members_follow_those_that_run() {
    let world = text::world(&format!(
        "{}pod default/x on r1-0 cpu=1\n{}",
        racks(&[("r1", 1), ("r2", 4)]),
        pods(2, 1)
    ));
    let mut cluster = cluster(&world, Settings::default());
    let members: Vec<PreparedPod> = waiting(&world).iter().map(|pod| cluster.prepare(pod)).collect();
    let mut place = |rule: TopologyLevel, min: usize| {
        let levels = [GroupLevel { rule: &rule, value: Some("r1") }];
        match cluster.decide_group(&Group { members: &members, min, levels: &levels, composite: None }) {
            GroupOutcome::Placed { members, .. } => {
                members.iter().map(|outcome| rack_of(outcome.node().unwrap_or("-")).to_owned()).collect()
            }
            GroupOutcome::Unplaced(_) => Vec::new(),
        }
    };
    assert!(place(TopologyLevel::required(RACK), 2).is_empty());
    assert_eq!(place(TopologyLevel::required(RACK), 1), ["r1", ""]);
    assert_eq!(place(TopologyLevel::preferred(RACK), 2), ["r1", "r2"]);
}

/// Members of two sizes on at most eight nodes in racks of two blocks.
fn draw(random: &mut Random) -> (String, usize) {
    let mut text = String::new();
    for i in 0..1 + random.below(8) {
        let rack = random.below(4);
        let block = rack / 2;
        _ = writeln!(text, "node r{rack}-{i} block=b{block} rack=r{rack} cpu={}", 1 + random.below(4));
    }
    let n = 1 + random.below(6);
    (text + &pods(n, 1), n)
}

/// The fewest blocks, and of those the fewest racks, that take `n` members with one CPU each.
fn fewest(world: &World, n: usize) -> Option<(usize, usize)> {
    let mut rooms = BTreeMap::<&str, usize>::new();
    for node in &world.nodes {
        let cpu = node
            .status
            .allocatable
            .iter()
            .flatten()
            .find(|(name, _)| *name == "cpu")
            .map_or(0, |(_, cpu)| cpu.units() as usize);
        *rooms.entry(rack_of(&node.metadata.name)).or_default() += cpu;
    }
    let racks: Vec<_> = rooms.into_iter().collect();
    let sets = (0..1usize << racks.len()).filter_map(|set| {
        let chosen = racks.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, rack)| rack);
        let room: usize = chosen.clone().map(|(_, room)| room).sum();
        let blocks: BTreeSet<bool> = chosen.clone().map(|(rack, _)| *rack < "r2").collect();
        (room >= n).then(|| (blocks.len(), chosen.count()))
    });
    sets.min()
}

#[test]
fn the_number_of_domains_is_that_of_an_exhaustive_search() {
    let levels = [TopologyLevel::preferred("block"), TopologyLevel::preferred(RACK)];
    let mut n_spread = 0;
    for seed in 0..500 {
        let (text, n) = draw(&mut Random::new(seed));
        let found = nodes(&text, n, &levels).map(|nodes| {
            let racks: BTreeSet<_> = nodes.iter().map(|node| rack_of(node)).collect();
            let blocks: BTreeSet<_> = racks.iter().map(|rack| *rack < "r2").collect();
            (blocks.len(), racks.len())
        });
        n_spread += usize::from(found.is_some_and(|(blocks, racks)| racks > blocks));
        assert_eq!(found, fewest(&text::world(&text), n), "seed {seed}\n{text}");
    }
    assert!(n_spread > 20, "{n_spread}");
}

/// Nodes of three racks, some of them in use or tainted, and equal members: on one node together, or each alone.
fn draw_alike(random: &mut Random) -> (String, usize) {
    let mut text = String::new();
    for i in 0..3 + random.below(9) {
        let (rack, cpu) = (random.below(3), 1 + random.below(4));
        let taint = ["", "", "", " taint:slow:PreferNoSchedule", " taint:no:NoSchedule"][random.below(5)];
        _ = writeln!(text, "node r{rack}-{i} rack=r{rack} cpu={cpu} mem=4Gi{taint}");
        for at in 0..random.below(3) {
            let rule =
                ["", "", " anti(app=web @hostname)", " prefer-anti(5 app=web @hostname)"][random.below(4)];
            _ = writeln!(text, "pod default/old-{i}-{at} on r{rack}-{i} app=old cpu=500m{rule}");
        }
    }
    let n = 1 + random.below(6);
    let rule = ["", "", " anti(app=web @hostname)", " port:80", " prefer-node(5 rack=r1)"][random.below(5)];
    (0..n).for_each(|i| _ = writeln!(text, "pod default/p{i} app=web cpu=1 mem=1Gi{rule}"));
    (text, n)
}

#[test]
fn equal_members_go_to_the_nodes_that_single_decisions_in_their_rack_choose() {
    let mut n_placed = 0;
    for seed in 0..500 {
        let (text, n) = draw_alike(&mut Random::new(seed));
        let Some(mut found) = nodes(&text, n, &rack()) else { continue };
        let world = text::world(&text);
        let mut one_by_one = cluster(&world, Settings::default());
        let single = |mut pod: Pod| {
            pod.spec.node_selector.insert(RACK.to_owned(), rack_of(&found[0]).to_owned());
            let pod = one_by_one.prepare(&pod);
            one_by_one.place(&pod).node().unwrap_or("-").to_owned()
        };
        let mut expected: Vec<String> = waiting(&world).into_iter().map(single).collect();
        // Which of the equal members is where makes no difference.
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "seed {seed}\n{text}");
        n_placed += 1;
    }
    assert!(n_placed > 200, "{n_placed}");
}
