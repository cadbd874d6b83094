//! `NodePorts`: a host port can be used once per protocol and address.

use berth_api::object::{ContainerPort, Node, Pod};

use super::{Code, Question, Verdict, reject};

/// The host ports of containers and sidecars.
pub fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|c| c.is_sidecar());
    sidecars.chain(&pod.spec.containers).flat_map(|c| &c.ports).filter(|p| p.host_port > 0)
}

/// Whether two pods cannot use these ports of one node. No address means every address, which conflicts with any.
pub fn conflict(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol =
        |p: &ContainerPort| if p.protocol.is_empty() { "TCP".to_owned() } else { p.protocol.clone() };
    let every = |p: &ContainerPort| p.host_ip.is_empty() || p.host_ip == "0.0.0.0";
    a.host_port == b.host_port
        && protocol(a) == protocol(b)
        && (every(a) || every(b) || a.host_ip == b.host_ip)
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    let taken = |wanted: &ContainerPort| {
        q.pods_on(node).any(|pod| host_ports(pod).any(|used| conflict(wanted, used)))
    };
    if host_ports(q.pod).any(taken) {
        reject(Code::Unschedulable, "node(s) didn't have free ports for the requested pod ports")
    } else {
        Ok(())
    }
}
