//! The taints of the nodes, and the pods that tolerate them.

use std::collections::HashMap;

use berth_api::object::{Node, Taint, UNSCHEDULABLE_TAINT};
use berth_api::work::WorkBudget;
use berth_rules::TaintEffect;

use super::collect::{PodClasses, Workloads};

/// Workloads that tolerate a taint and are named.
const MAX_NAMED: usize = 10;
pub(super) struct Taints {
    pub all: Vec<TaintedNodes>,
    pub of_node: Vec<Vec<usize>>,
}

pub(super) struct TaintedNodes {
    pub taint: Taint,
    pub effect: TaintEffect,
    /// Positions, ascending.
    pub nodes: Vec<usize>,
}

/// The workloads that tolerate a taint.
#[derive(Default)]
pub(super) struct Tolerating {
    /// The first few.
    pub named: Workloads,
    pub n_workloads: usize,
    pub n_pods: usize,
    /// Whether one of them is not a DaemonSet.
    pub has_others: bool,
}

impl Taints {
    /// The taints of some nodes. A cordoned node has the taint that the node controller adds to it.
    pub(super) fn new(nodes: &[&Node]) -> Taints {
        let mut taints = Taints { all: Vec::new(), of_node: Vec::with_capacity(nodes.len()) };
        let mut positions: HashMap<[String; 3], usize> = HashMap::new();
        let cordoned = Taint {
            key: UNSCHEDULABLE_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        for (i, node) in nodes.iter().enumerate() {
            let mut of_node = Vec::new();
            for taint in node.spec.taints.iter().chain(node.spec.unschedulable.then_some(&cordoned)) {
                let parts = [&taint.key, &taint.value, &taint.effect].map(String::clone);
                let position = *positions.entry(parts).or_insert(taints.all.len());
                if position == taints.all.len() {
                    let effect = TaintEffect::parse(&taint.effect);
                    taints.all.push(TaintedNodes { taint: taint.clone(), effect, nodes: Vec::new() });
                }
                let nodes = &mut taints.all[position].nodes;
                if nodes.last() != Some(&i) {
                    nodes.push(i);
                    of_node.push(position);
                }
            }
            taints.of_node.push(of_node);
        }
        taints
    }
}

impl TaintedNodes {
    /// `gpu=true:NoSchedule`.
    pub(super) fn text(&self) -> String {
        let Taint { key, value, effect } = &self.taint;
        let value = if value.is_empty() { String::new() } else { format!("={value}") };
        format!("{key}{value}:{effect}")
    }

    /// The workloads that tolerate it. None if it is too much work.
    pub(super) fn tolerating(&self, classes: &PodClasses, budget: &WorkBudget) -> Option<Tolerating> {
        let mut tolerating = Tolerating::default();
        for (tolerations, workloads) in classes.tolerations.values.iter().zip(&classes.tolerations.workloads)
        {
            budget.spend(1).ok()?;
            if !tolerations.tolerate_parts(&self.taint.key, &self.taint.value, &self.effect) {
                continue;
            }
            budget.spend(MAX_NAMED + workloads.len()).ok()?;
            tolerating.n_workloads += workloads.len();
            tolerating.n_pods += workloads.values().sum::<usize>();
            for (workload, n_pods) in workloads.iter().take(MAX_NAMED) {
                *tolerating.named.entry(workload.clone()).or_default() += n_pods;
            }
            while tolerating.named.len() > MAX_NAMED {
                tolerating.named.pop_last();
            }
        }
        let first = tolerating.named.first_key_value();
        tolerating.has_others = first.is_some_and(|((is_daemon, ..), _)| !is_daemon);
        Some(tolerating)
    }
}
