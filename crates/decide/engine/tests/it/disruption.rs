//! Groups that are disrupted as a whole: a victim takes the other members with it, or stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::group::GroupKind;
use berth_api::object::group::TopologyLevel;
use berth_api::object::{GroupKey, NamespacedName, Pod};
use berth_engine::{
    Cluster, DisruptionBudget, Group, GroupDisruption, Preemption, PreparedPod, Remedy, RemedyOptions,
    Settings, Target, ViolationKey,
};
use berth_testkit::generate::Random;
use berth_testkit::naive::{Options, World, check_node};
use berth_testkit::text;

use crate::common::{admitted, cluster, with_gates};

fn key(name: &str) -> GroupKey {
    GroupKey { kind: GroupKind::Scheduling, name: NamespacedName::new("default", name) }
}

const WHOLE: GroupDisruption = GroupDisruption { as_a_whole: true, priority: None, levels: Vec::new() };

fn with_priority(priority: i32) -> GroupDisruption {
    GroupDisruption { priority: Some(priority), ..GroupDisruption::default() }
}

/// The victims of the first waiting pod with these groups: `node: victims`, with `!` for each budget violated; or the message.
fn victims(text: &str, groups: &[(&str, GroupDisruption)]) -> String {
    victims_in(KubernetesVersion::default(), text, groups)
}

fn victims_in(version: KubernetesVersion, text: &str, groups: &[(&str, GroupDisruption)]) -> String {
    let world = text::world(text);
    let mut cluster = cluster(&world, with_gates(version.into()));
    groups.iter().for_each(|(name, disruption)| cluster.set_group(&key(name), disruption.clone()));
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
    let in_1_36 = |groups| victims_in(KubernetesVersion::V1_36, &text, groups);
    assert_eq!(in_1_36(&[]), "a: g1 g2", "the later start");
    assert_eq!(in_1_36(&[("g", WHOLE)]), "a: p");
    assert_eq!(victims(&text, &[]), "a: p", "each pod of a group counts as one");
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
    let found = cluster
        .preempt_group(&Group { members: &members, min: 2, levels: &[], composite: None }, &[])
        .unwrap();
    let names: Vec<_> = found.victims.iter().map(NamespacedName::name).collect();
    assert_eq!(names, ["g1", "g2"]);
}

/// What is done about all broken rules: `pod>node` for each victim, with the group that leaves, or why it is held; and why rules stay.
fn remedied(text: &str, disruption: &GroupDisruption, options: &RemedyOptions) -> Vec<String> {
    let mut cluster = cluster(&text::world(text), Settings::default());
    cluster.set_group(&key("g"), disruption.clone());
    let keys: Vec<_> = cluster.violations().iter().map(|violation| violation.key()).collect();
    let before = cluster.violations();
    let found = cluster.remedy(&keys, options);
    assert_eq!(cluster.violations(), before, "nothing is moved");
    let victim = |remedy: &Remedy| {
        let target = match &remedy.target {
            Target::Node(node) => node.clone(),
            Target::Nowhere(why) if remedy.is_held => format!("held: {why}"),
            _ => "gone".to_owned(),
        };
        let group = remedy.group.as_ref().map(|group| format!(" with {group}")).unwrap_or_default();
        format!("{}>{target}{group}", remedy.victim.name)
    };
    let stays = found.stays.iter().map(|stays| stays.reason.clone());
    found.remedies.iter().map(victim).chain(stays).collect()
}

#[test]
fn a_group_is_evicted_as_a_whole_to_fix_a_rule_or_not_at_all() {
    let nodes = "node a zone=a cpu=2\nnode b zone=b cpu=2\n";
    let members = "pod default/g1 on a cpu=1 group:g rdrd-node(zone=b)\npod default/g2 on b cpu=1 group:g\n";
    let options = RemedyOptions::default();
    let whole = |text: &str| remedied(&format!("{nodes}{text}"), &WHOLE, &options);
    let single = remedied(&format!("{nodes}{members}"), &GroupDisruption::default(), &options);
    assert_eq!(single, ["g1>b"]);
    assert_eq!(whole(members), ["g1>b with default/g", "g2>a with default/g"]);
    assert_eq!(whole("pod default/g1 on a group:g rdrd-node(zone=b)"), ["g1>b"], "it is the whole group");
    // A replacement of one member does not fit: none leaves.
    let full = format!("{members}pod default/full on b cpu=1 priority:9\npod default/too on a cpu=1")
        .replace("g2 on b cpu=1", "g2 on b cpu=1 select:zone=b");
    let found = whole(&full);
    assert!(found.len() == 1 && found[0].starts_with("g1>held: 1 of 2 pods fit, 2 have to"), "{found:?}");
    let released = RemedyOptions {
        evict_without_target: vec![("default".to_owned(), "g1".to_owned())],
        ..RemedyOptions::default()
    };
    let gone = ["g1>gone with default/g", "g2>gone with default/g"];
    assert_eq!(remedied(&format!("{nodes}{full}"), &WHOLE, &released), gone);
    // The namespace of the group is exempt.
    let exempt = RemedyOptions { exempt_namespaces: vec!["default".to_owned()], ..RemedyOptions::default() };
    let stays = "pods in namespace default are exempt from eviction";
    assert_eq!(remedied(&format!("{nodes}{members}"), &WHOLE, &exempt), [stays]);
}

#[test]
fn a_group_with_a_pod_that_is_never_evicted_stays() {
    let text = "node a zone=a\nnode b zone=b\npod default/g1 on a group:g rdrd-node(zone=b)\npod default/g2 on b group:g";
    let mut world = text::world(text);
    let annotation = ("kubernetes.io/config.mirror".to_owned(), "x".to_owned());
    world.pods[1].metadata.annotations.extend([annotation]);
    let mut cluster = cluster(&world, Settings::default());
    cluster.set_group(&key("g"), WHOLE);
    let keys: Vec<_> = cluster.violations().iter().map(|violation| violation.key()).collect();
    let found = cluster.remedy(&keys, &RemedyOptions::default());
    let why = "pod group default/g is evicted as a whole or not at all, and default/g2 is a mirror pod: only its node can end it";
    assert_eq!((found.remedies.len(), &*found.stays[0].reason), (0, why));
}

#[test]
fn pods_of_another_scheduler_are_evicted_with_their_group_where_the_first_profile_places_them() {
    let text = "node a zone=a\nnode b zone=b\npod default/g1 on a group:g rdrd-node(zone=b)\npod default/g2 on b group:g";
    let mut world = text::world(text);
    world.pods.iter_mut().for_each(|pod| pod.spec.scheduler_name = "other".to_owned());
    let mut cluster = cluster(&world, Settings::default());
    cluster.set_group(&key("g"), WHOLE);
    let keys: Vec<_> = cluster.violations().iter().map(|violation| violation.key()).collect();
    let found = cluster.remedy(&keys, &RemedyOptions::default()).remedies;
    assert!(
        found.len() == 2 && found.iter().all(|remedy| matches!(remedy.target, Target::Node(_))),
        "{found:?}"
    );
}

#[test]
fn replacements_of_a_group_share_the_domain_of_its_topology() {
    let nodes = "node a zone=a rack=r1 cpu=2\nnode b zone=b rack=r2 cpu=1\nnode c zone=b rack=r3 cpu=1\nnode d zone=b rack=r3 cpu=1\n";
    let members = "pod default/g1 on a cpu=1 group:g rdrd-node(zone=b)\npod default/g2 on a cpu=1 group:g rdrd-node(zone=b)";
    let text = format!("{nodes}{members}");
    let in_racks = GroupDisruption { levels: vec![TopologyLevel::required("example.com/rack")], ..WHOLE };
    let found = remedied(&text, &in_racks, &RemedyOptions::default());
    assert_eq!(found, ["g1>c with default/g", "g2>d with default/g"]);
    let full = format!("{text}\npod default/full on d cpu=1");
    let found = remedied(&full, &in_racks, &RemedyOptions::default());
    assert!(found.iter().all(|found| found.contains(">held: 1 of 2 pods fit in r")), "{found:?}");
}

#[test]
fn all_pods_of_a_group_are_victims_or_none_in_random_clusters() {
    let (mut n_evicted, mut n_kept) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut text = "node a zone=a cpu=3\nnode b zone=a cpu=3\nnode c zone=b cpu=3\n".to_owned();
        for i in 0..3 + random.below(5) {
            let (node, app) = (random.word(&["a", "b", "c"]), random.word(&["x", "y"]));
            let group = if random.chance(60) { "group:g" } else { "" };
            let rule = match random.below(4) {
                0 => format!("rdrd-node(zone={})", random.word(&["a", "b"])),
                1 => format!("rdrd-anti(app={} @zone)", random.word(&["x", "y"])),
                2 => format!("rdrd-aff(app={} @zone)", random.word(&["x", "y"])),
                _ => String::new(),
            };
            writeln!(
                text,
                "pod default/p{i} on {node} cpu=1 app={app} priority:{} {group} {rule}",
                random.below(3)
            )
            .unwrap();
        }
        let world = text::world(&text);
        let mut cluster = cluster(&world, Settings::default());
        cluster.set_group(&key("g"), WHOLE);
        let broken = |cluster: &Cluster| -> BTreeSet<ViolationKey> {
            let violations = cluster.violations();
            violations.iter().filter(|v| v.required_during_execution).map(|v| v.key()).collect()
        };
        let before = broken(&cluster);
        let keys: Vec<_> = before.iter().cloned().collect();
        let found = cluster.remedy(&keys, &RemedyOptions::default());
        assert_eq!(broken(&cluster), before, "seed {seed}\n{text}");
        let evicted: Vec<_> = found.remedies.iter().filter(|remedy| !remedy.is_held).collect();
        let of_group: Vec<&Pod> =
            world.pods.iter().filter(|pod| pod.spec.scheduling_group.is_some()).collect();
        let n =
            evicted.iter().filter(|r| of_group.iter().any(|pod| pod.metadata.name == r.victim.name)).count();
        assert!(n == 0 || n == of_group.len(), "seed {seed}: {n} of {}\n{text}{evicted:?}", of_group.len());
        // Carried out, the plan leaves none of the rules broken that it fixes.
        for remedy in &evicted {
            cluster.remove_pod("default", &remedy.victim.name);
        }
        for remedy in &evicted {
            let Target::Node(node) = &remedy.target else { panic!("seed {seed}: {remedy:?}") };
            let mut pod =
                world.pods.iter().find(|pod| pod.metadata.name == remedy.victim.name).unwrap().clone();
            pod.spec.node_name.clone_from(node);
            cluster.set_pod(&admitted(&pod, true));
        }
        let after = broken(&cluster);
        let fixed: Vec<_> = evicted.iter().flat_map(|remedy| &remedy.cures).collect();
        let again: Vec<_> = fixed.iter().filter(|key| after.contains(key)).collect();
        assert!(again.is_empty(), "seed {seed}\n{text}{evicted:?}\n{again:?}");
        n_evicted += usize::from(n > 1);
        n_kept += usize::from(n == 0 && of_group.len() > 1 && !keys.is_empty());
    }
    assert!(n_evicted > 20 && n_kept > 20, "{n_evicted} {n_kept}");
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
