//! Preemption across nodes: the argument `preemptAcrossNodes` of DefaultPreemption. What it finds is compared with a search through
//! all sets of victims by the naive evaluator.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use berth_api::object::group::GroupKind;
use berth_api::object::{GroupKey, NamespacedName, Pod};
use berth_engine::{
    Cluster, DisruptionBudget, Group, GroupDisruption, NotEligible, Preemption, PreparedPod, Settings,
    Victims,
};
use berth_input::config::SchedulerConfig;
use berth_testkit::generate::{Random, seeds};
use berth_testkit::naive::{Options, World, check_node, selects};
use berth_testkit::text;

use crate::common::{admitted, cluster};

fn settings(across_nodes: bool) -> Settings {
    let mut config = SchedulerConfig::default();
    config.profiles[0].preempt_across_nodes = across_nodes;
    Settings { config, ..Settings::default() }
}

/// The pod that waits, prepared in a cluster.
fn waiting(cluster: &mut Cluster, world: &World) -> PreparedPod {
    let pod = world.pods.iter().find(|pod| pod.spec.node_name.is_empty()).expect("a pod waits");
    cluster.prepare(&admitted(pod, true))
}

fn preempt(cluster: &mut Cluster, world: &World) -> Preemption {
    let budgets: Vec<_> = world.budgets.iter().map(DisruptionBudget::from).collect();
    let prepared = waiting(cluster, world);
    cluster.preempt(&prepared, &budgets)
}

/// `node: victims` with the nodes of those elsewhere, and `!` for each budget violated; or the message.
fn shown(preemption: Preemption) -> String {
    let Preemption::Victims(found) = preemption else { return preemption.message().unwrap_or_default() };
    let Victims { node, victims, n_pdb_violations, elsewhere, .. } = found;
    let name = |victim: &NamespacedName| match elsewhere.get(victim) {
        Some(node) => format!("{}@{node}", victim.name()),
        None => victim.name().to_owned(),
    };
    let victims: Vec<_> = victims.iter().map(name).collect();
    format!("{node}: {}{}", victims.join(" "), "!".repeat(n_pdb_violations))
}

/// The preemption of the waiting pod across nodes. On one node, none is found.
fn across(text: &str) -> String {
    let world = text::world(text);
    let on_one_node = preempt(&mut cluster(&world, settings(false)), &world);
    assert!(matches!(on_one_node, Preemption::NoCandidate { .. }), "{on_one_node:?}\n{text}");
    shown(preempt(&mut cluster(&world, settings(true)), &world))
}

const ZONES: &str = "node a1 zone=a cpu=2\nnode a2 zone=a cpu=2\nnode b1 zone=b cpu=2\n";

#[test]
fn pods_that_anti_affinity_keeps_apart_leave_from_all_nodes_of_the_domain() {
    let apart = "pod default/p app=p cpu=1 priority:10 anti(app=x @zone)";
    let full = "pod default/z on b1 app=x priority:10\n";
    let two = "pod default/x on a1 app=x\npod default/y on a2 app=x\n";
    assert_eq!(across(&format!("{ZONES}{full}{two}{apart}")), "a1: x y@a2");
    // The anti-affinity of those that run.
    let symmetric = "pod default/x on a1 anti(app=p @zone)\npod default/y on a2 anti(app=p @zone)\n";
    assert_eq!(across(&format!("{ZONES}{full}{symmetric}{apart}")), "a1: x y@a2");
    // A node with room is better than one where another pod has to leave.
    let used = "pod default/v on a1 cpu=2 priority:1\n";
    assert_eq!(across(&format!("{ZONES}{full}{two}{used}{apart}")), "a2: x@a1 y");
    let both = "pod default/w on a2 cpu=2 priority:2\n";
    assert_eq!(across(&format!("{ZONES}{full}{two}{used}{both}{apart}")), "a1: v x y@a2");
    // One of them may not be preempted.
    let important = "pod default/w on a2 app=x priority:10\n";
    assert_eq!(
        across(&format!("{ZONES}{full}{two}{important}{apart}")),
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 node(s) didn't match pod \
         anti-affinity rules."
    );
    // As many as the limit of a term requires.
    let limited = "pod default/p app=p priority:10 note-anti(app=x @zone limit:1)";
    let more = "pod default/z1 on b1 app=x priority:10\npod default/v on a2 app=x priority:1
        pod default/w on a1 app=x priority:1\n";
    assert_eq!(across(&format!("{ZONES}{full}{more}{two}{limited}")), "a1: w x y@a2");
}

#[test]
fn as_many_pods_leave_as_a_spread_constraint_requires() {
    // One in zone b, with room in zone a only: three of the four there leave, the least important.
    let nodes = "node a1 zone=a\nnode a2 zone=a\nnode b1 zone=b unschedulable\n";
    let mut pods = String::new();
    for (name, node, priority) in [("w", "a1", 1), ("x", "a2", 0), ("y", "a1", 0), ("z", "a2", 1)] {
        _ = writeln!(pods, "pod default/{name} on {node} app=p priority:{priority}");
    }
    let spread = "pod default/p app=p priority:10 spread(1 app=p @zone)";
    let other = "pod default/b on b1 app=p priority:10\n";
    assert_eq!(across(&format!("{nodes}{pods}{other}{spread}")), "a1: z@a2 x@a2 y");
    // One that leaves another zone makes room for none: the fewest of all zones are fewer.
    let less_important = other.replace("10", "-1");
    assert_eq!(across(&format!("{nodes}{pods}{less_important}{spread}")), "a1: z@a2 x@a2 y");
}

#[test]
fn affinity_of_the_pod_holds_without_the_victims() {
    // The pod needs one of app x in its zone, and app y to leave: x stays although it is less important than y.
    let pods = "pod default/x on a1 app=x\npod default/y on a1 app=y priority:1\npod default/z on a2 app=y priority:1
        pod default/full on b1 cpu=2 priority:10\n";
    let pod = "pod default/p cpu=1 priority:10 aff(app=x @zone) anti(app=y @zone)";
    assert_eq!(across(&format!("{ZONES}{pods}{pod}")), "a1: y z@a2");
    // Those that it needs are the ones that have to leave.
    let both = "pod default/x on a1 app=x,y\npod default/y on a2 app=y\n".replace("x,y", "x tier=y");
    let pod = "pod default/p cpu=1 priority:10 aff(app=x @zone) anti(tier=y @zone)";
    assert!(across(&format!("{ZONES}{both}{pod}")).starts_with("preemption: "), "{both}");
    // The first of its group may go anywhere, once no pod of its kind runs on any node.
    let nodes = "node a1 zone=a cpu=1\nnode b1 zone=b cpu=1\nnode c1 zone=c cpu=1\n";
    let pods = "pod default/x on a1 app=p cpu=100m\npod default/full on a1 cpu=900m priority:10
        pod default/y on b1 app=p cpu=100m priority:1\npod default/full-b on b1 cpu=900m priority:10\n";
    let pod = "pod default/p app=p cpu=500m priority:10 aff(app=p @zone)";
    assert_eq!(across(&format!("{nodes}{pods}{pod}")), "c1: y@b1 x@a1");
}

#[test]
fn a_claim_for_one_pod_is_freed_on_another_node() {
    let text = "node a\nnode b unschedulable\npv v access:RWOP size:1Gi claim:default/data\npvc default/data access:RWOP size:1Gi volume:v
        pod default/x on b claim:data\npod default/p claim:data priority:10";
    assert_eq!(across(text), "a: x@b");
}

#[test]
fn the_cheapest_victims_of_all_nodes_leave() {
    let zones = "node a1 zone=a\nnode a2 zone=a\nnode b1 zone=b\nnode b2 zone=b\n";
    let pods = |a: [&str; 2], b: [&str; 2]| {
        format!(
            "{zones}pod default/w on a1 app=x {}\npod default/x on a2 app=x {}
            pod default/y on b1 app=x {}\npod default/z on b2 app=x {}\n",
            a[0], a[1], b[0], b[1]
        )
    };
    let apart = "pod default/p priority:10 anti(app=x @zone)";
    for (a, b, budgets, expected) in [
        (["", ""], ["", ""], "", "a1: w x@a2"),
        // The lowest of the highest priorities, then the lowest sum.
        (["priority:3", ""], ["priority:2", "priority:2"], "", "b1: y z@b2"),
        (["priority:2", "priority:1"], ["priority:2", ""], "", "b1: y z@b2"),
        // Then the latest start of the most important ones.
        (["started:10", "started:30"], ["started:20", "started:20"], "", "b1: y z@b2"),
        // Before all, no budget is violated.
        (["tier=w", ""], ["priority:9", "priority:9"], "pdb default/w tier=w\n", "b1: y z@b2"),
        (["tier=w", ""], ["tier=w", "tier=w"], "pdb default/w tier=w\n", "a1: w x@a2!"),
        (
            ["tier=w", "tier=w"],
            ["priority:9", "priority:9"],
            "pdb default/w tier=w allowed:2\n",
            "a1: w x@a2",
        ),
    ] {
        assert_eq!(across(&format!("{}{budgets}{apart}", pods(a, b))), expected, "{a:?} {b:?} {budgets}");
    }
}

/// In each case, two pods of one workload differ in something else, and the more important one has to leave.
#[test]
fn the_less_important_of_two_equal_pods_does_not_always_leave() {
    let b = "node b1 zone=b unschedulable\n";
    let pod = "pod default/p app=q cpu=1 priority:10 anti(app=x @zone) spread(1 app=p @zone)";
    // Only one of them makes room on the node.
    let room = "node a1 zone=a cpu=2\nnode a2 zone=a unschedulable\nnode a3 zone=a unschedulable
        pod default/v on a1 app=p cpu=2 priority:1\npod default/w on a2 app=p cpu=2\npod default/x on a3 app=x\n";
    assert_eq!(across(&format!("{b}{room}{pod}")), "a1: v x@a3");
    // The pod needs one of them in its rack.
    let near =
        "node a1 zone=a rack=1\nnode a2 zone=a rack=1 unschedulable\nnode a3 zone=a rack=2 unschedulable
        pod default/v on a3 app=p priority:1\npod default/w on a2 app=p\n";
    assert_eq!(across(&format!("{b}{near}{pod} aff(app=p @rack)")), "a1: v@a3");
    // Where budgets overlap, the number of violations depends on the order of the pods: v uses up what the first allows, and x
    // violates it as it violates the second. Without v, x and then w would violate one.
    let budgets = "pdb default/tier tier=t allowed:1\npdb default/guard guard=x\n";
    let overlap = "node a1 zone=a unschedulable\nnode a2 zone=a unschedulable\nnode a3 zone=a
        pod default/v on a1 app=p tier=t priority:2\npod default/w on a2 app=p tier=t
        pod default/x on a3 app=x tier=t guard=x priority:1\n";
    assert_eq!(across(&format!("{b}{budgets}{overlap}{pod}")), "a3: v@a1 x!");
}

#[test]
fn a_pod_that_is_being_deleted_does_not_count_twice() {
    // Spread constraints do not count t. On one node, kube-scheduler takes it off the count all the same.
    let text = "node a1 zone=a cpu=1\nnode a2 zone=a unschedulable\nnode a3 zone=a unschedulable\nnode b1 zone=b unschedulable
        pod default/t on a1 app=p cpu=1 terminating\npod default/y on a2 app=p priority:2\npod default/x on a3 app=x
        pod default/p app=p cpu=1 priority:10 anti(app=x @zone) spread(1 app=p @zone)";
    assert_eq!(across(text), "a1: y@a2 t x@a3");
}

#[test]
fn one_node_comes_first() {
    // Two pods of low priority elsewhere are not even looked at if one of a higher priority on one node helps.
    let text = format!(
        "{ZONES}pod default/x on a1 app=x\npod default/y on a2 app=x\npod default/z on b1 app=x priority:9
        pod default/p priority:10 anti(app=x @zone)"
    );
    let world = text::world(&text);
    for across_nodes in [false, true] {
        let found = preempt(&mut cluster(&world, settings(across_nodes)), &world);
        assert_eq!(shown(found), "b1: z", "{across_nodes}");
    }
}

#[test]
fn it_is_an_extension_that_is_off_by_default() {
    assert!(!SchedulerConfig::default().profiles[0].preempt_across_nodes);
    let world = text::world(
        "node a1 zone=a\nnode a2 zone=a\npod default/x on a1 app=x\npod default/y on a2 app=x
        pod default/p priority:10 anti(app=x @zone)",
    );
    let strict = Settings { extensions: false, ..settings(true) };
    let found = preempt(&mut cluster(&world, strict), &world);
    assert!(matches!(found, Preemption::NoCandidate { .. }), "{found:?}");
    let never = "pod default/p priority:10 anti(app=x @zone) never-preempts";
    let world = World { pods: [&world.pods[..2], &text::world(never).pods].concat(), ..world };
    let found = preempt(&mut cluster(&world, settings(true)), &world);
    assert_eq!(found, Preemption::NotEligible(NotEligible::PolicyNever));
}

#[test]
fn a_group_that_is_disrupted_as_a_whole_leaves_from_all_nodes() {
    let text = format!(
        "{ZONES}pod default/x on a1 app=x group:g\npod default/g on b1 group:g\npod default/y on a2 app=x
        pod default/full on b1 app=x priority:10\npod default/p priority:10 anti(app=x @zone)"
    );
    let found = |priority: Option<i32>| {
        let world = text::world(&text);
        let mut cluster = cluster(&world, settings(true));
        let key = GroupKey { kind: GroupKind::Scheduling, name: NamespacedName::new("default", "g") };
        cluster.set_group(&key, GroupDisruption { as_a_whole: true, priority, levels: Vec::new() });
        shown(preempt(&mut cluster, &world))
    };
    assert_eq!(found(None), "a1: g@b1 x y@a2");
    // Members have the priority of their group.
    assert!(found(Some(10)).starts_with("preemption: "));
}

#[test]
fn members_of_a_group_preempt_across_nodes() {
    let member = |name: &str| format!("pod default/{name} cpu=1 priority:10 anti(app=x @zone)\n");
    let text = format!(
        "{ZONES}pod default/x on a1 app=x\npod default/y on a2 app=x\npod default/z on b1 app=x priority:10\n{}{}",
        member("p"),
        member("q")
    );
    let world = text::world(&text);
    let found = |across_nodes: bool| {
        let mut cluster = cluster(&world, settings(across_nodes));
        let waiting = world.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
        let members: Vec<_> = waiting.map(|pod| cluster.prepare(&admitted(pod, true))).collect();
        cluster.record_changes(true);
        let found =
            cluster.preempt_group(&Group { members: &members, min: 2, levels: &[], composite: None }, &[]);
        assert!(cluster.take_changes().is_empty());
        found
    };
    assert_eq!(found(false), found(true), "groups always do");
    let found = found(true).expect("victims");
    let victims: Vec<_> = found.victims.iter().map(NamespacedName::name).collect();
    assert_eq!(victims, ["x", "y"]);
    assert!(found.nodes.iter().flatten().filter(|node| node.starts_with('a')).count() == 2, "{found:?}");
}

#[test]
fn a_nominated_pod_waits_for_its_victims_on_all_nodes() {
    let nominated =
        "pod default/p nominated a1 priority:5 anti(app=x @zone)\npod default/p priority:5 anti(app=x @zone)";
    let full = "pod default/z on b1 app=x priority:10\n";
    let is_waiting = |pods: &str, nodes: &str, across_nodes: bool| {
        let world = text::world(&format!("{nodes}{full}{pods}{nominated}"));
        let mut cluster = cluster(&world, settings(across_nodes));
        let prepared = waiting(&mut cluster, &world);
        let awaits = cluster.awaits_victims(&prepared);
        let found = preempt(&mut cluster, &world);
        assert_eq!(awaits, found == Preemption::NotEligible(NotEligible::VictimsTerminating), "{pods}");
        awaits
    };
    // The scheduler was restarted when it had evicted one of two.
    let half = "pod default/x on a1 app=x\npod default/y on a2 app=x preempted\n";
    assert!(is_waiting(half, ZONES, true));
    assert!(!is_waiting(half, ZONES, false));
    // Another pod is preempted there, or the victim is in another zone, or it is being deleted for another reason.
    assert!(!is_waiting("pod default/x on a1 app=x\npod default/y on a2 app=y preempted\n", ZONES, true));
    let elsewhere =
        "pod default/x on a1 app=x\npod default/v on a2 app=x\npod default/y on b1 app=x preempted\n";
    assert!(!is_waiting(elsewhere, ZONES, true));
    assert!(!is_waiting("pod default/x on a1 app=x\npod default/y on a2 app=x terminating\n", ZONES, true));
    // The node takes no pods any more.
    let cordoned = ZONES.replace("a1 zone=a", "a1 zone=a unschedulable");
    assert!(!is_waiting(half, &cordoned, true));
}

#[test]
fn victims_and_bound_of_a_search_in_a_large_cluster() {
    // 300 nodes in three zones, each with a pod that keeps the pod away. All of a zone leave, and no more.
    let mut text = String::new();
    for i in 0..300 {
        _ = writeln!(text, "node n{i:03} zone=z{} cpu=2", i % 3);
        let priority = if i % 3 == 1 { 1 } else { 2 };
        _ = writeln!(text, "pod default/x{i:03} on n{i:03} app=x cpu=1 priority:{priority}");
    }
    let world = text::world(&format!("{text}pod default/p cpu=1 priority:10 anti(app=x @zone)"));
    let Preemption::Victims(found) = preempt(&mut cluster(&world, settings(true)), &world) else { panic!() };
    assert_eq!((found.node.as_str(), found.victims.len(), found.is_cut), ("n001", 100, false));

    // 25 pods of all sizes on each node of a zone, which also has one pod that keeps the pod away: too many sets to try.
    let mut random = Random::new(1);
    let mut text = "node m zone=m\npod default/m on m app=x priority:10\n".to_owned();
    for i in 0..40 {
        _ = writeln!(text, "node n{i:02} zone=z cpu=25");
        for j in 0..25 {
            let size = 500 + random.below(500);
            _ = writeln!(text, "pod default/y{i:02}-{j} on n{i:02} cpu={size}m priority:{}", random.below(3));
        }
    }
    text += "pod default/x on n38 app=x\npod default/y on n39 app=x\n";
    let mut world = text::world(&format!("{text}pod default/p cpu=20 priority:10 anti(app=x @zone)"));
    let Preemption::Victims(found) = preempt(&mut cluster(&world, settings(true)), &world) else { panic!() };
    assert!(found.is_cut && !found.elsewhere.is_empty());
    world.pods.retain(|pod| !found.victims.contains(&pod.metadata.namespaced_name()));
    let pod = world.pods.pop().expect("the pod that waits");
    world.pods.iter_mut().for_each(|pod| *pod = admitted(pod, true));
    let profile = &settings(true).config.profiles[0];
    check_node(&world, &admitted(&pod, true), profile, &Options::default(), &found.node).expect("room");
}

/// A small cluster: pods of low priority, and one that is unschedulable because of its rules about them.
fn draw(random: &mut Random) -> String {
    let mut text = String::new();
    let n_nodes = 2 + random.below(3);
    for i in 0..n_nodes {
        let zone = random.word(&["a", "a", "b"]);
        _ = writeln!(text, "node n{i} zone={zone} cpu={} pods={}", 1 + random.below(3), 3 + random.below(4));
    }
    // Many pods that no rule tells apart, in half of the clusters.
    let (apps, n_kinds) = if random.chance(50) { (&["p", "x", "y"][..], 12) } else { (&["x"][..], 40) };
    for i in 0..3 + random.below(6) {
        let (node, app, cpu) =
            (random.below(n_nodes), random.word(apps), random.word(&["0", "100m", "400m"]));
        _ = write!(text, "pod default/v{i} on n{node} app={app} cpu={cpu}");
        if random.chance(40) {
            text += " tier=t";
        }
        text += match random.below(n_kinds) {
            0 | 1 => " anti(app=p @zone)",
            2 => " anti(app=p @hostname)",
            3 => " note-anti(app=p @zone limit:1)",
            4 => " port:80",
            5 => " terminating",
            6 => " preempted",
            _ => "",
        };
        _ = writeln!(text, " priority:{} started:{}", random.below(3), random.below(2));
    }
    for (name, selector) in [("t", "tier=t"), ("x", "app=x")] {
        if random.chance(40) {
            _ = writeln!(text, "pdb default/{name} {selector} allowed:{}", random.below(3));
        }
    }
    let mut pod = format!(
        "app={} cpu={}00m priority:{}",
        random.word(&["p", "p", "x"]),
        random.below(15),
        1 + random.below(3)
    );
    let rules = [
        "anti(app=x @zone)",
        "anti(tier=t @zone)",
        "anti(app=p @hostname)",
        "note-anti(app=x @zone limit:1)",
        "spread(1 app=p @zone)",
        "spread(1 app=x @zone)",
        "spread(1 app=x @hostname)",
        "spread(1 tier=t @zone)",
        "spread(2 app=x @zone min-domains=3)",
        "aff(app=p @zone)",
        "aff(app=x @zone)",
        "note-aff(app=p @zone)",
        "note-aff(tier=t @hostname)",
        "port:80",
    ];
    let mut drawn = random.words(&rules, 1, 3);
    // Two constraints of one topology are invalid.
    let kind = |rule: &String| match rule.starts_with("spread") {
        true => format!("spread {}", rule.contains("@zone")),
        false => rule.clone(),
    };
    drawn.sort_by_key(kind);
    drawn.dedup_by_key(|rule| kind(rule));
    for rule in drawn {
        _ = write!(pod, " {rule}");
    }
    if random.chance(15) {
        _ = writeln!(text, "pod default/n nominated n0 app=p cpu=100m priority:{}", random.below(5));
    }
    format!("{text}pod default/p {pod}")
}

/// What victims cost by the criteria of kube-scheduler, in their order; then the node's name, and which pods stay: the most
/// important first.
type Cost = (usize, i32, i64, usize, Reverse<i64>, String, Vec<bool>);

/// How many of these pods, in their order, violate a budget.
fn n_violations(world: &World, pods: &[&Pod]) -> usize {
    let mut used: BTreeMap<&str, i32> = BTreeMap::new();
    let violates = |pod: &&&Pod| {
        let mut violates = false;
        for budget in &world.budgets {
            if selects(budget.spec.selector.as_ref(), &pod.metadata.labels) {
                let used = used.entry(&budget.metadata.name).or_default();
                *used += 1;
                violates |= *used > budget.status.disruptions_allowed.unwrap_or(0);
            }
        }
        violates
    };
    pods.iter().filter(violates).count()
}

/// The cheapest of all sets of pods without which the pod fits on some node.
fn exhaustive(world: &World, pod: &Pod) -> Option<(String, Vec<String>, usize)> {
    let priority = |pod: &Pod| pod.spec.priority.unwrap_or(0);
    let mut lower: Vec<&Pod> = world.pods.iter().filter(|other| priority(other) < priority(pod)).collect();
    let started = |pod: &Pod| pod.started().unwrap_or(i64::MAX);
    lower.sort_by_key(|pod| (Reverse(priority(pod)), started(pod), pod.metadata.name.clone()));
    let profile = &settings(true).config.profiles[0];
    let mut best: Option<(Cost, Vec<&Pod>)> = None;
    for set in 1..1_usize << lower.len() {
        let leaves = |i: usize| set >> i & 1 == 1;
        let victims: Vec<&Pod> = (0..lower.len()).filter(|i| leaves(*i)).map(|i| lower[i]).collect();
        let without = World {
            pods: world.pods.iter().filter(|pod| !victims.contains(pod)).cloned().collect(),
            ..world.clone()
        };
        let highest = victims.iter().map(|pod| priority(pod)).max().unwrap_or(0);
        let sum = victims.iter().map(|pod| i64::from(priority(pod)) + (1 << 31)).sum();
        let of_highest = victims.iter().filter(|pod| priority(pod) == highest);
        let earliest = of_highest.map(|pod| started(pod)).min().unwrap_or(i64::MAX);
        for node in world.nodes.iter().map(|node| &node.metadata.name) {
            let leaving = (0..lower.len()).map(leaves).collect();
            let n = n_violations(world, &victims);
            let cost = (n, highest, sum, victims.len(), Reverse(earliest), node.clone(), leaving);
            if best.as_ref().is_none_or(|(best, _)| cost < *best)
                && check_node(&without, pod, profile, &Options::default(), node).is_ok()
            {
                best = Some((cost, victims.clone()));
            }
        }
    }
    let (cost, victims) = best?;
    Some((cost.5, victims.iter().map(|pod| pod.metadata.name.clone()).collect(), cost.0))
}

#[test]
fn victims_are_those_of_an_exhaustive_search() {
    let (mut n_found, mut n_several, mut n_elsewhere, mut n_none) = (0, 0, 0, 0);
    for seed in seeds(0, 600) {
        let text = draw(&mut Random::new(seed));
        let mut world = text::world(&text);
        let on_one_node = preempt(&mut cluster(&world, settings(false)), &world);
        let found = preempt(&mut cluster(&world, settings(true)), &world);
        if !matches!(on_one_node, Preemption::NoCandidate { .. }) {
            assert_eq!(found, on_one_node, "seed {seed}\n{text}");
            continue;
        }
        let pod = world.pods.pop().expect("the pod that waits");
        for pod in world.pods.iter_mut().chain(&mut world.nominated) {
            *pod = admitted(pod, true);
        }
        let expected = exhaustive(&world, &admitted(&pod, true));
        let found = match found {
            Preemption::Victims(found) => {
                assert!(!found.is_cut, "seed {seed}");
                n_found += 1;
                n_several += usize::from(found.victims.len() > 1);
                n_elsewhere += usize::from(!found.elsewhere.is_empty());
                let names = found.victims.iter().map(|victim| victim.name().to_owned()).collect();
                Some((found.node, names, found.n_pdb_violations))
            }
            _ => None,
        };
        n_none += usize::from(found.is_none());
        assert_eq!(found, expected, "seed {seed}\n{text}");
    }
    let is_covered = [n_found, n_several, n_elsewhere, n_none].iter().all(|n| *n > 40);
    assert!(is_covered, "{n_found} {n_several} {n_elsewhere} {n_none}");
}
