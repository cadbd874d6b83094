//! Repairs for pods whose claims find no devices.

use std::borrow::Cow;

use berth_api::object::NamespacedName;
use berth_api::syntax::shell::Command;
use berth_input::inventory::Inventory;
use berth_rebalance::{Goal, Request};
use berth_simulate::what_if::{Change as WhatIfChange, WhatIf};
use berth_simulate::{Repair, SimulatedPod, Simulation, SimulationOptions};
use jiff::Timestamp;

use crate::devices::node;

fn class(name: &str, expression: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {name}}}
spec: {{selectors: [{{cel: {{expression: '{expression}'}}}}]}}
"
    )
}

/// A template for a device of the class `gpu`, and a pod that has a claim from it.
fn pending(spec: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: gpus, namespace: default}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: pending}}
spec: {{{spec} resourceClaims: [{{name: gpu, resourceClaimTemplateName: gpus}}], containers: [{{name: c, image: i}}]}}
"
    )
}

/// A pod that runs with a device.
fn running(name: &str, node: &str, device: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}-gpu, namespace: default}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}
status:
  allocation: {{devices: {{results: [{{request: gpu, driver: gpu.example.com, pool: {node}, device: {device}}}]}},
    nodeSelector: {{nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, operator: In, values: [{node}]}}]}}]}}}}
  reservedFor: [{{resource: pods, name: {name}, uid: u-{name}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: u-{name}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}}]}}
spec: {{nodeName: {node}, resourceClaims: [{{name: gpu, resourceClaimName: {name}-gpu}}], containers: [{{name: c, image: i}}]}}
status: {{phase: Running}}
"
    )
}

/// The repairs of the pod `pending`, and the cluster.
fn repairs(objects: &[String]) -> (Vec<Repair>, Simulation) {
    let inventory = Inventory::from_text(&objects.concat()).expect("the text is well-formed");
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the objects are valid");
    simulation.disable_preemption();
    let repairs = simulation.explain("default", "pending", None).expect("the pod exists").repairs;
    (repairs, simulation)
}

fn find<'a>(repairs: &'a [Repair], text: &str) -> &'a Repair {
    let found = repairs.iter().find(|repair| repair.to_string().starts_with(text));
    found.unwrap_or_else(|| panic!("{text}: {repairs:#?}"))
}

#[test]
fn a_class_whose_devices_satisfy_the_request_is_found() {
    let classes = [class("gpu", r#"device.driver == "other.example.com""#), class("any", "true")].concat();
    let (found, mut simulation) = repairs(&[node("a", 1), classes.clone(), pending("")]);
    let repair =
        find(&found, "use the device class any instead of gpu in request gpu of ResourceClaimTemplate gpus");
    assert_eq!((repair.cost, repair.node.as_str()), (20, "a"));
    assert_eq!(
        repair.commands.iter().map(Command::to_string).collect::<Vec<_>>(),
        [
            "kubectl get resourceclaimtemplate -n default gpus -o json | kubectl patch --local -f - --type=json -p \
             '[{\"op\":\"replace\",\"path\":\"/spec/spec/devices/requests/0/exactly/deviceClassName\",\"value\":\"any\"}]' -o json | kubectl \
             replace --force -f -",
            "kubectl get pod -n default pending -o json | kubectl replace --force -f -",
        ]
    );
    // The search leaves the claim as it was.
    let again = simulation.explain("default", "pending", None).expect("the pod exists");
    assert_eq!(again.repairs, found);
    // Its devices are in use: the class does not help.
    let (found, _) = repairs(&[node("a", 1), classes, running("r", "a", "gpu-0"), pending("")]);
    assert!(!found.iter().any(|repair| repair.to_string().contains("device class")), "{found:#?}");
}

#[test]
fn a_pod_that_has_the_device_moves_to_another_one() {
    let objects = |n_free: usize| {
        [
            node("a", 1),
            node("b", n_free),
            class("gpu", "true"),
            running("r", "a", "gpu-0"),
            pending("nodeSelector: {node: a},"),
        ]
    };
    let (found, mut simulation) = repairs(&objects(1));
    let repair = find(&found, "move default/r from a to b");
    assert_eq!(
        (repair.node.as_str(), Command::lines(&repair.commands)),
        ("a", "berth rebalance --live --for default/pending\nkubectl delete pod -n default r".to_owned())
    );
    // Devices are where they were before the search.
    let holder = |simulation: &mut Simulation, node: &str| {
        simulation.cluster().devices_of_node(node).devices[0].claims.len()
    };
    assert_eq!((holder(&mut simulation, "a"), holder(&mut simulation, "b")), (1, 0));
    let (found, _) = repairs(&objects(0));
    assert!(!found.iter().any(|repair| repair.to_string().starts_with("move")), "{found:#?}");
}

#[test]
fn a_moved_pod_has_devices_of_the_target_after_a_plan_and_in_a_what_if() {
    let objects = [
        node("a", 1),
        node("b", 1),
        class("gpu", "true"),
        running("r", "a", "gpu-0"),
        pending("nodeSelector: {node: a},"),
    ];
    let inventory = Inventory::from_text(&objects.concat()).expect("the text is well-formed");
    let options = SimulationOptions::default;
    let mut simulation =
        Simulation::as_is(Cow::Borrowed(&inventory), options()).expect("the objects are valid");
    let request = Request::new(vec![Goal::Defragment], Timestamp::MAX);
    let plan = simulation.rebalance(&request, None);
    assert_eq!((plan.moves.len(), plan.placed.len(), plan.moves[0].to.as_str()), (1, 1, "b"));
    let in_use = |simulation: &mut Simulation| {
        let of = |node| simulation.cluster().devices_of_node(node).devices[0].claims.len();
        ["a", "b"].map(of)
    };
    simulation.carry_out(&plan);
    assert_eq!(in_use(&mut simulation)[1], 1);
    assert_eq!(simulation.rebalance(&request, None).moves, []);
    // The moves alone, in a what-if: the pending pod gets what the moved one leaves.
    let mut what_if = WhatIf::new(inventory, options(), Timestamp::MAX).expect("the objects are valid");
    let moved =
        WhatIfChange::Move { pod: NamespacedName::new("default", "r"), from: None, to: "b".to_owned() };
    what_if.apply(&moved).expect("it moves");
    let mut changed = what_if.run(|_, _| ()).expect("the objects are valid");
    assert_eq!(in_use(&mut changed.simulation), [1, 1]);
    assert_eq!(changed.simulation.pod("default", "r").and_then(SimulatedPod::node), Some("b"));
}

#[test]
fn an_added_node_has_the_devices_of_the_node_that_it_resembles() {
    let nodes = [node("plain", 0), node("a", 1)].concat();
    let (found, mut simulation) =
        repairs(&[nodes, class("gpu", "true"), running("r", "a", "gpu-0"), pending("")]);
    let repair = find(&found, "add a node like a");
    let [command] = repair.commands.as_slice() else { panic!("{:?}", repair.commands) };
    for text in
        ["\"kind\":\"Node\"", "\"kind\":\"ResourceSlice\"", "\"nodeName\":\"new-node\"", "\"name\":\"gpu-0\""]
    {
        assert!(command.to_string().contains(text), "{text}: {command}");
    }
    assert_eq!(simulation.cluster().device_models()[0].n_devices, 1);
}
