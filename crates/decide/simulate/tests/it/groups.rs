//! Pod groups are placed as one unit.

use std::sync::{Arc, Mutex};

use berth_api::object::NamespacedName;
use berth_api::object::group::{GroupKey, GroupKind};
use berth_engine::{Cluster, GroupDisruption, Settings};
use berth_input::inventory::Inventory;
use berth_input::journal::{Entry, Header, JOURNAL_VERSION};
use berth_simulate::replay::JournalReplay;
use berth_simulate::{Simulation, SimulationOptions};
use berth_testkit::text;

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
fn a_group_whose_pods_run_in_several_domains_got_one_more() {
    let group = "---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {
      schedulingPolicy: {gang: {minCount: 3}}, schedulingConstraints: {topology: [{key: zone}]}}}\n";
    let member = |name: &str, node: &str| {
        pod(name, 1, "", &format!("schedulingGroup: {{podGroupName: g}}, nodeName: '{node}',"))
    };
    let pods = member("m1", "a1") + &member("m2", "b1") + &member("m3", "");
    let simulation = simulated(&(node("a1", 9) + &node("b1", 9) + group + &pods));
    assert_eq!(placement(&simulation), "m1=a1 m2=b1 m3=");
    let message = simulation.pods()[2].outcome.message();
    let several =
        "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: a, b";
    assert_eq!(message, format!("pod group default/g: {several}"));
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

/// Nodes of two racks: those of the first take four members, those of the second six.
fn racks() -> String {
    let node = |name: &str, rack: &str, cpu: u32| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{zone: a, example.com/rack: {rack}}}}}, \
             status: {{allocatable: {{cpu: {cpu}, pods: 10}}}}}}\n"
        )
    };
    node("n1", "r1", 4) + &node("n2", "r2", 6)
}

/// As [`racks`] with eight members, of which those in `running` have a node.
fn explained_by_level(topology: &str, running: &[(usize, &str)], explain: &str) -> Vec<String> {
    let annotations =
        format!("scheduling.berth.dev/group: g, scheduling.berth.dev/group-min: '8', {topology}");
    let member = |i: usize| {
        let node = running.iter().find(|(of, _)| *of == i);
        let spec = node.map(|(_, node)| format!("nodeName: {node},")).unwrap_or_default();
        pod(&format!("m{i}"), 1, &annotations, &spec)
    };
    let text = racks() + &(0..8).map(member).collect::<String>();
    let inventory = Inventory::from_text(&text).expect("objects");
    let mut simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid pods");
    let explained = simulation.explain("default", explain, None).expect("the pod exists");
    let group = explained.group.expect("it has a group");
    let names: Vec<_> = group.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"]);
    let n_placed = group.members.iter().filter(|member| member.node.is_some()).count();
    assert_eq!(n_placed, group.n_placed);
    let verdict = group.verdict().split(':').next().unwrap_or_default().to_owned();
    let facts = group.facts().into_iter().map(|(name, text)| format!("{name}: {text}"));
    [verdict].into_iter().chain(facts).collect()
}

#[test]
fn an_explanation_has_the_domains_of_each_level_and_how_many_members_they_hold() {
    let zone_and_racks = "scheduling.berth.dev/group-required-topology: zone, \
                          scheduling.berth.dev/group-preferred-topology: example.com/rack";
    assert_eq!(
        explained_by_level(zone_and_racks, &[], "m0"),
        [
            "is placed in a",
            "members: 8 of 8 placed, 8 required",
            "zone (required): a: 8",
            "rack (preferred): r2: 6, r1: 2"
        ]
    );
}

#[test]
fn an_explanation_names_the_domain_that_takes_most_members_of_a_group_that_does_not_fit() {
    let rack = "scheduling.berth.dev/group-required-topology: example.com/rack";
    let members = "members: 0 of 8 placed, 8 required";
    assert_eq!(
        explained_by_level(rack, &[], "m0"),
        ["is not placed", members, "rack (required): r2 takes 6 of 8"]
    );
    let slices = "scheduling.berth.dev/group-required-topology: example.com/rack, \
                  scheduling.berth.dev/group-slice-topology: example.com/rack, \
                  scheduling.berth.dev/group-slice-size: '4'";
    assert_eq!(
        explained_by_level(slices, &[], "m0"),
        ["is not placed", members, "rack (required, slices of 4): r1 takes 4 of 8"]
    );
}

#[test]
fn the_group_of_a_running_pod_is_explained_with_its_pending_members() {
    let rack = "scheduling.berth.dev/group-required-topology: example.com/rack";
    let expected = [
        "is placed in part",
        "members: 2 of 8 placed, 8 required",
        "rack (required): r1: 2, r1 takes 4 of 8",
    ];
    assert_eq!(explained_by_level(rack, &[(0, "n1"), (1, "n1")], "m0"), expected);
    assert_eq!(explained_by_level(rack, &[(0, "n1"), (1, "n1")], "m7"), expected);
}

#[test]
fn a_recorded_preemption_of_a_whole_group_is_repeated() {
    let mut cluster = Cluster::new(Settings::default());
    let entries: Arc<Mutex<Vec<Entry>>> = Arc::default();
    let journal = entries.clone();
    cluster.set_journal(Box::new(move |entry| journal.lock().unwrap().push(entry)));
    let world = text::world(
        "node a cpu=1\nnode b cpu=1\npod default/g1 on a cpu=1 group:g\npod default/g2 on b cpu=1 group:g
        pod default/high cpu=1 group:high",
    );
    let key =
        |name: &str| GroupKey { kind: GroupKind::Scheduling, name: NamespacedName::new("default", name) };
    cluster.set_group(&key("g"), GroupDisruption { as_a_whole: true, ..GroupDisruption::default() });
    cluster.set_group(&key("high"), GroupDisruption { priority: Some(5), ..GroupDisruption::default() });
    world.nodes.iter().for_each(|node| cluster.set_node(node));
    let (running, waiting): (Vec<_>, Vec<_>) =
        world.pods.iter().partition(|pod| !pod.spec.node_name.is_empty());
    running.iter().for_each(|pod| _ = cluster.set_pod(pod));
    let prepared = cluster.prepare(waiting[0]);
    let recorded = cluster.preempt(&prepared, &[]).recorded(waiting[0].metadata.namespaced_name());
    assert_eq!(recorded.victims.len(), 2);
    let mut entries = std::mem::take(&mut *entries.lock().unwrap());
    entries.extend([Entry::Queue(Arc::new(waiting[0].clone())), Entry::Preemption(Box::new(recorded))]);
    let header = Header { version: JOURNAL_VERSION, ..Header::default() };
    let mut replay = JournalReplay::new(&header, Settings::default()).unwrap();
    let mut n_repeated = 0;
    for entry in entries {
        let entry = Entry::from_json(&serde_json::to_vec(&entry).unwrap()).unwrap();
        if let Some(differences) = replay.repeat(&entry).unwrap() {
            assert_eq!(differences, []);
            n_repeated += 1;
        }
        replay.apply(entry).unwrap();
    }
    assert_eq!(n_repeated, 1);
}
