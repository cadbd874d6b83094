//! `DefaultPreemption`: victim selection.
//!
//! It works on copies of the world, one node at a time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::feature_gates::FeatureGates;
use berth_api::feature_gates::KubernetesVersion::{V1_37, V1_38};
use berth_api::object::{NamespacedName, Node, Pod};
use berth_input::config::{Plugin, Profile};

use super::decide::{evaluate, first_rejection, rejection};
use super::{
    Code, NodeResult, Options, Question, Rejection, World, devices, is_preempted, same_pod, selector,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victims {
    /// The node on which the pod fits without them.
    pub node: String,
    /// The victims, the most important first.
    pub victims: Vec<NamespacedName>,
    /// The number of victims that a budget protects.
    pub n_pdb_violations: usize,
}

/// The victims for an unschedulable pod, or kube-scheduler's message if there are none.
pub fn preempt(world: &World, pod: &Pod, profile: &Profile, options: &Options) -> Result<Victims, String> {
    if pod.spec.preemption_policy.as_deref() == Some("Never") {
        return Err("preemption: not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if world.nodes.is_empty() {
        return Err(String::new());
    }
    let decision = evaluate(world, pod, profile, options);
    let unschedulable = |node: &Node| {
        let result = decision.nodes.get(&node.metadata.name);
        matches!(result, Some(NodeResult::Rejected(r)) if r.code == Code::Unschedulable)
    };
    let nominated_to = world.nominated.iter().find(|p| same_pod(p, pod)).map(|p| &p.spec.node_name);
    let nominated_to = world.nodes.iter().find(|n| Some(&n.metadata.name) == nominated_to);
    if let Some(node) = nominated_to.filter(|n| unschedulable(n)) {
        let leaving =
            |p: &&Pod| p.spec.node_name == node.metadata.name && is_lower(p, pod) && is_preempted(p);
        let q = Question { world, cycle: world, pod, profile, options };
        let later = devices::without_gone(q);
        let fits_later = || first_rejection(Question { world: &later, ..q }, node) == Ok(None);
        let has_claims =
            || devices::pre_filter(q) == Ok(true) && profile.filter.contains(&Plugin::DynamicResources);
        let waits = devices::preempts_for_devices(q) && has_claims() && fits_later();
        if world.pods.iter().any(|p| leaving(&p)) || waits {
            let reason = "not eligible due to a terminating pod on the nominated node.";
            return Err(format!("preemption: {reason}"));
        }
    }

    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut candidates: Vec<(Victims, Vec<Pod>)> = Vec::new();
    for node in &world.nodes {
        let found = if unschedulable(node) {
            victims_on(world, pod, profile, options, node)
        } else {
            Err(vec!["Preemption is not helpful for scheduling".to_owned()])
        };
        match found {
            Ok(candidate) => candidates.push(candidate),
            Err(texts) => texts.into_iter().for_each(|t| *reasons.entry(t).or_default() += 1),
        }
    }
    let best = candidates.into_iter().min_by_key(|(victims, pods)| {
        let highest = pods.iter().map(priority).max().unwrap_or(0);
        let sum: i64 = pods.iter().map(|p| priority(p) + (1 << 31)).sum();
        let starts = pods.iter().filter(|p| priority(p) == highest).map(start);
        let earliest = starts.min();
        (victims.n_pdb_violations, highest, sum, pods.len(), Reverse(earliest), victims.node.clone())
    });
    if let Some((victims, _)) = best {
        return Ok(victims);
    }
    let mut texts: Vec<_> = reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    texts.sort();
    Err(format!("preemption: 0/{} nodes are available: {}.", world.nodes.len(), texts.join(", ")))
}

/// The victims on one node; or why there are none.
fn victims_on(
    world: &World,
    pod: &Pod,
    profile: &Profile,
    options: &Options,
    node: &Node,
) -> Result<(Victims, Vec<Pod>), Vec<String>> {
    let no_victims = || vec!["No preemption victims found for incoming pod".to_owned()];
    let may_go = |p: &&Pod| p.spec.node_name == node.metadata.name && is_lower(p, pod);
    let mut lower: Vec<Pod> = world.pods.iter().filter(may_go).cloned().collect();
    if lower.is_empty() {
        return Err(no_victims());
    }
    lower.sort_by_key(importance);
    let (cycle, mut without) = (world, world.clone());
    without.pods.retain(|p| !lower.contains(p));
    let was_deleted = |p: &&Pod| p.metadata.deletion_timestamp.is_some();
    without.removed = lower.iter().filter(was_deleted).cloned().collect();
    let rejected = |world: &World| -> Option<Rejection> {
        rejection(Question { world, cycle, pod, profile, options }, node).ok().flatten()
    };
    if let Some(rejection) = rejected(&without) {
        return Err(rejection.reasons);
    }
    let (protected, others): (Vec<Pod>, Vec<Pod>) = {
        let violating = violating(world, &lower, options.feature_gates);
        lower.into_iter().partition(|p| violating.contains(p))
    };
    let (mut victims, mut n_pdb_violations) = (Vec::new(), 0);
    for candidate in protected.iter().chain(&others) {
        let mut with = without.clone();
        with.pods.push(candidate.clone());
        with.removed.retain(|p| p != candidate);
        if rejected(&with).is_none() {
            without = with;
        } else {
            n_pdb_violations += usize::from(protected.contains(candidate));
            victims.push(candidate.clone());
        }
    }
    if victims.is_empty() {
        return Err(no_victims());
    }
    victims.sort_by_key(importance);
    let keys = victims.iter().map(|p| p.metadata.namespaced_name()).collect();
    Ok((Victims { node: node.metadata.name.clone(), victims: keys, n_pdb_violations }, victims))
}

/// Those of these pods, in this order, whose eviction violates a budget.
fn violating(world: &World, pods: &[Pod], gates: FeatureGates) -> Vec<Pod> {
    let mut allowed: Vec<i32> =
        world.budgets.iter().map(|b| b.status.disruptions_allowed.unwrap_or(0)).collect();
    let mut violating = Vec::new();
    for pod in pods {
        let mut violated = false;
        for (budget, allowed) in world.budgets.iter().zip(&mut allowed) {
            let has_requirements = budget.spec.selector.as_ref().is_some_and(|s| !selector::is_empty(s));
            let protects = budget.metadata.namespace == pod.metadata.namespace
                && (gates.version >= V1_38 || has_requirements && !pod.metadata.labels.is_empty())
                && selector::selects(budget.spec.selector.as_ref(), &pod.metadata.labels);
            if protects && !budget.status.disrupted_pods.contains_key(&pod.metadata.name) {
                *allowed -= 1;
                violated |= *allowed < 0;
                if violated && gates.version >= V1_37 {
                    break;
                }
            }
        }
        if violated {
            violating.push(pod.clone());
        }
    }
    violating
}

fn priority(pod: &Pod) -> i64 {
    i64::from(pod.spec.priority.unwrap_or(0))
}

fn is_lower(pod: &Pod, than: &Pod) -> bool {
    priority(pod) < priority(than)
}

/// When a pod started; a pod that has not started is later than all others.
fn start(pod: &Pod) -> i64 {
    pod.started().unwrap_or(i64::MAX)
}

fn importance(pod: &Pod) -> impl Ord + use<> {
    let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
    (Reverse(priority(pod)), start(pod), namespace, name)
}
