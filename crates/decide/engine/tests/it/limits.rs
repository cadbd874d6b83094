//! `limit` of required anti-affinity: at most this many other matching pods in a domain.

use berth_engine::{Counts, RemedyOptions, Settings, Target};
use berth_input::config::{Profile, SchedulerConfig};
use berth_testkit::text;

use crate::common::{admitted, cluster, placed, placed_with};

const RACKS: &str = "
    node a1 rack=a
    node a2 rack=a
    node b1 rack=b
    node bare -hostname
";

#[test]
fn a_pod_shares_a_domain_with_at_most_so_many_others() {
    for (running, pod, expected) in [
        // The pod's own rule. A node without a rack has no limit.
        ("x@a1 x@a2", "p app=y select:rack=a note-anti(app=x @rack limit:2)", "p=a1"),
        ("x@a1 x@a2 x@a2", "p app=y select:rack=a note-anti(app=x @rack limit:2)", "p=-"),
        ("x@a1 x@a2 x@a2", "p app=y node(!rack) rdrd-anti(app=x @rack limit:2)", "p=bare"),
        // 0 is the same as no limit.
        ("x@a1", "p app=y select:rack=a rdrd-anti(app=x @rack limit:0)", "p=-"),
        ("", "p app=x select:rack=a rdrd-anti(app=x @rack limit:0)", "p=a1"),
        // Of other namespaces, if the rule selects them.
        ("x@a1 x@a2", "p app=y select:rack=a rdrd-anti(* @rack limit:1 ns=)", "p=-"),
        // Each key of "all topologies" has its own domains: two pods on the node are one too many.
        ("x@a1 x@a1 x@a2", "p app=y select:rack=a rdrd-anti(app=x @* limit:1)", "p=a2"),
    ] {
        let running: String = running
            .split_whitespace()
            .enumerate()
            .map(|(i, place)| {
                let (app, node) = place.split_once('@').expect("app@node");
                format!("pod default/r{i} on {node} app={app}\n")
            })
            .collect();
        assert_eq!(placed(&format!("{RACKS}{running}pod default/{pod}")), expected, "{running}{pod}");
    }
}

#[test]
fn a_limit_is_symmetric_and_does_not_count_its_owner() {
    let limited = "rdrd-anti(app=x @rack limit:1)";
    for (running, expected) in [
        // The owner matches its own rule: one other pod may be there.
        (format!("pod default/o on a1 app=x {limited}"), "p=a1 q=-"),
        // It does not match: one other pod may be there as well.
        (format!("pod default/o on a1 {limited}"), "p=a1 q=-"),
        // One of each: the one that does not match sees two others.
        (format!("pod default/o on a1 app=x {limited}\npod default/n on a2 {limited}"), "p=- q=-"),
        (format!("pod default/o on a1 app=x {limited}\npod default/x on a2 app=x"), "p=- q=-"),
        (format!("pod default/o on b1 app=x {limited}\npod default/x on a2 app=x"), "p=a1 q=a1"),
        // The strictest of several.
        (
            format!("pod default/o on a1 rdrd-anti(app=x @rack limit:3)\npod default/n on a2 {limited}"),
            "p=a1 q=-",
        ),
        (format!("pod default/o on a1 rdrd-anti(app=x @rack)\npod default/n on a2 {limited}"), "p=- q=-"),
    ] {
        let pods = "pod default/p app=x select:rack=a\npod default/q app=x select:rack=a";
        assert_eq!(placed(&format!("{RACKS}{running}\n{pods}")), expected, "{running}");
    }
    let group = |i| format!("pod default/g{i} app=g node(rack) rdrd-anti(app=g @rack limit:3)\n");
    let nine = (1..=9).map(group).collect::<String>();
    let placed = placed(&format!("{RACKS}{nine}"));
    assert!(placed.ends_with("g9=-") && !placed.contains("g8=-"), "{placed}");
}

#[test]
fn verdicts_tell_the_limit_and_the_counts() {
    let text = format!(
        "{RACKS}pod default/x on a1 app=x\npod default/o on a2 app=x rdrd-anti(app=x @rack limit:1)
         pod default/p app=x select:rack=a rdrd-anti(app=x @rack limit:1)"
    );
    let world = text::world(&text);
    let mut cluster = cluster(&world, Settings::default());
    let pod = admitted(&world.pods[2], true);
    let prepared = cluster.prepare(&pod);
    let told: Vec<_> = cluster
        .verdicts_on(&prepared, "a1")
        .iter()
        .map(|v| {
            let counts = v.counts.as_ref().map(|c| c.text(v.topology.as_ref())).unwrap_or_default();
            format!("{}; {counts}; {}", v.detail, v.witnesses.len())
        })
        .collect();
    assert_eq!(
        told,
        [
            "allows at most 1 other pod with `app=x` in namespace default in the same example.com/rack; 2 matching pods in a, \
             1 allowed; 2",
            "an existing pod's anti-affinity allows at most 1 other pod with `app=x` in namespace default in the same \
             example.com/rack; 2 matching pods in a, 1 pod with this rule; 1",
        ]
    );
}

#[test]
fn a_node_admits_no_more_than_the_limit() {
    for (running, pod, expected) in [
        (&["app=x"][..], "app=y rdrd-anti(app=x @hostname limit:1)", true),
        (&["app=x", "app=x"], "app=y rdrd-anti(app=x @hostname limit:1)", false),
        (&["app=x rdrd-anti(app=x @hostname limit:1)"], "app=x", true),
        (&["app=x rdrd-anti(app=x @hostname limit:1)", "app=x"], "app=x", false),
        (&["rdrd-anti(app=x @hostname limit:1)", "app=x"], "app=x", false),
        (&["rdrd-anti(app=x @* limit:2)", "app=x"], "app=x", true),
    ] {
        let running: String =
            running.iter().enumerate().map(|(i, pod)| format!("pod default/r{i} on a {pod}\n")).collect();
        let mut world = text::world(&format!("node a\n{running}pod default/p {pod}"));
        let pod = admitted(&world.pods.pop().expect("a pod arrives"), true);
        let mut cluster = cluster(&world, Settings::default());
        let prepared = cluster.prepare(&pod);
        assert_eq!(cluster.node_admission(&prepared, "a").is_ok(), expected, "{running}");
    }
}

#[test]
fn only_what_exceeds_the_limit_is_evicted() {
    for (pods, expected) in [
        // The owner, if too few of the others have lower priority.
        ("o priority:0 | x y z", "o"),
        ("o priority:5 | x:5 y:5 z:1", "o"),
        // Of those of lower priority, the least important.
        ("o priority:5 | x:1 y:2 z:1", "z x"),
        ("o priority:5 | x:1 y:2 z:9", "x y"),
        ("o priority:5 | x:1", ""),
    ] {
        let (owner, others) = pods.split_once('|').expect("owner | others");
        let others: String = others
            .split_whitespace()
            .enumerate()
            .map(|(i, pod)| {
                let (name, priority) = pod.split_once(':').unwrap_or((pod, "0"));
                format!("pod default/{name} on a2 app=x priority:{priority} started:{i}\n")
            })
            .collect();
        let text =
            format!("{RACKS}pod default/{} on a1 rdrd-anti(app=x @rack limit:1)\n{others}", owner.trim());
        let mut cluster = cluster(&text::world(&text), Settings::default());
        let keys: Vec<_> = cluster.violations().iter().map(|v| v.key()).collect();
        let remedies = cluster.remedy(&keys, &RemedyOptions::default());
        let victims: Vec<_> = remedies.remedies.iter().map(|r| r.victim.name.as_str()).collect();
        assert_eq!(victims.join(" "), expected, "{pods}");
        assert!(remedies.remedies.iter().all(|r| matches!(r.target, Target::Node(_))), "{remedies:?}");
    }
}

#[test]
fn of_pods_that_all_have_the_rule_the_excess_is_evicted() {
    let pods: String = (1..=6)
        .map(|i| format!("pod default/p{i} on a1 app=x started:{i} rdrd-anti(app=x @rack limit:3)\n"))
        .collect();
    let mut cluster = cluster(&text::world(&format!("{RACKS}{pods}")), Settings::default());
    let violations = cluster.violations();
    assert_eq!(violations.len(), 6);
    assert_eq!(violations[0].verdict.counts, Some(Counts::AntiAffinity { matching: 5, limit: 3 }));
    let keys: Vec<_> = violations.iter().map(|v| v.key()).collect();
    let remedies = cluster.remedy(&keys, &RemedyOptions::default());
    let victims: Vec<_> = remedies.remedies.iter().map(|r| r.victim.name.as_str()).collect();
    assert_eq!(victims, ["p6", "p5"]);
    assert!(remedies.stays.is_empty(), "{remedies:?}");
}

#[test]
fn a_limit_elsewhere_rejects_the_pod() {
    for rule in [
        "note-aff(app=x @rack limit:1)",
        "note-prefer-anti(1 app=x @rack limit:1)",
        "note-anti(app=x @rack limit:-1)",
    ] {
        let mut world = text::world(&format!("{RACKS}pod default/p app=x {rule}"));
        let pod = world.pods.pop().expect("a pod");
        let mut cluster = cluster(&world, Settings::default());
        let prepared = cluster.prepare(&pod);
        let message = cluster.decide(&prepared).message().into_owned();
        assert!(
            message.contains("parsing pod: metadata.annotations[scheduling.berth.dev/affinity]."),
            "{rule}: {message}"
        );
    }
}

#[test]
fn a_profile_can_ignore_preferred_anti_affinity_of_existing_pods() {
    let mut profile = Profile::default();
    profile.inter_pod_affinity.ignore_preferred_anti_affinity_of_existing_pods = true;
    let settings = || Settings {
        config: SchedulerConfig { profiles: vec![profile.clone()], ..SchedulerConfig::default() },
        ..Settings::default()
    };
    let existing = "node a\nnode b\npod default/e on a app=e prefer-anti(100 app=p @hostname)\n";
    for (pods, symmetric, asymmetric) in [
        ("pod default/p app=p", "p=b", "p=a"),
        // Its own preferences, and affinity of others, count as before.
        ("pod default/p app=p prefer-anti(100 app=e @hostname)", "p=b", "p=b"),
        ("pod default/f on b app=f prefer-aff(1 app=p @hostname)\npod default/p app=p", "p=b", "p=b"),
    ] {
        let filler = "pod default/filler on b cpu=4\n";
        let text = format!("{existing}{filler}{pods}");
        assert_eq!(placed(&text), symmetric, "{pods}");
        assert_eq!(placed_with(settings(), &text), asymmetric, "{pods}");
    }
}
