//! Capacities against simulations of all replicas, and against every distribution of new nodes.

use std::collections::BTreeMap;

use berth_api::object::{NamespacedName, Node, Pod, TOPOLOGY_LABELS};
use berth_api::read::{Kind, SourceLocation};
use berth_api::syntax::quantity::Quantity;
use berth_input::config::{Plugin, Profile};
use berth_input::inventory::{Entry, Inventory};
use berth_simulate::capacity::{
    Capacity, CapacityRequest, NodeType, PRICE_ANNOTATION, Subject, Target, capacity,
};
use berth_simulate::{Simulation, SimulationOptions};
use berth_testkit::generate::{self, Flavour, Operation};
use berth_testkit::naive::{Options, World, evaluate};
use berth_testkit::text;
use jiff::Timestamp;

use crate::worlds::inventory;

const ZONE: &str = "topology.kubernetes.io/zone";

fn entry(pod: &Pod) -> Entry<Pod> {
    let mut object = pod.clone();
    object.metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
    Entry { object, raw: None, source: SourceLocation::file("test"), order: usize::MAX }
}

fn request(target: Option<(usize, NodeType)>) -> CapacityRequest {
    let target = target.map(|(n_replicas, node_type)| Target {
        n_replicas,
        node_types: vec![node_type],
        zones: Vec::new(),
    });
    CapacityRequest { topology_key: ZONE.to_owned(), target, defragmentation: None }
}

fn of_pod(inventory: &Inventory, pod: &Pod, request: &CapacityRequest) -> Capacity {
    let subject = Subject::Pod(Box::new(entry(pod)));
    let found = capacity(inventory.clone(), &SimulationOptions::default(), &subject, request);
    found.expect("the objects are valid").0
}

/// How many of these copies of a pod a simulation places, by zone, and the final state of the simulation.
fn simulated(inventory: &Inventory, pod: &Pod, n: usize) -> (BTreeMap<String, usize>, Simulation) {
    let mut inventory = inventory.clone();
    for i in 0..n {
        let mut copy = entry(pod);
        copy.object.metadata.name = format!("copy-{i}");
        // After the pods of others.
        copy.object.spec.priority = Some(i32::MIN);
        inventory.pods.push(copy);
    }
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the pods are valid");
    simulation.disable_preemption();
    simulation.run(|_, _| ());
    let mut by_zone = BTreeMap::new();
    let copies = simulation.pods().iter().filter(|pod| pod.pod.metadata.name.starts_with("copy-"));
    for node in copies.filter_map(|pod| pod.node()) {
        let zone = simulation.node_label(node, ZONE).unwrap_or("<none>").to_owned();
        *by_zone.entry(zone).or_default() += 1;
    }
    (by_zone, simulation)
}

fn n_simulated(inventory: &Inventory, pod: &Pod, n: usize) -> usize {
    simulated(inventory, pod, n).0.values().sum()
}

/// A random cluster and a pod that is to be placed in it.
fn random_cluster(seed: u64) -> (Inventory, Pod) {
    let mut world = World::default();
    let mut subject = None;
    for operation in generate::operations(seed, 100, Flavour::Extensions) {
        if let Operation::Decide(pod) = &operation {
            subject = Some((**pod).clone());
        }
        world.apply(&operation);
    }
    world.pods.retain(|pod| !pod.spec.node_name.is_empty());
    // Small nodes, so that few replicas fit.
    for node in &mut world.nodes {
        let allocatable = node.status.allocatable.get_or_insert_default();
        allocatable.insert("pods".to_owned(), Quantity::from_units(6));
    }
    let mut pod = subject.expect("histories have decisions");
    pod.spec.node_name.clear();
    pod.metadata.deletion_timestamp = None;
    pod.spec.scheduling_gates.clear();
    (inventory(world), pod)
}

#[test]
fn capacity_is_what_a_simulation_places() {
    let (mut n_some, mut n_none) = (0, 0);
    for seed in 0..150 {
        let (inventory, pod) = random_cluster(seed);
        let found = of_pod(&inventory, &pod, &request(None));
        let (by_zone, mut simulation) = simulated(&inventory, &pod, found.replicas + 3);
        assert_eq!(found.by_domain, by_zone, "seed {seed}");
        assert_eq!(found.by_domain.values().sum::<usize>(), found.replicas);
        assert!(found.limited_by.is_some(), "seed {seed}: {}", found.message);
        if simulation.cluster().n_nodes() > 0 {
            n_some += usize::from(found.replicas > 0);
            n_none += usize::from(found.replicas == 0);
        }
    }
    assert!(n_some > 50 && n_none > 20, "{n_some} {n_none}");
}

#[test]
fn after_the_last_replica_the_naive_evaluator_finds_no_node() {
    let mut n_checked = 0;
    for seed in 0..60 {
        let (inventory, pod) = random_cluster(seed);
        let found = of_pod(&inventory, &pod, &request(None));
        let (_, simulation) = simulated(&inventory, &pod, found.replicas);
        let objects = |pod: &berth_simulate::SimulatedPod| {
            let mut placed = pod.pod.clone();
            pod.node()?.clone_into(&mut placed.spec.node_name);
            Some(placed)
        };
        let world = World {
            nodes: inventory.nodes.iter().map(|entry| entry.object.clone()).collect(),
            namespaces: inventory.namespaces.iter().map(|entry| entry.object.clone()).collect(),
            services: inventory.services.iter().map(|entry| entry.object.clone()).collect(),
            pods: simulation.pods().iter().filter_map(objects).collect(),
            ..World::default()
        };
        let decision = evaluate(&world, &pod, &Profile::default(), &Options::default());
        assert_eq!(decision.best, Vec::<String>::new(), "seed {seed}");
        n_checked += 1;
    }
    assert_eq!(n_checked, 60);
}

/// The cluster with new nodes like this one: their zones.
fn with_nodes(inventory: &Inventory, like: &Node, zones: &[String]) -> Inventory {
    let mut enlarged = inventory.clone();
    for (i, zone) in zones.iter().enumerate() {
        let mut node = like.clone();
        node.metadata.name = format!("new-{i}");
        node.spec.unschedulable = false;
        node.status.images.clear();
        node.metadata.labels.insert("kubernetes.io/hostname".to_owned(), format!("new-{i}"));
        let is_in_zone = |n: &&Entry<Node>| n.object.metadata.label(ZONE) == Some(zone);
        let other = inventory.nodes.iter().find(is_in_zone);
        for key in TOPOLOGY_LABELS {
            let value = other.and_then(|n| n.object.metadata.label(key));
            if let (Some(label), Some(value)) = (node.metadata.labels.get_mut(key), value) {
                value.clone_into(label);
            }
        }
        enlarged.nodes.push(Entry {
            object: node,
            raw: None,
            source: SourceLocation::file("test"),
            order: usize::MAX,
        });
    }
    enlarged
}

/// All lists of `n` of these, sorted.
fn multisets(of: &[String], n: usize) -> Vec<Vec<String>> {
    match (of, n) {
        (_, 0) => vec![Vec::new()],
        ([], _) => Vec::new(),
        ([first, rest @ ..], _) => {
            let with = multisets(of, n - 1).into_iter().map(|more| [vec![first.clone()], more].concat());
            with.chain(multisets(rest, n)).collect()
        }
    }
}

#[test]
fn no_smaller_number_of_nodes_is_enough() {
    const MOST: usize = 3;
    let mut found_counts = BTreeMap::new();
    for seed in 0..120 {
        let (inventory, pod) = random_cluster(seed);
        let Some(like) = inventory.nodes.first().map(|entry| entry.object.clone()) else { continue };
        let n_fitting = of_pod(&inventory, &pod, &request(None)).replicas;
        let n_wanted = n_fitting + 1 + seed as usize % 6;
        let node_type = NodeType::Existing(like.metadata.name.clone());
        let found = of_pod(&inventory, &pod, &request(Some((n_wanted, node_type))));
        let mut zones: Vec<String> = match like.metadata.label(ZONE) {
            Some(_) => {
                let zones = inventory.nodes.iter().filter_map(|entry| entry.object.metadata.label(ZONE));
                zones.map(str::to_owned).collect()
            }
            None => vec![String::new()],
        };
        zones.sort();
        zones.dedup();
        let is_enough = |zones: &Vec<String>| {
            n_simulated(&with_nodes(&inventory, &like, zones), &pod, n_wanted) == n_wanted
        };
        let fewest = (1..=MOST).find(|n| multisets(&zones, *n).iter().any(is_enough));
        match (found.nodes_needed, fewest) {
            (Some(found), Some(fewest)) => assert_eq!(found, fewest, "seed {seed}"),
            (Some(found), None) => assert!(found > MOST, "seed {seed}: {found}"),
            (None, fewest) => assert_eq!(fewest, None, "seed {seed}"),
        }
        if let Some(new) = found.new_nodes {
            let zones = new.by_domain.iter().flat_map(|(zone, n)| vec![zone.clone(); *n]).collect();
            assert!(is_enough(&zones), "seed {seed}: {zones:?}");
        }
        *found_counts.entry(found.nodes_needed).or_insert(0) += 1;
    }
    assert!(found_counts.len() >= 4, "{found_counts:?}");
}

#[test]
fn replicas_of_a_workload_count_beyond_those_that_run() {
    let world = text::world(
        "node a zone=z1 cpu=4
         node b zone=z2 cpu=2
         pod default/web-6-x on a cpu=1 app=web pod-template-hash=6 owner:ReplicaSet/web-6
         pod default/web-6-y cpu=1 app=web pod-template-hash=6 owner:ReplicaSet/web-6
         pod default/other on b cpu=1",
    );
    let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "web"));
    let options = SimulationOptions::default();
    let found = capacity(inventory(world), &options, &subject, &request(None));
    let (found, _) = found.expect("the objects are valid");
    assert_eq!((found.replicas, found.running), (4, 1));
    assert_eq!(found.by_domain, BTreeMap::from([("z1".to_owned(), 3), ("z2".to_owned(), 1)]));
    assert_eq!(found.limited_by.as_deref(), Some("cpu"));
}

#[test]
fn the_limit_is_what_excludes_the_usable_nodes() {
    let found = |text: &str| {
        let mut world = text::world(text);
        let pod = world.pods.pop().expect("the last pod is the subject");
        of_pod(&inventory(world), &pod, &request(None))
    };
    let limited_by = |text: &str| found(text).limited_by;
    let tainted = "node x taint:a:NoSchedule\nnode y taint:a:NoSchedule\nnode z taint:a:NoSchedule\n";
    // The bottleneck below it named the taint.
    let bottleneck = found(&format!("{tainted}node a cpu=2\npod default/p cpu=1")).bottleneck;
    assert_eq!(bottleneck.expect("a term excludes the node").plugin, Plugin::NodeResourcesFit);
    assert_eq!(limited_by(&format!("{tainted}node a cpu=2\npod default/p cpu=1")).as_deref(), Some("cpu"));
    assert_eq!(limited_by(&format!("{tainted}pod default/p cpu=1")).as_deref(), Some("spec.tolerations"));
    assert_eq!(
        limited_by(&format!("{tainted}node a\npod default/p app=p anti(app=p @hostname)")).as_deref(),
        Some("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]")
    );
    assert_eq!(limited_by("pod default/p").as_deref(), Some("nodes"));
    let small = "node a cpu=1\nnode b cpu=1\n";
    let text =
        format!("{small}node g cpu=8 disk=ssd taint:x:NoSchedule\npod default/p cpu=4 select:disk=ssd");
    assert_eq!(limited_by(&text).as_deref(), Some("spec.tolerations"), "the rule against the nearest node");
}

#[test]
fn nodes_are_added_in_the_domains_where_they_help() {
    let world = text::world(
        "node a zone=z1 cpu=4
         node b zone=z2 cpu=1
         pod default/p app=p cpu=1 spread(1 app=p @zone)",
    );
    let pod = world.pods[0].clone();
    let mut inventory = inventory(world);
    inventory.pods.clear();
    let found = of_pod(&inventory, &pod, &request(Some((6, NodeType::Existing("b".to_owned())))));
    assert_eq!((found.replicas, found.nodes_needed), (3, Some(2)));
    assert_eq!(found.new_nodes.map(|new| new.by_domain), Some(BTreeMap::from([("z2".to_owned(), 2)])));
}

#[test]
fn the_pods_of_a_new_template_run_in_the_place_of_the_old_ones() {
    let deployment = |cpu: u32| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 2, selector:
              {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers:
              [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}}}"
        )
    };
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: web}}, ownerReferences: [
              {{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d5cd4f7c9, controller: true}}]}}, spec: {{nodeName: a,
              containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}"
        )
    };
    let node = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 10, pods: 9}}}";
    let set = "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-5d5cd4f7c9, ownerReferences: [
        {apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]}, spec: {replicas: 2, selector:
        {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c,
        image: i, resources: {requests: {cpu: 1}}}]}}}}";
    let objects = [node, set, &deployment(1), &pod("web-5d5cd4f7c9-a"), &pod("web-5d5cd4f7c9-b")];
    let mut inventory = Inventory::from_text(&objects.join("\n---\n")).expect("the text is well-formed");
    let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "web"));
    let replicas = |inventory: &Inventory| {
        let found = capacity(inventory.clone(), &SimulationOptions::default(), &subject, &request(None));
        let (found, _) = found.expect("the objects are valid");
        (found.replicas, found.running)
    };
    assert_eq!(replicas(&inventory), (8 - 1, 2), "9 pods per node");
    inventory.read(deployment(3).as_bytes(), "change").expect("the text is well-formed");
    assert_eq!(replicas(&inventory), (1, 2), "3 of 10 CPUs each");
}

#[test]
fn each_new_node_of_a_type_has_its_own_host_name_and_the_zones_of_the_cluster() {
    let node_type = |labels: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: t, labels: {{{labels}}}, annotations: {{{PRICE_ANNOTATION}: '0.12'}}}},
              status: {{allocatable: {{cpu: 9, pods: 9}}}}}}"
        );
        let read = Inventory::from_text(&text).expect("the text is well-formed");
        NodeType::Object(Box::new(read.nodes[0].object.clone()))
    };
    let found = |rule: &str, target: Target| {
        let mut world = text::world(&format!("node a zone=z1\nnode b zone=z2\npod default/p app=p {rule}"));
        let pod = world.pods.pop().expect("the last pod is the subject");
        let request =
            CapacityRequest { topology_key: ZONE.to_owned(), target: Some(target), defragmentation: None };
        let subject = Subject::Pod(Box::new(entry(&pod)));
        let found = capacity(inventory(world), &SimulationOptions::default(), &subject, &request);
        found.map(|(found, _)| found).map_err(|error| error.to_string())
    };
    let target =
        |n_replicas, labels| Target { n_replicas, node_types: vec![node_type(labels)], zones: Vec::new() };
    // Without a host name, all replicas were on one new node.
    let new = |found: Result<Capacity, String>| found.expect("the objects are valid").new_nodes;
    let hosts = new(found("anti(app=p @hostname)", target(5, ""))).expect("nodes are enough");
    assert_eq!(hosts.by_domain, BTreeMap::from([("z1".to_owned(), 2), ("z2".to_owned(), 1)]));
    assert_eq!(
        hosts.price.map(|price| price.to_string()).as_deref(),
        Some("0.36"),
        "not 0.36000000000000004"
    );
    // Without a zone, the new nodes escaped the rule.
    let none = found("anti(app=p @zone)", target(3, "")).expect("the objects are valid");
    assert_eq!(none.nodes_needed, None);
    let limits =
        vec!["spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]".to_owned()];
    assert_eq!(none.prevented_by[0].limited_by, limits);
    assert!(none.prevented_by[0].message.contains(ZONE), "{}", none.prevented_by[0].message);
    // All nodes of the type are in one domain: more of them do not help, although the first one takes a replica.
    let one_domain = found("port:80 anti(app=p @rack)", target(9, "example.com/rack: r1"));
    let one_domain = one_domain.expect("the objects are valid");
    let prevented = &one_domain.prevented_by[0];
    assert_eq!(prevented.limited_by, limits);
    assert!(prevented.message.contains("example.com/rack=r1"), "{}", prevented.message);
    // A label that no node has.
    let refused = found("anti(app=p @rack)", target(300, ""));
    let refused = refused.expect_err("nodes without racks would escape the rule");
    assert!(refused.contains("rack, which spec.affinity.podAntiAffinity"), "{refused}");
}

#[test]
fn node_types_are_in_the_zones_of_the_request_if_the_cluster_has_none() {
    let mut world =
        text::world("node t cpu=1\nnode a cpu=1\npod default/p app=p cpu=1 spread(1 app=p @zone)");
    let (pod, node) = (world.pods.pop().expect("a pod"), world.nodes.remove(0));
    let zones = ["x", "y"].map(|zone| text::world(&format!("node {zone} zone={zone}")).nodes.remove(0));
    let found = |zones: Vec<Node>| {
        let node_types = vec![NodeType::Object(Box::new(node.clone()))];
        let target = Some(Target { n_replicas: 4, node_types, zones });
        let request = CapacityRequest { topology_key: ZONE.to_owned(), target, defragmentation: None };
        let subject = Subject::Pod(Box::new(entry(&pod)));
        let world = World { nodes: world.nodes.clone(), ..World::default() };
        capacity(inventory(world), &SimulationOptions::default(), &subject, &request)
            .map_err(|error| error.to_string())
    };
    let (spread, _) = found(zones.to_vec()).expect("the objects are valid");
    let by_domain = spread.new_nodes.map(|new| new.by_domain);
    assert_eq!(by_domain, Some(BTreeMap::from([("x".to_owned(), 2), ("y".to_owned(), 2)])));
    let refused = found(Vec::new()).err().unwrap_or_default();
    assert!(refused.contains("--zones"), "{refused}");
}

#[test]
fn new_nodes_had_no_pods_of_daemon_sets() {
    let node = |name: &str, labels: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}, status: {{allocatable: {{cpu: 4, memory: \
             8Gi, pods: 20}}}}}}\n"
        )
    };
    let workload = |kind: &str, replicas: &str, spec: &str| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: {0}}}, spec: {{{replicas} selector: {{matchLabels: {{app: {0}}}}}, \
             template: {{metadata: {{labels: {{app: {0}}}}}, spec: {{{spec}}}}}}}}}\n",
            kind.to_lowercase()
        )
    };
    let cpu = |n: u8| format!("containers: [{{name: c, image: i, resources: {{requests: {{cpu: {n}}}}}}}]");
    let web = workload("Deployment", "replicas: 1,", &cpu(2));
    let agent = workload("DaemonSet", "", &cpu(1));
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, controller: true}]";
    let pod_of_agent = format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: agent-x, creationTimestamp: '2026-01-01T00:00:00Z', {owner}}}, spec: \
         {{nodeName: a, {}}}, status: {{phase: Running}}}}\n",
        cpu(1)
    );
    let elsewhere = workload("DaemonSet", "", &format!("nodeSelector: {{pool: other}}, {}", cpu(1)));
    let needed = |daemons: &str, is_type: bool| {
        let inventory = Inventory::from_text(&(node("a", "pool: general") + &web + daemons)).unwrap();
        let new = Inventory::from_text(&node("new", "pool: general")).unwrap().nodes.remove(0).object;
        let node_type = match is_type {
            true => NodeType::Object(Box::new(new)),
            false => NodeType::Existing("a".to_owned()),
        };
        let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "deployment"));
        let request = request(Some((3, node_type)));
        capacity(inventory, &SimulationOptions::default(), &subject, &request).unwrap().0.nodes_needed
    };
    for is_type in [true, false] {
        // A node has room for two pods, beside one of the DaemonSet for one.
        assert_eq!(needed("", is_type), Some(1));
        assert_eq!(needed(&agent, is_type), Some(2));
        assert_eq!(needed(&pod_of_agent, is_type), Some(2), "of the DaemonSet, the input has pods only");
        assert_eq!(needed(&elsewhere, is_type), Some(1));
    }
}

/// A node with 4 cores.
fn four_cores(name: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{ZONE}: {name}}}}}, status: {{allocatable: {{cpu: 4, \
         memory: 8Gi, pods: 20}}}}}}\n"
    )
}

fn of_web(text: &str, request: &CapacityRequest) -> Capacity {
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "web"));
    capacity(inventory, &SimulationOptions::default(), &subject, request).expect("valid").0
}

fn workload(kind: &str, name: &str, pod: &str, cpu: u8) -> String {
    format!(
        "---\n{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{selector: {{matchLabels: {{app: {name}}}}}, template: \
         {{metadata: {{labels: {{app: {name}}}}}, spec: {{{pod} containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}}}\n"
    )
}

#[test]
fn new_nodes_of_all_zones_had_the_daemon_pods_of_the_first() {
    let agent = workload("DaemonSet", "agent", &format!("nodeSelector: {{{ZONE}: a}},"), 2);
    let text = four_cores("a") + &four_cores("b") + &agent + &workload("Deployment", "web", "", 1);
    let found = of_web(&text, &request(Some((10, NodeType::Existing("b".to_owned())))));
    assert_eq!((found.replicas, found.nodes_needed), (6, Some(1)));
}

#[test]
fn fewer_pods_than_their_group_requires_were_said_to_fit() {
    let group = "---\n{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: g}, spec: {schedulingPolicy: {gang: \
                 {minCount: 5}}}}\n";
    let web = workload("Deployment", "web", "schedulingGroup: {podGroupName: g},", 2);
    let nodes = |n: usize| ["a", "b", "c"].into_iter().take(n).map(four_cores).collect::<String>();
    let found = of_web(&(nodes(2) + group + &web), &request(None));
    assert_eq!(found.replicas, 0);
    assert!(
        found.message.starts_with("4 of 5 pods that the group requires fit: 0/2 nodes"),
        "{}",
        found.message
    );
    assert_eq!(of_web(&(nodes(3) + group + &web), &request(None)).replicas, 6);
}
