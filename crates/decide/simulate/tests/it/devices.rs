//! Claims of devices in simulations, changes and capacities.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_input::inventory::Inventory;
use berth_simulate::capacity::{CapacityRequest, Subject, capacity};
use berth_simulate::what_if::{Change, WhatIf};
use berth_simulate::{Simulation, SimulationOptions};
use jiff::Timestamp;
use serde_json::json;

/// A node with this many GPUs.
pub(super) fn node(name: &str, n_devices: usize) -> String {
    let devices: Vec<_> = (0..n_devices).map(|i| format!("{{name: gpu-{i}}}")).collect();
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{node: {name}}}}}
status: {{allocatable: {{cpu: 8, memory: 8Gi, pods: 20}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}-gpu}}
spec:
  driver: gpu.example.com
  nodeName: {name}
  pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}
  devices: [{}]
",
        devices.join(", ")
    )
}

const CLASS: &str = "---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
";

fn template(count: usize) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: gpus, namespace: default}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu, count: {count}}}}}]}}}}}}
"
    )
}

fn deployment(replicas: usize, pod: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: train}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: train}}}}
  template: {{metadata: {{labels: {{app: train}}}}, spec: {pod}}}
"
    )
}

const FROM_TEMPLATE: &str =
    "{resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}], containers: [{name: c, image: i}]}";

fn inventory(text: &str) -> Inventory {
    Inventory::from_text(text).expect("the text is well-formed")
}

fn simulated(text: &str) -> Simulation {
    let simulation = Simulation::new(inventory(text), SimulationOptions::default());
    let mut simulation = simulation.expect("the objects are valid");
    simulation.run(|_, _| ());
    simulation
}

/// The devices of all pods, as `node: device, device`, sorted.
fn devices(simulation: &Simulation) -> Vec<String> {
    let of_pod = |pod: &berth_simulate::SimulatedPod| {
        let claims = simulation.claims_of(&pod.pod).into_iter();
        let names: Vec<_> = claims.flat_map(|claim| claim.devices).map(|device| device.device).collect();
        format!("{}: {}", pod.node().unwrap_or("none"), names.join(", "))
    };
    let mut devices: Vec<_> = simulation.pods().iter().map(of_pod).collect();
    devices.sort();
    devices
}

#[test]
fn every_pod_gets_a_claim_of_its_own_from_the_template() {
    let text = [node("a", 4), CLASS.to_owned(), template(2), deployment(3, FROM_TEMPLATE)].concat();
    let simulation = simulated(&text);
    assert_eq!(devices(&simulation), ["a: gpu-0, gpu-1", "a: gpu-2, gpu-3", "none: "]);
    let claims: Vec<_> =
        simulation.pods().iter().flat_map(|pod| simulation.claims_of(&pod.pod)).map(|c| c.claim).collect();
    for (pod, claim) in simulation.pods().iter().zip(&claims) {
        let base = format!("{}-gpu-", pod.pod.metadata.name);
        assert_eq!(claim.name().strip_prefix(&base).map(str::len), Some(5), "{claim}");
    }
    let written = simulation.created_claims().find(|claim| claim["metadata"]["name"] == claims[0].name());
    let written = written.expect("the claim is made");
    let metadata = &written["metadata"];
    assert_eq!(metadata["annotations"]["resource.kubernetes.io/pod-claim-name"], "gpu");
    assert_eq!(metadata["ownerReferences"][0]["name"], simulation.pods()[0].pod.metadata.name.as_str());
    assert_eq!(written["status"]["reservedFor"][0]["resource"], "pods");
    // The same input gives the same names.
    assert_eq!(devices(&simulated(&text)), devices(&simulation));
}

#[test]
fn a_pod_waits_for_a_template_that_does_not_exist() {
    let text = [node("a", 1), CLASS.to_owned(), deployment(1, FROM_TEMPLATE)].concat();
    let message = simulated(&text).pods()[0].outcome.message().into_owned();
    let expected =
        "the pod waits for ResourceClaimTemplate gpus (spec.resourceClaims[gpu]), which does not exist; ";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn without_slices_no_pod_with_claims_is_placed() {
    let node =
        "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 8, pods: 20}}}\n";
    let text = [node.to_owned(), CLASS.to_owned(), template(1), deployment(1, FROM_TEMPLATE)].concat();
    let simulation = simulated(&text);
    let message = simulation.pods()[0].outcome.message().into_owned();
    assert!(
        message.starts_with("the input has no ResourceSlice: which devices ResourceClaim train-"),
        "{message}"
    );
    assert_eq!(devices(&simulation), ["none: "]);
}

/// A running pod and its claim, which has gpu-0 of node a.
const RUNNING: &str = "---
apiVersion: v1
kind: Pod
metadata: {name: old, uid: '1', creationTimestamp: 2026-01-01T00:00:00Z}
spec: {nodeName: a, resourceClaims: [{name: gpu, resourceClaimName: old}], containers: [{name: c, image: i}]}
status: {phase: Running}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: old, namespace: default, uid: c}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  reservedFor: [{resource: pods, name: old, uid: '1'}]
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: a, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}
";

#[test]
fn a_running_pod_keeps_its_devices() {
    let text =
        [node("a", 2), CLASS.to_owned(), template(1), RUNNING.to_owned(), deployment(2, FROM_TEMPLATE)];
    assert_eq!(devices(&simulated(&text.concat())), ["a: gpu-0", "a: gpu-1", "none: "]);
}

#[test]
fn the_devices_of_a_lost_node_are_lost_and_pods_get_others() {
    let text =
        [node("a", 2), node("b", 1), CLASS.to_owned(), template(1), deployment(3, FROM_TEMPLATE)].concat();
    let options = SimulationOptions::default();
    let mut what_if = WhatIf::new(inventory(&text), options.clone(), Timestamp::UNIX_EPOCH).unwrap();
    what_if.apply(&Change::RemoveNode("a".to_owned())).unwrap();
    let changed = what_if.run(|_, _| ()).unwrap();
    // The pod on b keeps its device.
    assert_eq!(devices(&changed.simulation), ["b: gpu-0", "none: ", "none: "]);

    let mut what_if = WhatIf::new(inventory(&text), options.clone(), Timestamp::UNIX_EPOCH).unwrap();
    what_if.apply(&Change::Drain("b".to_owned())).unwrap();
    what_if.apply(&Change::AddNodes { n_nodes: 1, like: "b".to_owned() }).unwrap();
    let changed = what_if.run(|_, _| ()).unwrap();
    assert_eq!(devices(&changed.simulation), ["a: gpu-0", "a: gpu-1", "b-new-1: gpu-0"]);
    assert_eq!(changed.outcome.moved.len(), 1);

    // Afterwards everything is as it was before.
    let mut simulation = simulated(&text);
    let before = devices(&simulation);
    let losses = simulation.lose_each_domain("kubernetes.io/hostname", |_, _| ());
    assert!(losses.domains.iter().all(|loss| !loss.survives));
    assert_eq!(devices(&simulation), before);
}

#[test]
fn a_scaled_down_replica_leaves_its_devices_to_others() {
    let text = [node("a", 2), CLASS.to_owned(), template(2), deployment(1, FROM_TEMPLATE)].concat();
    let other = deployment(1, FROM_TEMPLATE).replace("train", "other");
    let mut what_if =
        WhatIf::new(inventory(&text), SimulationOptions::default(), Timestamp::UNIX_EPOCH).unwrap();
    let name = NamespacedName::new("default", "train");
    what_if.apply(&Change::Scale { kind: Kind::Deployment, name, n_replicas: 0 }).unwrap();
    let added = Inventory::from_text(&other).unwrap();
    what_if
        .overlay(|inventory| {
            inventory.workloads.extend(added.workloads);
            Ok::<(), ()>(())
        })
        .unwrap()
        .unwrap();
    let changed = what_if.run(|_, _| ()).unwrap();
    assert_eq!(devices(&changed.simulation), ["a: gpu-0, gpu-1"]);
}

#[test]
fn each_further_replica_needs_devices_of_its_own() {
    let request = CapacityRequest {
        topology_key: "kubernetes.io/hostname".to_owned(),
        target: None,
        defragmentation: None,
    };
    let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "train"));
    let capacity = |text: &str| {
        let options = SimulationOptions::default();
        capacity(inventory(text), &options, &subject, &request).expect("the objects are valid").0.replicas
    };
    let nodes = [node("a", 5), node("b", 3), CLASS.to_owned()].concat();
    let claims = [nodes.clone(), template(2), deployment(1, FROM_TEMPLATE)].concat();
    assert_eq!(capacity(&claims), 3);
    // The same by extended resources.
    let pod = "{containers: [{name: c, image: i, resources: {limits: {example.com/gpu: 2}}}]}";
    assert_eq!(capacity(&[nodes, deployment(1, pod)].concat()), 3);
}

#[test]
fn extended_resources_take_devices() {
    let pod = "{containers: [{name: c, image: i, resources: {limits: {example.com/gpu: 2}}}]}";
    let simulation = simulated(&[node("a", 3), CLASS.to_owned(), deployment(2, pod)].concat());
    assert_eq!(devices(&simulation), ["a: gpu-0, gpu-1", "none: "]);
}

#[test]
fn extended_resources_have_a_reason_for_each_device_that_is_ruled_out() {
    let pod = "---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: main, image: i, resources: {limits: {example.com/gpu: 4}}}]}
";
    let node =
        node("a", 4).replace("{name: gpu-3}", "{name: gpu-3, taints: [{key: bad, effect: NoSchedule}]}");
    let taken = "{containers: [{name: c, image: i, resources: {limits: {example.com/gpu: 1}}}]}";
    let mut simulation = simulated(&[node, CLASS.to_owned(), deployment(1, taken), pod.to_owned()].concat());
    let holder = simulation.created_claims().next().expect("it is made")["metadata"]["name"].clone();
    let holder = holder.as_str().expect("it has a name");
    let explained = simulation.explain("default", "big", None).expect("the pod exists");
    let verdict = &explained.explanation.excluded[0].verdicts[0];
    assert_eq!(verdict.detail, "example.com/gpu of container main: 4 devices of class gpu");
    assert_eq!(
        verdict.counts.as_ref().expect("it has numbers").text(None),
        format!(
            "2 available, 4 requested; 1 in use by claim default/{holder}; 1 with the taints bad:NoSchedule"
        )
    );
    assert_eq!(explained.hints, ["example.com/gpu of container main: 2 would fit on a"]);
}

#[test]
fn a_pod_that_is_preempted_gives_its_devices_back() {
    let pod = |name: &str, cpu: u32, priority: u32| {
        format!(
            "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  priority: {priority}
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: gpus}}]
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]
"
        )
    };
    let base = [node("a", 2), CLASS.to_owned(), template(1)].concat();
    let running =
        RUNNING.replace("{name: c, image: i}", "{name: c, image: i, resources: {requests: {cpu: 6}}}");
    let simulation = simulated(&[base, running, pod("urgent", 6, 100)].concat());
    let urgent = simulation.pod("default", "urgent").unwrap();
    assert_eq!(urgent.victims.len(), 1);
    // The first device is free again.
    assert_eq!(simulation.claims_of(&urgent.pod)[0].devices[0].device, "gpu-0");
}

#[test]
fn pods_are_preempted_for_their_devices_where_the_profile_says_so() {
    let urgent = FROM_TEMPLATE.replacen('{', "{priority: 100, ", 1);
    let urgent = format!("---\n{{apiVersion: v1, kind: Pod, metadata: {{name: urgent}}, spec: {urgent}}}\n");
    let text = [node("a", 1), CLASS.to_owned(), template(1), RUNNING.to_owned(), urgent].concat();
    for (preempts, victims) in [(true, "default/old"), (false, "")] {
        let mut options = SimulationOptions::default();
        options.settings.config.profiles[0].dynamic_resources.preempt_for_devices = preempts;
        let mut simulation = Simulation::new(inventory(&text), options).expect("the objects are valid");
        simulation.run(|_, _| ());
        let urgent = simulation.pod("default", "urgent").unwrap();
        let names: Vec<_> = urgent.victims.iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), victims);
        assert_eq!(urgent.node(), preempts.then_some("a"));
        assert_eq!(devices(&simulation), ["a: gpu-0", "none: "]);
    }
}

#[test]
fn a_failed_device_is_gone_and_its_pod_gets_another() {
    let fail = |device: &str| Change::FailDevices {
        driver: "gpu.example.com".to_owned(),
        pool: Some("a".to_owned()),
        device: Some(device.to_owned()),
    };
    let text = [node("a", 3), CLASS.to_owned(), template(1), deployment(2, FROM_TEMPLATE)].concat();
    let mut what_if =
        WhatIf::new(inventory(&text), SimulationOptions::default(), Timestamp::UNIX_EPOCH).unwrap();
    what_if.apply(&fail("gpu-0")).unwrap();
    assert_eq!(
        what_if.apply(&fail("gpu-0")).unwrap_err().to_string(),
        "device gpu.example.com/a/gpu-0 is not in the input"
    );
    let changed = what_if.run(|_, _| ()).unwrap();
    assert_eq!(devices(&changed.simulation), ["a: gpu-1", "a: gpu-2"]);
}

/// Why the pod `train` with a claim of this specification fits on no node: the numbers of the only term of the nearest node, and
/// the suggestions.
fn obstacle(devices: &str, spec: &str) -> (String, Vec<String>) {
    let text = format!(
        "{}{CLASS}---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: train}}
spec: {{devices: {spec}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec: {{resourceClaims: [{{name: gpu, resourceClaimName: train}}], containers: [{{name: c, image: i}}]}}
",
        node("a", 0).replace("devices: []", &format!("devices: {devices}")),
    );
    let simulation = Simulation::new(inventory(&text), SimulationOptions::default());
    let mut simulation = simulation.expect("the objects are valid");
    let explained = simulation.explain("default", "train", None).expect("the pod exists");
    let [group] = explained.explanation.excluded.as_slice() else { panic!("{explained:?}") };
    let [verdict] = group.verdicts.as_slice() else { panic!("{group:?}") };
    let counts = verdict.counts.as_ref().map(|counts| counts.text(None));
    (counts.unwrap_or_default(), explained.hints)
}

#[test]
fn every_device_has_the_first_reason_against_it() {
    let exactly =
        |fields: &str| format!("{{requests: [{{name: r, exactly: {{deviceClassName: gpu{fields}}}}}]}}");
    let models =
        "[{name: d0, attributes: {model: {string: a}}}, {name: d1, attributes: {model: {string: b}}}]";
    let selector = "device.attributes[\"gpu.example.com\"].model == \"c\"";
    let selected = exactly(&format!(", selectors: [{{cel: {{expression: '{selector}'}}}}]"));
    let taints = "taints: [{key: k, value: v, effect: NoSchedule}]";
    let capacity = "capacity: {memory: {value: 10Gi}}";
    let counted = |n: u32| format!("consumesCounters: [{{counterSet: s, counters: {{c: {{value: {n}}}}}}}]");
    for (devices, spec, expected, hint) in [
        (
            models.to_owned(),
            selected,
            format!("0 available, 1 requested; 2 not selected by the request: {selector}"),
            None,
        ),
        (
            format!("[{{name: d0, {taints}}}, {{name: d1}}]"),
            exactly(", count: 2"),
            "1 available, 2 requested; 1 with the taints k=v:NoSchedule".to_owned(),
            Some("claim train, request r: tolerations of k=v:NoSchedule would add 1 devices on a"),
        ),
        (
            format!("[{{name: d0, {capacity}}}, {{name: d1}}]"),
            exactly(", capacity: {requests: {memory: 20Gi}}"),
            "0 available, 1 requested; 1 too little of its capacity is left; 1 without the capacity memory".to_owned(),
            None,
        ),
        (
            "[{name: d0}, {name: d1}]".to_owned(),
            exactly(", count: 3"),
            "2 available, 3 requested".to_owned(),
            Some("claim train, request r: count: 2 would fit on a"),
        ),
        (
            models.to_owned(),
            "{requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}], constraints: [{matchAttribute: gpu.example.com/model}]}"
                .to_owned(),
            "1 available, 2 requested; matchAttribute gpu.example.com/model: at most 1 of the available devices have one \
             value"
                .to_owned(),
            None,
        ),
    ] {
        let (found, hints) = obstacle(&devices, &spec);
        assert_eq!(found, expected, "{devices} {spec}");
        if let Some(hint) = hint {
            assert!(hints.iter().any(|found| found == hint), "{hints:?}");
        }
    }
    // Counters that do not exist make the pool invalid.
    let (found, _) = obstacle(&format!("[{{name: d0, {}}}]", counted(1)), &exactly(""));
    assert!(found.contains("pool gpu.example.com/a is invalid"), "{found}");
}

#[test]
fn a_device_in_use_names_its_claim() {
    let text =
        [node("a", 1), CLASS.to_owned(), template(1), RUNNING.to_owned(), deployment(1, FROM_TEMPLATE)];
    let mut simulation = simulated(&text.concat());
    let pod = simulation.pods().iter().find(|pod| pod.node().is_none()).unwrap();
    let name = pod.pod.metadata.name.clone();
    let explained = simulation.explain("default", &name, None).unwrap();
    let verdict = &explained.explanation.excluded[0].verdicts[0];
    let counts = verdict.counts.as_ref().unwrap().text(None);
    assert_eq!(counts, "0 available, 1 requested; 1 in use by claim default/old");
}

#[test]
fn what_devices_take_of_a_node_is_written_to_pods_and_counts_when_they_are_read_again() {
    let pod = |name: &str, claims: &str, used: &str, cpu: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: {name}}}, spec: {{resourceClaims: [{claims}], \
             containers: [{{name: c, image: c, resources: {{requests: {{cpu: {cpu}}}, claims: [{used}]}}}}]}}}}\n"
        )
    };
    let objects = "---
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 4, pods: 10}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: any}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a}, spec: {driver: d, nodeName: a,
  pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [
  {name: x, nodeAllocatableResourceMappings: {cpu: {allocationMultiplier: '2'}}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one, namespace: default}, spec: {devices: {requests: [
  {name: r, exactly: {deviceClassName: any}}]}}}
";
    let simulate = |text: &str| {
        let mut options = SimulationOptions::default();
        options.settings.config.feature_gates.dra_node_allocatable_resources = true;
        let mut simulation = Simulation::new(inventory(text), options).expect("the objects are valid");
        simulation.run(|_, _| ());
        simulation
    };
    let with_device = pod("p", "{name: one, resourceClaimName: one}", "{name: one}", "1");
    let simulation = simulate(&(objects.to_owned() + &with_device));
    let placed = simulation.pods()[0].placed_object().expect("the object is kept");
    let taken = &placed["status"]["nodeAllocatableResourceClaimStatuses"];
    assert_eq!(*taken, json!([{"resourceClaimName": "one", "containers": ["c"], "resources": {"cpu": "2"}}]));
    // 1 of 4 CPUs is left.
    for (cpu, is_placed) in [("1", true), ("1100m", false)] {
        let again = simulate(&format!("{objects}---\n{placed}\n{}", pod("q", "", "", cpu)));
        let other = again.pods().iter().find(|pod| pod.pod.metadata.name == "q").unwrap();
        assert_eq!(other.node().is_some(), is_placed, "{cpu}");
    }
}
