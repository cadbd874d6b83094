//! A simulation with what pages and pictures count of all its pods and broken rules.

use std::borrow::Cow;
use std::collections::HashMap;

use berth_engine::Violation;
use berth_simulate::{SimulatedPod, Simulation};

use crate::pod_table::{PodTable, Subject};
use crate::workloads::{WorkloadName, name_of};

/// A simulation with the table of its pods.
#[derive(Clone, Copy)]
pub(crate) struct Pods<'a> {
    pub(crate) simulation: &'a Simulation,
    pub(crate) table: &'a PodTable,
}

impl<'a> Pods<'a> {
    pub(crate) fn at(&self, position: usize) -> &'a SimulatedPod {
        &self.simulation.pods()[position]
    }

    /// The pods at these positions by namespace and name; at most this many.
    pub(crate) fn sorted(
        &self,
        positions: impl IntoIterator<Item = usize>,
        most: usize,
    ) -> Vec<(usize, &'a SimulatedPod)> {
        let mut pods: Vec<_> = positions.into_iter().map(|at| (at, self.at(at))).collect();
        let name = |(_, pod): &(usize, &'a SimulatedPod)| {
            let metadata = &pod.pod.metadata;
            (metadata.namespace.as_str(), metadata.name.as_str())
        };
        if pods.len() > most {
            pods.select_nth_unstable_by(most, |a, b| name(a).cmp(&name(b)));
            pods.truncate(most);
        }
        pods.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
        pods
    }
}

/// A simulation with the table of its pods and its broken rules.
#[derive(Clone, Copy)]
pub(crate) struct Overview<'a> {
    pub(crate) pods: Pods<'a>,
    /// The violated rules of running pods.
    pub(crate) broken: &'a BrokenRules<'a>,
}

impl Overview<'_> {
    /// Shows a simulation once. `broken` are the violated rules of running pods, sorted by pod.
    pub(crate) fn once<T>(
        simulation: &Simulation,
        broken: &[Violation],
        show: impl FnOnce(Overview<'_>) -> T,
    ) -> T {
        let table = PodTable::new(simulation);
        let pods = Pods { simulation, table: &table };
        let broken = BrokenRules::new(pods, broken.into());
        show(Overview { pods, broken: &broken })
    }
}

/// The violated rules of running pods, also by node and by workload.
pub(crate) struct BrokenRules<'a> {
    /// Sorted by pod.
    pub(crate) violations: Cow<'a, [Violation]>,
    /// Their positions by node.
    by_node: HashMap<String, Vec<u32>>,
    by_workload: HashMap<WorkloadName, BrokenOfWorkload>,
}

/// The broken rules of the pods of a workload, or of a pod without one.
#[derive(Default)]
pub(crate) struct BrokenOfWorkload {
    pub(crate) n_pods: usize,
    /// The pods by the path of the rule.
    pub(crate) by_term: HashMap<String, usize>,
}

impl<'a> BrokenRules<'a> {
    /// `violations` are sorted by pod.
    pub(crate) fn new(pods: Pods<'_>, violations: Cow<'a, [Violation]>) -> BrokenRules<'a> {
        let Pods { simulation, table } = pods;
        let mut by_node: HashMap<&str, Vec<u32>> = HashMap::new();
        for (i, violation) in violations.iter().enumerate() {
            by_node.entry(&violation.node).or_default().push(i as u32);
        }
        let by_node = by_node.into_iter().map(|(node, positions)| (node.to_owned(), positions)).collect();
        let mut counts: HashMap<Subject, BrokenOfWorkload> = HashMap::new();
        for of_pod in violations.chunk_by(|a, b| (&a.namespace, &a.name) == (&b.namespace, &b.name)) {
            let Some(at) = simulation.position(&of_pod[0].namespace, &of_pod[0].name) else { continue };
            let BrokenOfWorkload { n_pods, by_term } = counts.entry(table.subject(at)).or_default();
            *n_pods += 1;
            for Violation { term, .. } in of_pod {
                match by_term.get_mut(term) {
                    Some(n) => *n += 1,
                    None => _ = by_term.insert(term.clone(), 1),
                }
            }
        }
        let by_workload = counts.into_iter().map(|(subject, counts)| match subject {
            Subject::Workload(number) => (table.name_of(number).clone(), counts),
            Subject::Single(at) => (name_of(pods.at(at)), counts),
        });
        let by_workload = by_workload.collect();
        BrokenRules { by_node, by_workload, violations }
    }

    /// Those of the pods on a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<&Violation> {
        let positions = self.by_node.get(node).into_iter().flatten();
        positions.map(|i| &self.violations[*i as usize]).collect()
    }

    pub(crate) fn of_workload(&self, name: &WorkloadName) -> Option<&BrokenOfWorkload> {
        self.by_workload.get(name)
    }
}
