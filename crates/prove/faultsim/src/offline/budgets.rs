//! The eviction API of the cluster, which `kubectl drain` uses, `what-if` and `rebalance` decide alike about disruption budgets.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::Pod;
use berth_input::inventory::Inventory;
use berth_rebalance::{Goal, Request};
use berth_simulate::what_if::{Change, WhatIf};
use berth_simulate::{Simulation, SimulationOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The pods about which they differ. `in_cluster` says which pods the API server would evict, by `namespace/name`.
pub fn disagreements(
    inventory: &Inventory,
    in_cluster: &BTreeMap<String, bool>,
) -> Result<Vec<String>, String> {
    let mut counted = inventory.clone();
    counted.pod_disruption_budgets.iter_mut().for_each(|entry| entry.object.status = Default::default());
    let held = held_by_rebalance(inventory)?;
    let held_as_counted = held_by_rebalance(&counted)?;
    let mut findings = Vec::new();
    for pod in inventory.pods.iter().map(|entry| &entry.object) {
        let Some(in_cluster) = in_cluster.get(&pod.key()) else { continue };
        let mut answers = vec![
            ("what-if, by the status of the budget", would_evict(inventory, pod)?),
            ("what-if, by a count of pods", would_evict(&counted, pod)?),
        ];
        // Others stay for other reasons.
        if !pod.belongs_to_node() && pod.metadata.controller().is_some() {
            let moves =
                |held: &Option<BTreeSet<String>>| held.as_ref().map(|held| !held.contains(&pod.key()));
            answers.extend(moves(&held).map(|moves| ("rebalance, by the status of the budget", moves)));
            answers.extend(moves(&held_as_counted).map(|moves| ("rebalance, by a count of pods", moves)));
        }
        for (what, answer) in answers.into_iter().filter(|(_, answer)| answer != in_cluster) {
            findings.push(format!("may {} be evicted? cluster: {in_cluster}, {what}: {answer}", pod.key()));
        }
    }
    Ok(findings)
}

fn would_evict(inventory: &Inventory, pod: &Pod) -> Result<bool, String> {
    let mut what_if = WhatIf::new(inventory.clone(), SimulationOptions::default(), Timestamp::now())
        .map_err(|error| error.to_string())?;
    what_if.apply(&Change::Evict(pod.metadata.namespaced_name())).map_err(|error| error.to_string())?;
    Ok(what_if.run(|_, _| ()).map_err(|error| error.to_string())?.outcome.blocked.is_empty())
}

/// The pods that disruption budgets keep where they are; none if all nodes are needed, so that a plan asks nothing about pods.
fn held_by_rebalance(inventory: &Inventory) -> Result<Option<BTreeSet<String>>, String> {
    let simulation = Simulation::as_is(Cow::Borrowed(inventory), SimulationOptions::default());
    let simulation = simulation.map_err(|error| error.to_string())?;
    // The plan makes no move: what is said of pods is said of them where they are.
    let request = Request { max_moves: Some(0), ..Request::new(vec![Goal::Consolidate], Timestamp::now()) };
    let plan = simulation.rebalance(&request, None);
    if plan.after == plan.bounds {
        return Ok(None);
    }
    let held = plan.immovable.into_iter().filter(|pod| pod.reason.contains("PodDisruptionBudget"));
    Ok(Some(held.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()))
}

/// The status of a pod whose readiness changes.
pub fn unready(status: &Value) -> Value {
    let mut status = status.clone();
    let conditions = status["conditions"].as_array_mut().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == "Ready") {
        condition["status"] = json!("False");
    }
    status
}
