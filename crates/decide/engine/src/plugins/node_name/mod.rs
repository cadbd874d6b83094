//! `spec.nodeName`.

use berth_input::config::Plugin;

use super::rule::{Filter, Reads, Rule, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::verdict::{Rejection, Status, Verdict};

const TERM: &str = "spec.nodeName";
const REASON: &str = "node(s) didn't match the requested node name";

pub(super) struct NodeName;

impl Rule for NodeName {
    const PLUGIN: Plugin = Plugin::NodeName;
    const READS: Reads = Reads::NODE_LABELS;

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let name = context.cycle.node_name.as_deref()?;
        Some(Box::new(Named { context, name }))
    }
}

struct Named<'a> {
    context: Context<'a>,
    name: &'a str,
}

impl Named<'_> {
    fn detail(&self) -> String {
        format!("the node must be named {}", self.name)
    }
}

impl Filter for Named<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection = || Rejection::new(Plugin::NodeName, Status::UnschedulableAndUnresolvable, REASON);
        (self.context.state.symbols.text(node.record.name) != self.name).then(rejection)
    }

    fn terms(&self) -> Vec<TermInfo> {
        vec![TermInfo { term: TERM.to_owned(), detail: self.detail() }]
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let verdict = |rejection: Rejection| {
            Verdict::new(rejection.plugin, rejection.status, REASON, self.detail()).term(TERM)
        };
        self.check(node).map(verdict).into_iter().collect()
    }
}
