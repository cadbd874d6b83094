//! Taints that keep pods off a node.

use berth_input::config::Plugin;
use berth_rules::{TaintEffect, Tolerations};

use super::super::rule::{Filter, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::node::{NodeRecord, TaintRecord};
use crate::verdict::{Rejection, Status, Verdict};

const TERM: &str = "spec.tolerations";
const REASON: &str = "node(s) had untolerated taint(s)";

pub(super) fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    Some(Box::new(ToleratedTaints { context }))
}

struct ToleratedTaints<'a> {
    context: Context<'a>,
}

/// The taints of the node that reject the pod.
fn untolerated<'a>(
    state: &'a State,
    tolerations: &'a Tolerations,
    node: &'a NodeRecord,
) -> impl Iterator<Item = &'a TaintRecord> {
    let forbidding = node.taints.iter().filter(|t| t.effect.forbids_scheduling());
    forbidding.filter(move |taint| !tolerate(state, tolerations, taint))
}

pub(crate) fn tolerate(state: &State, tolerations: &Tolerations, taint: &TaintRecord) -> bool {
    let (key, value) = (state.symbols.text(taint.key), state.symbols.text(taint.value));
    tolerations.tolerate_parts(key, value, &taint.effect)
}

impl Context<'_> {
    /// Whether no taint of the node rejects the pod.
    pub(crate) fn tolerates_node(&self, node: &NodeRecord) -> bool {
        node.taints.is_empty()
            || untolerated(self.state, &self.rule_set.rules().tolerations, node).next().is_none()
    }
}

impl Filter for ToleratedTaints<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection =
            || Rejection::new(Plugin::TaintToleration, Status::UnschedulableAndUnresolvable, REASON);
        (!self.context.tolerates_node(node.record)).then(rejection)
    }

    /// None: taints belong to nodes, and appear in the verdicts of the nodes that they reject.
    fn terms(&self) -> Vec<TermInfo> {
        Vec::new()
    }

    fn n_compared(&self, node: NodeRef<'_>) -> usize {
        node.record.taints.len()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        self.verdicts_of(node, |_| true)
    }

    /// `NoSchedule` keeps new pods away; only `NoExecute` concerns those that run.
    fn verdicts_for_running(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        self.verdicts_of(node, |effect| *effect == TaintEffect::NoExecute)
    }
}

impl ToleratedTaints<'_> {
    /// The reasons of taints with certain effects.
    fn verdicts_of(&self, node: NodeRef<'_>, counts: impl Fn(&TaintEffect) -> bool) -> Vec<Verdict> {
        let state = self.context.state;
        let verdict = |taint: &TaintRecord| {
            let effect = if taint.effect == TaintEffect::NoExecute { "NoExecute" } else { "NoSchedule" };
            let value = state.symbols.text(taint.value);
            let value = if value.is_empty() { String::new() } else { format!("={value}") };
            let detail = format!("taint {}{value}:{effect} is not tolerated", state.symbols.text(taint.key));
            Verdict::new(Plugin::TaintToleration, Status::UnschedulableAndUnresolvable, REASON, detail)
                .term(TERM)
        };
        let untolerated = untolerated(state, &self.context.rule_set.rules().tolerations, node.record);
        untolerated.filter(|taint| counts(&taint.effect)).map(verdict).collect()
    }
}
