//! Objects that are too large, or contradict each other: bounded work, a message, and nothing left over.

use berth_api::object::device::DeviceKind;

use super::{CLASS, World, claim, nodes, pod, pod_with_claim, requests, slice, world};

const NOTHING_FITS: &str = "0/1 nodes are available: 1 cannot allocate all claims.";

fn message(world: &mut World, pod: &str) -> String {
    let message = world.placed(pod);
    message.split_once(" preemption").map_or(message.clone(), |(reasons, _)| reasons.to_owned())
}

/// A claim, made before, that has some devices of the node `n0`.
fn allocated(name: &str, devices: &[&str]) -> String {
    let results: Vec<_> = (devices.iter())
        .map(|device| format!("{{request: r0, driver: gpu.example.com, pool: n0, device: {device}}}"))
        .collect();
    let selector = "{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n0]}]}]}";
    let status = format!(
        ", status: {{allocation: {{devices: {{results: [{}]}}, nodeSelector: {selector}}}}}}}",
        results.join(", ")
    );
    let claim = claim(name, &requests(&[""]));
    format!("{}{status}\n", claim.trim_end().strip_suffix('}').unwrap_or(&claim))
}

#[test]
fn a_slice_with_10_000_devices_is_searched_within_the_limit_of_work() {
    let devices: Vec<_> =
        (0..10_000).map(|i| format!("{{name: d{i}, attributes: {{numa: {{int: {}}}}}}}", i % 2)).collect();
    let distinct =
        format!("{}, constraints: [{{distinctAttribute: gpu.example.com/numa}}]", requests(&[", count: 3"]));
    let mut world = world(
        &(nodes(1)
            + CLASS
            + &slice("n0", &devices.join(", "))
            + &pod_with_claim("two", &requests(&[", count: 2"]))
            + &pod_with_claim("impossible", &distinct)),
    );
    assert_eq!(world.placed("two"), "n0: r0=d0 r0=d1");
    assert_eq!(message(&mut world, "impossible"), NOTHING_FITS);
    assert_eq!(world.cluster.n_cut_device_searches(), 0);
}

#[test]
fn counters_that_are_used_beyond_their_amount_leave_nothing() {
    let consumes = "consumesCounters: [{counterSet: c, counters: {memory: {value: 60Gi}}}]";
    let shared = "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: counters}, spec: {driver: gpu.example.com, \
                  nodeName: n0, pool: {name: n0, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: c, counters: {memory: {value: 80Gi}}}]}}\n";
    let devices: Vec<_> = (0..3).map(|i| format!("{{name: d{i}, {consumes}}}")).collect();
    let devices = slice("n0", &devices.join(", ")).replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    let mut world = world(
        &(nodes(1)
            + CLASS
            + &devices
            + shared
            + &allocated("both", &["d0", "d1"])
            + &pod_with_claim("p", &requests(&[""]))),
    );
    assert_eq!(message(&mut world, "p"), NOTHING_FITS);
    world.cluster.remove_device_object(DeviceKind::ResourceClaim, "default", "both");
    assert_eq!(world.placed("p"), "n0: r0=d0");
}

#[test]
fn a_claim_whose_device_has_disappeared_keeps_it_until_the_claim_is_gone() {
    let mut world = world(
        &(nodes(2)
            + CLASS
            + &slice("n0", "{name: d0}")
            + &allocated("lost", &["gone"])
            + &pod("p", &["lost"])
            + &pod_with_claim("q", &requests(&[""]))),
    );
    // The driver may publish it again: the claim is not allocated again.
    assert_eq!(world.placed("p"), "n0:");
    assert_eq!(world.placed("q"), "n0: r0=d0");
    assert_eq!(world.cluster.table_sizes()["allocated devices"], 2);
    for claim in ["lost", "q"] {
        world.cluster.remove_device_object(DeviceKind::ResourceClaim, "default", claim);
    }
    assert_eq!(world.cluster.table_sizes()["allocated devices"], 0);
}

#[test]
fn nothing_is_allocated_by_guess_for_fields_of_a_later_version() {
    let request =
        |fields: &str| format!("requests: [{{name: r0, exactly: {{deviceClassName: gpu{fields}}}}}]");
    let alternatives =
        "requests: [{name: r0, firstAvailable: [{name: s, deviceClassName: gpu, allocationMode: Half}]}]";
    for (devices, expected) in [
        (request(", allocationMode: Half"), "request r0: unsupported count mode Half"),
        (alternatives.to_owned(), "request s: unsupported count mode Half"),
        (
            request(", selectors: [{cel: {expression: 'true'}}, {other: {}}]"),
            "request r0, selector #1: CEL expression empty (unsupported selector type?)",
        ),
        (
            request("") + ", constraints: [{matchAttribute: gpu.example.com/numa}, {sameAttribute: x}]",
            "constraint #1: empty constraint (unsupported constraint type?)",
        ),
    ] {
        let mut world = world(
            &(nodes(1) + CLASS + &slice("n0", "{name: a}, {name: b}") + &pod_with_claim("p", &devices)),
        );
        let expected = format!("claim default/p, {expected}");
        let message = world.placed("p");
        assert!(message.ends_with(&expected), "{message}");
    }
    for devices in ["requests: [{name: r0}]", "requests: [{name: r0, exactly: {}}]"] {
        let mut world =
            world(&(nodes(1) + CLASS + &slice("n0", "{name: a}") + &pod_with_claim("p", devices)));
        let expected = "0/1 nodes are available: request r0: unsupported request type.";
        assert_eq!(message(&mut world, "p"), expected);
    }
}
