//! Rules between a node and the pods on it.

use std::collections::BTreeMap;

use crate::naive;
use berth_api::object::{ContainerPort, Node, Pod, ResourceList, Taint};

use super::{Findings, Placed, Rule};

/// Checks a node and the templates of its pods, which have these requests.
pub fn check(
    node: &Node,
    number: u32,
    templates: &[(Pod, ResourceList)],
    on_node: &[u32],
    findings: &mut Findings,
) {
    let mut requested: BTreeMap<&str, i128> = BTreeMap::new();
    let mut ports: Vec<&ContainerPort> = Vec::new();
    for index in on_node {
        let at = Placed { template: *index, node: number };
        let (pod, requests) = &templates[*index as usize];
        if !accepts_node(pod, node) {
            findings.add(Rule::NodeAffinity, at, || node.metadata.name.clone());
        }
        if node.spec.unschedulable && !naive::is_tolerated(&cordon(), pod, false) {
            findings.add(Rule::Unschedulable, at, || node.metadata.name.clone());
        }
        if let Some(taint) = naive::untolerated(pod, node, false) {
            findings.add(Rule::Taint, at, || format!("{}: {}", node.metadata.name, taint.key));
        }
        for port in naive::host_ports(pod) {
            if ports.iter().any(|other| naive::ports_conflict(port, other)) {
                findings.add(Rule::Ports, at, || format!("{}: {}", node.metadata.name, port.host_port));
            }
            ports.push(port);
        }
        for name in requests.keys() {
            *requested.entry(name).or_default() += i128::from(naive::amount(requests, name));
        }
    }
    let Some(last) = on_node.last() else { return };
    let at = Placed { template: *last, node: number };
    let offer = |name: &str| i128::from(naive::allocatable(node, name).unwrap_or(0));
    for (name, amount) in requested {
        if amount > offer(name) {
            let detail = || format!("{}: {name}: {amount} of {}", node.metadata.name, offer(name));
            findings.add(Rule::Resources, at, detail);
        }
    }
    if on_node.len() as i128 > offer("pods") {
        findings.add(Rule::PodCount, at, || format!("{}: {} pods", node.metadata.name, on_node.len()));
    }
}

/// Whether `nodeName`, `nodeSelector` and required node affinity allow a pod on a node.
pub fn accepts_node(pod: &Pod, node: &Node) -> bool {
    let required = pod.spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = required.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    (pod.spec.node_name.is_empty() || pod.spec.node_name == node.metadata.name)
        && naive::contains_all(&pod.spec.node_selector, &node.metadata.labels)
        && required.is_none_or(|selector| naive::selects_node(selector, node))
}

fn cordon() -> Taint {
    Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    }
}
