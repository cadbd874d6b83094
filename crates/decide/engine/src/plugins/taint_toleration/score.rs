//! Taints that pods rather avoid.

use berth_rules::{TaintEffect, Tolerations};

use super::super::rule::Scorer;
use super::filter::tolerate;
use crate::cycle::context::{Context, NodeRef};
use crate::state::node::{NodeRecord, TaintRecord};

struct PreferNoSchedule<'a> {
    context: Context<'a>,
    tolerations: Tolerations,
}

pub(super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let preferring =
        |effect: Option<&TaintEffect>| matches!(effect, None | Some(TaintEffect::PreferNoSchedule));
    let tolerations = context.rule_set.rules().tolerations.of_effects(preferring);
    Some(Box::new(PreferNoSchedule { context, tolerations }))
}

impl PreferNoSchedule<'_> {
    fn intolerable<'n>(&'n self, node: &'n NodeRecord) -> impl Iterator<Item = &'n TaintRecord> {
        let preferring = node.taints.iter().filter(|t| t.effect == TaintEffect::PreferNoSchedule);
        preferring.filter(|taint| !tolerate(self.context.state, &self.tolerations, taint))
    }
}

impl Scorer for PreferNoSchedule<'_> {
    /// Number of `PreferNoSchedule` taints that the pod does not tolerate.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        self.intolerable(node.record).count() as i64
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let part = |taint: &TaintRecord| {
            (
                format!(
                    "taint {}:PreferNoSchedule is not tolerated",
                    self.context.state.symbols.text(taint.key)
                ),
                1,
            )
        };
        self.intolerable(node.record).map(part).collect()
    }
}
