//! The rules of the design proposals, each with a small cluster.

use std::collections::BTreeMap;

use berth_input::config::Profile;
use berth_testkit::naive::{Decision, NodeResult, Options, evaluate};
use berth_testkit::text;

fn decide_with(options: &Options, cluster: &str, pod: &str) -> Decision {
    evaluate(&text::world(cluster), &text::pod(pod), &Profile::default(), options)
}

fn feasible_with(options: &Options, cluster: &str, pod: &str) -> String {
    let decision = decide_with(options, cluster, pod);
    let fits = decision.nodes.iter().filter(|(_, r)| matches!(r, NodeResult::Feasible { .. }));
    fits.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// The names of the feasible nodes, with Berth's defaults.
fn feasible(cluster: &str, pod: &str) -> String {
    feasible_with(&Options::default(), cluster, pod)
}

/// The weighted scores of one plugin by node; empty when the plugin skips the pod.
fn scores(plugin: &str, cluster: &str, pod: &str) -> BTreeMap<String, i64> {
    let decision = decide_with(&Options::default(), cluster, pod);
    let score = |result: &NodeResult| match result {
        NodeResult::Feasible { scores, .. } => scores.get(plugin).copied(),
        _ => None,
    };
    decision.nodes.iter().filter_map(|(name, result)| Some((name.clone(), score(result)?))).collect()
}

fn expect(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect()
}

const NODES: &str = "
    node a zone=z1 rack=r1 disk=ssd cores=4
    node b zone=z1 rack=r2 disk=hdd cores=16
    node c zone=z2 rack=r3 cores=many
    node d -hostname
    ns default team=web
    ns team-a team=data
    ns kube-system
";

fn cluster(pods: &str) -> String {
    format!("{NODES}{pods}")
}

#[test]
fn required_during_execution_is_required_when_scheduling() {
    for (pod, expected) in [
        ("pod default/p rdrd-node(disk=ssd)", "a"),
        ("pod default/p note-rdrd-node(disk=ssd)", "a"),
        ("pod default/p note-node(disk=ssd)", "a"),
        ("pod default/p rdrd-aff(app=db @zone)", "c"),
        ("pod default/p note-rdrd-aff(app=db @zone)", "c"),
        ("pod default/p rdrd-anti(app=db @zone)", "a b d"),
        ("pod default/p note-anti(app=db @zone)", "a b d"),
    ] {
        assert_eq!(feasible(&cluster("pod default/db on c app=db"), pod), expected, "{pod}");
    }
}

#[test]
fn proposal_fields_mean_nothing_under_strict_v1() {
    let cluster = cluster("pod default/db on c app=db\n pod default/loner on a rdrd-anti(* @rack)");
    let pod = "pod default/p app=web rdrd-node(disk=ssd) note-anti(app=db @zone) rdrd-aff(app=db @zone)";
    assert_eq!(feasible_with(&Options::strict_v1(), &cluster, pod), "a b c d");
    assert_eq!(feasible(&cluster, pod), "");
}

#[test]
fn required_during_execution_anti_affinity_is_symmetric() {
    let cluster =
        cluster("pod default/x on c rdrd-anti(app=db @zone)\n pod default/y on a note-anti(app=db @rack)");
    assert_eq!(feasible(&cluster, "pod default/p app=db"), "b d");
}

#[test]
fn spec_and_annotation_must_both_hold() {
    let pod = "pod default/p node(disk) note-node(cores>4)";
    assert_eq!(feasible(NODES, pod), "b");
}

#[test]
fn node_terms_of_the_proposal_may_be_empty() {
    for (pod, expected) in [
        ("pod default/p node(*)", ""),
        ("pod default/p rdrd-node(*)", "a b c d"),
        ("pod default/p note-node(* | disk=ssd)", "a b c d"),
        ("pod default/p rdrd-node()", ""),
        ("pod default/p note-node(disk=ssd | zone=z2)", "a c"),
    ] {
        assert_eq!(feasible(NODES, pod), expected, "{pod}");
    }
}

#[test]
fn gt_and_lt_compare_pod_labels_as_integers() {
    let cluster = cluster(
        "pod default/old on a gen=19
         pod default/mid on b gen=25
         pod default/odd on c gen=v3",
    );
    for (pod, expected) in [
        ("pod default/p aff(gen>20 @hostname)", "b"),
        ("pod default/p aff(gen<30 gen>20 @hostname)", "b"),
        ("pod default/p aff(gen<30 @hostname)", "a b"),
        ("pod default/p anti(gen>-1 @hostname)", "c d"),
        ("pod default/p note-anti(gen<9223372036854775807 @hostname)", "c d"),
    ] {
        assert_eq!(feasible(&cluster, pod), expected, "{pod}");
    }
    let strict = Options::strict_v1();
    assert_eq!(feasible_with(&strict, &cluster, "pod default/p anti(gen>20 @hostname)"), "a b c d");
}

#[test]
fn an_empty_namespace_list_is_all_namespaces_in_the_proposal_only() {
    let cluster = cluster("pod team-a/db on a app=db");
    for (pod, expected) in [
        ("pod default/p aff(app=db ns= @hostname)", ""),
        ("pod default/p rdrd-aff(app=db ns= @hostname)", "a"),
        ("pod default/p note-aff(app=db ns= @hostname)", "a"),
        ("pod default/p note-aff(app=db @hostname)", ""),
        ("pod default/p note-aff(app=db ns=team-a @hostname)", "a"),
        ("pod default/p note-aff(app=db ns:team=data @hostname)", "a"),
    ] {
        assert_eq!(feasible(&cluster, pod), expected, "{pod}");
    }
}

#[test]
fn all_topologies_means_any_of_the_listed_domains() {
    let with_db = cluster("pod default/db on a app=db");
    for (pod, expected) in [
        // b shares the zone; d has none of the keys.
        ("pod default/p rdrd-aff(app=db @*)", "a b"),
        ("pod default/p rdrd-anti(app=db @*)", "c d"),
        ("pod default/p note-anti(app=db @*)", "c d"),
    ] {
        assert_eq!(feasible(&with_db, pod), expected, "{pod}");
    }
    let hostname_only =
        Options { all_topologies: vec!["kubernetes.io/hostname".to_owned()], ..Options::default() };
    assert_eq!(feasible_with(&hostname_only, &with_db, "pod default/p rdrd-anti(app=db @*)"), "b c d");
    // The first pod of its group goes anywhere that has one of the keys.
    assert_eq!(feasible(NODES, "pod default/p app=g rdrd-aff(app=g @*)"), "a b c");
}

#[test]
fn a_preference_for_all_topologies_counts_in_each_of_them() {
    // On a the database shares hostname and zone, on b the zone only.
    let cluster = cluster("pod default/db on a app=db");
    let got = scores("InterPodAffinity", &cluster, "pod default/p note-prefer-aff(10 app=db @*)");
    assert_eq!(got, expect(&[("a", 200), ("b", 100), ("c", 0), ("d", 0)]));
}

/// "The lists of nodes corresponding to each PodAffinityTerm are intersected": each term looks at all pods by itself.
#[test]
fn each_term_of_required_affinity_is_a_requirement_by_itself() {
    let apart = cluster("pod default/x on a app=db\n pod default/y on b tier=be");
    for (pod, expected) in [
        ("pod default/p rdrd-aff(app=db @zone) rdrd-aff(tier=be @zone)", "a b"),
        ("pod default/p note-aff(app=db @zone) note-rdrd-aff(tier=be @zone)", "a b"),
        ("pod default/p rdrd-aff(app=db @hostname) note-aff(tier=be @zone)", "a"),
        ("pod default/p note-aff(app=db @hostname) note-aff(tier=be @hostname)", ""),
        // A v1 term keeps its meaning beside them.
        ("pod default/p aff(app=db @zone) note-aff(tier=be @zone)", "a b"),
        ("pod default/p aff(app=db @zone) aff(tier=be @zone)", ""),
        ("pod default/p aff(app=db @zone) aff(tier=be @zone) note-aff(tier=be @zone)", ""),
    ] {
        assert_eq!(feasible(&apart, pod), expected, "{pod}");
    }
}

/// "If the RequiredDuringScheduling affinity requirement matches a pod's own labels, and there are no other such pods
/// anywhere, then disregard the requirement": for each requirement; the terms of v1 are one.
#[test]
fn the_first_pod_of_a_group_disregards_the_requirement_that_it_matches() {
    let with_db = cluster("pod default/x on c app=db");
    for (pod, expected) in [
        ("pod default/p app=web rdrd-aff(app=web @zone) rdrd-aff(app=db @zone)", "c"),
        ("pod default/p app=web note-aff(app=web @hostname) note-aff(app=db @zone)", "c"),
        ("pod default/p app=web note-aff(app=web @rack) aff(app=db @zone)", "c"),
        ("pod default/p app=web aff(app=web @zone) note-aff(app=db @zone)", "c"),
        ("pod default/p app=web aff(app=web @zone) aff(app=db @zone)", ""),
        // It is no longer the first.
        ("pod default/p app=db rdrd-aff(app=db @zone)", "c"),
    ] {
        assert_eq!(feasible(&with_db, pod), expected, "{pod}");
    }
    // A pod on a node without the topology key is one "anywhere".
    let without_key = cluster("pod default/x on d app=web");
    assert_eq!(feasible(&without_key, "pod default/p app=web rdrd-aff(app=web @zone)"), "");
    assert_eq!(feasible(&without_key, "pod default/p app=web aff(app=web @zone)"), "a b c", "v1");
    // Of the two terms of v1, the pod matches both, and of the proposals' only its own.
    let both = "pod default/p app=db tier=be aff(app=db @zone) aff(tier=be @rack)";
    assert_eq!(feasible(NODES, both), "a b c");
    assert_eq!(feasible(NODES, "pod default/p app=db rdrd-aff(app=db @zone) rdrd-aff(tier=be @rack)"), "");
}

/// "Adding "weight" to the sum if the node matches": once, however many pods match.
#[test]
fn a_preferred_term_counts_once_however_many_pods_match() {
    let cluster = cluster(
        "pod default/x on a app=a\n pod default/y on a app=a\n pod default/z on a app=a\n pod default/b on c app=b",
    );
    let scored = |prefer: &str| {
        let pod = format!("pod default/p {prefer}(40 app=a @zone) {prefer}(100 app=b @zone)");
        scores("InterPodAffinity", &cluster, &pod)
    };
    assert_eq!(scored("note-prefer-aff"), expect(&[("a", 80), ("b", 80), ("c", 200), ("d", 0)]));
    assert_eq!(scored("prefer-aff"), expect(&[("a", 200), ("b", 200), ("c", 166), ("d", 0)]), "v1");
    // Step 3b: a node that is not near them gets the weight.
    assert_eq!(scored("note-prefer-anti"), expect(&[("a", 120), ("b", 120), ("c", 0), ("d", 200)]));
}

/// Step 4: "increment Y\[A\] by the number of B's SoftPodAffinity, SoftPodAntiAffinity, and HardPodAffinity that are
/// satisfied if Z runs on A but are not satisfied if Z does not run on A".
#[test]
fn a_preference_of_a_running_pod_counts_where_the_new_pod_satisfies_it() {
    for (wish, weight) in [("note-prefer-aff(1 app=db @zone)", 1), ("note-aff(app=db @zone)", 1)] {
        let lonely = format!("pod default/x on c app=web {wish}");
        let db = "pod default/p app=db";
        assert_eq!(
            scores("InterPodAffinity", &cluster(&lonely), db),
            expect(&[("a", 0), ("b", 0), ("c", 200 * weight), ("d", 0)]),
            "{wish}"
        );
        // A database is there already: one more makes no difference.
        let served = format!("{lonely}\n pod default/y on c app=db");
        let none = expect(&[("a", 0), ("b", 0), ("c", 0), ("d", 0)]);
        assert_eq!(scores("InterPodAffinity", &cluster(&served), db), none, "{wish}");
        // Its own match does not serve it.
        let own = format!("pod default/x on c app=db {wish}");
        let expected = expect(&[("a", 0), ("b", 0), ("c", 200 * weight), ("d", 0)]);
        assert_eq!(scores("InterPodAffinity", &cluster(&own), db), expected, "{wish}");
        // Two of them serve each other.
        let pair = format!("{own}\n pod default/y on c app=db {wish}");
        assert_eq!(scores("InterPodAffinity", &cluster(&pair), db), none, "{wish}");
    }
    // A new pod is kept away from a pod whose preference it would break, not from one whose preference is broken already.
    let avoided = "pod default/x on c app=web note-prefer-anti(1 app=db @zone)";
    let got = scores("InterPodAffinity", &cluster(avoided), "pod default/p app=db");
    assert_eq!(got, expect(&[("a", 200), ("b", 200), ("c", 0), ("d", 200)]));
    let broken = format!("{avoided}\n pod default/y on c app=db");
    let got = scores("InterPodAffinity", &cluster(&broken), "pod default/p app=db");
    assert_eq!(got, expect(&[("a", 0), ("b", 0), ("c", 0), ("d", 0)]));
}

#[test]
fn exempt_namespaces_neither_block_nor_are_blocked() {
    let lonely = cluster("pod default/x on a rdrd-anti(* ns= @zone)");
    assert_eq!(feasible(&lonely, "pod team-a/p"), "c d");
    assert_eq!(feasible(&lonely, "pod kube-system/p"), "a b c d");

    let with_daemon = cluster("pod kube-system/x on a app=log");
    assert_eq!(feasible(&with_daemon, "pod default/p rdrd-anti(* ns= @zone)"), "a b c d");

    let daemon_alone = cluster("pod kube-system/x on a note-anti(* ns= @zone)");
    assert_eq!(feasible(&daemon_alone, "pod default/p"), "a b c d");
    let with_web = cluster("pod default/x on a");
    assert_eq!(feasible(&with_web, "pod kube-system/p note-anti(* ns= @zone)"), "a b c d");

    let v1 = cluster("pod default/x on a anti(* ns=kube-system @zone)");
    assert_eq!(feasible(&v1, "pod kube-system/p"), "c d");
    let exempt_for_v1 = Options { exempt_for_v1: true, ..Options::default() };
    assert_eq!(feasible_with(&exempt_for_v1, &v1, "pod kube-system/p"), "a b c d");
    let strict = Options { exempt_for_v1: true, ..Options::strict_v1() };
    assert_eq!(feasible_with(&strict, &v1, "pod kube-system/p"), "c d");
}

#[test]
fn preferences_of_spec_and_annotation_add_up() {
    let pod = "pod default/p prefer-node(10 disk) note-prefer-node(30 cores>4)";
    let got = scores("NodeAffinity", NODES, pod);
    assert_eq!(got, expect(&[("a", 50), ("b", 200), ("c", 0), ("d", 0)]));

    let cluster = cluster("pod default/x on a app=db");
    let pod = "pod default/p prefer-aff(10 app=db @hostname) note-prefer-aff(10 app=db @zone)";
    let got = scores("InterPodAffinity", &cluster, pod);
    assert_eq!(got, expect(&[("a", 200), ("b", 100), ("c", 0), ("d", 0)]));
}

#[test]
fn an_empty_preferred_node_term_does_nothing() {
    let pod = "pod default/p note-prefer-node(30 *) note-prefer-node(10 disk=ssd)";
    assert_eq!(scores("NodeAffinity", NODES, pod), expect(&[("a", 200), ("b", 0), ("c", 0), ("d", 0)]));
}

#[test]
fn the_annotation_may_write_a_preferred_term_beside_its_weight() {
    let mut pod = text::pod("pod default/p");
    let json = r#"{"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}]}}"#;
    pod.metadata.annotations.insert("scheduling.berth.dev/affinity".to_owned(), json.to_owned());
    let decision = evaluate(&text::world(NODES), &pod, &Profile::default(), &Options::default());
    let NodeResult::Feasible { scores, .. } = &decision.nodes["b"] else { panic!("{decision:?}") };
    assert_eq!(scores["NodeAffinity"], 200);
}

#[test]
fn required_affinity_of_running_pods_pulls_whatever_its_dialect() {
    for group in ["aff", "rdrd-aff", "note-aff", "note-rdrd-aff"] {
        let cluster = cluster(&format!("pod default/x on c app=web {group}(app=db @zone)"));
        let got = scores("InterPodAffinity", &cluster, "pod default/p app=db");
        assert_eq!(got, expect(&[("a", 0), ("b", 0), ("c", 200), ("d", 0)]), "{group}");
        let mut profile = Profile::default();
        profile.inter_pod_affinity.hard_pod_affinity_weight = 0;
        let pod = text::pod("pod default/p app=db");
        let decision = evaluate(&text::world(&cluster), &pod, &profile, &Options::default());
        let NodeResult::Feasible { scores, .. } = &decision.nodes["c"] else { panic!("{decision:?}") };
        assert!(!scores.contains_key("InterPodAffinity"), "{group}");
    }
}

#[test]
fn pods_on_unknown_nodes_and_waiting_pods_count_for_nothing() {
    let cluster = cluster("pod default/x on gone app=db anti(* @zone)\n pod default/y app=db anti(* @zone)");
    assert_eq!(feasible(&cluster, "pod default/p aff(app=db @zone)"), "");
    assert_eq!(feasible(&cluster, "pod default/p app=web"), "a b c d");
}

#[test]
fn gates_hold_a_pod_back() {
    let decision = decide_with(&Options::default(), NODES, "pod default/p gate:quota gate:license");
    let rejection = decision.pre_filter.expect("held back");
    assert_eq!(rejection.plugin, "SchedulingGates");
    assert_eq!(rejection.reasons, ["waiting for scheduling gates: [quota license]"]);
}

#[test]
fn node_names_that_exclude_each_other_are_rejected_beforehand() {
    let pod = "pod default/p node(metadata.name=a metadata.name=b)";
    let decision = decide_with(&Options::strict_v1(), NODES, pod);
    assert_eq!(decision.message.as_deref(), Some("0/4 nodes are available: pod affinity terms conflict."));
    assert!(decision.nodes.is_empty());
}
