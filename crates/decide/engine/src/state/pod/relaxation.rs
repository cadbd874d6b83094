//! Relaxed anti-affinity: an existing pod's term that can be relaxed does not reject a pod that has relaxed an equal one.
//!
//! Such a pod is decided with a label set that has a mark for each term that it has relaxed, and relaxable terms of required
//! anti-affinity select only pods without their mark. A pod that runs has no marks: it counts for the terms
//! of pods that have relaxed none. A mark is no valid label key: no label and no selector of a user has it.

use berth_rules::PodTerm;

use crate::state::State;
use crate::state::counting::matcher::PodQuery;
use crate::state::pod::signature::{LabelSetId, PodLabels};
use crate::state::rule_set::RuleSetId;

fn mark(PodTerm { dialect, selector, namespaces, topology, limit, .. }: &PodTerm) -> String {
    format!(" relaxed {dialect:?} {selector:?} {namespaces:?} {topology:?} {limit}")
}

impl State {
    /// The label set with marks that a pod is decided with, with one more user; none if it has relaxed no anti-affinity.
    pub(in crate::state) fn relaxed_label_set(
        &mut self,
        rule_set: RuleSetId,
        label_set: LabelSetId,
    ) -> Option<LabelSetId> {
        let relaxed = &self.rule_sets.get(rule_set).rules().relaxed_anti_affinity;
        if relaxed.is_empty() {
            return None;
        }
        let mut marks: Vec<_> = relaxed.iter().map(|term| (mark(term), String::new())).collect();
        marks.sort_unstable();
        marks.dedup();
        let PodLabels { namespace, terminating, labels } = &self.label_sets.get(label_set).of;
        let labels = labels.with(&mut self.symbols, &marks);
        let of = PodLabels { namespace: *namespace, terminating: *terminating, labels };
        self.symbols.retain(of.namespace);
        Some(self.label_set(of))
    }

    /// Restricts the query of a relaxable term of required anti-affinity to pods that have not relaxed an equal one.
    pub(in crate::state) fn exclude_relaxed(&mut self, query: &mut PodQuery, term: &PodTerm) {
        if !query.labels.is_nothing() {
            query.labels.exclude([self.symbols.intern(&mark(term))]);
        }
    }
}
