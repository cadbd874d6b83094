//! Checks of clusters that others have decided about: whether a placement violates a required rule.
//!
//! All take the rules from [`crate::naive`], which shares no code with the engine. [`check`] looks at a placement of any size: it
//! expects pods that were placed one after the other and stay. Capacity, ports, taints, node affinity and anti-affinity are checked
//! with all pods placed; affinity and spread at the time of each pod's placement. The extensions of the proposals are not supported.
//! [`bindings`] judges each binding of a small cluster's [`history`], [`volumes`] claims, volumes and the pods that use them,
//! [`devices`] allocations.

pub mod bindings;
pub mod devices;
pub mod history;
mod node_rules;
mod pod_rules;
mod spread;
pub mod volumes;

use crate::naive::pod_requests;
use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::{Namespace, Node, Pod, ResourceList};
use serde::Serialize;

use pod_rules::Domains;

/// A pod: its template, and the node it was placed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Index of the template.
    pub template: u32,
    /// Index of the node.
    pub node: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// Placed pods that were checked.
    pub pods: usize,
    /// Violated rules, each counted once for the pod that has the rule, or once for the node.
    pub n_violations: usize,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub rule: Rule,
    /// Index of the node.
    pub node: u32,
    /// Index of the template of the pod.
    pub template: u32,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Requests exceed what the node offers.
    Resources,
    /// More pods than the node allows.
    PodCount,
    /// Two pods use the same port.
    Ports,
    /// A cordoned node.
    Unschedulable,
    /// A taint that is not tolerated.
    Taint,
    /// `nodeName`, `nodeSelector` or required node affinity.
    NodeAffinity,
    PodAffinity,
    PodAntiAffinity,
    /// A spread constraint with `DoNotSchedule`.
    TopologySpread,
    /// A node that does not exist.
    UnknownNode,
}

/// Number of violations that are kept.
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

/// Checks a placement: `placed` in the order of placement, `nodes` in the order of their indexes.
pub fn check(
    nodes: impl Iterator<Item = Node>,
    namespaces: &[Namespace],
    templates: &[Pod],
    placed: &[Placed],
) -> Findings {
    let mut findings = Findings { pods: placed.len(), ..Findings::default() };
    let by_node = ByNode::new(placed);
    let with_requests =
        |pod: &Pod| (pod.clone(), pod_requests(pod, &ResourceList::new(), KubernetesVersion::default()));
    let requesting: Vec<_> = templates.iter().map(with_requests).collect();
    let mut domains = Domains::of(templates);
    let mut spreads = spread::Spreads::of(templates);
    let mut n_nodes = 0;
    for node in nodes {
        node_rules::check(&node, n_nodes as u32, &requesting, by_node.on(n_nodes), &mut findings);
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
