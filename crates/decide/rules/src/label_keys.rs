//! The merge of `matchLabelKeys` and `mismatchLabelKeys` into label selectors. The API server does it when a pod is
//! created, before validation.

use berth_api::object::{Affinity, LabelSelector, Pod, PodAffinity, SelectorRequirement, StringMap};

/// Merges the label keys of all pod (anti-)affinity terms and topology spread constraints.
///
/// A key that the pod's labels lack is skipped; a null selector stays null. Not idempotent: merging a
/// pod that the API server already stored would add every requirement a second time.
pub fn merge_label_keys(pod: &mut Pod) {
    change_selectors(pod, add_requirements);
}

/// Removes the requirements that [`merge_label_keys`] has added to a stored pod.
pub fn unmerge_label_keys(pod: &mut Pod) {
    change_selectors(pod, remove_requirements);
}

/// What to do with a selector, for label keys and the operator of their requirements.
type Change = fn(&mut LabelSelector, &[String], &str, &StringMap);

fn change_selectors(pod: &mut Pod, change: Change) {
    let labels = &pod.metadata.labels;
    if let Some(affinity) = &mut pod.spec.affinity {
        change_terms(affinity, labels, change);
    }
    for constraint in &mut pod.spec.topology_spread_constraints {
        if let Some(selector) = &mut constraint.label_selector {
            change(selector, &constraint.match_label_keys, "In", labels);
        }
    }
}

/// Merges the label keys of all pod (anti-)affinity terms of one `Affinity`.
pub(crate) fn merge_affinity(affinity: &mut Affinity, labels: &StringMap) {
    change_terms(affinity, labels, add_requirements);
}

fn change_terms(affinity: &mut Affinity, labels: &StringMap, change: Change) {
    for rules in [&mut affinity.pod_affinity, &mut affinity.pod_anti_affinity].into_iter().flatten() {
        let PodAffinity {
            required_during_scheduling_required_during_execution: enforced,
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred,
        } = rules;
        let preferred = preferred.iter_mut().map(|weighted| &mut weighted.pod_affinity_term);
        for term in enforced.iter_mut().chain(required).chain(preferred) {
            if let Some(selector) = &mut term.label_selector {
                change(selector, &term.match_label_keys, "In", labels);
                change(selector, &term.mismatch_label_keys, "NotIn", labels);
            }
        }
    }
}

/// The longest valid value of a label, in bytes.
const MAX_LABEL_VALUE: usize = 63;

fn add_requirements(selector: &mut LabelSelector, keys: &[String], operator: &str, labels: &StringMap) {
    selector.match_expressions.extend(keys.iter().filter_map(|key| requirement(key, operator, labels)));
}

fn remove_requirements(selector: &mut LabelSelector, keys: &[String], operator: &str, labels: &StringMap) {
    for added in keys.iter().filter_map(|key| requirement(key, operator, labels)) {
        let place = selector.match_expressions.iter().rposition(|requirement| *requirement == added);
        place.map(|place| selector.match_expressions.remove(place));
    }
}

/// The requirement that a label key stands for.
fn requirement(key: &str, operator: &str, labels: &StringMap) -> Option<SelectorRequirement> {
    // Validation refuses longer values; every term would repeat them.
    let value = labels.get(key).filter(|value| value.len() <= MAX_LABEL_VALUE)?;
    Some(SelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: vec![value.clone()],
    })
}
