//! Small inputs that versions of Kubernetes decide otherwise. What each version does was seen with its own scheduler.

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_input::inventory::Inventory;
use berth_simulate::upgrade::Upgrade;
use berth_simulate::{Simulation, SimulationOptions};

fn options(version: KubernetesVersion) -> SimulationOptions {
    let config = SchedulerConfig { feature_gates: FeatureGates::from(version), ..SchedulerConfig::default() };
    let settings = Settings { config, ..Settings::default() };
    SimulationOptions { settings, ..SimulationOptions::default() }
}

fn simulated(text: &str, version: KubernetesVersion) -> Simulation {
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    let mut simulation = Simulation::new(inventory, options(version)).expect("the objects are valid");
    simulation.run(|_, _| ());
    simulation
}

/// Checks where the pods go in each version: their nodes in the order of the input, `-` for none.
fn check(what: &str, text: &str, expected: [&str; 3]) {
    for (version, expected) in KubernetesVersion::ALL.into_iter().zip(expected) {
        let simulation = simulated(text, version);
        let nodes: Vec<_> = simulation.pods().iter().map(|pod| pod.node().unwrap_or("-")).collect();
        assert_eq!(nodes.join(" "), expected, "{what}, {version}");
    }
}

fn node(name: &str, cpu: u32) -> String {
    format!(
        "---
{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{zone: {name}}}}}, status: {{allocatable: {{cpu: {cpu}, memory: 8Gi, pods: 20}}}}}}
"
    )
}

fn pod(name: &str, cpu: &str, spec: &str, status: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{{name}}}
spec: {{{spec} containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
status: {{{status}}}
"
    )
}

#[test]
fn spread_constraints_with_an_empty_selector_count_all_pods_from_1_38_on() {
    let constraint = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}],";
    let text = node("n1", 4)
        + &node("n2", 1)
        + &pod("name: old", "1", "nodeName: n1,", "phase: Running")
        + &pod("name: new", "2", constraint, "");
    check("filter", &text, ["n1 n1", "n1 n1", "n1 -"]);
}

#[test]
fn budgets_with_an_empty_selector_protect_pods_from_preemption_from_1_38_on() {
    let budget = "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all, namespace: prot}
spec: {selector: {}, maxUnavailable: 0}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}
";
    let running = |name: &str, on: &str| pod(name, "3", &format!("nodeName: {on},"), "phase: Running");
    let text = node("n1", 4)
        + &node("n2", 4)
        + budget
        // Without labels no budget protects a pod before.
        + &running("name: p, namespace: prot", "n1")
        + &pod("name: q, namespace: free", "3", "nodeName: n2, priority: 10,", "phase: Running")
        + &pod("name: high", "3", "priority: 1000,", "");
    check("preemption", &text, ["- n2 n1", "- n2 n1", "n1 - n2"]);
}

#[test]
fn a_gated_pod_holds_the_room_that_it_is_nominated_for_from_1_37_on() {
    let gated = |scheduler: &str| {
        let spec = format!("priority: 100, {scheduler} schedulingGates: [{{name: x}}],");
        node("n1", 4)
            + &pod("name: gated", "3", &spec, "nominatedNodeName: n1")
            + &pod("name: low", "3", "priority: 1,", "")
    };
    check("gated", &gated(""), ["- n1", "- -", "- -"]);
    check("gated, of another scheduler", &gated("schedulerName: other,"), ["- n1", "- n1", "- n1"]);
}

#[test]
fn pods_of_a_group_have_to_agree_from_1_37_on() {
    let group = |spec: &str| {
        format!(
            "---\n{{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {{name: g, namespace: default}}, spec: {{schedulingPolicy: \
             {{gang: {{minCount: 2}}}}, {spec}}}}}\n"
        )
    };
    let members = |first: &str| {
        let member = |name: &str, spec: &str| {
            pod(name, "1", &format!("{spec} schedulingGroup: {{podGroupName: g}},"), "")
        };
        node("n1", 4) + &member("name: a", first) + &member("name: b", "")
    };
    let priorities = members("priority: 7,") + &group("priority: 5");
    check("priorities", &priorities, ["n1 n1", "- -", "- -"]);
    check("policies", &(members("preemptionPolicy: Never,") + &group("")), ["n1 n1", "- -", "- -"]);
    check("equal ones", &(members("") + &group("")), ["n1 n1"; 3]);

    let message = |version| simulated(&priorities, version).pods()[0].outcome.message().into_owned();
    for (version, expected) in [
        (
            KubernetesVersion::V1_37,
            "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 5",
        ),
        (
            KubernetesVersion::V1_38,
            "all pods in a pod group hierarchy should have the same priority as the root pod group's priority, got 7 (\"a\") and 5 \
             (\"podgroup/default/g\")",
        ),
    ] {
        assert!(message(version).ends_with(expected), "{}", message(version));
    }
}

const CLASS: &str = "---\n{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}\n";

fn slice(node: &str, n_slices: usize, devices: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: s-{node}}}
spec: {{driver: gpu.example.com, nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: {n_slices}}}, devices: [{devices}]}}
"
    )
}

fn claim(name: &str, request: &str, status: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: default}}
spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu, {request}}}}}]}}}}
status: {{{status}}}
"
    )
}

fn user(name: &str, claim: &str) -> String {
    pod(
        &format!("name: {name}"),
        "1",
        &format!("resourceClaims: [{{name: c, resourceClaimName: {claim}}}],"),
        "",
    )
}

/// A live claim for a part of the capacity of device `d0` of node n1.
fn shared(amount: u32) -> String {
    let result = format!(
        "{{request: r, driver: gpu.example.com, pool: n1, device: d0, shareID: 11111111-1111-1111-1111-111111111111, \
         consumedCapacity: {{mem: {amount}}}}}"
    );
    let status = format!(
        "allocation: {{devices: {{results: [{result}]}}, allocationTimestamp: \"2026-01-01T00:00:00Z\"}}, \
         reservedFor: [{{resource: pods, name: x, uid: u}}]"
    );
    claim("old", "capacity: {requests: {mem: 1}}", &status)
}

#[test]
fn claims_of_devices_by_version() {
    let shared_device = "allowMultipleAllocations: true, capacity: {mem: {value: 10}}";
    let devices = format!("{{name: d0, {shared_device}}}, {{name: d1, {shared_device}}}");
    let base = node("n1", 8) + CLASS;
    let all = claim("c", "allocationMode: All, capacity: {requests: {mem: 6}}", "");
    check(
        "all devices, one lacks free capacity",
        &(base.clone() + &slice("n1", 1, &devices) + &shared(6) + &all + &user("p", "c")),
        ["n1", "-", "-"],
    );
    check(
        "all devices, one is too small",
        &(base.clone() + &slice("n1", 1, &devices.replacen("10", "5", 1)) + &all + &user("p", "c")),
        ["n1"; 3],
    );
    check(
        "a device with a share that can no longer be shared",
        &(base.clone() + &slice("n1", 1, "{name: d0}") + &shared(1) + &claim("c", "", "") + &user("p", "c")),
        ["n1", "n1", "-"],
    );
    let two = node("n2", 8) + &slice("n1", 2, "{name: d0}") + &slice("n2", 1, "{name: d0}");
    check(
        "all devices, the pool of one node is incomplete",
        &(base.clone() + &two + &claim("c", "allocationMode: All", "") + &user("p", "c")),
        ["-", "-", "n2"],
    );
    let policy = "requestPolicy: {default: 100m, validRange: {min: 100m, step: 100m, max: 1}}";
    let fractions =
        format!("{{name: d0, allowMultipleAllocations: true, capacity: {{core: {{value: 1, {policy}}}}}}}");
    let request = "capacity: {requests: {core: 400m}}";
    check(
        "ranges of capacity in thousandths",
        &(base.clone()
            + &slice("n1", 1, &fractions)
            + &claim("a", request, "")
            + &claim("b", request, "")
            + &user("p", "a")
            + &user("q", "b")),
        ["n1 -", "n1 n1", "n1 n1"],
    );
    let qualified = claim("c", "capacity: {requests: {gpu.example.com/mem: 6}}", "");
    check(
        "a capacity with the domain of the driver",
        &(base.clone() + &slice("n1", 1, &devices) + &qualified + &user("p", "c")),
        ["-", "-", "n1"],
    );
    let rule = |selector: &str| {
        format!(
            "---\n{{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {{name: r}}, spec: {{{selector} taint: {{key: broken, effect: \
             NoSchedule}}}}}}\n"
        )
    };
    for (selector, expected) in [
        ("deviceSelector: {driver: gpu.example.com},", ["n1", "-", "-"]),
        ("deviceSelector: {driver: gpu.example.com, device: d7},", ["n1"; 3]),
        ("deviceSelector: {},", ["n1", "-", "-"]),
        ("", ["n1"; 3]),
    ] {
        // Rules count for devices that are there, and for those that come.
        let (objects, end) = (base.clone() + &claim("c", "", ""), user("p", "c"));
        let (slice, rule) = (slice("n1", 1, "{name: d0}"), rule(selector));
        check(selector, &(objects.clone() + &slice + &rule + &end), expected);
        check(selector, &(objects + &rule + &slice + &end), expected);
    }
}

#[test]
fn versions_of_devices_that_differ_in_build_metadata_match_from_1_38_on() {
    let device =
        |name: &str, version: &str| format!("{{name: {name}, attributes: {{fw: {{version: {version}}}}}}}");
    let slice = slice("n1", 1, &(device("d0", "1.0.0+a") + ", " + &device("d1", "1.0.0+b")));
    let with = |constraint: &str| {
        let claim = format!(
            "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: c, namespace: default}}
spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu, count: 2}}}}], constraints: [{{{constraint}: gpu.example.com/fw}}]}}}}
"
        );
        node("n1", 8) + CLASS + &slice + &claim + &user("p", "c")
    };
    check("match", &with("matchAttribute"), ["-", "-", "n1"]);
    check("distinct", &with("distinctAttribute"), ["n1", "n1", "-"]);
}

#[test]
fn scores_by_resources_by_version() {
    // A pod with pod-level requests prefers the node where they leave more free.
    let pod_level = node("n1", 8)
        + &node("n2", 32)
        + &pod("name: old", "16", "nodeName: n2,", "phase: Running")
        + "---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {resources: {requests: {cpu: 6}}, containers: [{name: c, image: i}]}
";
    check("pod-level requests", &pod_level, ["n2 n1", "n2 n1", "n2 n2"]);
}

fn upgrade(text: &str, from: KubernetesVersion, to: KubernetesVersion) -> Upgrade {
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    Upgrade::new(&inventory, [&options(from), &options(to)]).expect("the objects are valid")
}

#[test]
fn an_upgrade_is_answered_by_placement() {
    use KubernetesVersion::{V1_36, V1_37, V1_38};
    let constraint = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}],";
    let text = node("n1", 4)
        + &node("n2", 1)
        + &pod("name: old", "1", "nodeName: n1,", "phase: Running")
        + &pod("name: new", "2", constraint, "");
    let same = upgrade(&text, V1_36, V1_37);
    assert!(same.is_harmless() && same.pending.is_empty() && same.rules.is_empty(), "{same:?}");
    let stuck = upgrade(&text, V1_37, V1_38);
    let moved: Vec<_> = stuck.pending.iter().map(|pod| (&*pod.name, &pod.from, &pod.to)).collect();
    assert_eq!(moved, [("new", &Some("n1".to_owned()), &None)]);
    let rules: Vec<_> = stuck.rules.iter().map(|rule| (rule.number, rule.since, &*rule.objects)).collect();
    assert_eq!(rules, [(Some(141_340), V1_38, &["Pod default/new".to_owned()][..])]);
    assert!(!stuck.is_harmless());
    // The other way, a pod gets a node that it did not have.
    assert!(upgrade(&text, V1_38, V1_37).is_harmless());
}

#[test]
fn an_upgrade_names_objects_whose_api_version_is_gone_and_gates_that_are_on() {
    use KubernetesVersion::{V1_36, V1_37, V1_38};
    let group = "---
{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: g}, spec: {schedulingPolicy: {gang: {minCount: 1}}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r}, spec: {taint: {key: k, effect: NoSchedule}}}
";
    let found = upgrade(group, V1_36, V1_38);
    assert_eq!(found.removed.iter().map(|of| &*of.object).collect::<Vec<_>>(), ["PodGroup default/g"]);
    let gate = found.rules.iter().find(|rule| rule.objects == ["DeviceTaintRule r"]).expect("a gate is on");
    assert!(gate.change.contains("DRADeviceTaintRules is on") && gate.since == V1_37, "{gate:?}");
    assert!(!found.is_harmless());
    assert!(upgrade(group, V1_37, V1_38).is_harmless(), "it is gone already");
}
