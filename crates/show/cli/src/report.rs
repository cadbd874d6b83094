//! The JSON form of a simulation. Its schema is stable: docs/json.md.

use berth_simulate::{
    GroupPlacement, NotRunning, PodClaim, SimulatedPod, Simulation, Unadmitted, UnadmittedState,
};
use serde::Serialize;

use crate::summary::{Failure, Summary};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<'a> {
    pods: Vec<PodReport<'a>>,
    summary: Summary,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<&'a GroupPlacement>,
    failures: Vec<Failure>,
    not_running: Vec<NotRunning>,
    warnings: &'a [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodReport<'a> {
    namespace: &'a str,
    name: &'a str,
    workload: Option<&'a str>,
    priority: i32,
    state: State,
    node: Option<&'a str>,
    score: Option<i64>,
    domain: Option<&'a str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unadmitted: Option<&'a Unadmitted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claims: Vec<PodClaim>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    relaxed: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    victims: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preempted_by: Option<String>,
}

/// Whether the pod has a node: from the input, from the input but not in it, from the simulation, or none. Of the latter, whether
/// it names one that rejects it or does not exist, or is not created.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Running,
    Orphaned,
    Placed,
    Unplaced,
    Rejected,
    Waiting,
    NotCreated,
}

impl<'a> Report<'a> {
    pub fn new(simulation: &'a Simulation, summary: Summary, failures: Vec<Failure>) -> Report<'a> {
        let pod = |p: &'a SimulatedPod| {
            let node = p.node();
            PodReport {
                namespace: &p.pod.metadata.namespace,
                name: &p.pod.metadata.name,
                workload: p.workload.as_deref(),
                priority: p.pod.spec.priority.unwrap_or(0),
                state: match node {
                    Some(node) if !simulation.has_node(node) => State::Orphaned,
                    Some(_) if p.was_running => State::Running,
                    Some(_) => State::Placed,
                    None => match p.unadmitted.as_ref().map(|why| why.counted_as()) {
                        None => State::Unplaced,
                        Some(UnadmittedState::Rejected) => State::Rejected,
                        Some(UnadmittedState::Waiting | UnadmittedState::Unbound) => State::Waiting,
                        Some(UnadmittedState::NotCreated) => State::NotCreated,
                    },
                },
                node,
                score: p.score(),
                domain: node.and_then(|n| simulation.node_label(n, &summary.topology_key)),
                message: p.outcome.message().into_owned(),
                unadmitted: p.unadmitted.as_deref(),
                claims: simulation.claims_of(&p.pod),
                relaxed: &p.relaxed,
                victims: p.victims.iter().map(ToString::to_string).collect(),
                group: p.group.as_ref().map(|group| group.name.name()),
                preempted_by: p.preempted_by.as_ref().map(ToString::to_string),
            }
        };
        let pods = simulation.pods().iter().map(pod).collect();
        let groups = simulation.groups().collect();
        let not_running = simulation.not_running();
        Report { pods, summary, groups, failures, not_running, warnings: simulation.warnings() }
    }
}
