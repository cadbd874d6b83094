//! Groups that are disrupted as a whole: a victim takes the other members with it, or stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_api::object::group::GroupKind;
use berth_api::object::{GroupKey, NamespacedName, Pod};
use berth_engine::{
    Cluster, DisruptionBudget, Group, GroupDisruption, Preemption, PreparedPod, RemedyOptions, Settings,
};
use berth_testkit::generate::Random;
use berth_testkit::naive::{Options, World, check_node};
use berth_testkit::text;

use crate::common::{admitted, cluster};

fn key(name: &str) -> GroupKey {
    GroupKey { kind: GroupKind::Scheduling, name: NamespacedName::new("default", name) }
}

const WHOLE: GroupDisruption = GroupDisruption { as_a_whole: true, priority: None };

fn with_priority(priority: i32) -> GroupDisruption {
    GroupDisruption { priority: Some(priority), ..GroupDisruption::default() }
}

/// The victims of the first waiting pod with these groups: `node: victims`, with `!` for each budget violated; or the message.
fn victims(text: &str, groups: &[(&str, GroupDisruption)]) -> String {
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    groups.iter().for_each(|(name, disruption)| cluster.set_group(&key(name), *disruption));
    victims_of_waiting(&mut cluster, &world)
}

fn victims_of_waiting(cluster: &mut Cluster, world: &World) -> String {
    let budgets: Vec<_> = world.budgets.iter().map(DisruptionBudget::from).collect();
    let waiting = world.pods.iter().find(|pod| pod.spec.node_name.is_empty()).expect("a pod waits");
    let prepared = cluster.prepare(&admitted(waiting, true));
    match cluster.preempt(&prepared, &budgets) {
        Preemption::Victims(found) => {
            let victims: Vec<_> = found.victims.iter().map(NamespacedName::name).collect();
            format!("{}: {}{}", found.node, victims.join(" "), "!".repeat(found.n_pdb_violations))
        }
        other => other.message().unwrap_or_default(),
    }
}

const HIGH: &str = "pod default/high cpu=1 priority:10";

#[test]
fn a_victim_takes_its_group_with_it_from_all_nodes() {
    let text = format!(
        "node a cpu=1\nnode b cpu=1\nnode c cpu=1
        pod default/g1 on a cpu=1 group:g\npod default/g2 on b cpu=1 group:g
        pod default/full on c cpu=1 priority:10\n{HIGH}"
    );
    assert_eq!(victims(&text, &[]), "a: g1");
    assert_eq!(victims(&text, &[("g", WHOLE)]), "a: g1 g2");
    assert_eq!(victims(&text, &[("other", WHOLE)]), "a: g1");
}

#[test]
fn all_pods_of_a_group_count_when_victims_are_compared() {
    let group = "pod default/g1 on a cpu=1 group:g\npod default/g2 on c cpu=1 group:g\nnode a cpu=1\nnode b cpu=1\nnode c cpu=1";
    let other = |pod: &str| victims(&format!("{group}\n{pod}\n{HIGH}"), &[("g", WHOLE)]);
    assert_eq!(other("pod default/p on b cpu=1"), "b: p", "the sum of priorities: one pod rather than two");
    assert_eq!(other("pod default/p on b cpu=1 priority:1"), "a: g1 g2", "the highest priority comes first");
    // Budgets come before: of the group, one that protects a pod on another node.
    let text = format!(
        "pdb default/g app=g\npod default/g1 on a cpu=1 group:g\npod default/g2 on c cpu=1 group:g app=g
        node a cpu=1\nnode b cpu=1\nnode c cpu=1\npod default/p on b cpu=1 priority:1\n{HIGH}"
    );
    assert_eq!(victims(&text, &[("g", WHOLE)]), "b: p");
    assert_eq!(victims(&text, &[]), "a: g1");
    let no_other = text.replace("priority:1\n", "priority:10\n");
    assert_eq!(victims(&no_other, &[("g", WHOLE)]), "a: g1 g2!");
}

#[test]
fn a_group_stays_if_one_of_its_pods_may_not_leave() {
    let text = format!(
        "node a cpu=1\nnode b cpu=1
        pod default/g1 on a cpu=1 group:g\npod default/g2 on b cpu=1 group:g priority:10\n{HIGH}"
    );
    assert_eq!(victims(&text, &[]), "a: g1");
    assert!(victims(&text, &[("g", WHOLE)]).contains("No preemption victims found for incoming pod"));
}

#[test]
fn on_a_node_groups_are_reprieved_before_pods_of_the_same_priority() {
    let text = format!(
        "node a cpu=2\npod default/p on a cpu=1 started:10
        pod default/g1 on a cpu=500m group:g started:20\npod default/g2 on a cpu=500m group:g started:20\n{HIGH}"
    );
    assert_eq!(victims(&text, &[]), "a: g1 g2", "the later start");
    assert_eq!(victims(&text, &[("g", WHOLE)]), "a: p");
}

#[test]
fn pods_have_the_priority_of_their_group() {
    let text = format!(
        "node a cpu=1\nnode b cpu=1\npod default/g on a cpu=1 group:g priority:1\npod default/p on b cpu=1 priority:2\n{HIGH}"
    );
    assert_eq!(victims(&text, &[]), "a: g");
    assert_eq!(victims(&text, &[("g", with_priority(3))]), "b: p");
    let important = format!(
        "{}\npod default/q on b priority:20",
        text.replace("pod default/p on b cpu=1 priority:2", "")
    )
    .replace("node b cpu=1", "node b cpu=0");
    assert!(victims(&important, &[("g", with_priority(10))]).starts_with("preemption: 0/2 nodes"));
    // A waiting pod preempts with the priority of its group.
    let of_group = text.replace("cpu=1 priority:10", "cpu=1 priority:10 group:h");
    assert_eq!(victims(&of_group, &[("h", with_priority(2))]), "a: g");
    assert!(victims(&of_group, &[("h", with_priority(1))]).starts_with("preemption: 0/2 nodes"));
}

#[test]
fn a_pod_group_that_arrives_later_or_goes_changes_what_its_pods_are() {
    let text = format!(
        "node a cpu=1\nnode b cpu=1\npod default/g1 on a cpu=1 group:g\npod default/g2 on b cpu=1 group:g\n{HIGH}"
    );
    let world = text::world(&text);
    let mut cluster = cluster(&world, Settings::default());
    let now = |cluster: &mut Cluster| victims_of_waiting(cluster, &world);
    assert_eq!(now(&mut cluster), "a: g1");
    cluster.set_group(&key("g"), WHOLE);
    assert_eq!(now(&mut cluster), "a: g1 g2");
    cluster.remove_pod("default", "g2");
    cluster.set_pod(&admitted(&text::pod("pod default/full on b cpu=1 priority:10"), true));
    assert_eq!(now(&mut cluster), "a: g1", "the other member has ended");
    cluster.set_pod(&admitted(&text::pod("pod default/g3 on b cpu=0 group:g priority:10"), true));
    assert!(now(&mut cluster).contains("No preemption victims"), "a member on another node may not leave");
    cluster.set_group(&key("g"), with_priority(10));
    assert!(now(&mut cluster).contains("No preemption victims"));
    cluster.remove_group(&key("g"));
    assert_eq!(now(&mut cluster), "a: g1");
    let sizes = cluster.table_sizes();
    ["g1", "g3"].iter().for_each(|name| cluster.remove_pod("default", name));
    assert_eq!((sizes["pod groups"], cluster.table_sizes()["pod groups"]), (1, 0));
}

#[test]
fn a_group_preempts_a_whole_group_and_spares_what_it_need_not_evict() {
    // The first member fits instead of p; the second needs both pods of g, and so the first could have had their room.
    let world = text::world(
        "node a cpu=2\nnode b cpu=2\npod default/p on a cpu=1 priority:1\npod default/g1 on a cpu=1 group:g priority:2
        pod default/g2 on b cpu=2 group:g priority:2\npod default/x cpu=1 priority:9\npod default/y cpu=2 priority:9",
    );
    let mut cluster = cluster(&world, Settings::default());
    cluster.set_group(&key("g"), WHOLE);
    let members: Vec<PreparedPod> = waiting(&world).iter().map(|pod| cluster.prepare(pod)).collect();
    let found = cluster.preempt_group(&Group { members: &members, min: 2, levels: &[] }, &[]).unwrap();
    let names: Vec<_> = found.victims.iter().map(NamespacedName::name).collect();
    assert_eq!(names, ["g1", "g2"]);
}

#[test]
fn no_pod_of_a_group_is_evicted_alone_to_fix_a_rule() {
    let text = "node a zone=a\nnode b zone=b\npod default/g1 on a group:g rdrd-node(zone=b)\npod default/g2 on b group:g";
    let mut cluster = cluster(&text::world(text), Settings::default());
    let keys: Vec<_> = cluster.violations().iter().map(|violation| violation.key()).collect();
    let result = |cluster: &mut Cluster| {
        let found = cluster.remedy(&keys, &RemedyOptions::default());
        (found.remedies.len(), found.stays.first().map(|stays| stays.reason.clone()))
    };
    assert_eq!(result(&mut cluster), (1, None));
    cluster.set_group(&key("g"), WHOLE);
    let reason = "pod group default/g is disrupted as a whole: delete all of its pods";
    assert_eq!(result(&mut cluster), (0, Some(reason.to_owned())));
    cluster.remove_pod("default", "g2");
    assert_eq!(result(&mut cluster), (1, None), "it is the whole group");
}

fn waiting(world: &World) -> Vec<Pod> {
    let waiting = world.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
    waiting.map(|pod| admitted(pod, true)).collect()
}

/// What is disrupted at once, by group or by pod.
fn units(pods: &[Pod], whole: &BTreeSet<String>) -> Vec<Vec<Pod>> {
    let mut units: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
        let group = pod.spec.scheduling_group.as_ref().map(|group| group.pod_group_name.clone());
        let unit =
            group.filter(|group| whole.contains(group)).map_or(pod.key(), |group| format!("group {group}"));
        units.entry(unit).or_default().push(pod.clone());
    }
    units.into_values().collect()
}

#[test]
fn victims_are_whole_groups_and_no_fewer_make_room() {
    let (mut n_with_groups, mut n_without) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut text = String::new();
        (0..3).for_each(|i| writeln!(text, "node n{i} cpu=2").unwrap());
        for i in 0..4 + random.below(5) {
            let group = match random.below(4) {
                0 => String::new(),
                n => format!("group:g{n}"),
            };
            let (node, cpu, priority) = (random.below(3), 1 + random.below(2), random.below(4));
            writeln!(text, "pod default/p{i} on n{node} cpu={cpu} priority:{priority} {group}").unwrap();
        }
        writeln!(text, "pod default/high cpu={} priority:3", 1 + random.below(2)).unwrap();
        let world = text::world(&text);
        let whole: BTreeSet<String> = (1..3).filter(|_| random.chance(70)).map(|n| format!("g{n}")).collect();
        let mut cluster = cluster(&world, Settings::default());
        whole.iter().for_each(|name| cluster.set_group(&key(name), WHOLE));
        let (high, profile) = (&waiting(&world)[0], &Settings::default().config.profiles[0]);
        let fits = |evicted: &[&Vec<Pod>], node: &str| {
            let mut world = world.clone();
            let is_evicted = |pod: &Pod| evicted.iter().any(|unit| unit.iter().any(|p| p.key() == pod.key()));
            world.pods.retain(|pod| !pod.spec.node_name.is_empty() && !is_evicted(pod));
            check_node(&world, high, profile, &Options::default(), node).is_ok()
        };
        let units = units(&world.pods, &whole);
        let lower: Vec<_> =
            units.iter().filter(|unit| unit.iter().all(|pod| pod.spec.priority < Some(3))).collect();
        let nodes: Vec<_> = world.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        let prepared = cluster.prepare(high);
        match cluster.preempt(&prepared, &[]) {
            Preemption::Victims(found) => {
                let is_victim = |pod: &Pod| found.victims.contains(&pod.metadata.namespaced_name());
                let evicted: Vec<_> =
                    lower.iter().copied().filter(|unit| unit.iter().all(is_victim)).collect();
                let n: usize = evicted.iter().map(|unit| unit.len()).sum();
                assert_eq!(n, found.victims.len(), "seed {seed}\n{text}{whole:?} {found:?}");
                assert!(fits(&evicted, &found.node), "seed {seed}\n{text}{whole:?} {found:?}");
                for spared in 0..evicted.len() {
                    let mut fewer = evicted.clone();
                    fewer.remove(spared);
                    assert!(!fits(&fewer, &found.node), "seed {seed}\n{text}{whole:?} {found:?}");
                }
                n_with_groups += usize::from(evicted.iter().any(|unit| unit.len() > 1));
            }
            Preemption::NotNeeded => assert!(nodes.iter().any(|node| fits(&[], node)), "seed {seed}\n{text}"),
            _ => {
                assert!(!nodes.iter().any(|node| fits(&lower, node)), "seed {seed}\n{text}{whole:?}");
                n_without += 1;
            }
        }
    }
    assert!(n_with_groups > 20 && n_without > 20, "{n_with_groups} {n_without}");
}
