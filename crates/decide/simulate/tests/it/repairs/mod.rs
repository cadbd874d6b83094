//! Repairs: the cheapest of each kind, verified by the naive evaluator.

use std::collections::BTreeMap;

use berth_api::object::{Node, Pod, Taint, UNSCHEDULABLE_TAINT};
use berth_api::syntax::quantity::Quantity;
use berth_api::work::WorkBudget;
use berth_engine::{Explanation, TopologyPair};
use berth_input::config::SchedulerConfig;
use berth_input::inventory::Inventory;
use berth_rebalance::{Goal, Request};
use berth_simulate::{Change, PodExplanation, Reach, Repair, Simulation, SimulationOptions};
use berth_testkit::generate::Random;
use berth_testkit::naive::{self, NodeResult, Options, World};
use berth_testkit::text;
use jiff::Timestamp;

use crate::worlds::{entries, start};

mod cheapest;
mod devices;
mod nodes;
mod pairs_and_groups;
mod pods;

/// Explains the last pod of the text. The world has the pods as admitted.
fn explained(text: &str) -> (World, Pod, PodExplanation) {
    explained_of(text, Inventory::default())
}

/// The same, beside the objects of an inventory.
fn explained_of(text: &str, mut inventory: Inventory) -> (World, Pod, PodExplanation) {
    let mut world = text::world(text);
    world.pods.iter_mut().for_each(start);
    let name = world.pods.last().expect("a pod is pending").metadata.clone();
    inventory.nodes = entries(world.nodes.clone());
    inventory.pods = entries(world.pods.clone());
    inventory.pod_disruption_budgets = entries(world.budgets.clone());
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the pods are valid");
    simulation.disable_preemption();
    let explained = simulation.explain(&name.namespace, &name.name, None).expect("the pod exists");
    // As the node controller does.
    for node in world.nodes.iter_mut().filter(|node| node.spec.unschedulable) {
        let (key, effect) = (UNSCHEDULABLE_TAINT.to_owned(), "NoSchedule".to_owned());
        node.spec.taints.push(Taint { key, effect, value: String::new() });
    }
    world.pods = simulation.pods().iter().map(|p| p.pod.clone()).collect();
    let pod = world.pods.pop().expect("the pod");
    (world, pod, explained)
}

/// The repairs of the last pod of the text, one a line: cost, changes, node.
fn repairs(text: &str) -> String {
    let (world, pod, explained) = explained(text);
    let line = |repair: &Repair| {
        assert_works(&world, &pod, repair);
        let changes: Vec<_> = repair.changes.iter().map(ToString::to_string).collect();
        format!("{} {} -> {}\n", repair.cost, changes.join(" + "), repair.node)
    };
    explained.repairs.iter().map(line).collect()
}

#[test]
fn the_document_describes_every_kind_of_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/json.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let section = document.split("\n### Change\n").nth(1).expect("the section about changes");
    let section = section.split("\n### ").next().unwrap_or_default();
    let text = String::new;
    let changes = [
        Change::Uncordon { node: text() },
        Change::RemoveTaint { node: text(), taint: text() },
        Change::SetLabel { node: text(), key: text(), value: text() },
        Change::RemoveLabel { node: text(), key: text() },
        Change::Scale { namespace: text(), workload: text(), replicas: 1 },
        Change::Move { namespace: text(), name: text(), from: text(), to: text() },
        Change::RequestLess { container: text(), resource: text(), from: text(), to: text() },
        Change::Relax { term: text(), policy: Some(text()) },
        Change::HonorTaints { term: text() },
        Change::StopOldPodsFirst { namespace: text(), workload: text() },
        Change::Tolerate { taint: text() },
        Change::FreeHostPort { port: 1 },
        Change::UseDeviceClass { object: text(), request: text(), from: text(), to: text() },
        Change::RemoveGates { gates: Vec::new() },
        Change::AddNode {
            like: text(),
            in_new_domain: vec![TopologyPair { key: text(), value: None }],
            pool: Some(TopologyPair { key: text(), value: None }),
        },
    ];
    for change in changes {
        let object = serde_json::to_value(&change).expect("an object");
        let kind = format!("`{}`", object["change"].as_str().expect("a kind"));
        assert!(section.contains(&kind), "{kind}");
        for field in object.as_object().expect("fields").keys() {
            let is_row =
                |line: &str| line.split('|').nth(1).is_some_and(|c| c.contains(&format!("`{field}`")));
            assert!(section.lines().any(is_row), "{kind}: {field}");
        }
    }
}

fn feasible_on(world: &World, pod: &Pod) -> Vec<String> {
    let profile = &SchedulerConfig::default().profiles[0];
    let decision = naive::evaluate(world, pod, profile, &Options::default());
    let feasible = |(node, result): (String, NodeResult)| match result {
        NodeResult::Rejected(_) => None,
        _ => Some(node),
    };
    decision.nodes.into_iter().filter_map(feasible).collect()
}

/// Applies the changes to the objects; then the naive evaluator finds the pod's node feasible, and every moved pod's.
fn assert_works(world: &World, pod: &Pod, repair: &Repair) {
    let (mut world, mut pod) = (world.clone(), pod.clone());
    if !repair.patch.is_empty() {
        let patch: json_patch::Patch =
            serde_json::from_value(serde_json::Value::from(repair.patch.clone())).expect("a patch");
        let mut object = serde_json::to_value(&pod).expect("an object");
        json_patch::patch(&mut object, &patch).expect("it applies");
        pod = serde_json::from_value(object).expect("a pod");
    }
    for change in &repair.changes {
        match change {
            Change::Scale { workload, .. } => {
                let owner = workload.split_once(' ').expect("kind and name").1;
                let of = |p: &&Pod| p.metadata.owner_references.iter().any(|o| o.name == owner);
                let mut replica = world.pods.iter().find(of).expect("a replica").clone();
                replica.metadata.name += "-new";
                replica.spec.node_name = String::new();
                let profile = &SchedulerConfig::default().profiles[0];
                let chosen = naive::evaluate(&world, &replica, profile, &Options::default()).chosen;
                replica.spec.node_name = chosen.expect("the replica fits");
                world.pods.push(replica);
            }
            Change::Move { name, from, to, .. } => {
                let moved = world.pods.iter_mut().find(|p| p.metadata.name == *name).expect("the pod");
                assert_eq!(moved.spec.node_name, *from);
                moved.spec.node_name.clone_from(to);
            }
            Change::AddNode { like, in_new_domain, .. } => {
                let mut node = world.nodes.iter().find(|n| n.metadata.name == *like).expect("a node").clone();
                node.metadata.labels.insert("kubernetes.io/hostname".to_owned(), repair.node.clone());
                for pair in in_new_domain {
                    node.metadata.labels.insert(pair.key.clone(), pair.value.clone().expect("a value"));
                }
                node.metadata.name.clone_from(&repair.node);
                node.spec.unschedulable = false;
                node.spec.taints.retain(|t| !t.key.starts_with("node.kubernetes.io/"));
                world.nodes.push(node);
            }
            Change::RequestLess { resource, to, .. } => {
                let requests = &mut pod.spec.containers[0].resources.requests;
                requests.insert(resource.clone(), Quantity::parse(to).expect("a quantity"));
            }
            change => world.nodes.iter_mut().for_each(|node| change_node(node, change)),
        }
    }
    assert!(feasible_on(&world, &pod).contains(&repair.node), "{repair:?} does not help");
    pod.spec.node_name.clone_from(&repair.node);
    world.pods.push(pod);
    for change in &repair.changes {
        let Change::Move { name, to, .. } = change else { continue };
        let at = world.pods.iter().position(|p| p.metadata.name == *name).expect("the pod");
        let mut moved = world.pods.remove(at);
        moved.spec.node_name = String::new();
        // Of several moved pods, each fits with those that moved before it.
        let fits = feasible_on(&world, &moved).contains(to);
        assert!(fits || repair.changes.len() > 1, "{name} does not fit on {to}: {repair:?}");
        moved.spec.node_name.clone_from(to);
        world.pods.insert(at, moved);
    }
}

fn is_of_node(change: &Change) -> bool {
    matches!(
        change,
        Change::Uncordon { .. }
            | Change::RemoveTaint { .. }
            | Change::SetLabel { .. }
            | Change::RemoveLabel { .. }
    )
}

fn text_of(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

fn change_node(changed: &mut Node, change: &Change) {
    match change {
        Change::Uncordon { node } if *node == changed.metadata.name => {
            changed.spec.unschedulable = false;
            changed.spec.taints.retain(|t| t.key != UNSCHEDULABLE_TAINT);
        }
        Change::RemoveTaint { node, taint } if *node == changed.metadata.name => {
            changed.spec.taints.retain(|t| text_of(t) != *taint);
        }
        Change::SetLabel { node, key, value } if *node == changed.metadata.name => {
            changed.metadata.labels.insert(key.clone(), value.clone());
        }
        Change::RemoveLabel { node, key } if *node == changed.metadata.name => {
            changed.metadata.labels.remove(key);
        }
        _ => {}
    }
}
