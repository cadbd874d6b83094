//! Pod groups are placed as one unit.

use berth_api::inventory::Inventory;
use berth_simulate::{Simulation, SimulationOptions};

fn node(name: &str, cpu: u32) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{zone: {}}}}}, \
         status: {{allocatable: {{cpu: {cpu}, pods: 10}}}}}}\n",
        &name[..1]
    )
}

/// A pod with a CPU request; `more` are fields of its spec, and `annotations` those of its metadata.
fn pod(name: &str, cpu: u32, annotations: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{annotations}}}}}, spec: {{{more} \
         containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}\n"
    )
}

fn member(name: &str, cpu: u32, group: &str, min: u32) -> String {
    let annotations = format!("scheduling.berth.dev/group: {group}, scheduling.berth.dev/group-min: '{min}'");
    pod(name, cpu, &annotations, "")
}

fn simulated(text: &str) -> Simulation {
    let inventory = Inventory::from_text(text).expect("objects");
    let mut simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid pods");
    simulation.run(|_, _| ());
    simulation
}

/// `pod=node`, for the pods without a node `pod=`.
fn placement(simulation: &Simulation) -> String {
    let one = |p: &berth_simulate::SimulatedPod| {
        format!("{}={}", p.pod.metadata.name, p.node().unwrap_or_default())
    };
    simulation.pods().iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_group_is_placed_in_the_place_of_its_first_member() {
    // The single pod takes what the group leaves.
    let text = [node("a1", 2), member("m1", 1, "g", 2), pod("single", 1, "", ""), member("m2", 1, "g", 2)];
    assert_eq!(placement(&simulated(&text.concat())), "m1=a1 single= m2=a1");
}

#[test]
fn a_group_with_too_few_pods_waits() {
    let simulation = simulated(&(node("a1", 9) + &member("m1", 1, "g", 2) + &pod("single", 1, "", "")));
    assert_eq!(placement(&simulation), "m1= single=a1");
    let message = simulation.pods()[0].outcome.message();
    assert_eq!(message, "pod group default/g: 1 of at least 2 pods exist");
    let group = simulation.groups().next().expect("a group");
    assert_eq!((group.min, group.n_pods, group.n_placed), (2, 1, 0));
}

#[test]
fn members_that_run_count_and_fix_the_domain() {
    let topology = "scheduling.berth.dev/group: g, scheduling.berth.dev/group-min: '2', \
                    scheduling.berth.dev/group-required-topology: zone";
    let nodes = node("a1", 1) + &node("b1", 9) + &node("a2", 1);
    let running = pod("m1", 1, topology, "nodeName: a1,");
    let simulation =
        simulated(&(nodes + &running + &pod("m2", 1, topology, "") + &pod("m3", 1, topology, "")));
    assert_eq!(placement(&simulation), "m1=a1 m2=a2 m3=");
    let group = simulation.groups().next().expect("a group");
    assert_eq!((group.n_placed, group.domain.as_deref()), (2, Some("a")));
    assert!(group.message.as_ref().is_some_and(|m| m.contains("pod m3 does not")), "{:?}", group.message);
}

#[test]
fn a_group_preempts_for_all_of_its_members_or_for_none() {
    let low = |name: &str, node: &str| pod(name, 1, "", &format!("nodeName: {node},"));
    let classes =
        "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 9}\n";
    let high = |name: &str, group: &str, min: u32| {
        member(name, 1, group, min).replace("spec: {", "spec: {priorityClassName: high, ")
    };
    let cluster = classes.to_owned() + &node("a1", 1) + &node("a2", 1) + &low("l1", "a1") + &low("l2", "a2");
    let small = cluster.clone() + &high("s1", "small", 2) + &high("s2", "small", 2);
    let simulation = simulated(&small);
    assert_eq!(placement(&simulation), "l1= l2= s1=a1 s2=a2");
    let large = cluster + &high("s1", "large", 3) + &high("s2", "large", 3) + &high("s3", "large", 3);
    let mut simulation = simulated(&large);
    assert_eq!(placement(&simulation), "l1=a1 l2=a2 s1= s2= s3=");
    let explained = simulation.explain("default", "s1", None).expect("the pod exists");
    let message = explained.group.and_then(|group| group.message).expect("it is not placed");
    assert!(message.starts_with("0 of 3 pods fit, 3 have to; pod s1 does not: 0/2 nodes"), "{message}");
}
