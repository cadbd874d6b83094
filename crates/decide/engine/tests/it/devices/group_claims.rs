//! Claims that the pods of a PodGroup share, from enhancement 5729.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::{DeviceDecision, ResourceClaimConsumerReference};
use berth_api::object::{NamespacedName, PodResourceClaim};
use berth_engine::{Group, GroupOutcome, Outcome, Settings};
use berth_input::config::SchedulerConfig;
use berth_input::journal::{AssumedDevices, GroupClaims};

use super::{CLASS, World, claim, nodes, pod, requests, slice, world_with};

/// Pods `m0`, `m1` and so on of the PodGroup `ring`, with the claim `shared`; `as_named` is the name of the entry in the pods.
fn ring(is_enabled: bool, n_members: usize, as_named: &str) -> World {
    let gates = FeatureGates { dra_workload_resource_claims: is_enabled, ..FeatureGates::default() };
    let config = SchedulerConfig { feature_gates: gates, ..SchedulerConfig::default() };
    let member = |i: usize| {
        pod(&format!("m{i}"), &["shared"])
            .replace("name: c0,", &format!("name: {as_named},"))
            .replace("spec: {", "spec: {schedulingGroup: {podGroupName: ring}, ")
    };
    let members: String = (0..n_members).map(member).collect();
    let devices = slice("n0", "{name: a}") + &slice("n1", "{name: b}");
    let manifest = nodes(2) + CLASS + &devices + &claim("shared", &requests(&[""])) + &members;
    let mut world = world_with(Settings { config, ..Settings::default() }, &manifest);
    let name = NamespacedName::new("default", "ring");
    let of_group = PodResourceClaim {
        name: "gpu".to_owned(),
        resource_claim_name: Some("shared".to_owned()),
        ..PodResourceClaim::default()
    };
    world
        .cluster
        .set_group_claims(&name, Some(GroupClaims { uid: "ring-uid".to_owned(), claims: vec![of_group] }));
    world
}

fn decision(outcome: &Outcome) -> DeviceDecision {
    match outcome {
        Outcome::Placed { devices: Some(devices), .. } => (**devices).clone(),
        other => panic!("{}", other.message()),
    }
}

/// What the claim is reserved for, and whether that is to be written.
fn reservation(outcome: &Outcome) -> (Option<ResourceClaimConsumerReference>, bool) {
    let claim = decision(outcome).claims.remove(0);
    (claim.group, claim.is_reserved_now)
}

fn group() -> Option<ResourceClaimConsumerReference> {
    Some(ResourceClaimConsumerReference::pod_group("ring", "ring-uid"))
}

#[test]
fn a_claim_is_reserved_for_the_group_when_name_and_claim_are_equal_and_the_gate_is_on() {
    for (is_enabled, as_named, expected) in
        [(true, "gpu", group()), (true, "other", None), (false, "gpu", None)]
    {
        let mut world = ring(is_enabled, 1, as_named);
        let prepared = world.prepare("m0");
        let outcome = world.cluster.evaluate(&prepared).outcome;
        assert_eq!(reservation(&outcome), (expected, true), "{is_enabled} {as_named}");
    }
}

#[test]
fn all_members_are_placed_with_the_devices_of_the_claim_as_one_unit() {
    let mut world = ring(true, 3, "gpu");
    let members: Vec<_> = ["m0", "m1", "m2"].map(|name| world.prepare(name)).into();
    let placed =
        world.cluster.place_group(&Group { members: &members, min: 3, levels: &[], composite: None });
    let GroupOutcome::Placed { members, .. } = placed else { panic!("they fit") };
    let nodes: Vec<_> = members.iter().map(|outcome| outcome.node().unwrap_or("-")).collect();
    assert!(nodes == ["n0"; 3] || nodes == ["n1"; 3], "{nodes:?}");
    let decisions: Vec<_> = members.iter().map(decision).collect();
    let n_allocating = decisions.iter().filter(|of| of.claims[0].allocation.is_some()).count();
    assert_eq!(n_allocating, 1, "the first member allocates the claim");
    // A member must not run before the reservation is written, whichever member writes it.
    members.iter().for_each(|outcome| assert_eq!(reservation(outcome), (group(), true)));
}

#[test]
fn until_the_allocation_is_written_no_later_member_uses_it_and_what_is_taken_back_is_free() {
    let mut world = ring(true, 2, "gpu");
    let first = world.prepare("m0");
    let outcome = world.cluster.evaluate(&first).outcome;
    let devices = decision(&outcome);
    let pod = NamespacedName::new("default", "m0");
    let assumed = AssumedDevices { pod, uid: "pod-m0".to_owned(), devices, in_flight: true };
    world.cluster.assume_devices(&assumed);
    let second = world.prepare("m1");
    let waits = world.cluster.evaluate(&second).outcome.message().into_owned();
    assert!(waits.contains("resource claim default/shared is in the process of being allocated"), "{waits}");
    world.cluster.restore_devices(&assumed);
    let outcome = world.cluster.evaluate(&second).outcome;
    assert_eq!(reservation(&outcome), (group(), true));
    assert!(decision(&outcome).claims[0].allocation.is_some());
}
