//! Why nodes reject a pod, in plain words and few of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::labels::{HOSTNAME, REGION, ZONE};
use berth_api::syntax::quantity::with_unit;
use berth_engine::{Counts, ExcludedNodes, Explanation, Verdict};
use berth_input::config::Plugin;
use berth_simulate::Simulation;

/// Reasons of a sentence; others are counted.
const MAX_REASONS: usize = 3;

/// A reason of a rule against nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reason {
    /// What is the case for one node, and for several: `is full (cpu)`, `are full (cpu)`.
    one: String,
    several: String,
    /// The resource that is short, with what the pod requests of it.
    need: Option<String>,
}

impl Reason {
    fn be(what: String) -> Reason {
        Reason { one: format!("is {what}"), several: format!("are {what}"), need: None }
    }

    fn have(what: String) -> Reason {
        Reason { one: format!("has {what}"), several: format!("have {what}"), need: None }
    }

    fn lack(what: String) -> Reason {
        Reason { one: format!("lacks {what}"), several: format!("lack {what}"), need: None }
    }

    pub(crate) fn text(&self, n_nodes: usize) -> &str {
        if n_nodes == 1 { &self.one } else { &self.several }
    }
}

/// Nodes that reject a pod for the same reasons.
pub(crate) struct Group<'a> {
    pub(crate) nodes: Vec<&'a str>,
    pub(crate) reasons: Vec<Reason>,
}

/// The nodes by the reasons against them, those with the fewest reasons first.
pub(crate) fn groups<'a>(simulation: &Simulation, explanation: &'a Explanation) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<Vec<Reason>, Vec<&str>> = BTreeMap::new();
    for ExcludedNodes { nodes, verdicts } in &explanation.excluded {
        let own: HashSet<_> = verdicts.iter().filter(|verdict| is_own(verdict)).map(subject).collect();
        let is_new = |verdict: &&Verdict| !(is_existing(verdict) && own.contains(&subject(verdict)));
        // The verdicts are those of the first node. How a node is short of a resource differs from node to node.
        let (short, others): (Vec<_>, Vec<_>) =
            verdicts.iter().filter(is_new).partition(|verdict| verdict.plugin == Plugin::NodeResourcesFit);
        let common: Vec<Reason> = others.into_iter().map(reason).collect();
        let mut by_shortage: BTreeMap<Vec<Shortage>, Vec<&str>> = BTreeMap::new();
        for node in nodes {
            let shortages = short.iter().map(|verdict| Shortage::of(simulation, node, verdict)).collect();
            by_shortage.entry(shortages).or_default().push(node);
        }
        for (shortages, nodes) in by_shortage {
            let of_resources =
                short.iter().zip(shortages).map(|(verdict, shortage)| shortage.reason(verdict));
            let mut reasons: Vec<Reason> = common.iter().cloned().chain(of_resources).collect();
            reasons.sort_unstable();
            reasons.dedup();
            groups.entry(reasons).or_default().extend(nodes);
        }
    }
    let mut groups: Vec<Group<'_>> =
        groups.into_iter().map(|(reasons, nodes)| Group { nodes, reasons }).collect();
    groups.sort_by(|a, b| {
        let rank = |group: &Group<'_>| (group.reasons.len(), Reverse(group.nodes.len()));
        rank(a).cmp(&rank(b)).then_with(|| a.nodes.cmp(&b.nodes))
    });
    groups
}

/// The nodes in the fewest reasons that are enough, most nodes first: `10 of 12 nodes are in a zone that already has a pod with
/// app=index; the other 2 nodes are full (cpu)`.
pub(crate) fn sentence(groups: &[Group<'_>], n_nodes: usize) -> String {
    let mut rest: Vec<&Group<'_>> = groups.iter().collect();
    let mut parts: Vec<(Reason, usize)> = Vec::new();
    while !rest.is_empty() && parts.len() < MAX_REASONS {
        let mut counts: BTreeMap<&Reason, usize> = BTreeMap::new();
        for group in &rest {
            group.reasons.iter().for_each(|reason| *counts.entry(reason).or_default() += group.nodes.len());
        }
        // Of equal ones, the first by text.
        let best = counts.into_iter().max_by(|(a, n_a), (b, n_b)| n_a.cmp(n_b).then_with(|| b.cmp(a)));
        let Some((reason, n)) = best.map(|(reason, n)| (reason.clone(), n)) else { break };
        rest.retain(|group| !group.reasons.contains(&reason));
        parts.push((reason, n));
    }
    let n_left: usize = rest.iter().map(|group| group.nodes.len()).sum();
    let n_parts = parts.len();
    let mut texts = Vec::new();
    for (i, (reason, n)) in parts.iter().enumerate() {
        let is_last = i + 1 == n_parts && n_left == 0;
        let who = match (i, is_last, *n) {
            (0, true, n) if n == n_nodes && n > 1 => format!("all {} nodes", grouped(n)),
            (0, true, n) if n == n_nodes => "the only node".to_owned(),
            (0, ..) => format!("{} of {}", grouped(*n), counted(n_nodes, "node")),
            (_, true, 1) => "the other node".to_owned(),
            (_, true, n) => format!("the other {}", grouped(n)),
            (_, false, n) => format!("{} more", grouped(n)),
        };
        texts.push(format!("{who} {}", reason.text(*n)));
    }
    if n_left > 0 {
        texts.push(format!("{} for other reasons", counted(n_left, "node")));
    }
    let mut needs: Vec<&str> = parts.iter().filter_map(|(reason, _)| reason.need.as_deref()).collect();
    needs.dedup();
    match needs.as_slice() {
        [] => capitalized(&texts.join("; ")),
        needs => format!("Needs {}: {}", needs.join(" and "), texts.join("; ")),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Whether it is anti-affinity of the pod.
fn is_own(verdict: &Verdict) -> bool {
    matches!(verdict.counts, Some(Counts::AntiAffinity { .. }))
}

/// Whether it is anti-affinity of a running pod: that of a workload to itself is also an own one of the pod.
fn is_existing(verdict: &Verdict) -> bool {
    matches!(verdict.counts, Some(Counts::ExistingAntiAffinity { .. } | Counts::ExistingLimit { .. }))
}

/// The pods that anti-affinity is about, and where.
fn subject(verdict: &Verdict) -> (Option<&str>, Option<&str>) {
    (selector(&verdict.detail), verdict.topology.as_ref().map(|pair| pair.key.as_str()))
}

/// The first selector of a detail.
fn selector(detail: &str) -> Option<&str> {
    detail.split('`').nth(1)
}

/// How a node is short of a resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shortage {
    HasNone,
    TooSmall,
    Full,
    Unknown,
}

impl Shortage {
    fn of(simulation: &Simulation, node: &str, verdict: &Verdict) -> Shortage {
        let Some(Counts::Resource { resource, requested, .. }) = &verdict.counts else {
            return Shortage::Unknown;
        };
        let quantity = simulation.node(node).and_then(|node| {
            let list = node.status.allocatable.as_ref().or(node.status.capacity.as_ref())?;
            list.get(resource.as_str())
        });
        match quantity.map_or(0, |q| if resource == "cpu" { q.millis() } else { q.units() }) {
            0 => Shortage::HasNone,
            amount if amount < *requested => Shortage::TooSmall,
            _ => Shortage::Full,
        }
    }

    fn reason(self, verdict: &Verdict) -> Reason {
        let Some(Counts::Resource { resource, requested, .. }) = &verdict.counts else {
            return Reason::be(format!("too small or full ({})", verdict.detail));
        };
        let reason = match self {
            Shortage::HasNone => Reason::have(format!("no {resource}")),
            Shortage::TooSmall => Reason::be(format!("too small ({resource})")),
            Shortage::Full | Shortage::Unknown => Reason::be(format!("full ({resource})")),
        };
        let need = (resource != "pods").then(|| format!("{} {resource}", with_unit(resource, *requested)));
        Reason { need, ..reason }
    }
}

fn reason(verdict: &Verdict) -> Reason {
    let (be, have, lack) = (Reason::be, Reason::have, Reason::lack);
    match verdict.plugin {
        Plugin::NodeUnschedulable => be("cordoned".to_owned()),
        Plugin::NodeName => be("not the node that it names".to_owned()),
        Plugin::TaintToleration => {
            let taint = verdict.detail.trim_start_matches("taint ").trim_end_matches(" is not tolerated");
            have(format!("the taint {taint}, which it does not tolerate"))
        }
        Plugin::NodeAffinity => match verdict.detail.strip_prefix("the node must have the label ") {
            Some(label) => lack(format!("the label {label}")),
            None => be(format!("excluded by its node affinity ({})", verdict.detail.replace('`', ""))),
        },
        Plugin::InterPodAffinity => match (&verdict.counts, selector(&verdict.detail)) {
            (Some(Counts::Affinity { .. }), Some(selector)) => {
                have(format!("no pod with {selector} in the same {}", domain(verdict)))
            }
            (Some(Counts::AntiAffinity { .. }), Some(selector)) => match domain(verdict) {
                "node" => have(format!("a pod with {selector} already, which it avoids")),
                domain => be(format!("in a {domain} that already has a pod with {selector}")),
            },
            (Some(_), Some(selector)) => {
                be(format!("near a pod that avoids pods with {selector}, in the same {}", domain(verdict)))
            }
            _ => be(format!("excluded: {}", verdict.detail)),
        },
        Plugin::PodTopologySpread => match &verdict.counts {
            Some(Counts::Spread { max_skew, .. }) => {
                be(format!("in a {} with too many of its pods (maxSkew {max_skew})", domain(verdict)))
            }
            _ => lack("the label of its spread constraint".to_owned()),
        },
        Plugin::NodePorts => have(format!("its host port in use ({})", verdict.detail)),
        _ => be(format!("excluded: {}", verdict.detail)),
    }
}

/// What a topology key is called.
fn domain(verdict: &Verdict) -> &str {
    match verdict.topology.as_ref().map_or("", |pair| pair.key.as_str()) {
        HOSTNAME => "node",
        ZONE => "zone",
        REGION => "region",
        "" => "domain",
        key => key.rsplit('/').next().unwrap_or(key),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use berth_input::inventory::Inventory;
    use berth_simulate::SimulationOptions;

    use super::*;

    fn said(text: &str, pod: &str) -> String {
        let inventory = Inventory::from_text(text).unwrap();
        let mut simulation = Simulation::as_is(Cow::Owned(inventory), SimulationOptions::default()).unwrap();
        let explained = simulation.explain("default", pod, None).unwrap();
        sentence(&groups(&simulation, &explained.explanation), explained.explanation.n_nodes)
    }

    #[test]
    fn the_two_gpu_nodes_are_full_or_the_wrong_model() {
        let node = |name: &str, gpus: &str, model: &str| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{model: {model}}}}}, status: {{allocatable: \
                 {{cpu: 9, memory: 9Gi, pods: 9{gpus}}}}}}}\n---\n"
            )
        };
        let pod = |name: &str, spec: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{spec} containers: [{{name: c, image: i, resources: \
                 {{requests: {{nvidia.com/gpu: 4}}, limits: {{nvidia.com/gpu: 4}}}}}}]}}}}\n---\n"
            )
        };
        let text = node("a", "", "none")
            + &node("b", "", "none")
            + &node("c", "", "none")
            + &node("g1", ", nvidia.com/gpu: 4", "a100")
            + &node("g2", ", nvidia.com/gpu: 4", "t4")
            + &pod("full", "nodeName: g1,")
            + &pod("new", "nodeSelector: {model: a100},");
        assert_eq!(
            said(&text, "new"),
            "Needs 4 nvidia.com/gpu: 4 of 5 nodes lack the label model=a100; the other node is full (nvidia.com/gpu)"
        );
    }
}
