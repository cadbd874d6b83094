//! Cordoned nodes.

use berth_api::object::UNSCHEDULABLE_TAINT;
use berth_input::config::Plugin;
use berth_rules::TaintEffect;

use super::rule::{Filter, Reads, Rule, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::verdict::{Rejection, Status, Verdict};

const REASON: &str = "node(s) were unschedulable";
const DETAIL: &str = "the node must not be cordoned";
const TERM: &str = "spec.unschedulable of the node";

pub(super) struct NodeUnschedulable;

impl Rule for NodeUnschedulable {
    const PLUGIN: Plugin = Plugin::NodeUnschedulable;
    const READS: Reads = Reads::NODE_CLASS;

    /// None for a pod that tolerates the taint of cordoned nodes.
    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let tolerations = &context.rule_set.rules().tolerations;
        let tolerated = tolerations.tolerate_parts(UNSCHEDULABLE_TAINT, "", &TaintEffect::NoSchedule);
        (!tolerated).then(|| Box::new(NodeUnschedulable) as Box<dyn Filter>)
    }
}

impl Filter for NodeUnschedulable {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection =
            || Rejection::new(Plugin::NodeUnschedulable, Status::UnschedulableAndUnresolvable, REASON);
        node.record.unschedulable.then(rejection)
    }

    fn terms(&self) -> Vec<TermInfo> {
        vec![TermInfo { term: TERM.to_owned(), detail: DETAIL.to_owned() }]
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let verdict = |rejection: Rejection| {
            Verdict::new(rejection.plugin, rejection.status, REASON, DETAIL.to_owned()).term(TERM)
        };
        self.check(node).map(verdict).into_iter().collect()
    }

    /// None: a cordon keeps new pods away.
    fn verdicts_for_running(&self, _node: NodeRef<'_>) -> Vec<Verdict> {
        Vec::new()
    }
}
