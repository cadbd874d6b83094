//! Rules between a node and the pods on it.

use std::collections::BTreeMap;

use berth_api::object::{Container, ContainerPort, Node, Pod, Taint};
use berth_api::syntax::quantity::Quantity;

use super::selectors::accepts_node;
use super::{Findings, Placed, Rule};

/// Checks a node and the templates of its pods.
pub fn check(node: &Node, number: u32, templates: &[Pod], on_node: &[u32], findings: &mut Findings) {
    let mut requested: BTreeMap<&str, i128> = BTreeMap::new();
    let mut ports: Vec<&ContainerPort> = Vec::new();
    for index in on_node {
        let at = Placed { template: *index, node: number };
        let pod = &templates[*index as usize];
        if !accepts_node(pod, node) {
            findings.add(Rule::NodeAffinity, at, || node.metadata.name.clone());
        }
        let cordon = cordon();
        if node.spec.unschedulable && !tolerates(pod, &cordon) {
            findings.add(Rule::Unschedulable, at, || node.metadata.name.clone());
        }
        if let Some(taint) = untolerated(pod, node) {
            findings.add(Rule::Taint, at, || format!("{}: {}", node.metadata.name, taint.key));
        }
        for port in pod.spec.containers.iter().flat_map(|c| &c.ports).filter(|p| p.host_port > 0) {
            if ports.iter().any(|other| collide(port, other)) {
                findings.add(Rule::Ports, at, || format!("{}: {}", node.metadata.name, port.host_port));
            }
            ports.push(port);
        }
        let of_containers = pod.spec.containers.iter().flat_map(requests);
        let overhead = pod.spec.overhead.iter().map(|(name, amount)| (name.as_str(), *amount));
        for (name, amount) in of_containers.chain(overhead) {
            *requested.entry(name).or_default() += amount_of(name, amount);
        }
    }
    let Some(last) = on_node.last() else { return };
    let at = Placed { template: *last, node: number };
    let offered = node.status.allocatable.as_ref().or(node.status.capacity.as_ref());
    let offer = |name: &str| offered.and_then(|list| list.get(name)).map_or(0, |q| amount_of(name, *q));
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

/// The requests of a container; a limit is used where a request is missing.
fn requests(container: &Container) -> impl Iterator<Item = (&str, Quantity)> {
    let written = &container.resources.requests;
    let limits = container.resources.limits.iter().filter(|(name, _)| !written.contains_key(*name));
    written.iter().chain(limits).map(|(name, amount)| (name.as_str(), *amount))
}

/// CPU in thousandths, everything else in units.
fn amount_of(resource: &str, quantity: Quantity) -> i128 {
    i128::from(if resource == "cpu" { quantity.millis() } else { quantity.units() })
}

fn collide(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol =
        |p: &ContainerPort| if p.protocol.is_empty() { "TCP".to_owned() } else { p.protocol.clone() };
    let everywhere = |p: &ContainerPort| p.host_ip.is_empty() || p.host_ip == "0.0.0.0";
    a.host_port == b.host_port
        && protocol(a) == protocol(b)
        && (everywhere(a) || everywhere(b) || a.host_ip == b.host_ip)
}

fn cordon() -> Taint {
    Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    }
}

/// The first taint that the pod does not tolerate.
pub fn untolerated<'n>(pod: &Pod, node: &'n Node) -> Option<&'n Taint> {
    let repels = |t: &&Taint| matches!(t.effect.as_str(), "NoSchedule" | "NoExecute");
    node.spec.taints.iter().filter(repels).find(|taint| !tolerates(pod, taint))
}

fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|t| {
        (t.effect.is_empty() || t.effect == taint.effect)
            && (t.key == taint.key || t.key.is_empty() && t.operator == "Exists")
            && (t.operator == "Exists" || t.value == taint.value)
    })
}
