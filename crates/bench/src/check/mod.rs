//! An independent check of a placement: were all required rules kept?
//!
//! Written straight from the Kubernetes API's own words on the typed objects, sharing no code with the engine:
//! it must not repeat the engine's mistakes. It knows what never leaves: pods that were placed one after the
//! other and stay. Capacity, ports, taints, node affinity and anti-affinity are checked as all pods are there in
//! the end; affinity and spread as they were when each pod was placed. Init containers and the extensions of
//! the proposals are not known here.

mod node_rules;
mod pod_rules;
mod selectors;
mod spread;

use berth_api::object::{Namespace, Node, Pod};
use serde::Serialize;

use pod_rules::Domains;

/// A pod: the template it is a copy of, and the node it was placed on, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which of the templates.
    pub template: u32,
    /// Which of the nodes.
    pub node: u32,
}

/// What the check found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Placed pods that were checked.
    pub pods: usize,
    /// Rules broken, each counted once for the pod that has the rule, or once for the node.
    pub n_violations: usize,
    /// The first of them.
    pub violations: Vec<Violation>,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// The node's number.
    pub node: u32,
    /// The template of a pod concerned.
    pub template: u32,
    /// What is wrong.
    pub detail: String,
}

/// The rules that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Requests exceed what the node offers.
    Resources,
    /// More pods than the node takes.
    PodCount,
    /// Two pods want the same port.
    Ports,
    /// A cordoned node.
    Unschedulable,
    /// A taint that is not tolerated.
    Taint,
    /// `nodeName`, `nodeSelector` or required node affinity.
    NodeAffinity,
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity.
    PodAntiAffinity,
    /// A spread constraint that says `DoNotSchedule`.
    TopologySpread,
    /// A node that is not there.
    UnknownNode,
}

/// This many violations are kept.
const MAX_KEPT: usize = 20;

impl Findings {
    fn add(&mut self, rule: Rule, placed: Placed, detail: impl FnOnce() -> String) {
        self.n_violations += 1;
        if self.violations.len() < MAX_KEPT {
            let Placed { template, node } = placed;
            self.violations.push(Violation { rule, node, template, detail: detail() });
        }
    }
}

/// Checks a placement: `placed` in the order of placement, `nodes` in the order of their numbers.
pub fn check(
    nodes: impl Iterator<Item = Node>,
    namespaces: &[Namespace],
    templates: &[Pod],
    placed: &[Placed],
) -> Findings {
    let mut findings = Findings { pods: placed.len(), ..Findings::default() };
    let by_node = ByNode::new(placed);
    let mut domains = Domains::of(templates);
    let mut spreads = spread::Spreads::of(templates);
    let mut n_nodes = 0;
    for node in nodes {
        node_rules::check(&node, n_nodes as u32, templates, by_node.on(n_nodes), &mut findings);
        domains.add(&node);
        spreads.add(&node, templates);
        n_nodes += 1;
    }
    let unknown = placed.iter().filter(|p| p.node as usize >= n_nodes);
    unknown.for_each(|p| findings.add(Rule::UnknownNode, *p, || format!("there are {n_nodes} nodes")));
    if findings.violations.iter().any(|v| v.rule == Rule::UnknownNode) {
        return findings;
    }
    pod_rules::check(&domains, namespaces, templates, placed, &mut findings);
    spreads.check(&domains, templates, placed, &mut findings);
    findings
}

/// Templates of the pods on each node.
struct ByNode {
    starts: Vec<u32>,
    templates: Vec<u32>,
}

impl ByNode {
    fn new(placed: &[Placed]) -> ByNode {
        let n_nodes = placed.iter().map(|p| p.node as usize + 1).max().unwrap_or(0);
        let mut starts = vec![0_u32; n_nodes + 1];
        placed.iter().for_each(|p| starts[p.node as usize + 1] += 1);
        (0..n_nodes).for_each(|i| starts[i + 1] += starts[i]);
        let mut next = starts.clone();
        let mut templates = vec![0; placed.len()];
        for p in placed {
            let at = &mut next[p.node as usize];
            templates[*at as usize] = p.template;
            *at += 1;
        }
        ByNode { starts, templates }
    }

    fn on(&self, node: usize) -> &[u32] {
        match (self.starts.get(node), self.starts.get(node + 1)) {
            (Some(from), Some(to)) => &self.templates[*from as usize..*to as usize],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests;
