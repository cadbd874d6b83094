//! The merge of `matchLabelKeys` and `mismatchLabelKeys` into label selectors. The API server does it when a pod is
//! created, before validation.

use crate::object::{
    Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm, SelectorRequirement, StringMap,
};

/// Merges the label keys of all pod (anti-)affinity terms and topology spread constraints.
///
/// A key that the pod's labels lack is skipped; a null selector stays null. Not idempotent: merging a
/// pod that the API server already stored would add every requirement a second time.
pub fn merge_label_keys(pod: &mut Pod) {
    let labels = &pod.metadata.labels;
    if let Some(affinity) = &mut pod.spec.affinity {
        merge_affinity(affinity, labels);
    }
    for constraint in &mut pod.spec.topology_spread_constraints {
        if let Some(selector) = &mut constraint.label_selector {
            add_requirements(selector, &constraint.match_label_keys, "In", labels);
        }
    }
}

/// Merges the label keys of all pod (anti-)affinity terms of one `Affinity`.
pub(crate) fn merge_affinity(affinity: &mut Affinity, labels: &StringMap) {
    for rules in [&mut affinity.pod_affinity, &mut affinity.pod_anti_affinity].into_iter().flatten() {
        let PodAffinity {
            required_during_scheduling_required_during_execution: enforced,
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred,
        } = rules;
        let preferred = preferred.iter_mut().map(|weighted| &mut weighted.pod_affinity_term);
        for term in enforced.iter_mut().chain(required).chain(preferred) {
            merge_term(term, labels);
        }
    }
}

/// The longest valid value of a label, in bytes.
const MAX_LABEL_VALUE: usize = 63;

fn merge_term(term: &mut PodAffinityTerm, labels: &StringMap) {
    if let Some(selector) = &mut term.label_selector {
        add_requirements(selector, &term.match_label_keys, "In", labels);
        add_requirements(selector, &term.mismatch_label_keys, "NotIn", labels);
    }
}

fn add_requirements(selector: &mut LabelSelector, keys: &[String], operator: &str, labels: &StringMap) {
    for key in keys {
        // Validation refuses longer values; every term would repeat them.
        if let Some(value) = labels.get(key).filter(|value| value.len() <= MAX_LABEL_VALUE) {
            selector.match_expressions.push(SelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: vec![value.clone()],
            });
        }
    }
}
