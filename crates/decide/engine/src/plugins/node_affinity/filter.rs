//! Node selector and required node affinity, including the added affinity of the profile.

use std::fmt;

use berth_input::config::Plugin;
use berth_rules::{NodeRequirement, NodeSelectorRule, NodeTerm};

use super::super::rule::{Filter, PreFilter, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::node::NodeRecord;
use crate::state::rule_set::RuleSet;
use crate::verdict::{Rejection, Status, TopologyPair, Verdict, bounded, joined};

const REASON: &str = "node(s) didn't match Pod's node affinity/selector";
const REASON_ENFORCED: &str = "node(s) didn't match scheduler-enforced node affinity";
const REASON_CONFLICT: &str = "pod affinity terms conflict";

/// If every term names nodes, only these nodes are filtered.
pub(super) fn pre_filter(context: Context<'_>) -> PreFilter {
    match node_names(context.rule_set) {
        None => PreFilter::AllNodes,
        Some([]) => PreFilter::Rejected(Rejection::new(
            Plugin::NodeAffinity,
            Status::UnschedulableAndUnresolvable,
            REASON_CONFLICT,
        )),
        Some(names) => PreFilter::Nodes(Plugin::NodeAffinity, names.to_vec()),
    }
}

/// The names of the nodes that the required terms select by name.
pub(super) fn node_names(rule_set: &RuleSet) -> Option<&[String]> {
    let mut rules = rule_set.rules().required_node_affinity.iter();
    rules.find_map(|r| r.node_names.as_deref())
}

impl RuleSet {
    /// Node selector and required node affinity together.
    pub(crate) fn satisfies_required_node_affinity(&self, state: &State, node: &NodeRecord) -> bool {
        self.node_selector.iter().all(|(k, v)| node.labels.get(*k) == Some(*v))
            && self.required_node_affinity.iter().all(|s| s.matches(&state.symbols, node))
    }
}

pub(super) fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    let rules = context.rule_set.rules();
    let needed = context.profile.added_required.is_some()
        || !rules.node_selector.is_empty()
        || !rules.required_node_affinity.is_empty();
    needed.then(|| Box::new(RequiredNodeAffinity { context }) as Box<dyn Filter>)
}

struct RequiredNodeAffinity<'a> {
    context: Context<'a>,
}

impl RequiredNodeAffinity<'_> {
    fn satisfies_added_affinity(&self, node: NodeRef<'_>) -> bool {
        let added = self.context.profile.added_required.as_ref();
        added.is_none_or(|(_, matcher)| matcher.matches(&self.context.state.symbols, node.record))
    }
}

impl Filter for RequiredNodeAffinity<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection =
            |reason| Some(Rejection::new(Plugin::NodeAffinity, Status::UnschedulableAndUnresolvable, reason));
        if !self.satisfies_added_affinity(node) {
            return rejection(REASON_ENFORCED);
        }
        if !self.context.rule_set.satisfies_required_node_affinity(self.context.state, node.record) {
            return rejection(REASON);
        }
        None
    }

    fn terms(&self) -> Vec<TermInfo> {
        let Context { rule_set, profile, .. } = self.context;
        let selector = rule_set
            .rules()
            .node_selector
            .iter()
            .map(|(key, value)| TermInfo { term: selector_path(key), detail: selector_detail(key, value) });
        let added = profile.added_required.iter().map(|(rule, _)| rule);
        let rules = added.chain(&rule_set.rules().required_node_affinity);
        selector.chain(rules.map(|r| TermInfo { term: r.path.clone(), detail: describe(r) })).collect()
    }

    fn n_compared(&self, _node: NodeRef<'_>) -> usize {
        let rules = self.context.rule_set.rules();
        let terms = rules.required_node_affinity.iter().flat_map(|rule| &rule.terms);
        let of_term = |term: &NodeTerm| match term {
            NodeTerm::All(requirements) => requirements.len() + 1,
            _ => 1,
        };
        rules.node_selector.len() + terms.map(of_term).sum::<usize>()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let Context { state, rule_set, profile, .. } = self.context;
        let verdict = |reason, detail, path: String| {
            Verdict::new(Plugin::NodeAffinity, Status::UnschedulableAndUnresolvable, reason, detail)
                .term(path)
        };
        let mut verdicts = Vec::new();
        if let Some((rule, _)) = &profile.added_required
            && !self.satisfies_added_affinity(node)
        {
            verdicts.push(verdict(REASON_ENFORCED, describe(rule), rule.path.clone()));
        }
        for ((key, value), (text, wanted)) in
            rule_set.node_selector.iter().zip(&rule_set.rules().node_selector)
        {
            let found = node.record.labels.get(*key);
            if found != Some(*value) {
                let pair = TopologyPair {
                    key: text.clone(),
                    value: found.map(|v| state.symbols.text(v).to_owned()),
                };
                let detail = selector_detail(text, wanted);
                let path = selector_path(text);
                verdicts.push(verdict(REASON, detail, path).topology(Some(pair)));
            }
        }
        for (rule, matcher) in
            rule_set.rules().required_node_affinity.iter().zip(&rule_set.required_node_affinity)
        {
            if !matcher.matches(&state.symbols, node.record) {
                verdicts.push(required_verdict(rule));
            }
        }
        verdicts
    }
}

/// Why a node does not match a required node selector of the pod.
pub(crate) fn required_verdict(rule: &NodeSelectorRule) -> Verdict {
    let status = Status::UnschedulableAndUnresolvable;
    Verdict::new(Plugin::NodeAffinity, status, REASON, describe(rule)).term(&rule.path)
}

fn selector_path(key: &str) -> String {
    format!("spec.nodeSelector[{key}]")
}

fn selector_detail(key: &str, value: &str) -> String {
    format!("the node must have the label {key}={value}")
}

fn describe(rule: &NodeSelectorRule) -> String {
    let term = |term: &NodeTerm| match term {
        NodeTerm::Nothing => "an empty or null term, which matches no node".to_owned(),
        NodeTerm::Invalid(why) => format!("an invalid term, which matches no node ({why})"),
        NodeTerm::All(requirements) if requirements.is_empty() => "every node".to_owned(),
        NodeTerm::All(requirements) => bounded(joined(requirements.iter().map(quoted), " and ")),
    };
    match rule.terms.as_slice() {
        [] => "the selector has no terms and matches no node".to_owned(),
        terms => bounded(format_args!("the node must match {}", joined(terms.iter().map(term), " or "))),
    }
}

fn quoted(requirement: &NodeRequirement) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "`{requirement}`"))
}
