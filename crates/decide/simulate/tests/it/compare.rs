//! Comparisons of two placements.

use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;
use berth_simulate::compare::{Comparison, Side, compare};
use berth_testkit::text;
use serde_json::json;

use crate::worlds::inventory;

const ZONE: &str = "topology.kubernetes.io/zone";

fn of(world: &str) -> Inventory {
    inventory(text::world(world))
}

fn default_side(world: &str) -> Side {
    side(of(world), SimulationOptions::default(), false)
}

fn side(inventory: Inventory, options: SimulationOptions, replace_all: bool) -> Side {
    Side::new(inventory, options, replace_all, |_, _| ()).expect("the objects are valid")
}

/// Nodes with little room come first.
fn packing() -> SimulationOptions {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {
            "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        }}]}],
    });
    let (config, _) = SchedulerConfig::read(&config).expect("the configuration is valid");
    SimulationOptions { settings: Settings { config, ..Settings::default() }, ..SimulationOptions::default() }
}

fn moves(comparison: &Comparison) -> Vec<String> {
    let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "none".to_owned());
    let moved = comparison.moved.iter();
    moved.map(|pod| format!("{}: {} -> {}", pod.name, node(&pod.from), node(&pod.to))).collect()
}

const CLUSTER: &str = "
    node a zone=z1 cpu=4 mem=8Gi
    node b zone=z2 cpu=4 mem=8Gi
    pod default/busy on a cpu=2 mem=1Gi owner:ReplicaSet/busy
    pod default/web-1 cpu=1 mem=1Gi owner:ReplicaSet/web
    pod default/web-2 on b cpu=1 mem=1Gi owner:ReplicaSet/web";

#[test]
fn equal_sides_do_not_differ() {
    let found = compare(&mut default_side(CLUSTER), &mut default_side(CLUSTER), ZONE);
    assert_eq!((moves(&found), found.unmoved, found.spread.len()), (Vec::new(), 3, 0));
    assert_eq!(found.summary.from, found.summary.to);
}

#[test]
fn another_configuration_places_pods_elsewhere_with_other_scores() {
    let mut to = side(of(CLUSTER), packing(), false);
    let found = compare(&mut default_side(CLUSTER), &mut to, ZONE);
    assert_eq!(moves(&found), ["web-1: b -> a"]);
    let fit = found.moved[0].scores.iter().find(|score| score.plugin == "NodeResourcesFit");
    let fit = fit.expect("the plugin scores on both sides");
    assert!(fit.from.is_some() && fit.to.is_some() && fit.from != fit.to, "{fit:?}");
    let spread = serde_json::to_value(&found.spread).expect("a comparison is data");
    assert_eq!(
        spread,
        json!([{"namespace": "default", "workload": "ReplicaSet web", "from": {"z2": 2}, "to": {"z1": 1, "z2": 1}}])
    );
    let cpu = found.utilization.iter().find(|change| change.resource == "cpu").expect("pods request cpu");
    let (from, to) = (cpu.utilization.from, cpu.utilization.to);
    assert_eq!((from.requested, from.allocatable, from.fullest_node_percent), (4000, 8000, 50));
    assert_eq!((to.requested, to.fullest_node_percent), (4000, 75));
}

#[test]
fn all_pods_can_be_placed_again_by_priority_and_name() {
    let world = "
        node a cpu=2
        pod default/z on a cpu=1 owner:ReplicaSet/z
        pod default/y cpu=1 owner:ReplicaSet/y
        pod default/x on a cpu=1 owner:ReplicaSet/x
        pod default/high cpu=1 priority:5 owner:ReplicaSet/high
        pod default/daemon on a cpu=0 owner:DaemonSet/daemon";
    let again = side(of(world), SimulationOptions::default(), true);
    let placed = again.simulation().pods().iter().filter(|pod| pod.node().is_some());
    let placed: Vec<_> = placed.map(|pod| pod.pod.metadata.name.as_str()).collect();
    assert_eq!(placed, ["daemon", "high", "x"]);
}

#[test]
fn pods_of_one_side_alone_are_moved_from_or_to_nowhere() {
    let before = "node a\npod default/x on a";
    let after = "node a\npod default/y on a\npod default/z select:no=node";
    let found = compare(&mut default_side(before), &mut default_side(after), ZONE);
    assert_eq!(moves(&found), ["x: a -> none", "y: none -> a", "z: none -> none"]);
    assert_eq!((found.summary.from.placed, found.summary.to.placed, found.summary.to.unplaced), (1, 1, 1));
}

#[test]
fn renamed_pods_are_paired_by_workload_and_ordinal() {
    let before = "node a\nnode b\nnode c\nnode d
        pod default/web-5d-x on a owner:ReplicaSet/web\npod default/web-5d-y on b owner:ReplicaSet/web
        pod default/db-old-2 on a owner:StatefulSet/db\npod default/db-old-10 on b owner:StatefulSet/db
        pod default/alone on a";
    let after = "node a\nnode b\nnode c\nnode d
        pod default/web-7f-p on b owner:ReplicaSet/web\npod default/web-7f-q on c owner:ReplicaSet/web
        pod default/db-new-2 on c owner:StatefulSet/db\npod default/db-new-10 on d owner:StatefulSet/db
        pod default/other on a";
    let found = compare(&mut default_side(before), &mut default_side(after), ZONE);
    let expected =
        ["alone: a -> none", "db-old-10: b -> d", "db-old-2: a -> c", "other: none -> a", "web-5d-x: a -> c"];
    assert_eq!(moves(&found), expected);
    assert_eq!(found.unmoved, 1, "of web, one pod is on b on both sides");
    let new_names: Vec<_> = found.moved.iter().map(|pod| pod.new_name.as_deref()).collect();
    assert_eq!(new_names, [None, Some("db-new-10"), Some("db-new-2"), None, Some("web-7f-q")]);
}
