//! Scenarios of groups: each group is placed by a simulation of the state that the reference left.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::feature_gates::FeatureGates;
use berth_api::object::Pod;
use berth_api::read::SourceLocation;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_input::inventory::{Entry, Inventory};
use berth_input::recording::{GroupStep, Scenario};
use jiff::Timestamp;
use serde_json::json;

use super::RECORDED_AT;
use super::comparison::{Comparison, Difference};
use crate::simulation::{SimulatedPod, Simulation, SimulationOptions};

pub(super) fn differences(
    scenario: &Scenario,
    steps: &[GroupStep],
    feature_gates: FeatureGates,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut running = scenario.pods.clone();
    for step in steps {
        let mut comparison =
            Comparison { scenario: &scenario.name, pod: &step.group, differences: Vec::new() };
        let pending = scenario.pending.iter().enumerate();
        let pending: Vec<_> =
            pending.filter(|(_, pod)| group_of(pod).as_ref() == Some(&step.group)).collect();
        let pods = running.iter().chain(pending.iter().map(|(_, pod)| *pod)).cloned().collect();
        match simulation(scenario, pods, feature_gates) {
            Ok(simulation) => compare(&mut comparison, step, simulation),
            Err(error) => comparison.differ(None, "scenario", "a valid scenario".to_owned(), error),
        }
        differences.append(&mut comparison.differences);
        running.retain(|pod| !step.victims.contains(&pod.metadata.name));
        for (i, pod) in pending {
            if let Some(node) = step.placed.get(&pod.metadata.name) {
                let mut pod = pod.clone();
                pod.spec.node_name.clone_from(node);
                // Those that started later are preempted first.
                pod.status.start_time = Timestamp::from_second(RECORDED_AT + i as i64).ok();
                running.push(pod);
            }
        }
    }
    differences
}

/// `namespace/name` of the group that a pod names.
fn group_of(pod: &Pod) -> Option<String> {
    let group = pod.spec.scheduling_group.as_ref()?;
    Some(format!("{}/{}", pod.metadata.namespace, group.pod_group_name))
}

fn simulation(
    scenario: &Scenario,
    pods: Vec<Pod>,
    feature_gates: FeatureGates,
) -> Result<Simulation, String> {
    let read = |config| SchedulerConfig::read_with(config, true, feature_gates).map(|(config, _)| config);
    let default = || SchedulerConfig { feature_gates, ..SchedulerConfig::default() };
    let config = scenario.config.as_ref().map_or_else(|| Ok(default()), read).map_err(|e| e.to_string())?;
    let mut inventory = Inventory::default();
    let add = || {
        let source = || SourceLocation::file("scenario");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": scenario.groups});
        inventory.read(list.to_string().as_bytes(), "scenario")?;
        let budgets = scenario.pdbs.iter().cloned();
        let entry = |object| Entry { object, raw: None, source: source(), order: 0 };
        inventory.pod_disruption_budgets.extend(budgets.map(entry));
        scenario.nodes.iter().try_for_each(|node| inventory.add_node(node.clone(), source()))?;
        pods.into_iter().try_for_each(|pod| inventory.add_pod(pod, source()))
    };
    add().map_err(|error| error.to_string())?;
    let options = SimulationOptions { settings: Settings::strict_v1(config), ..SimulationOptions::default() };
    Simulation::new(inventory, options).map_err(|error| error.to_string())
}

fn compare(comparison: &mut Comparison<'_>, step: &GroupStep, mut simulation: Simulation) {
    simulation.run(|_, _| ());
    // Equal members follow each other on their nodes: which of them is where does not matter.
    let counted = |nodes: &mut dyn Iterator<Item = &str>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        nodes.for_each(|node| *counts.entry(node.to_owned()).or_default() += 1);
        counts
    };
    let pods = simulation.pods();
    let placed = counted(&mut pods.iter().filter(|pod| !pod.was_running).filter_map(SimulatedPod::node));
    let victims = pods.iter().filter(|pod| pod.preempted_by.is_some());
    let victims: BTreeSet<_> = victims.map(|pod| pod.pod.metadata.name.clone()).collect();
    comparison.same("placed", &counted(&mut step.placed.values().map(String::as_str)), &placed);
    comparison.same("victims", &step.victims, &victims);
    let message = simulation.groups().find_map(|group| group.message.clone());
    if step.message.is_some() {
        comparison.same("message", &step.message, &message);
    }
}
