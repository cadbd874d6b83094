//! Host ports.

use berth_input::config::Plugin;
use berth_rules::HostPort;

use super::rule::{Filter, Reads, Rule, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::verdict::{Rejection, Status, Verdict, ViolatedRule, Witness};

const TERM: &str = "spec.containers[*].ports[*].hostPort";
const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

pub(super) struct NodePorts;

impl Rule for NodePorts {
    const PLUGIN: Plugin = Plugin::NodePorts;
    const READS: Reads = Reads::NODE_USAGE;
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::NodePorts);

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let needed = !context.rule_set.rules().host_ports.is_empty();
        needed.then(|| Box::new(FreePorts { context }) as Box<dyn Filter>)
    }
}

struct FreePorts<'a> {
    context: Context<'a>,
}

impl FreePorts<'_> {
    fn taken<'n>(&'n self, node: NodeRef<'n>) -> impl Iterator<Item = &'n HostPort> {
        let wanted = self.context.rule_set.rules().host_ports.iter();
        wanted.filter(move |port| port.conflicts_with_any(&node.record.ports))
    }
}

impl Filter for FreePorts<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let taken = self.taken(node).next();
        taken.map(|_| Rejection::new(Plugin::NodePorts, Status::Unschedulable, REASON))
    }

    fn terms(&self) -> Vec<TermInfo> {
        let ports = self.context.rule_set.rules().host_ports.iter();
        ports.map(|p| TermInfo { term: TERM.to_owned(), detail: describe(p) }).collect()
    }

    fn n_compared(&self, node: NodeRef<'_>) -> usize {
        self.context.rule_set.rules().host_ports.len() * (node.record.pods.len() + 1)
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let verdict = |port: &HostPort| {
            let uses = |rule_set| port.conflicts_with_any(&state.rule_sets.get(rule_set).rules().host_ports);
            let users = node.record.pods.iter().filter(|p| uses(state.pods.get(**p).rule_set));
            let mut witnesses: Vec<Witness> = users.map(|p| state.witness(*p)).collect();
            witnesses.sort_unstable();
            Verdict::new(Plugin::NodePorts, Status::Unschedulable, REASON, describe(port))
                .term(TERM)
                .witnesses((witnesses, 0))
        };
        self.taken(node).map(verdict).collect()
    }
}

fn describe(port: &HostPort) -> String {
    let address = if port.ip == HostPort::ANY_IP { "every address" } else { &port.ip };
    format!("host port {}/{} must be free on {address}", port.port, port.protocol)
}
