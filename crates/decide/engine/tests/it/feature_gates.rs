//! The features of Kubernetes 1.36 that gates turn on, from the sentences of their enhancements.

use berth_api::feature_gates::FeatureGates;
use berth_api::feature_gates::KubernetesVersion::V1_36;
use berth_engine::{NodeEvaluation, Settings};
use berth_input::config::Plugin;
use berth_testkit::text;

use crate::common::{admitted, cluster, placed_with, with_gates};

fn comparisons() -> Settings {
    with_gates(FeatureGates { taint_toleration_comparison_operators: true, ..FeatureGates::default() })
}

fn limit_scaling() -> Settings {
    with_gates(FeatureGates { volume_limit_scaling: true, ..FeatureGates::default() })
}

fn capacity_scoring() -> Settings {
    with_gates(FeatureGates { storage_capacity_scoring: true, ..FeatureGates::default() })
}

/// The message about a pod that no node is feasible for.
fn message(settings: Settings, lines: &str, pod: &str) -> String {
    let mut cluster = cluster(&text::world(lines), settings);
    let prepared = cluster.prepare(&admitted(&text::pod(pod), true));
    cluster.decide(&prepared).message().into_owned()
}

/// The score of VolumeBinding on each node.
fn scores(lines: &str, pod: &str) -> String {
    let mut cluster = cluster(&text::world(lines), capacity_scoring());
    let prepared = cluster.prepare(&admitted(&text::pod(pod), true));
    let evaluation = cluster.evaluate(&prepared);
    let score = |(name, node): (&String, &NodeEvaluation)| {
        let NodeEvaluation::Feasible(score) = node else { return format!("{name} is not feasible") };
        let of_volumes = score.by_plugin.iter().find(|(plugin, _)| *plugin == Plugin::VolumeBinding);
        format!("{name}={}", of_volumes.map_or("-".to_owned(), |(_, score)| score.to_string()))
    };
    evaluation.nodes.iter().map(score).collect::<Vec<_>>().join(" ")
}

/// 5471: "numeric SLA thresholds in tolerations, so pods can opt-in to reliable nodes".
#[test]
fn a_toleration_compares_integers() {
    for (taint, toleration, fits) in [
        ("951", "sla>950", true),
        ("950", "sla>950", false),
        ("949", "sla<950", true),
        ("950", "sla<950", false),
        ("-5", "sla<0", true),
        ("high", "sla>950", false),
        ("0951", "sla>950", false),
    ] {
        let text = format!("node a taint:sla={taint}:NoSchedule\npod default/p tolerate:{toleration}");
        assert_eq!(placed_with(comparisons(), &text), if fits { "p=a" } else { "p=-" }, "{text}");
        assert_eq!(placed_with(Settings::default(), &text), "p=-", "without the gate: {text}");
    }
}

/// 5471: "For PreferNoSchedule taints, numeric operators only determine whether the taint is considered as tolerated for scoring".
#[test]
fn a_comparison_counts_in_the_score() {
    let text = "node a taint:sla=900:PreferNoSchedule\nnode b taint:sla=960:PreferNoSchedule
        pod default/p tolerate:sla>950";
    assert_eq!(placed_with(comparisons(), text), "p=b");
    assert_eq!(placed_with(Settings::default(), text), "p=a");
}

/// 5030: "if given node is not reporting any installed CSI drivers, we do not schedule pods that need CSI volumes to that node".
#[test]
fn a_node_without_a_required_driver_is_rejected() {
    let lines = "node a\nnode b\ncsinode a other\ncsidriver drv required
        pv v csi:drv/h claim:default/c\npvc default/c volume:v\nclass new provisioner:drv waits\npvc default/d class:new";
    for pod in ["pod default/p claim:c", "pod default/p claim:d"] {
        assert_eq!(
            message(limit_scaling(), lines, pod),
            "0/2 nodes are available: 2 drv CSI driver is not installed on the node."
        );
        for installed in ["csinode b drv", "csinode b drv=5"] {
            let lines = format!("{lines}\n{installed}");
            assert_eq!(placed_with(limit_scaling(), &format!("{lines}\n{pod}")), "p=b");
        }
        assert_eq!(placed_with(with_gates(V1_36.into()), &format!("{lines}\n{pod}")), "p=a");
        let optional = lines.replace("csidriver drv required", "csidriver drv");
        assert_eq!(placed_with(limit_scaling(), &format!("{optional}\n{pod}")), "p=a");
    }
    assert_eq!(placed_with(limit_scaling(), &format!("{lines}\npod default/p")), "p=a");
}

/// 4049: the utilization is requested by provisioned capacity, and a lower one is better by default.
#[test]
fn free_volumes_are_scored_by_their_utilization() {
    let lines = "node a zone=a\nnode b zone=b\nclass local waits static
        pv small node(zone=a) size:10Gi class:local\npv large node(zone=b) size:40Gi class:local
        pvc default/c size:10Gi class:local";
    // 10 of 10 Gi are 100 %, 10 of 40 Gi 25 %.
    assert_eq!(scores(lines, "pod default/p claim:c"), "a=0 b=75");
}

#[test]
fn published_capacity_is_scored_once_for_the_claims_of_a_class() {
    let lines =
        "node a zone=a\nnode b zone=b\nnode c zone=c\ncsidriver drv capacity\nclass c provisioner:drv waits
        capacity default/ka class:c size:100Gi zone=a\ncapacity default/kb class:c size:40Gi max:20Gi zone=b
        capacity default/kc class:c max:20Gi zone=c
        pvc default/c size:10Gi class:c\npvc default/d size:20Gi class:c";
    // 30 of 100 Gi, 30 of 40 Gi, and an unknown capacity, which counts as full.
    assert_eq!(scores(lines, "pod default/p claim:c claim:d"), "a=70 b=25 c=0");
}

#[test]
fn the_score_is_the_mean_of_the_classes() {
    let lines = "node a\ncsidriver drv capacity\nclass c provisioner:drv waits\nclass d provisioner:drv waits
        capacity default/kc class:c size:100Gi\ncapacity default/kd class:d size:80Gi
        pvc default/c size:10Gi class:c\npvc default/d size:15Gi class:d";
    // 10 % and 18 %: (90 + 82) / 2.
    assert_eq!(scores(lines, "pod default/p claim:c claim:d"), "a=86");
    assert_eq!(scores(lines, "pod default/p"), "a=-");
}
