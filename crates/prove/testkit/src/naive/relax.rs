//! Fallbacks: required rules that a pod does without once it has been pending for long enough.

use berth_api::object::Pod;

use super::terms::{node_selectors, pod_terms};
use super::{Options, terms};

/// The name of the annotation with the time after which all relaxable rules become preferences.
pub const RELAX_AFTER_ANNOTATION: &str = "scheduling.berth.dev/relax-after";

/// The name of the annotation with the paths of the relaxed rules. Here, pods that are to be decided have it, too.
pub const RELAXED_ANNOTATION: &str = "scheduling.berth.dev/relaxed";

/// Reads `30s` or `5m`: no other forms are generated.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.len() - 1);
    Some(number.parse::<u64>().ok()? * if unit == "m" { 60 } else { 1 })
}

/// The time after which a rule is relaxed, in seconds: its own, or that of the pod.
fn relax_after(pod: &Pod, own: Option<&String>) -> Option<u64> {
    seconds(own.or_else(|| pod.metadata.annotations.get(RELAX_AFTER_ANNOTATION))?)
}

pub fn can_be_relaxed(pod: &Pod, own: Option<&String>, options: &Options) -> bool {
    options.extensions && relax_after(pod, own).is_some()
}

/// Whether a pod does without the rule with a path.
pub fn is_relaxed(pod: &Pod, path: &str, own: Option<&String>, options: &Options) -> bool {
    let listed = pod.metadata.annotations.get(RELAXED_ANNOTATION).map_or("", String::as_str);
    can_be_relaxed(pod, own, options) && listed.split(',').any(|relaxed| relaxed == path)
}

pub fn spread_path(i: usize) -> String {
    format!("spec.topologySpreadConstraints[{i}]")
}

/// The paths of the rules that a pod may do without when it has been pending for so long, in the order in which they are
/// relaxed: the terms of the specification, its spread constraints, the terms of the annotation.
pub fn relaxable(pod: &Pod, pending_seconds: u64, options: &Options) -> Vec<String> {
    let mut rules: Vec<(String, Option<String>)> = Vec::new();
    let of_pods = || {
        let terms = [terms::PICK_AFFINITY, terms::PICK_ANTI_AFFINITY].into_iter();
        terms.flat_map(|pick| pod_terms(pod, options, pick)).filter(|term| !term.executing)
    };
    let is_annotated = |path: &str| path.starts_with("metadata.");
    rules.extend(of_pods().filter(|term| !is_annotated(&term.path)).map(|term| (term.path, None)));
    for (i, constraint) in pod.spec.topology_spread_constraints.iter().enumerate() {
        if constraint.when_unsatisfiable == "DoNotSchedule" {
            rules.push((spread_path(i), None));
        }
    }
    let nodes = node_selectors(pod, options).into_iter().filter(|s| !s.executing && is_annotated(&s.path));
    rules.extend(nodes.map(|selector| (selector.path, selector.selector.relax_after)));
    rules.extend(of_pods().filter(|term| is_annotated(&term.path)).map(|term| (term.path, term.relax_after)));
    let is_due = |own: Option<&String>| relax_after(pod, own).is_some_and(|after| after <= pending_seconds);
    rules.retain(|(_, own)| options.extensions && is_due(own.as_ref()));
    rules.into_iter().map(|(path, _)| path).collect()
}
