//! Devices that take allocatable resources of their node, from enhancement 5517 as of Kubernetes 1.36.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NodeAllocatableResourceClaimStatus, Pod};
use berth_engine::{Group, GroupOutcome, Outcome};
use serde_json::{Value, json};

use super::{CLASS, World, claim, requests, slice, world_with};
use crate::common::with_gates;

/// Two nodes with 10 CPUs each.
const NODES: &str = "---
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 10, memory: 64Gi, hugepages-2Mi: 1Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 10, memory: 64Gi, pods: 110}}}
";

/// A device that takes 4 CPUs and 8 GiB.
const ACCELERATOR: &str = "nodeAllocatableResourceMappings: {cpu: {allocationMultiplier: '4'}, memory: {allocationMultiplier: 8Gi}}";

/// A pool of 32 cores with two CPUs each.
const CORES: &str = "{name: socket, allowMultipleAllocations: true, capacity: {gpu.example.com/cores: {value: '32'}}, \
    nodeAllocatableResourceMappings: {cpu: {capacityKey: gpu.example.com/cores, allocationMultiplier: '2'}}}";

fn world(manifest: &str) -> World {
    let gates = FeatureGates { dra_node_allocatable_resources: true, ..FeatureGates::default() };
    world_with(with_gates(gates), &(NODES.to_owned() + CLASS + manifest))
}

/// A pod whose containers all use its claims `claims`; `spec` are further fields.
fn pod(name: &str, claims: &[&str], containers: &[&str], spec: &str) -> String {
    let used: Vec<_> = claims.iter().map(|claim| format!("{{name: {claim}}}")).collect();
    let used = used.join(", ");
    let containers: Vec<_> = (containers.iter().enumerate())
        .map(|(i, requests)| {
            format!("{{name: c{i}, image: i, resources: {{requests: {{{requests}}}, claims: [{used}]}}}}")
        })
        .collect();
    let named: Vec<_> =
        claims.iter().map(|claim| format!("{{name: {claim}, resourceClaimName: {claim}}}")).collect();
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: pod-{name}}}, \
         spec: {{containers: [{}], resourceClaims: [{}], {spec}}}}}\n",
        containers.join(", "),
        named.join(", ")
    )
}

fn plain(name: &str, cpu: &str) -> String {
    pod(name, &[], &[&format!("cpu: {cpu}")], "")
}

/// What is to be written to the status of the pod.
fn taken(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Placed { devices: Some(devices), .. } => json!(devices.node_allocatable),
        other => panic!("{}", other.message()),
    }
}

#[test]
fn devices_count_beside_the_requests_of_the_pod_once_for_all_containers() {
    let mut world = world(
        &(slice("n0", &format!("{{name: a, {ACCELERATOR}}}, {{name: b, {ACCELERATOR}}}"))
            + &claim("two", &requests(&[", count: 2"]))
            + &pod("p", &["two"], &["cpu: 1", "cpu: 500m"], "nodeSelector: {}")
            + &plain("elsewhere", "1")),
    );
    let outcome = world.place("p");
    assert_eq!(outcome.node(), Some("n0"));
    let expected = json!([{"resourceClaimName": "two", "containers": ["c0", "c1"], "resources": {"cpu": "8", "memory": "16Gi"}}]);
    assert_eq!(taken(&outcome), expected);
    // 1.5 of the pod and 8 of its devices.
    assert_eq!(world.admits("500m"), None);
    let message = world.admits("501m").unwrap();
    assert!(message.contains("resource: cpu, requested: 501, used: 9500, capacity: 10000"), "{message}");
    assert_eq!(world.place("elsewhere").node(), Some("n1"));
    world.cluster.remove_pod("default", "p");
    assert_eq!(world.admits("10"), None);
}

#[test]
fn a_consumed_capacity_is_multiplied() {
    let mut world = world(
        &(slice("n0", CORES)
            + &claim("three", &requests(&[", capacity: {requests: {gpu.example.com/cores: '3'}}"]))
            + &claim("more", &requests(&[", capacity: {requests: {gpu.example.com/cores: '2'}}"]))
            + &pod("p", &["three"], &["cpu: 1"], "")
            + &pod("q", &["more"], &["cpu: 1"], "")),
    );
    let outcome = world.place("p");
    let expected = json!([{"resourceClaimName": "three", "containers": ["c0"], "resources": {"cpu": "6"}}]);
    assert_eq!(taken(&outcome), expected);
    // 7 are in use, and the next pod with its devices needs 5.
    let message = world.place("q").message().into_owned();
    assert!(
        message.starts_with("0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims."),
        "{message}"
    );
    world.cluster.remove_pod("default", "p");
    assert_eq!(world.place("q").node(), Some("n0"));
}

#[test]
fn without_the_gate_mappings_have_no_effect() {
    let manifest = NODES.to_owned()
        + CLASS
        + &slice("n0", &format!("{{name: a, {ACCELERATOR}}}"))
        + &claim("c", &requests(&[""]))
        + &pod("p", &["c"], &["cpu: 9"], "")
        + &pod("assigned", &[], &["cpu: 1"], "nodeName: n0");
    let mut world = world_with(with_gates(FeatureGates::default()), &manifest);
    let outcome = world.place("p");
    assert_eq!((outcome.node(), taken(&outcome)), (Some("n0"), json!([])));
    let mut assigned = world.pod("assigned").clone();
    assigned.spec = world.pod("p").spec.clone();
    assigned.spec.node_name = "n1".to_owned();
    let status = json!([{"resourceClaimName": "c", "resources": {"cpu": "10"}}]);
    assigned.status.node_allocatable_resource_claim_statuses = serde_json::from_value(status).unwrap();
    world.cluster.set_pod(&assigned);
    let other = world.prepare("assigned");
    assert_eq!(world.cluster.node_admission(&other, "n0"), Ok(()));
}

#[test]
fn the_status_of_an_assigned_pod_counts_and_frees_what_it_took() {
    let mut world = world(
        &(plain("p", "1") + &pod("assigned", &["c"], &["cpu: 1"], "nodeName: n1") + &plain("big", "7")),
    );
    let mut assigned = world.pod("assigned").clone();
    let status = json!([
        {"resourceClaimName": "c", "containers": ["c0"], "resources": {"cpu": "2", "hugepages-2Mi": "4Mi"}},
        {"resourceClaimName": "d", "containers": ["c0"], "resources": {"cpu": "1"}},
    ]);
    assigned.status.node_allocatable_resource_claim_statuses = serde_json::from_value(status).unwrap();
    let before = world.cluster.table_sizes();
    world.cluster.set_pod(&assigned);
    let full = world.prepare("big");
    assert_eq!(world.cluster.node_admission(&full, "n1").unwrap_err().reason, "OutOfcpu");
    // A later version without the status, as after a restart of the pod's node.
    assigned.status.node_allocatable_resource_claim_statuses = Default::default();
    world.cluster.set_pod(&assigned);
    assert_eq!(world.cluster.node_admission(&full, "n1"), Ok(()));
    world.cluster.remove_pod("default", "assigned");
    drop(full);
    world.cluster.remove_node("none");
    assert_eq!(world.cluster.table_sizes(), before);
}

#[test]
fn a_pod_that_the_node_cannot_hold_with_its_devices_is_rejected_for_good() {
    let mut world = world(
        &(slice(
            "n0",
            "{name: a, nodeAllocatableResourceMappings: {cpu: {allocationMultiplier: '10'}, \
            hugepages-2Mi: {allocationMultiplier: 2Gi}}}",
        ) + &claim("c", &requests(&[""]))
            + &pod("p", &["c"], &["cpu: 100m"], "")),
    );
    let message = world.place("p").message().into_owned();
    let expected = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient hugepages-2Mi, 1 cannot allocate all claims.";
    assert!(message.starts_with(expected), "{message}");
    let preemption = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(world.preempt("p", &[]), preemption);
}

#[test]
fn pod_level_requests_bound_containers_and_devices_together() {
    let with_budget = |cpu: &str| {
        let spec = format!("resources: {{requests: {{cpu: {cpu}}}}}");
        world(
            &(slice("n0", &format!("{{name: a, {ACCELERATOR}}}"))
                + &claim("c", &requests(&[""]))
                + &pod("p", &["c"], &["cpu: 2"], &spec)),
        )
    };
    let message = with_budget("5").place("p").message().into_owned();
    let expected = "1 pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests";
    assert!(message.contains(expected), "{message}");
    let mut world = with_budget("6");
    let outcome = world.place("p");
    assert_eq!(taken(&outcome)[0]["resources"], json!({"cpu": "4", "memory": "8Gi"}));
    // The pod-level request stands for the devices as well: 4 CPUs are left.
    assert_eq!(world.admits("4"), None);
    assert!(world.admits("4100m").is_some());
}

#[test]
fn a_claim_that_no_container_uses_must_not_take_of_the_node() {
    let devices = slice("n0", &format!("{{name: a, {ACCELERATOR}}}")) + &slice("n1", "{name: b}");
    let unused = super::pod("p", &["c"]);
    let mut world = world(&(devices + &claim("c", &requests(&[""])) + &unused));
    let message = world.explained("p");
    let expected = "claim c: node-allocatable resource claim not referenced by any container within the pod";
    assert!(message.contains(expected), "{message}");
    assert_eq!(world.place("p").node(), Some("n1"));
}

#[test]
fn extended_resources_cannot_take_of_the_node() {
    let class = CLASS.replace("spec: {", "spec: {extendedResourceName: example.com/gpu, ");
    let manifest = NODES.to_owned()
        + &class
        + &slice("n0", &format!("{{name: a, {ACCELERATOR}}}"))
        + &pod("p", &[], &["example.com/gpu: 1"], "");
    let gates = FeatureGates { dra_node_allocatable_resources: true, ..FeatureGates::default() };
    let mut world = world_with(with_gates(gates), &manifest);
    let message = world.place("p").message().into_owned();
    assert!(message.contains("node-allocatable resource claim not referenced by any container"), "{message}");
}

#[test]
fn a_claim_that_takes_of_the_node_belongs_to_one_pod() {
    let mut world = world(
        &(slice("n0", &format!("{{name: a, {ACCELERATOR}}}"))
            + &claim("c", &requests(&[""]))
            + &pod("p", &["c"], &["cpu: 1"], "")
            + &pod("q", &["c"], &["cpu: 1"], "")),
    );
    assert_eq!(world.place("p").node(), Some("n0"));
    let message = world.place("q").message().into_owned();
    assert!(
        message.contains("1 node allocatable resource claim c is already used by another pod"),
        "{message}"
    );
}

#[test]
fn a_claim_that_was_allocated_before_counts() {
    let mut world = world(
        &(slice("n0", &format!("{{name: a, {ACCELERATOR}}}"))
            + &claim("c", &requests(&[""]))
            + &pod("p", &["c"], &["cpu: 1"], "")
            + &pod("q", &["c"], &["cpu: 7"], "")),
    );
    // As after an attempt whose pod is gone, and whose claim stayed allocated.
    let prepared = world.prepare("p");
    let Outcome::Placed { devices: Some(devices), .. } = world.cluster.decide(&prepared) else { panic!() };
    let allocated = prepared.assumed_devices(&devices, false);
    world.cluster.assume_devices(&allocated);
    let message = world.explained("q");
    assert!(message.contains("Insufficient cpu"), "{message}");
    let outcome = world.place("p");
    assert_eq!(taken(&outcome)[0]["resources"], json!({"cpu": "4", "memory": "8Gi"}));
}

#[test]
fn the_alternative_that_is_used_decides_what_is_taken() {
    let manifest = "---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, namespace: default, uid: c}, spec: {devices: {requests: [
  {name: r, firstAvailable: [
    {name: gpu, deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].kind == \"gpu\"'}}]},
    {name: cpu, deviceClassName: gpu, count: 2}]}]}}}
";
    let kind = |kind| format!("attributes: {{kind: {{string: {kind}}}}}");
    let gpu = format!("{{name: g, {}}}", kind("gpu"));
    let cpus: Vec<_> = (0..2)
        .map(|i| {
            let mappings = "nodeAllocatableResourceMappings: {cpu: {allocationMultiplier: '3'}}";
            format!("{{name: cpu{i}, {}, {mappings}}}", kind("cpu"))
        })
        .collect();
    let cpus = cpus.join(", ");
    let with = |devices: &str| {
        let mut world = world(&(slice("n0", devices) + manifest + &pod("p", &["c"], &["cpu: 1"], "")));
        taken(&world.place("p"))
    };
    assert_eq!(with(&format!("{gpu}, {cpus}")), json!([]));
    assert_eq!(with(&cpus)[0]["resources"], json!({"cpu": "6"}));
}

#[test]
fn a_capacity_that_is_not_consumed_is_an_error() {
    let exclusive = CORES.replace("allowMultipleAllocations: true, ", "");
    let mut world = world(
        &(slice("n0", &exclusive) + &claim("c", &requests(&[""])) + &pod("p", &["c"], &["cpu: 1"], "")),
    );
    let Outcome::Failed { error } = world.place("p") else { panic!("no error") };
    assert!(
        error.contains(
            "claim default/c, device socket: ConsumedCapacity is nil, but Capacity key 'gpu.example.com/cores' is set in \
             NodeAllocatableResourceMappings for resource cpu"
        ),
        "{error}"
    );
}

#[test]
fn pods_are_preempted_for_what_devices_take() {
    let mut world = world(
        &(slice("n0", &format!("{{name: a, {ACCELERATOR}}}"))
            + &claim("c", &requests(&[""]))
            + &plain("small", "3")
            + &plain("large", "5")
            + &pod("p", &["c"], &["cpu: 2"], "priority: 10")),
    );
    for name in ["small", "large"] {
        let prepared = world.prepare(name);
        world.cluster.assume(&prepared, "n0");
    }
    let message = world.explained("p");
    assert!(message.contains("1 Insufficient cpu"), "{message}");
    // Without the large one, 7 CPUs are free for 2 and 4.
    assert_eq!(world.preempt("p", &[]), "n0: large");
}

#[test]
fn members_of_a_group_see_what_the_devices_of_the_others_take() {
    let devices = slice("n0", &format!("{{name: a, {ACCELERATOR}}}, {{name: b, {ACCELERATOR}}}"));
    let member = |i: usize| {
        claim(&format!("c{i}"), &requests(&[""]))
            + &pod(&format!("m{i}"), &[&format!("c{i}")], &["cpu: 2"], "")
    };
    let mut world = world(&(devices + &member(0) + &member(1)));
    let members: Vec<_> = ["m0", "m1"].map(|name| world.prepare(name)).into();
    let outcome =
        world.cluster.place_group(&Group { members: &members, min: 2, levels: &[], composite: None });
    assert!(!matches!(outcome, GroupOutcome::Placed { .. }), "12 CPUs on a node with 10");
    let outcome =
        world.cluster.place_group(&Group { members: &members, min: 1, levels: &[], composite: None });
    let GroupOutcome::Placed { members: outcomes, .. } = outcome else { panic!("one fits") };
    let placed = outcomes.iter().filter(|outcome| outcome.node().is_some());
    let taken: Vec<NodeAllocatableResourceClaimStatus> =
        placed.flat_map(|outcome| serde_json::from_value::<Vec<_>>(taken(outcome)).unwrap()).collect();
    assert_eq!(taken.len(), 1);
}

impl World {
    /// Why the node `n0` does not admit one more pod that requests this much CPU.
    fn admits(&mut self, cpu: &str) -> Option<String> {
        let pod = json!({"metadata": {"name": "more", "namespace": "default"}, "spec": {"nodeName": "n0", "containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let prepared = self.cluster.prepare(&pod);
        self.cluster.node_admission(&prepared, "n0").err().map(|rejection| rejection.message)
    }

    /// What a decision says, by evaluation and by view.
    fn explained(&mut self, pod: &str) -> String {
        let prepared = self.prepare(pod);
        let evaluated = self.cluster.evaluate(&prepared);
        assert_eq!(evaluated.outcome, self.cluster.decide(&prepared), "{pod}: by evaluation, and by view");
        format!("{evaluated:?}")
    }
}
