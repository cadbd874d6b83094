//! Features that the pod requires of the kubelet, against those that the node declares.

use berth_input::config::Plugin;
use berth_rules::NodeFeatures;

use super::rule::{Filter, Reads, Rule, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::verdict::{Rejection, Status, Verdict};

const REASON: &str = "node(s) didn't match Pod's required features";

pub(super) struct NodeDeclaredFeatures;

impl Rule for NodeDeclaredFeatures {
    const PLUGIN: Plugin = Plugin::NodeDeclaredFeatures;
    const READS: Reads = Reads::NODE_CLASS;

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let required = context.rule_set.rules().required_features;
        (!required.is_empty()).then(|| Box::new(RequiredFeatures { required }) as Box<dyn Filter>)
    }
}

struct RequiredFeatures {
    required: NodeFeatures,
}

fn describe(feature: &str) -> String {
    format!("requires nodes that declare the feature {feature}")
}

impl Filter for RequiredFeatures {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection =
            || Rejection::new(Plugin::NodeDeclaredFeatures, Status::UnschedulableAndUnresolvable, REASON);
        (!self.required.without(node.record.declared_features).is_empty()).then(rejection)
    }

    fn terms(&self) -> Vec<TermInfo> {
        let term =
            |(feature, field): (&str, &str)| TermInfo { term: field.to_owned(), detail: describe(feature) };
        self.required.iter().map(term).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let (plugin, status) = (Plugin::NodeDeclaredFeatures, Status::UnschedulableAndUnresolvable);
        let missing = self.required.without(node.record.declared_features).iter();
        missing
            .map(|(feature, field)| Verdict::new(plugin, status, REASON, describe(feature)).term(field))
            .collect()
    }
}
