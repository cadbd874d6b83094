//! The pods of workloads by topology domain, against their spread constraints.

use std::collections::BTreeMap;

use berth_api::syntax::format::counted;
use berth_picture::bars::{Bars, Row, Section};
use berth_picture::{Class, Key};
use berth_rules::{SpreadConstraint, WhenUnsatisfiable};
use berth_simulate::{SimulatedPod, Simulation};

use crate::workloads::{WorkloadName, name_of};

/// Workloads, and domains of each.
const MAX_WORKLOADS: usize = 30;
const MAX_DOMAINS: usize = 40;

/// The pods of every workload with more than one pod by the domains of its first spread constraint, or of `topology_key`
/// without one.
pub fn spread(simulation: &Simulation, topology_key: &str) -> String {
    spread_bars(simulation, topology_key).svg()
}

pub(crate) fn spread_bars(simulation: &Simulation, topology_key: &str) -> Bars {
    let mut workloads: BTreeMap<WorkloadName, Vec<usize>> = BTreeMap::new();
    for (i, pod) in simulation.pods().iter().enumerate() {
        workloads.entry(name_of(pod)).or_default().push(i);
    }
    workloads.retain(|_, pods| pods.len() > 1);
    let n_workloads = workloads.len();
    let shown: Vec<_> = workloads.into_iter().take(MAX_WORKLOADS).collect();
    let mut sections = Vec::new();
    for (name, positions) in shown {
        let first = simulation.pods()[positions[0]].pod.clone();
        let constraints = simulation.rules_of(&first).spread_constraints;
        let pods: Vec<_> = positions.iter().map(|i| &simulation.pods()[*i]).collect();
        sections.push(section(simulation, &name, &pods, constraints.first(), topology_key));
    }
    let mut notes = Vec::new();
    match n_workloads.saturating_sub(MAX_WORKLOADS) {
        0 => {}
        more => notes.push(format!("and {}", counted(more, "more workload"))),
    }
    let title = format!("Spread of {}", counted(n_workloads, "workload"));
    Bars { description: title.clone(), title, sections, notes }
}

/// The pods of one workload by the domains of each of its spread constraints, and of `topology_key` if there is one; none without
/// such pods.
pub(crate) fn spread_of(
    simulation: &Simulation,
    name: &WorkloadName,
    pods: &[&SimulatedPod],
    topology_key: Option<&str>,
) -> Vec<Section> {
    let Some(first) = pods.first() else { return Vec::new() };
    let constraints = simulation.rules_of(&first.pod).spread_constraints;
    let of = |constraint| section(simulation, name, pods, constraint, topology_key.unwrap_or_default());
    let mut sections: Vec<_> = constraints.iter().map(Some).map(of).collect();
    let is_new = |key: &&str| constraints.iter().all(|constraint| constraint.topology_key != *key);
    sections.extend(topology_key.filter(is_new).map(|_| of(None)));
    sections
}

fn section(
    simulation: &Simulation,
    (namespace, workload): &WorkloadName,
    pods: &[&SimulatedPod],
    constraint: Option<&SpreadConstraint>,
    topology_key: &str,
) -> Section {
    let key = constraint.map_or(topology_key, |constraint| constraint.topology_key.as_str());
    let mut n_pods: BTreeMap<String, usize> =
        simulation.domains(key).into_iter().map(|domain| (domain, 0)).collect();
    for domain in pods.iter().filter_map(|pod| simulation.node_label(pod.node()?, key)) {
        *n_pods.entry(domain.to_owned()).or_default() += 1;
    }
    let required = constraint.filter(|c| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
    let minimum = n_pods.values().copied().min().unwrap_or(0);
    let limit = required.map(|c| minimum + usize::try_from(c.max_skew).unwrap_or(0));
    let n_domains = n_pods.len();
    let row = |(domain, n): (String, usize)| {
        let class = if limit.is_some_and(|limit| n > limit) { Class::Alert } else { Class::Kind(0) };
        let title = format!("{key}={domain}: {}", counted(n, "pod"));
        Row { name: domain, title, parts: vec![(class, n)], note: n.to_string(), limit }
    };
    let rule = match constraint {
        Some(c) => format!("maxSkew {} by {key}", c.max_skew),
        None => format!("by {key}, no constraint"),
    };
    let more = match n_domains.saturating_sub(MAX_DOMAINS) {
        0 => String::new(),
        more => format!("; {more} more domains"),
    };
    let line = Key {
        class: Class::Alert,
        mark: None,
        text: "limit: the fewest pods of a domain plus maxSkew".to_owned(),
    };
    Section {
        name: format!("{namespace}/{workload}: {}, {rule}{more}", counted(pods.len(), "pod")),
        legend: limit.map(|_| line).into_iter().collect(),
        rows: n_pods.into_iter().take(MAX_DOMAINS).map(row).collect(),
    }
}
