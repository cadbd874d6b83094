//! Violations: rule by rule in small clusters, and under random histories against the naive evaluator.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::work::WorkBudget;
use berth_engine::{Cluster, Counts, Settings, Verdict, ViolatedRule, Violation, ViolationKey};
use berth_testkit::generate::{self, Flavour, Operation, seeds};
use berth_testkit::naive::{Broken, Options, World, broken};
use berth_testkit::text;

use crate::common::{admitted, apply, cluster, cut_down, settings};

const NODES: &str = "node a1 zone=a disk=ssd\nnode a2 zone=a\nnode b1 zone=b disk=ssd\nnode bare -hostname\n";

/// The broken rules of a text, in short: `pod: kind (executing)`.
fn audited(pods: &str) -> Vec<String> {
    let world = text::world(&format!("{NODES}{pods}"));
    let mut cluster = cluster(&world, Settings::default());
    let shown = |v: Violation| {
        let executing = if v.required_during_execution { "!" } else { "" };
        let kind = match v.rule {
            ViolatedRule::PodAffinity => "PodAffinity",
            ViolatedRule::PodAntiAffinity => "PodAntiAffinity",
            _ => v.verdict.plugin.name(),
        };
        format!("{}: {kind}{executing}", v.name)
    };
    cluster.audit().into_iter().map(shown).collect()
}

#[test]
fn every_required_rule_is_audited() {
    for (pods, expected) in [
        // Labels of the node; the selector of v1 and the rule that goes on are told apart.
        ("pod d/p on a2 select:disk=ssd", &["p: NodeAffinity"][..]),
        ("pod d/p on a2 node(disk=ssd)", &["p: NodeAffinity"]),
        ("pod d/p on a2 rdrd-node(disk=ssd)", &["p: NodeAffinity!"]),
        ("pod d/p on a1 rdrd-node(disk=ssd) select:disk=ssd", &[]),
        // Annotations and versions.
        ("pod d/p on a1 note-rdrd-node(annotation:slot<2)", &["p: NodeAffinity!"]),
        ("node k annotation:slot=1 k=v5.16\npod d/p on k note-rdrd-node(annotation:slot<2 k>v5.15)", &[]),
        ("pod d/p on a2 rdrd-node(disk=ssd | zone=a)", &[]),
        // Volumes that are bound; claims that wait for a pod are no rule of one that runs.
        ("pv v node(zone=b) claim:d/c\npvc d/c volume:v\npod d/p on a1 claim:c", &["p: VolumeBinding"]),
        ("pv v node(zone=a) claim:d/c\npvc d/c volume:v\npod d/p on a1 claim:c", &[]),
        ("pv v zone=b claim:d/c\npvc d/c volume:v\npod d/p on a1 claim:c", &["p: VolumeZone"]),
        ("pvc d/c volume:v\npod d/p on a1 claim:c", &["p: VolumeBinding"]),
        ("class wait waits\npvc d/c class:wait\npod d/p on a1 claim:c", &[]),
        // Company.
        ("pod d/p on a1 rdrd-aff(app=db @zone)\npod d/db on b1 app=db", &["p: PodAffinity!"]),
        ("pod d/p on a1 rdrd-aff(app=db @zone)\npod d/db on a2 app=db", &[]),
        ("pod d/p on a1 aff(app=db @hostname)\npod d/db on a2 app=db", &["p: PodAffinity"]),
        // The only pod of its group keeps its rule until another one runs elsewhere; for the proposals also on a node without the key.
        ("pod d/p on a1 app=x rdrd-aff(app=x @zone)", &[]),
        ("pod d/p on a1 app=x rdrd-aff(app=x @zone)\npod d/q on b1 app=x", &["p: PodAffinity!"]),
        ("pod d/p on a1 app=x rdrd-aff(app=x @zone)\npod d/q on bare app=x", &["p: PodAffinity!"]),
        ("pod d/p on a1 app=x aff(app=x @zone)\npod d/q on bare app=x", &[]),
        // Each term of the proposals is a requirement by itself; one that is required during scheduling only evicts no pod.
        (
            "pod d/p on a1 rdrd-aff(app=db @zone) aff(tier=hot @zone)\npod d/db on a2 app=db",
            &["p: PodAffinity"],
        ),
        (
            "pod d/p on a1 rdrd-aff(app=db @zone) rdrd-aff(tier=hot @zone)\npod d/db on a2 app=db",
            &["p: PodAffinity!"],
        ),
        (
            "pod d/p on a1 rdrd-aff(app=db @zone) note-rdrd-aff(tier=hot @zone)\npod d/db on a2 app=db\npod d/hot on a1 tier=hot",
            &[],
        ),
        (
            "pod d/p on a1 app=x rdrd-aff(app=x @zone) aff(tier=hot @zone)\npod d/q on b1 app=x tier=cold",
            &["p: PodAffinity", "p: PodAffinity!"],
        ),
        // Without the topology key affinity is broken, and anti-affinity holds.
        ("pod d/p on bare rdrd-aff(app=db @zone)\npod d/db on bare app=db", &["p: PodAffinity!"]),
        ("pod d/p on bare rdrd-anti(app=db @zone)\npod d/db on bare app=db", &[]),
        // A pod being deleted is company, and in the way, until it is gone; it is not judged itself.
        ("pod d/p on a1 rdrd-aff(app=db @zone)\npod d/db on a2 app=db terminating", &[]),
        (
            "pod d/p on a1 rdrd-anti(app=db @zone)\npod d/db on a2 app=db terminating",
            &["p: PodAntiAffinity!"],
        ),
        ("pod d/p on a1 terminating rdrd-anti(app=db @zone)\npod d/db on a2 app=db", &[]),
        // The first of a group, and two of one that are apart.
        ("pod d/p on a1 app=x rdrd-aff(app=x @zone)", &[]),
        ("pod d/p on a1 app=x rdrd-aff(app=x @zone)\npod d/q on b1 app=x", &["p: PodAffinity!"]),
        (
            "pod d/p on a1 app=x rdrd-aff(app=x @zone)\npod d/q on b1 app=x rdrd-aff(app=x @zone)",
            &["p: PodAffinity!", "q: PodAffinity!"],
        ),
        // A pod is not in its own way, and the rule is told of the pod that carries it only.
        ("pod d/p on a1 app=x rdrd-anti(app=x @zone)", &[]),
        ("pod d/p on a1 app=x rdrd-anti(app=x @zone)\npod d/q on a2 app=x", &["p: PodAntiAffinity!"]),
        ("pod d/p on a1 rdrd-anti(app=x @*)\npod d/q on a2 app=x", &["p: PodAntiAffinity!"]),
        // Exempt namespaces, in the dialect that has them.
        ("pod d/p on a1 rdrd-anti(app=x @zone ns=)\npod kube-system/q on a2 app=x", &[]),
        ("pod d/p on a1 anti(app=x @zone ns:*)\npod kube-system/q on a2 app=x", &["p: PodAntiAffinity"]),
        ("pod kube-system/q on a2 rdrd-anti(app=x @zone ns=)\npod d/p on a1 app=x", &[]),
        // The other rules of v1.
        ("node t taint:dedicated=db:NoExecute\npod d/p on t", &["p: TaintToleration"]),
        ("node t taint:dedicated=db:NoExecute\npod d/p on t tolerate:dedicated", &[]),
        ("pod d/p on a1 port:80\npod d/q on a1 port:80", &["p: NodePorts", "q: NodePorts"]),
        (
            "node t cpu=1\npod d/p on t cpu=1\npod d/q on t cpu=1\npod d/r on t",
            &["p: NodeResourcesFit", "q: NodeResourcesFit"],
        ),
        ("pod d/p on a1 app=x spread(1 app=x @zone)\npod d/q on a2 app=x", &["p: PodTopologySpread"]),
        ("node t unschedulable\npod d/p on t", &[]),
        ("pod d/p on gone rdrd-node(disk=ssd)", &[]),
    ] {
        assert_eq!(audited(pods), expected, "{pods}");
    }
}

#[test]
fn the_anti_affinity_of_a_workload_appeared_twice_and_another_rule_than_the_bottleneck_first() {
    let world = text::world(
        "node a zone=z1\nnode b zone=z2 taint:a:NoSchedule
         pod d/x on a app=x anti(app=x @hostname)\npod d/y on b app=y anti(app=x @hostname)
         pod d/p app=x anti(app=x @hostname)",
    );
    let (pod, pods) = world.pods.split_last().expect("pods");
    let mut cluster = cluster(&World { pods: pods.to_vec(), ..world.clone() }, Settings::default());
    let prepared = cluster.prepare(pod);
    let explained = cluster.explain(pod, &prepared, None, &WorkBudget::unlimited());
    let terms = explained.terms.iter().filter(|term| term.excludes > 0);
    let terms: Vec<_> = terms.map(|term| (term.plugin.name(), term.excludes, term.excludes_alone)).collect();
    // That of y, which does not match its own term, is a rule of y alone.
    let expected = [("InterPodAffinity", 1, 1), ("InterPodAffinity", 1, 0), ("TaintToleration", 1, 0)];
    assert_eq!(terms, expected, "{:#?}", explained.terms);
    assert_eq!(explained.bottleneck().map(|term| &term.detail), Some(&explained.terms[0].detail));
    let short = cluster.bottleneck(&prepared, &WorkBudget::unlimited()).expect("a rule excludes nodes");
    assert!(short.ends_with(&explained.terms[0].detail), "{short}");
}

#[test]
fn cordons_and_no_schedule_taints_counted_as_broken_rules_of_running_pods() {
    let cordon = "node t unschedulable taint:node.kubernetes.io/unschedulable:NoSchedule taint:a:NoSchedule";
    let world = text::world(&format!("{cordon} taint:b:NoExecute\npod d/p on t"));
    let details = |verdicts: &[Verdict]| verdicts.iter().map(|v| v.detail.clone()).collect::<Vec<_>>();
    let only = ["taint b:NoExecute is not tolerated"];
    let mut cluster = cluster(&world, Settings::default());
    let audited: Vec<_> = cluster.audit().into_iter().map(|violation| violation.verdict).collect();
    assert_eq!(details(&audited), only);
    let explained = cluster.explain_assigned(&world.pods[0], None, &WorkBudget::unlimited());
    assert_eq!(details(&explained.broken), only);
    assert_eq!(explained.excluded[0].verdicts.len(), 4, "new pods are kept off by all of them");
}

/// "All terms must be satisfied": each by any pod.
#[test]
fn a_pod_whose_terms_are_satisfied_by_different_pods_keeps_its_rules() {
    let apart = "pod d/db on a1 app=db\npod d/be on a2 tier=be\n";
    for (pod, expected) in [
        ("pod d/p on a1 rdrd-aff(app=db @zone) rdrd-aff(tier=be @zone)", &[][..]),
        ("pod d/p on a2 note-rdrd-aff(app=db @zone) note-rdrd-aff(tier=be @hostname)", &[]),
        ("pod d/p on a1 aff(app=db @hostname) rdrd-aff(tier=be @zone)", &[]),
        ("pod d/p on a1 app=web rdrd-aff(app=web @zone) rdrd-aff(app=db @zone) note-aff(tier=be @zone)", &[]),
        // Of three terms, the one that no pod satisfies is reported.
        (
            "pod d/p on a1 rdrd-aff(app=db @zone) note-aff(tier=be @hostname) aff(* @zone)",
            &["p: PodAffinity"],
        ),
        ("pod d/p on a1 aff(app=db @zone) aff(tier=be @zone)", &["p: PodAffinity", "p: PodAffinity"]),
    ] {
        assert_eq!(audited(&format!("{apart}{pod}")), expected, "{pod}");
    }
}

#[test]
fn a_verdict_names_the_term_the_domain_and_the_pods_in_the_way() {
    let text = format!(
        "{NODES}pod d/p on a1 app=x rdrd-anti(app=x @zone)\npod d/q on a2 app=x\npod d/r on a2 app=x\npod d/s on b1 app=x"
    );
    let found = cluster(&text::world(&text), Settings::default()).audit();
    let [violation] = found.as_slice() else { panic!("{found:?}") };
    let term = "spec.affinity.podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution[0]";
    assert_eq!((violation.term.as_str(), violation.node.as_str()), (term, "a1"));
    let verdict = &violation.verdict;
    assert_eq!(verdict.reason, "node(s) didn't match pod anti-affinity rules");
    assert_eq!(
        verdict.topology.as_ref().map(ToString::to_string).as_deref(),
        Some("topology.kubernetes.io/zone=a")
    );
    assert_eq!(verdict.counts, Some(Counts::AntiAffinity { matching: 2, limit: 0 }));
    assert_eq!(verdict.more_witnesses, 0);
    let witnesses: Vec<_> = verdict.witnesses.iter().map(|w| format!("{}@{}", w.name, w.node)).collect();
    assert_eq!(witnesses, ["q@a2", "r@a2"]);
}

#[test]
fn the_pod_itself_is_no_witness_however_many_there_are() {
    let mut text = NODES.to_owned();
    (0..9).for_each(|i| text += &format!("pod d/p{i} on a1 app=x rdrd-anti(app=x @hostname)\n"));
    let found = cluster(&text::world(&text), Settings::default()).audit();
    assert_eq!(found.len(), 9);
    for violation in found {
        let verdict = violation.verdict;
        assert!(verdict.witnesses.iter().all(|w| w.name != violation.name), "{}", violation.name);
        assert_eq!(verdict.witnesses.len() + verdict.more_witnesses, 8, "{}", violation.name);
    }
}

/// `+key` for what began, `-key` for what ended.
fn changes(cluster: &mut Cluster) -> Vec<String> {
    let changes = cluster.violation_changes();
    let kind = |term: &str| if term.contains("podAffinity") { "aff" } else { "other" };
    let key = |k: ViolationKey| format!("{} {}", k.name, kind(&k.term));
    let ended = changes.ended.into_iter().map(|k| format!("-{}", key(k)));
    ended.chain(changes.began.iter().map(|v| format!("+{}", key(v.key())))).collect()
}

#[test]
fn only_what_changed_is_told() {
    let text = format!(
        "{NODES}pod d/p on a1 uid:1 rdrd-node(disk=ssd)\npod d/q on a1 rdrd-aff(app=db @zone)\npod d/db on a2 app=db"
    )
    .replace(" uid:1", "");
    let world = text::world(&text);
    let mut cluster = cluster(&world, Settings::default());
    assert!(cluster.violation_changes().is_empty(), "nobody watches");
    cluster.watch_violations();
    assert_eq!(changes(&mut cluster), Vec::<String>::new());
    cluster.set_node(&text::node("node a1 zone=a"));
    assert_eq!(changes(&mut cluster), ["+p other"]);
    cluster.remove_pod("d", "db");
    assert_eq!(changes(&mut cluster), ["+q aff"]);
    // Broken and mended before anybody asks.
    cluster.set_pod(&admitted(&text::pod("pod d/db on a1 app=db"), true));
    cluster.remove_pod("d", "db");
    assert_eq!(changes(&mut cluster), Vec::<String>::new());
    cluster.set_node(&text::node("node a1 zone=a disk=ssd"));
    assert_eq!(changes(&mut cluster), ["-p other"]);
    cluster.set_pod(&admitted(&text::pod("pod d/q on a1 terminating rdrd-aff(app=db @zone)"), true));
    assert_eq!(changes(&mut cluster), ["-q aff"]);
    cluster.remove_node("a1");
    assert_eq!(changes(&mut cluster), Vec::<String>::new());
}

#[test]
fn another_pod_of_the_name_begins_anew() {
    let mut cluster = cluster(&text::world("node a"), Settings::default());
    cluster.watch_violations();
    let mut pod = admitted(&text::pod("pod d/p on a rdrd-node(disk=ssd)"), true);
    pod.metadata.uid = "first".to_owned();
    cluster.set_pod(&pod);
    assert_eq!(changes(&mut cluster), ["+p other"]);
    // The same pod with another label.
    pod.metadata.labels.insert("app".to_owned(), "x".to_owned());
    cluster.set_pod(&pod);
    assert_eq!(changes(&mut cluster), Vec::<String>::new());
    cluster.remove_pod("d", "p");
    pod.metadata.uid = "second".to_owned();
    cluster.set_pod(&pod);
    assert_eq!(changes(&mut cluster), ["-p other", "+p other"]);
}

/// In the words of the naive evaluator. Of rules between pods and those required during execution the term counts,
/// of others only that some rule of the plugin is broken.
fn as_broken(violation: &Violation) -> Broken {
    let plugin = violation.verdict.plugin.name();
    let by_term = violation.required_during_execution || plugin == "InterPodAffinity";
    Broken {
        namespace: violation.namespace.clone(),
        name: violation.name.clone(),
        plugin,
        term: if by_term { violation.term.clone() } else { String::new() },
        executing: violation.required_during_execution,
    }
}

fn keys(broken: &BTreeSet<Broken>) -> BTreeSet<ViolationKey> {
    let key = |b: &Broken| ViolationKey {
        namespace: b.namespace.clone(),
        name: b.name.clone(),
        term: b.term.clone(),
    };
    broken.iter().map(key).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, naive: &T, engine: &T) -> Result<(), String> {
    if naive == engine { Ok(()) } else { Err(format!("{what}\n  naive:  {naive:?}\n  engine: {engine:?}")) }
}

/// Some watch from the beginning, others come later; some ask rarely.
#[derive(Clone, Copy)]
struct Asking {
    from: usize,
    every: usize,
}

/// Follows a history; tells the first disagreement. Returns the number of violations seen.
fn follow(seed: u64, flavour: Flavour, asking: Asking, operations: &[Operation]) -> Result<usize, String> {
    let (profile, options) = (generate::profile(seed), generate::options(seed, flavour));
    let mut cluster = Cluster::new(settings(&profile, &options));
    let (mut world, mut told, mut n_seen) = (World::default(), BTreeMap::new(), 0);
    let Asking { from, every } = asking;
    for (i, operation) in operations.iter().enumerate() {
        world.apply(operation);
        apply(&mut cluster, &world, operation);
        if i == from {
            cluster.watch_violations();
        }
        if i < from || i % every != 0 {
            continue;
        }
        // Executing rules do not depend on the profile: one look at everything serves both comparisons.
        let all = broken(&world, &profile, &options);
        let expected: BTreeSet<Broken> = all.iter().filter(|b| b.executing).cloned().collect();
        let at = |e| format!("after operation {i}: {e}");
        let full: BTreeSet<Broken> = cluster.violations().iter().map(as_broken).collect();
        same("violations", &expected, &full).map_err(at)?;
        let changes = cluster.violation_changes();
        for key in &changes.ended {
            if told.remove(key).is_none() {
                return Err(at(format!("{key} ended, and had not begun")));
            }
        }
        for violation in changes.began {
            n_seen += 1;
            let key = violation.key();
            if let Some(before) = told.insert(key, violation) {
                return Err(at(format!("{} began twice", before.key())));
            }
        }
        same("followed", &keys(&expected), &told.keys().cloned().collect()).map_err(at)?;
        let audited: BTreeSet<Broken> = cluster.audit().iter().map(as_broken).collect();
        same("audit", &all, &audited).map_err(at)?;
    }
    Ok(n_seen)
}

fn agree(flavour: Flavour, first_seed: u64) -> usize {
    let mut n_seen = 0;
    for seed in seeds(first_seed, 60) {
        let operations = generate::operations(seed, if seed % 50 == 0 { 400 } else { 90 }, flavour);
        let mut asking = Asking { from: seed as usize % 3 * 20, every: 1 + seed as usize % 4 };
        match follow(seed, flavour, asking, &operations) {
            Ok(n) => n_seen += n,
            Err(error) => {
                // What fails when it is asked all the time can be cut down further.
                let always = Asking { from: 0, every: 1 };
                if follow(seed, flavour, always, &operations).is_err() {
                    asking = always;
                }
                let operations = cut_down(&operations, |o| follow(seed, flavour, asking, o).is_err());
                let error = follow(seed, flavour, asking, &operations).err().unwrap_or(error);
                let shown: Vec<_> = operations.iter().map(|o| format!("{o:?}\n")).collect();
                let options: Options = generate::options(seed, flavour);
                panic!("seed {seed}, {flavour:?}:\n{}\n{options:?}\n{error}", shown.concat());
            }
        }
    }
    n_seen
}

#[test]
fn audit_and_watch_agree_with_the_naive_evaluator_on_the_proposals() {
    assert!(agree(Flavour::Extensions, 5_000_000) > 200, "the histories break rules");
}

#[test]
fn audit_agrees_with_the_naive_evaluator_on_v1() {
    assert_eq!(agree(Flavour::V1, 6_000_000), 0, "v1 has no rules required during execution");
}

#[test]
fn a_rule_about_an_annotation_that_the_state_has_not_read_is_neither_satisfied_nor_broken() {
    let world = text::world(
        "node a annotation:slot=1 kernel:5.15.0-91-generic\n\
         pod d/p on a note-rdrd-node(annotation:slot=1 status.nodeInfo.kernelVersion>v5.15)\n\
         pod d/q on a note-rdrd-node(annotation:slot!=1)",
    );
    let mut cluster = cluster(&world, Settings { all_node_attributes: false, ..Settings::default() });
    assert_eq!(cluster.node_attributes_epoch(), 2, "two attributes were mentioned after the node was set");
    assert!(cluster.audit().is_empty());
    let fits = |cluster: &mut Cluster| {
        let pods = world.pods.iter().map(|pod| admitted(pod, true));
        let prepared: Vec<_> = pods.map(|pod| cluster.prepare(&pod)).collect();
        prepared.iter().map(|pod| cluster.fits_anywhere(pod)).collect::<Vec<_>>()
    };
    assert_eq!(fits(&mut cluster), [false, false]);
    world.nodes.iter().for_each(|node| cluster.set_node(node));
    assert_eq!(fits(&mut cluster), [true, false]);
    let broken: Vec<_> = cluster.audit().into_iter().map(|violation| violation.name).collect();
    assert_eq!(broken, ["q"]);
}
