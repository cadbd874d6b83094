//! Groups: all members have a node, or none.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use berth_api::object::group::TopologyLevel;
use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, Group, GroupLevel, GroupOutcome, PreparedPod, Settings};
use berth_testkit::generate::{Random, seeds};
use berth_testkit::naive::{Options, World, check_node};
use berth_testkit::text;

use crate::common::{admitted, cluster};

pub const ZONE: &str = "topology.kubernetes.io/zone";

fn waiting(world: &World) -> Vec<Pod> {
    let waiting = world.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
    waiting.map(|pod| admitted(pod, true)).collect()
}

fn place(cluster: &mut Cluster, pods: &[Pod], min: usize, levels: &[GroupLevel<'_>]) -> GroupOutcome {
    let members: Vec<PreparedPod> = pods.iter().map(|pod| cluster.prepare(pod)).collect();
    cluster.place_group(&Group { members: &members, min, levels, composite: None })
}

/// Places the waiting pods as a group: `node node -`, or the member that fails and why.
fn placed(text: &str, min: usize, levels: &[GroupLevel<'_>]) -> String {
    let world = text::world(text);
    let pods = waiting(&world);
    match place(&mut cluster(&world, Settings::default()), &pods, min, levels) {
        GroupOutcome::Placed { members, .. } => {
            members.iter().map(|outcome| outcome.node().unwrap_or("-")).collect::<Vec<_>>().join(" ")
        }
        GroupOutcome::Unplaced(failure) => {
            let name = &pods[failure.member].metadata.name;
            format!("{name} after {}: {}", failure.n_placed, failure.outcome.message())
        }
    }
}

#[test]
fn a_search_that_ends_at_its_limit_says_so() {
    // Two pods fit on a node; that the last one does not fit shows only after all arrangements of the others, as each is different.
    let members =
        |n: usize| (0..n).map(|i| format!("pod default/p{i:02} cpu={}m\n", 3000 + i)).collect::<String>();
    let cut = |n_nodes: usize, n_pods: usize| {
        let nodes: String = (0..n_nodes).map(|i| format!("node n{i} cpu=7\n")).collect();
        let world = text::world(&(nodes + &members(n_pods)));
        let mut cluster = cluster(&world, Settings::default());
        let members: Vec<_> = waiting(&world).iter().map(|pod| cluster.prepare(pod)).collect();
        let group = Group { members: &members, min: n_pods, levels: &[], composite: None };
        let GroupOutcome::Unplaced(failure) = cluster.place_group(&group) else { panic!("they do not fit") };
        (
            failure.message(&group).contains(". The search was ended at its limit."),
            cluster.n_cut_group_searches(),
        )
    };
    assert_eq!(cut(8, 17), (true, 1));
    assert_eq!(cut(1, 3), (false, 0));
}

#[test]
fn pods_that_require_each_other_are_placed() {
    let nodes = "node a zone=z1 cpu=1\nnode b zone=z2 cpu=1\nnode c zone=z2 cpu=1\n";
    let pods = "pod default/p app=p cpu=1 aff(app=q @zone)\npod default/q app=q cpu=1 aff(app=p @zone)";
    assert_eq!(placed(&format!("{nodes}{pods}"), 2, &[]), "b c");
}

#[test]
fn all_are_placed_or_none() {
    let text = "node a cpu=1\nnode b cpu=1\npod default/x cpu=1\npod default/y cpu=1\npod default/z cpu=1";
    assert_eq!(placed(text, 2, &[]), "a b -");
    assert_eq!(placed(text, 3, &[]), "z after 2: 0/2 nodes are available: 2 Insufficient cpu.");
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    let pods = waiting(&world);
    cluster.record_changes(true);
    assert!(matches!(place(&mut cluster, &pods, 3, &[]), GroupOutcome::Unplaced(_)));
    assert!(cluster.take_changes().is_empty());
    assert!(pods.iter().all(|pod| cluster.node_of("default", &pod.metadata.name).is_none()));
}

#[test]
fn a_topology_constraint_keeps_a_group_together() {
    let nodes = "node a zone=z1 cpu=2\nnode b zone=z2 cpu=1\nnode c zone=z2 cpu=1\nnode d cpu=9\n";
    let pods = "pod default/x cpu=1 anti(app=m @hostname) app=m\npod default/y cpu=1 app=m";
    let text = format!("{nodes}{pods}");
    let (required, preferred) = (TopologyLevel::required(ZONE), TopologyLevel::preferred(ZONE));
    let required = |value| GroupLevel { rule: &required, value };
    assert_eq!(placed(&text, 2, &[required(None)]), "b c");
    assert_eq!(
        placed(&text, 2, &[required(Some("z1"))]),
        "y after 1: 0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    assert_eq!(
        placed(&format!("{text}\npod default/z cpu=1"), 3, &[required(None)]),
        "z after 2: 0/2 nodes are available: 2 Insufficient cpu."
    );
    assert_eq!(
        placed(&format!("{text}\npod default/z cpu=3"), 3, &[GroupLevel { rule: &preferred, value: None }])
            .len(),
        5
    );
    let missing = GroupLevel { rule: &TopologyLevel::required("rack"), value: None };
    assert_eq!(placed(&text, 2, &[missing]), "x after 0: no node has the label rack");
}

#[test]
fn preemption_makes_room_for_a_whole_group_or_for_none() {
    let text = "node a zone=z1 cpu=1\nnode b zone=z1 cpu=1\nnode c zone=z2 cpu=1\nnode d zone=z2 cpu=1
        pod default/low-a on a cpu=1\npod default/low-b on b cpu=1\npod default/low-c on c cpu=1
        pod default/high-d on d cpu=1 priority:9
        pod default/x cpu=1 priority:5\npod default/y cpu=1 priority:5";
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    let pods = waiting(&world);
    let members: Vec<_> = pods.iter().map(|pod| cluster.prepare(pod)).collect();
    let mut preempt = |members: &[PreparedPod], zone: Option<&str>| {
        let levels = [GroupLevel { rule: &TopologyLevel::required(ZONE), value: zone }];
        let group = Group { members, min: members.len(), levels: &levels, composite: None };
        assert!(matches!(cluster.place_group(&group), GroupOutcome::Unplaced(_)));
        let found = cluster.preempt_group(&group, &[])?;
        let victims: Vec<_> = found.victims.iter().map(|victim| victim.name()).collect();
        Some(format!("{}: {}", found.nodes.iter().flatten().cloned().collect::<String>(), victims.join(" ")))
    };
    assert_eq!(preempt(&members, None).as_deref(), Some("ab: low-a low-b"));
    assert_eq!(preempt(&members, Some("z2")), None);
    assert_eq!(preempt(&members[..1], Some("z2")).as_deref(), Some("c: low-c"));
    assert!(["low-a", "low-b", "low-c"].iter().all(|name| cluster.node_of("default", name).is_some()));
}

#[test]
fn room_is_held_where_the_fewest_pods_of_lower_or_equal_priority_have_to_end() {
    let text = "node a zone=z1 cpu=2\nnode b zone=z1 cpu=2\nnode c zone=z2 cpu=2
        pod default/a-1 on a cpu=1\npod default/a-2 on a cpu=1 priority:-1\npod default/b-1 on b cpu=1
        pod default/high on c cpu=1 priority:1\npod default/c-1 on c cpu=1
        pod default/x cpu=1\npod default/y cpu=1\npod default/nominated cpu=1";
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    let pods = waiting(&world);
    let members: Vec<_> = pods.iter().map(|pod| cluster.prepare(pod)).collect();
    cluster.record_changes(true);
    let reserve = |cluster: &mut Cluster, n: usize, zone: Option<&str>, staying: &[&str]| {
        let levels = [GroupLevel { rule: &TopologyLevel::required(ZONE), value: zone }];
        let staying: Vec<_> = staying.iter().map(|name| NamespacedName::new("default", name)).collect();
        let group = Group { members: &members[..n], min: n, levels: &levels, composite: None };
        let found = cluster.reserve_group(&group, &staying)?;
        let awaited: Vec<_> = found.victims.iter().map(|pod| pod.name()).collect();
        Some(format!("{}: {}", found.nodes.iter().flatten().cloned().collect::<String>(), awaited.join(" ")))
    };
    let group = Group { members: &members[..2], min: 2, levels: &[], composite: None };
    let preempted = cluster.preempt_group(&group, &[]);
    assert_eq!(reserve(&mut cluster, 2, None, &[]).as_deref(), Some("ba: a-2"));
    assert_eq!(reserve(&mut cluster, 2, None, &["a-2"]).as_deref(), Some("ba: a-1"));
    assert_eq!(reserve(&mut cluster, 2, None, &["a-1", "a-2"]).as_deref(), Some("bb: b-1"));
    assert_eq!(reserve(&mut cluster, 2, None, &["a-1", "a-2", "b-1"]), None);
    assert_eq!(reserve(&mut cluster, 1, Some("z2"), &[]).as_deref(), Some("c: c-1"));
    // Neither pods of higher priority nor other members are waited for.
    assert_eq!(reserve(&mut cluster, 2, Some("z2"), &[]), None);
    assert_eq!(cluster.preempt_group(&group, &[]), preempted);
    // The room of nominated pods of equal priority is theirs.
    cluster.nominate(&members[2], "b");
    assert_eq!(reserve(&mut cluster, 1, None, &[]).as_deref(), Some("a: a-2"));
    assert!(cluster.take_changes().is_empty());
}

/// A cluster of at most five nodes with some running pods, and a group of at most four.
fn draw(random: &mut Random) -> String {
    let mut text = String::new();
    let n_nodes = 1 + random.below(5);
    for i in 0..n_nodes {
        let zone = if random.chance(90) { format!("zone=z{}", random.below(3)) } else { String::new() };
        let taint = if random.chance(10) { "taint:full:NoSchedule" } else { "" };
        _ = writeln!(text, "node n{i} {zone} cpu={} {taint}", 1 + random.below(3));
    }
    let n_running = random.below(4);
    let n_members = 1 + random.below(4);
    for i in 0..n_running + n_members {
        let on = if i < n_running { format!("on n{}", random.below(n_nodes)) } else { String::new() };
        _ = write!(
            text,
            "pod default/p{i} {on} app={} cpu={}",
            random.word(&["a", "b", "c"]),
            1 + random.below(2)
        );
        if i >= n_running {
            text.push_str(" priority:1");
        }
        let n_terms = random.below(3);
        for first in (0..n_terms).map(|i| i == 0) {
            let key = random.word(&["@zone", "@hostname", "@zone"]);
            let term = format!("app={} {key}", random.words(&["a", "b", "c"], 1, 2).join(","));
            match random.below(8) {
                0..4 => _ = write!(text, " aff({term})"),
                4 | 5 => _ = write!(text, " anti({term})"),
                6 if first => _ = write!(text, " spread(1 {term})"),
                _ => _ = write!(text, " prefer-anti({} {term})", 1 + random.below(100)),
            }
        }
        text.push('\n');
    }
    text
}

/// Whether every member's rules hold on its node while the others run on theirs.
pub fn is_valid(world: &World, members: &[Pod], nodes: &[Option<&str>]) -> bool {
    let placed = members.iter().zip(nodes).filter_map(|(pod, node)| {
        let mut pod = pod.clone();
        pod.spec.node_name = (*node)?.to_owned();
        Some(pod)
    });
    let placed: Vec<Pod> = placed.collect();
    let mut world = world.clone();
    world.pods.retain(|pod| !pod.spec.node_name.is_empty());
    let running = world.pods.clone();
    let profile = Settings::default().config.profiles[0].clone();
    placed.iter().enumerate().all(|(i, pod)| {
        let others = placed.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, other)| other.clone());
        world.pods = running.iter().cloned().chain(others).collect();
        let pending = members.iter().find(|member| member.key() == pod.key());
        pending.is_some_and(|pending| {
            check_node(&world, pending, &profile, &Options::default(), &pod.spec.node_name).is_ok()
        })
    })
}

/// Whether some placement of at least `min` members is valid, by looking at all of them.
fn exists(world: &World, members: &[Pod], min: usize) -> bool {
    let names: Vec<_> = world.nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    let base = names.len() + 1;
    (0..base.pow(members.len() as u32)).any(|mut number| {
        let nodes: Vec<Option<&str>> = (0..members.len())
            .map(|_| {
                let node = names.get(number % base).copied();
                number /= base;
                node
            })
            .collect();
        nodes.iter().flatten().count() >= min && is_valid(world, members, &nodes)
    })
}

/// The members in one domain. Their spread constraints count the nodes of all domains, as in kube-scheduler 1.37.2.
pub fn within(pods: &[Pod], zone: &str) -> Vec<Pod> {
    let mut pods = pods.to_vec();
    for pod in &mut pods {
        pod.spec.node_selector.insert(ZONE.to_owned(), zone.to_owned());
        let constraints = pod.spec.topology_spread_constraints.iter_mut();
        constraints.for_each(|constraint| constraint.node_affinity_policy = Some("Ignore".to_owned()));
    }
    pods
}

#[test]
fn small_groups_are_placed_whenever_they_can_be() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let seeds = seeds(0, 200);
    for seed in seeds.clone() {
        let mut random = Random::new(seed);
        let text = draw(&mut random);
        let world = text::world(&text);
        let pods = waiting(&world);
        let min = pods.len() - usize::from(random.chance(20) && pods.len() > 1);
        let in_zone = random.chance(30);
        let level = GroupLevel { rule: &TopologyLevel::required(ZONE), value: None };
        let levels = if in_zone { &[level][..] } else { &[] };
        let possible = match in_zone {
            true => ["z0", "z1", "z2"].iter().any(|zone| exists(&world, &within(&pods, zone), min)),
            false => exists(&world, &pods, min),
        };
        let mut cluster = cluster(&world, Settings::default());
        match place(&mut cluster, &pods, min, levels) {
            GroupOutcome::Placed { domain, members } => {
                let nodes: Vec<_> = members.iter().map(|outcome| outcome.node()).collect();
                assert!(nodes.iter().flatten().count() >= min, "seed {seed}\n{text}{nodes:?}");
                let pods = domain.map_or_else(|| pods.clone(), |zone| within(&pods, &zone));
                assert!(is_valid(&world, &pods, &nodes), "seed {seed}\n{text}{nodes:?}");
                *counts.entry("placed").or_default() += 1;
            }
            GroupOutcome::Unplaced(failure) => {
                assert!(!possible, "seed {seed}, at least {min}, {levels:?}\n{text}{failure:?}");
                *counts.entry("unplaced").or_default() += 1;
                let members: Vec<_> = pods.iter().map(|pod| cluster.prepare(pod)).collect();
                let group = Group { members: &members, min, levels, composite: None };
                let found = cluster.preempt_group(&group, &[]);
                // All running pods have a lower priority, so that those that can be waited for can be evicted. But preemption places the group
                // once without any of them, and affinity and spread constraints may need that some stay.
                let room = cluster.reserve_group(&group, &[]);
                let mut members = text.lines().filter(|line| line.contains("priority:1"));
                let needs_others = members.any(|line| line.contains(" aff(") || line.contains(" spread("));
                assert!(room.is_none() || found.is_some() || needs_others, "seed {seed}\n{text}");
                let Some(found) = found else { continue };
                assert_eq!(cluster.preempt_group(&group, &[]), Some(found.clone()), "seed {seed}\n{text}");
                *counts.entry("preempting").or_default() += 1;
                found.victims.iter().for_each(|pod| cluster.remove_pod(pod.namespace(), pod.name()));
                let outcome = cluster.place_group(&group);
                assert!(matches!(outcome, GroupOutcome::Placed { .. }), "seed {seed}\n{text}{found:?}");
            }
        }
    }
    assert!(
        counts.values().all(|count| *count > seeds.clone().count() / 50) && counts.len() == 3,
        "{counts:?}"
    );
}

#[test]
fn members_do_not_keep_room_from_each_other_and_keep_their_nominations() {
    let world = text::world("node a cpu=2\npod default/x cpu=1\npod default/y cpu=1\npod default/z cpu=1");
    let mut cluster = cluster(&world, Settings::default());
    let members: Vec<PreparedPod> = waiting(&world).iter().map(|pod| cluster.prepare(pod)).collect();
    members[..2].iter().for_each(|pod| cluster.nominate(pod, "a"));
    cluster.record_changes(true);
    let mut is_placed = |n: usize| {
        let group = Group { members: &members[..n], min: n, levels: &[], composite: None };
        let outcome = cluster.decide_group(&group);
        // Whatever is decided, the nominations are as before: a change would wake the pods that have no room because of them.
        assert!(cluster.take_changes().is_empty());
        assert_eq!(
            ["x", "y", "z"].map(|name| cluster.nomination("default", name)),
            [Some("a"), Some("a"), None]
        );
        assert_eq!(cluster.decide(&members[2]).node(), None, "their room is kept from others");
        matches!(outcome, GroupOutcome::Placed { .. })
    };
    assert_eq!([is_placed(2), is_placed(3)], [true, false]);
}

#[test]
fn room_for_a_member_that_requires_another_could_help_the_group() {
    let pair = "pod default/p app=p cpu=1 aff(app=q @zone)\npod default/q app=q cpu=1 aff(app=p @zone)";
    let world = text::world(&format!("node a zone=z1 cpu=1\n{pair}"));
    let mut cluster = cluster(&world, Settings::default());
    let pods = waiting(&world);
    cluster.record_changes(true);
    assert!(matches!(place(&mut cluster, &pods, 2, &[]), GroupOutcome::Unplaced(_)));
    let members: Vec<PreparedPod> = pods.iter().map(|pod| cluster.prepare(pod)).collect();
    let conditions = cluster.wake_conditions_of_group(&members);
    cluster.take_changes();
    cluster.set_node(&text::world("node b zone=z1 cpu=1").nodes[0]);
    let changes = cluster.take_changes();
    let helps = |change| conditions.iter().any(|conditions| cluster.could_help(conditions, change));
    assert!(changes.iter().any(helps));
    assert!(matches!(place(&mut cluster, &pods, 2, &[]), GroupOutcome::Placed { .. }));
}
