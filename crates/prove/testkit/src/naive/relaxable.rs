//! The rules that a pod may do without.

use berth_api::object::Pod;

use super::relax::{relax_after, spread_path};
use super::terms::{node_selectors, pod_terms};
use super::{Options, terms};

/// The paths of the rules that a pod may do without when it has been pending for this time, in the order in which they are
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
