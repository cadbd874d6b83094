//! CompositePodGroups are placed as one unit, and Workloads make groups of the pods of a controller.

use berth_api::feature_gates::FeatureGates;
use berth_engine::Settings;
use berth_input::inventory::Inventory;
use berth_rebalance::{Goal, Request};
use berth_simulate::{Simulation, SimulationOptions};
use jiff::Timestamp;

/// Two racks in each of two zones, `za-r1` to `zb-r2`, with a node each for so many pods of a CPU.
fn racks(n_pods: [u32; 4]) -> String {
    let names = ["za-r1", "za-r2", "zb-r1", "zb-r2"];
    let node = |(name, n): (&str, u32)| {
        let labels = format!("zone: {}, rack: {name}", &name[..2]);
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}, \
             status: {{allocatable: {{cpu: {n}, pods: 10}}}}}}\n"
        )
    };
    names.into_iter().zip(n_pods).map(node).collect()
}

fn object(kind: &str, name: &str, parent: &str, policy: &str, topology: &str) -> String {
    let version = if kind == "PodGroup" { "v1beta1" } else { "v1alpha3" };
    let parent =
        if parent.is_empty() { String::new() } else { format!("parentCompositePodGroupName: {parent},") };
    let topology = if topology.is_empty() {
        String::new()
    } else {
        format!("schedulingConstraints: {{topology: [{{key: {topology}}}]}},")
    };
    format!(
        "---\n{{apiVersion: scheduling.k8s.io/{version}, kind: {kind}, metadata: {{name: {name}}}, \
         spec: {{{parent} {topology} schedulingPolicy: {{{policy}}}}}}}\n"
    )
}

fn composite(name: &str, parent: &str, min: u32, topology: &str) -> String {
    object("CompositePodGroup", name, parent, &format!("gang: {{minGroupCount: {min}}}"), topology)
}

/// A PodGroup with its pods, `NAME-0` and so on.
fn group(name: &str, parent: &str, n_pods: usize, min: usize, topology: &str) -> String {
    let pods = (0..n_pods).map(|i| running_or_not(name, i, ""));
    object("PodGroup", name, parent, &format!("gang: {{minCount: {min}}}"), topology)
        + &pods.collect::<String>()
}

fn running_or_not(group: &str, i: usize, node: &str) -> String {
    let node = if node.is_empty() { String::new() } else { format!("nodeName: {node},") };
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {group}-{i}}}, spec: {{{node} schedulingGroup: {{podGroupName: {group}}}, \
         containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}\n"
    )
}

fn simulated(text: &str, composites: bool) -> Simulation {
    let inventory = Inventory::from_text(text).expect("objects");
    let mut settings = Settings::default();
    settings.config.feature_gates =
        FeatureGates { composite_pod_group: composites, ..FeatureGates::default() };
    let options = SimulationOptions { settings, ..SimulationOptions::default() };
    let mut simulation = Simulation::new(inventory, options).expect("valid pods");
    simulation.run(|_, _| ());
    simulation
}

/// The nodes of the pods of a group in their order, `none` without one.
fn nodes(simulation: &Simulation, group: &str) -> String {
    let of_group =
        simulation.pods().iter().filter(|pod| pod.pod.metadata.name.starts_with(&format!("{group}-")));
    of_group.map(|pod| pod.node().unwrap_or("none")).collect::<Vec<_>>().join(" ")
}

fn message(simulation: &Simulation, pod: &str) -> String {
    let pod = simulation.pods().iter().find(|p| p.pod.metadata.name == pod).expect("a pod");
    pod.outcome.message().into_owned()
}

#[test]
fn the_groups_of_a_composite_group_are_placed_together_or_not_at_all() {
    let groups = composite("job", "", 2, "") + &group("a", "job", 2, 2, "") + &group("b", "job", 3, 3, "");
    let fits = simulated(&(racks([2, 1, 2, 0]) + &groups), true);
    assert!(!nodes(&fits, "a").contains("none") && !nodes(&fits, "b").contains("none"));
    let one_too_few = simulated(&(racks([2, 1, 1, 0]) + &groups), true);
    assert_eq!([nodes(&one_too_few, "a"), nodes(&one_too_few, "b")], ["none none", "none none none"]);
    let why = message(&one_too_few, "a-0");
    assert!(
        why.starts_with("pod group default/job: 2 of 3 pods fit, 3 have to; pod b-2 does not: "),
        "{why}"
    );
    // Without the gate, each group is placed by itself.
    let without = simulated(&(racks([2, 1, 1, 0]) + &groups), false);
    assert!(!nodes(&without, "a").contains("none") && nodes(&without, "b").contains("none"));
}

#[test]
fn as_many_groups_as_required_suffice_whichever_they_are() {
    let groups = composite("job", "", 2, "")
        + &group("a", "job", 4, 4, "")
        + &group("b", "job", 2, 2, "")
        + &group("c", "job", 2, 2, "");
    // With `a` first, no other group fits.
    let simulation = simulated(&(racks([2, 2, 0, 0]) + &groups), true);
    assert_eq!(nodes(&simulation, "a"), "none none none none");
    assert!(!nodes(&simulation, "b").contains("none") && !nodes(&simulation, "c").contains("none"));
}

#[test]
fn members_beyond_the_required_ones_of_a_group_do_not_keep_another_group_out() {
    let groups = composite("job", "", 2, "") + &group("a", "job", 4, 2, "") + &group("b", "job", 2, 2, "");
    let simulation = simulated(&(racks([2, 2, 0, 0]) + &groups), true);
    assert_eq!(nodes(&simulation, "a").matches("za").count(), 2);
    assert_eq!(nodes(&simulation, "b").matches("za").count(), 2);
}

#[test]
fn each_level_of_a_hierarchy_has_its_domain() {
    // Zone za has room for five, but no two racks for two pods each.
    let groups =
        composite("job", "", 2, "zone") + &group("a", "job", 2, 2, "rack") + &group("b", "job", 2, 2, "rack");
    let simulation = simulated(&(racks([4, 1, 2, 2]) + &groups), true);
    assert_eq!(
        [nodes(&simulation, "a"), nodes(&simulation, "b")],
        ["za-r1 za-r1", "za-r1 za-r1"],
        "both fit in one rack"
    );
    let simulation = simulated(&(racks([3, 1, 2, 2]) + &groups), true);
    let mut racks_of = [nodes(&simulation, "a"), nodes(&simulation, "b")];
    racks_of.sort();
    assert_eq!(racks_of, ["zb-r1 zb-r1", "zb-r2 zb-r2"]);
    let nested = composite("root", "", 2, "")
        + &composite("left", "root", 1, "zone")
        + &composite("right", "root", 1, "zone")
        + &group("a", "left", 4, 4, "")
        + &group("b", "right", 4, 4, "");
    let simulation = simulated(&(racks([2, 2, 2, 2]) + &nested), true);
    let zone = |group: &str| {
        nodes(&simulation, group).split(' ').map(|node| node[..2].to_owned()).collect::<Vec<_>>()
    };
    assert!(
        zone("a").iter().all(|z| *z == zone("a")[0]) && zone("a")[0] != zone("b")[0],
        "{:?} {:?}",
        zone("a"),
        zone("b")
    );
}

#[test]
fn groups_that_run_count_and_fix_the_domain_of_the_others() {
    let running = running_or_not("a", 0, "zb-r1") + &running_or_not("a", 1, "zb-r2");
    let groups = composite("job", "", 2, "zone")
        + &group("a", "job", 0, 2, "")
        + &running
        + &group("b", "job", 2, 2, "");
    let simulation = simulated(&(racks([4, 4, 2, 2]) + &groups), true);
    assert_eq!(nodes(&simulation, "b").matches("zb").count(), 2);
    let full = simulated(&(racks([4, 4, 1, 1]) + &groups), true);
    assert_eq!(nodes(&full, "b"), "none none");
}

#[test]
fn pods_of_a_hierarchy_that_is_not_complete_wait() {
    let says = |text: &str, expected: &str| {
        let simulation = simulated(&(racks([4, 4, 4, 4]) + text), true);
        assert_eq!(nodes(&simulation, "a"), "none none");
        let why = message(&simulation, "a-0");
        assert!(why.contains(expected), "{why}");
    };
    let leaf = group("a", "mid", 2, 2, "");
    says(&leaf, "its CompositePodGroup default/mid does not exist: create it");
    says(
        &(composite("mid", "root", 1, "") + &leaf),
        "its CompositePodGroup default/root does not exist: create it",
    );
    let circle = composite("mid", "root", 1, "") + &composite("root", "mid", 1, "") + &leaf;
    says(&circle, "its hierarchy of CompositePodGroups is a circle, or has more than 4 levels");
    // Two groups are required, and there is one.
    says(&(composite("mid", "", 2, "") + &leaf), "2 of its groups have to have their pods");
}

#[test]
fn a_workload_makes_a_group_of_the_pods_of_a_stateful_set() {
    let workload = |kind: &str| {
        format!(
            "---\n{{apiVersion: scheduling.k8s.io/v1beta1, kind: Workload, metadata: {{name: w}}, spec: {{\
             controllerRef: {{apiGroup: apps, kind: {kind}, name: web}}, podGroupTemplates: [{{name: all, \
             schedulingPolicy: {{gang: {{minCount: 3}}}}, schedulingConstraints: {{topology: [{{key: zone}}]}}}}]}}}}\n"
        )
    };
    let controller = |kind: &str| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: web}}, spec: {{replicas: 3, podManagementPolicy: Parallel, \
             selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, \
             spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}}}}}\n"
        )
    };
    for kind in ["StatefulSet", "Deployment"] {
        let placed = |n_pods| simulated(&(racks(n_pods) + &workload(kind) + &controller(kind)), false);
        assert_eq!(nodes(&placed([1, 1, 1, 2]), "web").matches("zb").count(), 3, "{kind}");
        let too_small = placed([1, 1, 1, 1]);
        assert_eq!(nodes(&too_small, "web"), "none none none");
        let of_other = simulated(&(racks([1, 1, 1, 1]) + &workload("ReplicaSet") + &controller(kind)), false);
        assert!(!nodes(&of_other, "web").contains("none"), "{kind}: no Workload names it");
    }
}

#[test]
fn moves_make_room_for_each_group_of_a_composite_group_in_its_rack() {
    let filler = |name: &str| {
        running_or_not(name, 0, name).replace(
            "name: za-r1-0}",
            "name: za-r1-0, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: f, uid: f, controller: true}]}",
        )
    };
    let groups =
        composite("job", "", 2, "") + &group("a", "job", 2, 2, "rack") + &group("b", "job", 2, 2, "rack");
    // Four of a CPU fit, but no two in the first rack beside the pod that is there.
    let filler = filler("za-r1").replace("schedulingGroup: {podGroupName: za-r1},", "");
    let simulation = simulated(&(racks([2, 2, 1, 0]) + &filler + &groups), true);
    let plan = simulation.rebalance(&Request::new(vec![Goal::Defragment], Timestamp::UNIX_EPOCH), None);
    assert_eq!((plan.before[&Goal::Defragment], plan.after[&Goal::Defragment]), (4.0, 0.0));
    let moves: Vec<_> = plan.moves.iter().map(|made| (&*made.from, &*made.to)).collect();
    assert_eq!(moves, [("za-r1", "zb-r1")]);
}
