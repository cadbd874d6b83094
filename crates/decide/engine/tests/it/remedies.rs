//! Remedies: who goes, and where to; in small clusters, and under random histories against the naive evaluator.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::Pod;
use berth_engine::{Cluster, Remedies, Remedy, RemedyOptions, Settings, Target, ViolationKey};
use berth_input::config::Profile;
use berth_testkit::generate::{self, Flavour, Operation, seeds};
use berth_testkit::naive::{Broken, Options, World, broken_during_execution, check_node};
use berth_testkit::text;

use crate::common::{apply, cluster, cut_down, settings};

fn all_keys(cluster: &Cluster) -> Vec<ViolationKey> {
    let mut keys: Vec<_> = cluster.violations().iter().map(|v| v.key()).collect();
    keys.sort_unstable();
    keys
}

/// `pod@node>target (cures)` for each remedy, and `pod: reason` for what stays.
fn shown(remedies: &Remedies) -> Vec<String> {
    let remedy = |r: &Remedy| {
        let target = match &r.target {
            Target::Node(node) => node.as_str(),
            Target::Nowhere(_) if r.is_held => "-",
            Target::Nowhere(_) => "gone",
            Target::NotRequested => "?",
        };
        let cures: Vec<&str> = r.cures.iter().map(|k| k.name.as_str()).collect();
        format!("{}@{}>{target} ({})", r.victim.name, r.victim.node, cures.join(" "))
    };
    let stays = remedies.stays.iter().map(|s| format!("{}: {}", s.key.name, s.reason));
    remedies.remedies.iter().map(remedy).chain(stays).collect()
}

fn remedied_with(text: &str, options: &RemedyOptions) -> Vec<String> {
    let mut cluster = cluster(&text::world(text), Settings::default());
    let keys = all_keys(&cluster);
    shown(&cluster.remedy(&keys, options))
}

fn remedied(text: &str) -> Vec<String> {
    remedied_with(text, &RemedyOptions::default())
}

const ZONES: &str = "node a1 zone=a\nnode a2 zone=a\nnode b1 zone=b\n";

#[test]
fn who_goes_and_where_to() {
    for (pods, expected) in [
        // Affinity: the pod whose rule is broken.
        ("pod d/p on a1 rdrd-node(zone=b)", &["p@a1>b1 (p)"][..]),
        ("pod d/p on a1 rdrd-node(zone=c)", &["p@a1>- (p)"]),
        ("pod d/p on a1 rdrd-aff(app=db @zone)\npod d/db on b1 app=db", &["p@a1>b1 (p)"]),
        ("pod d/p on a1 rdrd-aff(app=db @zone)", &["p@a1>- (p)"]),
        // Of two that are apart one goes: the one of lower priority, the younger one, the first by name.
        (
            "pod d/p on a1 app=x rdrd-aff(app=x @zone)\npod d/q on b1 app=x rdrd-aff(app=x @zone)",
            &["p@a1>b1 (p q)"],
        ),
        (
            "pod d/p on a1 app=x priority:1 rdrd-aff(app=x @zone)\npod d/q on b1 app=x rdrd-aff(app=x @zone)",
            &["q@b1>a1 (p q)"],
        ),
        (
            "pod d/p on a1 app=x started:1 rdrd-aff(app=x @zone)\npod d/q on b1 app=x started:2 rdrd-aff(app=x @zone)",
            &["q@b1>a1 (p q)"],
        ),
        // If that one has nowhere to go, the other.
        (
            "pod d/p on a1 app=x cpu=40 rdrd-aff(app=x @zone)\npod d/full on b1 cpu=30\npod d/q on b1 app=x rdrd-aff(app=x @zone)",
            &["q@b1>a2 (p q)"],
        ),
        // Company comes along with one that goes anyway.
        (
            "pod d/p on b1 rdrd-aff(app=db @zone)\npod d/db on a1 app=db rdrd-node(zone=b)",
            &["db@a1>b1 (db p)"],
        ),
        // Anti-affinity: the pod that carries the rule, unless all in its way have lower priority.
        ("pod d/p on a1 rdrd-anti(app=x @zone)\npod d/x on a2 app=x", &["p@a1>b1 (p)"]),
        ("pod d/p on a1 priority:1 rdrd-anti(app=x @zone)\npod d/x on a2 app=x", &["x@a2>b1 (p)"]),
        ("pod d/p on a1 rdrd-anti(app=x @zone)\npod d/x on a2 app=x priority:1", &["p@a1>b1 (p)"]),
        (
            "pod d/p on a1 priority:5 rdrd-anti(app=x @zone)\npod d/x on a2 app=x\npod d/y on a2 app=x priority:1",
            &["x@a2>b1 (p)", "y@a2>b1 (p)"],
        ),
        (
            "pod d/p on a1 priority:5 rdrd-anti(app=x @zone)\npod d/x on a2 app=x\npod d/y on a2 app=x priority:9",
            &["p@a1>b1 (p)"],
        ),
        // Both carry the rule: one goes.
        (
            "pod d/p on a1 app=x started:1 rdrd-anti(app=x @zone)\npod d/q on a2 app=x started:2 rdrd-anti(app=x @zone)",
            &["q@a2>b1 (p q)"],
        ),
        // It would do if x went, but c has to go for another's rule anyway.
        (
            "pod d/c on a1 app=c priority:10 rdrd-anti(app=x @zone)\npod d/x on a2 app=x priority:5
             pod d/d on a2 priority:12 rdrd-anti(app=c @zone)",
            &["c@a1>b1 (c d)"],
        ),
        // One of those in the way has nowhere to go: evicting the others would not help.
        (
            "pod d/p on a1 priority:5 rdrd-anti(app=x @zone)\npod d/x on a2 app=x select:zone=a\npod d/y on a2 app=x",
            &["x@a2>- (p)"],
        ),
        // The node that would do is full, or taken by another's rules.
        ("pod d/p on a1 cpu=40 rdrd-node(zone=b)\npod d/q on b1 cpu=40", &["p@a1>- (p)"]),
        ("pod d/p on a1 app=x rdrd-node(zone=b)\npod d/q on b1 anti(app=x @zone)", &["p@a1>- (p)"]),
        // The room that one leaves is the other's.
        (
            "pod d/p on a1 cpu=40 started:1 rdrd-node(zone=b)\npod d/q on b1 cpu=40 started:2 rdrd-node(zone=a)",
            &["q@b1>a2 (q)", "p@a1>b1 (p)"],
        ),
        // Where there is no such domain, it is a pod that the other should be with all the same.
        (
            "node c1 zone=c\nnode bare\npod d/alone on b1 app=x rdrd-aff(app=x @zone)\npod d/p on bare app=x rdrd-node(zone=c)",
            &["alone@b1>- (alone)", "p@bare>- (p)"],
        ),
    ] {
        assert_eq!(remedied(&format!("{ZONES}{pods}")), expected, "{pods}");
    }
}

#[test]
fn who_never_goes() {
    let stays = |pods: &str| remedied(&format!("{ZONES}{pods}"));
    assert_eq!(
        stays("pod kube-system/p on a1 rdrd-node(zone=b)"),
        ["p: pods in namespace kube-system are exempt from eviction"]
    );
    assert_eq!(
        stays("pod d/p on a1 rdrd-anti(app=x @zone)\npod d/x on a2 app=x terminating"),
        ["p: d/x, which conflicts with it, is being deleted already"]
    );
    let mut world =
        text::world(&format!("{ZONES}pod d/p on a1 rdrd-node(zone=b)\npod d/q on a1 rdrd-node(zone=b)"));
    world.pods[0].metadata.annotations.insert("kubernetes.io/config.mirror".to_owned(), "x".to_owned());
    let mut cluster = cluster(&world, Settings::default());
    let mut keys = all_keys(&cluster);
    keys.push(ViolationKey { namespace: "d".into(), name: "gone".into(), term: "t".into() });
    keys.push(ViolationKey { namespace: "d".into(), name: "p".into(), term: "t".into() });
    let options = RemedyOptions { exempt_namespaces: vec!["d".to_owned()], ..RemedyOptions::default() };
    assert_eq!(
        shown(&cluster.remedy(&keys[..2], &options)),
        [
            "p: pods in namespace d are exempt from eviction",
            "q: pods in namespace d are exempt from eviction"
        ]
    );
    assert_eq!(
        shown(&cluster.remedy(&keys, &RemedyOptions::default())),
        [
            "q@a1>b1 (q)",
            "gone: there is no such pod on a known node",
            "p: d/p is a mirror pod: only its node can end it",
            "p: the pod has no such rule that is required during execution",
        ]
    );
}

#[test]
fn without_proof_pods_go_all_the_same() {
    let text = format!("{ZONES}pod d/p on a1 rdrd-node(zone=c)");
    let options = RemedyOptions { seek_targets: false, ..RemedyOptions::default() };
    assert_eq!(remedied_with(&text, &options), ["p@a1>? (p)"]);
    // With the one gone that has no place, the other need not go.
    let apart = "pod d/p on a1 app=x cpu=40 rdrd-aff(app=x @zone)\npod d/f on b1 cpu=30\npod d/q on b1 app=x cpu=1 rdrd-aff(app=x @zone)";
    let evict_without_target = vec![("d".to_owned(), "p".to_owned())];
    let options = RemedyOptions { evict_without_target, ..RemedyOptions::default() };
    assert_eq!(remedied_with(&format!("{ZONES}{apart}"), &options), ["p@a1>gone (p q)"]);
}

#[test]
fn pods_that_have_to_go_together_stay_together_until_all_are_released() {
    let pods = "pod d/p on a1 priority:5 rdrd-anti(app=x @zone)\npod d/x on a2 app=x select:zone=a\npod d/y on a2 app=x select:zone=a";
    let remedied = |released: &[&str]| {
        let evict_without_target = released.iter().map(|name| ("d".to_owned(), (*name).to_owned())).collect();
        let options = RemedyOptions { evict_without_target, ..RemedyOptions::default() };
        remedied_with(&format!("{ZONES}{pods}"), &options)
    };
    let held = ["x@a2>- (p)", "y@a2>- (p)"];
    for released in [&[][..], &["x"], &["y"]] {
        assert_eq!(remedied(released), held, "{released:?}");
    }
    assert_eq!(remedied(&["x", "y"]), ["x@a2>gone (p)", "y@a2>gone (p)"]);
}

#[test]
fn a_pod_of_another_scheduler_is_placed_by_the_first_profile() {
    let mut world = text::world(&format!("{ZONES}pod d/p on a1 rdrd-node(zone=b)"));
    world.pods[0].spec.scheduler_name = "someone-else".to_owned();
    let mut cluster = cluster(&world, Settings::default());
    let keys = all_keys(&cluster);
    assert_eq!(shown(&cluster.remedy(&keys, &RemedyOptions::default())), ["p@a1>b1 (p)"]);
}

#[test]
fn the_verdict_and_the_victim_are_told_in_full() {
    let mut world = text::world(&format!("{ZONES}pod d/p on a1 priority:7 rdrd-node(zone=b)"));
    world.pods[0].metadata.uid = "0b7e5f3a-00ff-4c21-9d0e-a1b2c3d4e5f6".to_owned();
    let mut cluster = cluster(&world, Settings::default());
    let keys = all_keys(&cluster);
    let remedy = cluster.remedy(&keys, &RemedyOptions::default()).remedies.remove(0);
    assert_eq!(
        (remedy.victim.uid.as_str(), remedy.victim.priority),
        ("0b7e5f3a-00ff-4c21-9d0e-a1b2c3d4e5f6", 7)
    );
    assert_eq!(remedy.verdict.detail, "the node must match `topology.kubernetes.io/zone=b`");
}

/// A world after some of the remedies that have a place have been carried out; what was judged on the way.
fn carried_out(
    world: &World,
    remedies: &[&Remedy],
    mut judge: impl FnMut(&World, &Pod, &str) -> Result<(), String>,
) -> Result<World, String> {
    let mut world = world.clone();
    for remedy in remedies {
        let Target::Node(node) = &remedy.target else { continue };
        let victim = &remedy.victim;
        let is_victim =
            |p: &Pod| (&p.metadata.namespace, &p.metadata.name) == (&victim.namespace, &victim.name);
        let at = world.pods.iter().position(is_victim).ok_or(format!("{victim:?} is not there"))?;
        let mut pod = world.pods.remove(at);
        if (&pod.metadata.uid, &pod.spec.node_name) != (&victim.uid, &victim.node) {
            return Err(format!("{victim:?} is another"));
        }
        pod.spec.node_name.clear();
        pod.status.start_time = None;
        judge(&world, &pod, node)?;
        pod.spec.node_name.clone_from(node);
        world.pods.push(pod);
    }
    Ok(world)
}

fn key_of(broken: &Broken) -> ViolationKey {
    let Broken { namespace, name, term, .. } = broken.clone();
    ViolationKey { namespace, name, term }
}

fn broken_keys(world: &World, options: &Options) -> BTreeSet<ViolationKey> {
    broken_during_execution(world, options).iter().map(key_of).collect()
}

fn judge(
    cluster: &mut Cluster,
    world: &World,
    profile: &Profile,
    options: &Options,
) -> Result<(usize, usize), String> {
    let broken = broken_keys(world, options);
    let mut keys: Vec<ViolationKey> = broken.iter().cloned().collect();
    let found = cluster.remedy(&keys, &RemedyOptions::default());
    if cluster.violation_changes() != Default::default() || all_keys(cluster) != keys {
        return Err("rules hold or not that did not or did".to_owned());
    }
    // Rules are learnt once, and are counted from then on.
    let counted = cluster.n_counted();
    keys.reverse();
    if cluster.remedy(&keys, &RemedyOptions::default()) != found {
        return Err("the order of the rules makes a difference".to_owned());
    }
    if cluster.n_counted() != counted {
        return Err("the state was changed".to_owned());
    }
    let stays = found.stays.iter().map(|s| &s.key);
    let answered: BTreeSet<_> = found.remedies.iter().flat_map(|r| &r.cures).chain(stays).cloned().collect();
    if answered != broken {
        return Err(format!("asked {broken:?}, answered {answered:?}"));
    }
    let placed: Vec<&Remedy> =
        found.remedies.iter().filter(|r| matches!(r.target, Target::Node(_))).collect();
    for remedy in &placed {
        if options.exempt_namespaces.contains(&remedy.victim.namespace) {
            return Err(format!("{remedy:?} is exempt"));
        }
    }
    let after = carried_out(world, &placed, |without, pod, node| {
        if pod.metadata.deletion_timestamp.is_some() {
            return Err(format!("{} is being deleted", pod.key()));
        }
        check_node(without, pod, profile, options, node)
            .map_err(|e| format!("{} on {node}: {e}", pod.key()))?;
        let mut with = without.clone();
        let mut bound = pod.clone();
        bound.spec.node_name = node.to_owned();
        with.pods.push(bound);
        let (before, after) = (broken_keys(without, options), broken_keys(&with, options));
        match after.difference(&before).next() {
            Some(key) => Err(format!("{} comes to {node} and breaks {key}", pod.key())),
            None => Ok(()),
        }
    })?;
    let cured: BTreeSet<&ViolationKey> = placed.iter().flat_map(|r| &r.cures).collect();
    let left = broken_keys(&after, options);
    if let Some(key) = cured.iter().find(|key| left.contains(**key)) {
        return Err(format!("{key} is broken still"));
    }
    for i in 0..placed.len() {
        let others: Vec<&Remedy> =
            placed.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, r)| *r).collect();
        let without = carried_out(world, &others, |_, _, _| Ok(()))?;
        let left = broken_keys(&without, options);
        if !cured.iter().any(|key| left.contains(*key)) {
            return Err(format!("{:?} was evicted without effect", placed[i].victim));
        }
    }
    Ok((placed.len(), found.remedies.len() - placed.len()))
}

/// Who goes, by seed: how many with a place, and how many without.
fn follow(seed: u64, operations: &[Operation]) -> Result<(usize, usize), String> {
    let (profile, options) = (Profile::default(), generate::options(seed, Flavour::Extensions));
    let mut cluster = Cluster::new(settings(&profile, &options));
    if seed.is_multiple_of(2) {
        cluster.watch_violations();
    }
    let (mut world, mut n) = (World::default(), (0, 0));
    for (i, operation) in operations.iter().enumerate() {
        // Nominations of pods that never come only take room.
        if matches!(operation, Operation::Nominate(_)) {
            continue;
        }
        world.apply(operation);
        apply(&mut cluster, &world, operation);
        if i % 5 == 4 {
            cluster.violation_changes();
            let found = judge(&mut cluster, &world, &profile, &options);
            let (placed, nowhere) = found.map_err(|e| format!("after operation {i}: {e}"))?;
            n = (n.0 + placed, n.1 + nowhere);
        }
    }
    Ok(n)
}

#[test]
fn remedies_cure_and_nobody_goes_in_vain() {
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in seeds(7_000_000, 60) {
        let operations = generate::operations(seed, 100, Flavour::Extensions);
        match follow(seed, &operations) {
            Ok((placed, nowhere)) => {
                *totals.entry("placed").or_default() += placed;
                *totals.entry("nowhere").or_default() += nowhere;
            }
            Err(error) => {
                let operations = cut_down(&operations, |o| follow(seed, o).is_err());
                let error = follow(seed, &operations).err().unwrap_or(error);
                let shown: Vec<_> = operations.iter().map(|o| format!("{o:?}\n")).collect();
                panic!("seed {seed}:\n{}\n{error}", shown.concat());
            }
        }
    }
    assert!(totals["placed"] > 20 && totals["nowhere"] > 20, "{totals:?}");
}
