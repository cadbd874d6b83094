//! Which devices a claim gets, and on which nodes.

use berth_api::feature_gates::KubernetesVersion::V1_36;
use berth_engine::Outcome;
use berth_input::inventory::Inventory;

use super::{CLASS, World, claim, nodes, pod, pod_with_claim, requests, slice, world, world_with};
use crate::common::with_gates;

const NOT_ALL: &str = "cannot allocate all claims";

fn two_gpus() -> String {
    nodes(1) + CLASS + &slice("n0", "{name: a}, {name: b}")
}

fn unplaced(n_nodes: usize, reason: &str) -> String {
    format!("0/{n_nodes} nodes are available: {n_nodes} {reason}.")
}

#[test]
fn a_device_is_allocated_to_one_claim_and_the_first_that_is_free_is_taken() {
    let pods: String = ["p", "q", "r"].map(|name| pod_with_claim(name, &requests(&[""]))).concat();
    let mut world = world(&(two_gpus() + &pods));
    assert_eq!(world.placed("p"), "n0: r0=a");
    assert_eq!(world.placed("q"), "n0: r0=b");
    assert_eq!(world.placed("r"), unplaced(1, NOT_ALL));
}

#[test]
fn pods_that_share_a_claim_go_to_the_node_of_its_devices() {
    let objects = nodes(3) + CLASS + &slice("n1", "{name: a}") + &claim("shared", &requests(&[""]));
    let mut world = world(&(objects + &pod("p", &["shared"]) + &pod("q", &["shared"])));
    assert_eq!(world.placed("p"), "n1: r0=a");
    assert_eq!(world.placed("q"), "n1:", "nothing is allocated again");
}

#[test]
fn a_missing_claim_class_or_template_rejects_the_pod_everywhere() {
    let objects =
        two_gpus() + &pod("p", &["gone"]) + &pod_with_claim("q", &requests(&[""]).replace("gpu", "absent"));
    let mut world = world(&objects);
    assert_eq!(
        world.placed("p"),
        unplaced(1, "could not find ResourceClaim \"default/gone\"").replace(": 1 ", ": ")
    );
    let absent = "request r0: device class absent does not exist";
    assert_eq!(world.placed("q"), unplaced(1, absent).replace(": 1 ", ": "));
}

fn with_numa() -> String {
    let device = |name: &str, numa: u8| format!("{{name: {name}, attributes: {{numa: {{int: {numa}}}}}}}");
    let devices = [device("a", 0), device("b", 1), device("c", 1), device("d", 0)].join(", ");
    nodes(1) + CLASS + &slice("n0", &devices)
}

#[test]
fn devices_have_the_same_value_of_a_matched_attribute() {
    let constraint = ", constraints: [{matchAttribute: gpu.example.com/numa}]";
    let pods = pod_with_claim("p", &(requests(&[", count: 2"]) + constraint))
        + &pod_with_claim("q", &(requests(&["", ""]) + constraint))
        + &pod_with_claim("r", &(requests(&[", count: 3"]) + constraint));
    let mut world = world(&(with_numa() + &pods));
    assert_eq!(world.placed("r"), unplaced(1, NOT_ALL), "two devices have each value");
    assert_eq!(world.placed("p"), "n0: r0=a r0=d");
    assert_eq!(world.placed("q"), "n0: r0=b r1=c");
}

#[test]
fn every_device_has_another_value_of_a_distinct_attribute() {
    let constraint = ", constraints: [{distinctAttribute: gpu.example.com/numa}]";
    let pods = pod_with_claim("p", &(requests(&["", ""]) + constraint))
        + &pod_with_claim("q", &(requests(&["", "", ""]) + constraint));
    let mut world = world(&(with_numa() + &pods));
    assert_eq!(world.placed("q"), unplaced(1, NOT_ALL), "there are two values: x, y, x is not distinct");
    assert_eq!(world.placed("p"), "n0: r0=a r1=b");
}

#[test]
fn partitions_share_the_counters_of_their_device() {
    let part = |name: &str, memory: u8| {
        format!(
            "{{name: {name}, consumesCounters: [{{counterSet: gpu-0, counters: {{memory: {{value: {memory}Gi}}}}}}]}}"
        )
    };
    let devices = [part("full", 40), part("half-0", 20), part("half-1", 20), part("quarter", 10)].join(", ");
    let slices = slice("n0", &devices).replace("resourceSliceCount: 1", "resourceSliceCount: 2")
        + "---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: counters}, spec: {driver: gpu.example.com, nodeName: n0,
  pool: {name: n0, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: gpu-0, counters: {memory: {value: 40Gi}}}]}}
";
    let select = |name: &str| {
        format!(
            ", selectors: [{{cel: {{expression: 'device.attributes[\"gpu.example.com\"].?name.orValue(\"{name}\") == \"{name}\"'}}}}]"
        )
    };
    let pods: String = ["p", "q", "r"].map(|name| pod_with_claim(name, &requests(&[&select("x")]))).concat();
    let mut world = world(&(nodes(1) + CLASS + &slices + &pods));
    assert_eq!(world.placed("p"), "n0: r0=full");
    assert_eq!(world.placed("q"), unplaced(1, NOT_ALL), "the whole device has taken all memory");
    let mut world = with_claim_order(world, &["half-0", "half-1"]);
    assert_eq!(world.placed("r"), unplaced(1, NOT_ALL));
}

/// The same world after the claim of `p` has become one of other devices.
fn with_claim_order(world: World, devices: &[&str]) -> World {
    let World { mut cluster, inventory } = world;
    let results: Vec<String> = devices
        .iter()
        .map(|device| format!("{{request: r0, driver: gpu.example.com, pool: n0, device: {device}}}"))
        .collect();
    let text = format!(
        "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: p, namespace: default, uid: uid-p}}, spec: {{devices: \
         {{{}}}}}, status: {{allocation: {{devices: {{results: [{}]}}}}}}}}",
        requests(&[", count: 2"]),
        results.join(", ")
    );
    let changed = berth_input::inventory::Inventory::from_text(&text).expect("the manifest is valid");
    cluster.set_device_object(&changed.device_objects[0].object);
    World { cluster, inventory }
}

#[test]
fn requests_take_parts_of_the_capacity_of_a_shared_device() {
    let policy = "requestPolicy: {default: 1Gi, validRange: {min: 1Gi, step: 2Gi}}";
    let devices = format!(
        "{{name: a, allowMultipleAllocations: true, capacity: {{memory: {{value: 8Gi, {policy}}}}}}}"
    );
    let wants = |memory: &str| format!(", capacity: {{requests: {{memory: {memory}}}}}");
    let pods = pod_with_claim("p", &requests(&[&wants("4Gi")]))
        + &pod_with_claim("q", &requests(&[""]))
        + &pod_with_claim("r", &requests(&[&wants("3Gi")]))
        + &pod_with_claim("s", &requests(&[&wants("1Gi")]))
        + &pod_with_claim("t", &requests(&[", capacity: {requests: {bandwidth: 1}}"]));
    let mut world = world(&(nodes(1) + CLASS + &slice("n0", &devices) + &pods));
    assert_eq!(world.placed("p"), "n0: r0=a", "5Gi: the minimum and two steps");
    assert_eq!(world.placed("t"), unplaced(1, NOT_ALL), "the device has no such capacity");
    assert_eq!(world.placed("q"), "n0: r0=a", "the default, 1Gi");
    assert_eq!(world.placed("r"), unplaced(1, NOT_ALL), "2Gi are left");
    assert_eq!(world.placed("s"), "n0: r0=a");
}

#[test]
fn tainted_devices_are_for_requests_that_tolerate_the_taint() {
    let taint =
        |name: &str, effect: &str| format!("{{name: {name}, taints: [{{key: broken, effect: {effect}}}]}}");
    let devices = [taint("a", "NoSchedule"), taint("b", "None"), taint("c", "NoExecute")].join(", ");
    let pods: String = ["p", "q"].map(|name| pod_with_claim(name, &requests(&[""]))).concat()
        + &pod_with_claim(
            "r",
            &requests(&[", tolerations: [{key: broken, operator: Exists, effect: NoExecute}]"]),
        );
    let mut world = world(&(nodes(1) + CLASS + &slice("n0", &devices) + &pods));
    assert_eq!(world.placed("p"), "n0: r0=b", "a taint with the effect None restricts no pod");
    assert_eq!(world.placed("q"), unplaced(1, NOT_ALL));
    assert_eq!(world.placed("r"), "n0: r0=c");
}

#[test]
fn a_request_for_all_gets_all_matching_devices_or_none() {
    let all = requests(&[", allocationMode: All"]);
    let pods = pod_with_claim("p", &all) + &pod_with_claim("q", &all);
    let mut of_two = world(&(two_gpus() + &pods));
    assert_eq!(of_two.placed("p"), "n0: r0=a r0=b");
    assert_eq!(of_two.placed("q"), unplaced(1, NOT_ALL), "they are in use");
    let incomplete = two_gpus().replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    let mut incomplete = world(&(incomplete + &pods));
    let error = "running \"DynamicResources\" filter plugin: claim default/p, request r0: asks for all devices, but resource pool \
                 gpu.example.com/n0 is currently being updated";
    assert_eq!(incomplete.placed("p"), error);
}

#[test]
fn the_first_unusable_pool_is_named_although_its_devices_have_binding_conditions() {
    let binds = two_gpus().replacen(
        "name: a",
        "name: a, bindingConditions: [attached], bindingFailureConditions: [failed]",
        1,
    );
    let updated = binds.replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    let invalid = slice("z", "{name: a}, {name: a}").replace("nodeName: z", "nodeName: n0");
    let pods = pod_with_claim("p", &requests(&[", allocationMode: All"]));
    let mut both = world(&(updated + &invalid + &pods));
    let placed = both.placed("p");
    assert!(placed.ends_with("resource pool gpu.example.com/n0 is currently being updated"), "{placed}");
}

#[test]
fn the_first_alternative_that_fits_is_used_and_nodes_with_earlier_ones_are_preferred() {
    let model = |model: &str| format!("{{name: {model}, attributes: {{model: {{string: {model}}}}}}}");
    let wants = |name: &str, model: &str| {
        format!(
            "{{name: {name}, deviceClassName: gpu, selectors: [{{cel: {{expression: 'device.attributes[\"gpu.example.com\"].model == \
             \"{model}\"'}}}}]}}"
        )
    };
    let list = format!(
        "requests: [{{name: r0, firstAvailable: [{}, {}]}}]",
        wants("best", "h100"),
        wants("other", "t4")
    );
    let pods: String = ["p", "q", "r"].map(|name| pod_with_claim(name, &list)).concat();
    let slices = slice("n0", &model("t4")) + &slice("n1", &model("h100"));
    let mut world = world(&(nodes(2) + CLASS + &slices + &pods));
    assert_eq!(world.placed("p"), "n1: r0/best=h100");
    assert_eq!(world.placed("q"), "n0: r0/other=t4");
    assert_eq!(world.placed("r"), unplaced(2, NOT_ALL));
}

#[test]
fn administration_uses_devices_that_others_have() {
    let pods = pod_with_claim("p", &requests(&[", count: 2"]))
        + &pod_with_claim("admin", &requests(&[", allocationMode: All, adminAccess: true"]))
        + &pod_with_claim("q", &requests(&[""]));
    let mut world = world(&(two_gpus() + &pods));
    assert_eq!(world.placed("p"), "n0: r0=a r0=b");
    assert_eq!(world.placed("admin"), "n0: r0=a r0=b");
    assert_eq!(world.placed("q"), unplaced(1, NOT_ALL), "the devices are still those of p");
}

#[test]
fn an_expression_that_fails_on_a_device_ends_the_attempt() {
    let selector =
        ", selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].model == \"x\"'}}]";
    let text = two_gpus() + &pod_with_claim("p", &requests(&[selector]));
    let mut world = world_with(with_gates(V1_36.into()), &text);
    let error = "running \"DynamicResources\" filter plugin: claim default/p: selector #0: CEL runtime error: no such key: model";
    assert_eq!(world.placed("p"), error);
}

#[test]
fn the_devices_of_a_class_provide_its_extended_resource_where_the_node_has_none() {
    let class = "---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu}}
";
    let pod = |name: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: pod-{name}}}, spec: {{containers: [\
             {{name: c, image: i, resources: {{requests: {{example.com/gpu: 2}}, limits: {{example.com/gpu: 2}}}}}}]}}}}\n"
        )
    };
    let mut of_devices =
        world(&(nodes(1) + class + &slice("n0", "{name: a}, {name: b}") + &pod("p") + &pod("q")));
    assert_eq!(of_devices.placed("p"), "n0: container-0-request-0=a container-0-request-0=b");
    assert_eq!(of_devices.placed("q"), unplaced(1, NOT_ALL));
    let mut without_class = world(&(nodes(1) + &slice("n0", "{name: a}, {name: b}") + &pod("p")));
    assert_eq!(without_class.placed("p"), unplaced(1, "Insufficient example.com/gpu"));
}

#[test]
fn an_older_generation_of_a_pool_is_out_of_date() {
    let newer = slice("n0", "{name: c}")
        .replace("metadata: {name: n0}", "metadata: {name: newer}")
        .replace("generation: 1", "generation: 2");
    let mut world = world(&(two_gpus() + &newer + &pod_with_claim("p", &requests(&[""]))));
    assert_eq!(world.placed("p"), "n0: r0=c");
}

#[test]
fn devices_of_a_removed_claim_are_free_again() {
    let pods: String = ["p", "q"].map(|name| pod_with_claim(name, &requests(&[", count: 2"]))).concat();
    let mut world = world(&(two_gpus() + &pods));
    assert_eq!(world.placed("p"), "n0: r0=a r0=b");
    assert_eq!(world.placed("q"), unplaced(1, NOT_ALL));
    let p =
        world.inventory.device_objects.iter().find(|object| object.object.metadata().name == "p").unwrap();
    let kind = p.object.kind();
    world.cluster.remove_device_object(kind, "default", "p");
    assert_eq!(world.placed("q"), "n0: r0=a r0=b");
}

#[test]
fn all_devices_are_those_with_enough_free_capacity() {
    let device = |name: &str| {
        format!("{{name: {name}, allowMultipleAllocations: true, capacity: {{memory: {{value: 40Gi}}}}}}")
    };
    let objects = nodes(1) + CLASS + &slice("n0", &[device("a"), device("b")].join(", "));
    let share = |of: &str| format!("{of}, capacity: {{requests: {{memory: 30Gi}}}}");
    let pods = pod_with_claim("one", &requests(&[&share("")]))
        + &pod_with_claim("all", &requests(&[&share(", allocationMode: All")]))
        + &pod_with_claim("more", &requests(&[&share(", allocationMode: All")]));
    let text = objects + &pods;
    let mut in_1_36 = world_with(with_gates(V1_36.into()), &text);
    assert_eq!(in_1_36.placed("one"), "n0: r0=a");
    assert_eq!(in_1_36.placed("all"), "n0: r0=b", "10Gi of a are left, less than requested");
    assert_eq!(in_1_36.placed("more"), unplaced(1, NOT_ALL), "a request for all needs a device");
    let mut world = world(&text);
    assert_eq!(world.placed("one"), "n0: r0=a");
    assert_eq!(world.placed("all"), unplaced(1, NOT_ALL), "a is one of all devices");
}

#[test]
fn a_pod_that_a_failing_selector_keeps_from_all_nodes_wakes_when_no_node_has_the_device_any_longer() {
    let select =
        ", selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].model == \"a\"'}}]";
    let zone = slice("zone", "{name: x}").replace(
        "nodeName: zone",
        "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}",
    );
    let node = |zone: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: m, labels: {{zone: {zone}}}}}, status: {{allocatable: {{cpu: 64, pods: 110}}}}}}\n"
        )
    };
    let objects = nodes(1) + CLASS + &slice("n0", "{name: a, attributes: {model: {string: a}}}") + &zone;
    let pods = pod_with_claim("p", &requests(&[select]));
    for change in [Some(node("b")), None] {
        let mut world = world(&(objects.clone() + &node("a") + &pods));
        let prepared = world.prepare("p");
        let outcome = world.cluster.evaluate(&prepared).outcome;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{}", outcome.message());
        let conditions = world.cluster.wake_conditions(&prepared);
        world.cluster.record_changes(true);
        match &change {
            Some(node) => {
                let changed = Inventory::from_text(node).expect("a node");
                world.cluster.set_node(&changed.nodes[0].object);
            }
            None => world.cluster.remove_node("m"),
        }
        let changes = world.cluster.take_changes();
        assert!(changes.iter().any(|change| world.cluster.could_help(&conditions, change)), "{change:?}");
        assert_eq!(world.placed("p"), "n0: r0=a");
    }
}

#[test]
fn an_allocation_is_for_the_nodes_that_all_selectors_of_its_devices_select() {
    let of_pool = |pool: &str, selector: &str| {
        format!(
            "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {pool}}}, spec: {{driver: gpu.example.com, {selector}, \
             pool: {{name: {pool}, generation: 1, resourceSliceCount: 1}}, devices: [{{name: {pool}}}]}}}}\n"
        )
    };
    let zone = "matchExpressions: [{key: zone, operator: In, values: [a]}]";
    let name = "matchFields: [{key: metadata.name, operator: In, values: [n0]}]";
    let slices = |third: &str| {
        of_pool("p0", &format!("nodeSelector: {{nodeSelectorTerms: [{{{zone}}}]}}"))
            + &of_pool("p1", &format!("nodeSelector: {{nodeSelectorTerms: [{{{name}}}]}}"))
            + &of_pool("p2", third)
    };
    let nodes = nodes(1).replace("{name: n0}", "{name: n0, labels: {zone: a}}");
    let claims = pod_with_claim("p", &requests(&[", count: 3"]));
    let selector_with = |third: &str| {
        let mut world = world(&(nodes.clone() + CLASS + &slices(third) + &claims));
        let Outcome::Placed { devices: Some(devices), .. } = world.place("p") else { panic!("placed") };
        let allocation = devices.claims.into_iter().next().and_then(|claim| claim.allocation).expect("new");
        serde_json::to_value(allocation.node_selector).expect("JSON")
    };
    let field = serde_json::json!([{"key": "metadata.name", "operator": "In", "values": ["n0"]}]);
    let label = serde_json::json!([{"key": "zone", "operator": "In", "values": ["a"]}]);
    let both = serde_json::json!({"nodeSelectorTerms": [{"matchExpressions": label, "matchFields": field}]});
    assert_eq!(selector_with("allNodes: true"), both);
    // A device of one node keeps all others on it.
    let node = serde_json::json!({"nodeSelectorTerms": [{"matchFields": field}]});
    assert_eq!(selector_with("nodeName: n0"), node);
}

/// Its devices are those that are allocated to `q`; pods wait for others, and for their own claims.
#[test]
fn a_pod_that_waits_for_devices_wakes_when_some_are_free_or_its_own_claim_has_changed() {
    let status = |allocation: &str, consumer: &str| {
        let consumer = match consumer {
            "" => String::new(),
            uid => format!(", reservedFor: [{{resource: pods, name: {uid}, uid: {uid}}}]"),
        };
        format!(", status: {{{allocation}{consumer}}}}}\n")
    };
    let with = |claim: String, status: &str| {
        claim.trim_end().strip_suffix('}').map(|start| format!("{start}{status}"))
    };
    let has_a =
        "allocation: {devices: {results: [{request: r0, driver: gpu.example.com, pool: n0, device: a}]}}";
    let claims = |name: &str| claim(name, &requests(&[""]));
    let q = |status: &str| with(claims("q"), status).expect("a claim");
    let objects = nodes(1)
        + CLASS
        + &slice("n0", "{name: a}")
        + &q(&status(has_a, "first"))
        + &pod_with_claim("p", &requests(&[""]));
    let wakes = |change: &str| {
        let mut world = world(&objects);
        assert_eq!(world.placed("p"), unplaced(1, NOT_ALL));
        let prepared = world.prepare("p");
        let conditions = world.cluster.wake_conditions(&prepared);
        world.cluster.record_changes(true);
        for object in &Inventory::from_text(change).expect("objects").device_objects {
            world.cluster.set_device_object(&object.object);
        }
        let changes = world.cluster.take_changes();
        changes.iter().any(|change| world.cluster.could_help(&conditions, change))
    };
    assert!(wakes(&q("}\n")), "its device is free");
    assert!(!wakes(&q(&status(has_a, "other"))), "another pod has the device");
    assert!(!wakes(&claims("new")), "a claim of another pod is made");
    let finalized = claims("p").replace("uid: uid-p", "uid: uid-p, finalizers: [f]");
    assert!(!wakes(&finalized), "nothing of the claim matters that is new");
    assert!(wakes(&claims("p").replace("uid: uid-p", "uid: uid-new")), "the claim of the pod is made again");
    assert!(
        wakes(&with(claims("p"), &status(has_a, "")).expect("a claim")),
        "the claim of the pod is allocated"
    );
}
