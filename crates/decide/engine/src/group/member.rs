//! Members as they are searched for: which of their rules other members may satisfy.

use berth_rules::{PodRules, WhenUnsatisfiable};

use super::domain::Domain;
use super::{matches, terms_satisfied};
use crate::state::State;
use crate::state::pod::prepared::PreparedPod;

/// A member as it is searched for.
pub(super) struct Member {
    /// With the rules that a complete placement has to keep.
    pub(super) valid: PreparedPod,
    /// With the rules that choose among nodes.
    pub(super) strict: PreparedPod,
    /// The same without the rules that later members may satisfy, if there are any.
    pub(super) relaxed: Option<PreparedPod>,
    /// The last member, by order of decision, that may satisfy these rules.
    pub(super) settled_by: usize,
}

impl Member {
    /// The members in the order of decision, restricted to a domain.
    pub(super) fn all(
        state: &mut State,
        pods: &[PreparedPod],
        order: &[usize],
        domain: &Domain,
    ) -> Vec<Member> {
        let mut restricted = PodRules::default();
        domain.restrict(state, &mut restricted);
        let within = |rules: &mut PodRules| {
            // The domain is no rule of the member, by which its spread constraints would choose the nodes that they count.
            if rules.node_selector.is_empty() && rules.required_node_affinity.is_empty() {
                rules
                    .spread_constraints
                    .iter_mut()
                    .for_each(|c| c.honor_node_affinity &= domain.labels.is_empty());
            }
            rules.node_selector.extend(restricted.node_selector.iter().cloned());
            rules.required_node_affinity.extend(restricted.required_node_affinity.iter().cloned());
        };
        let member = |(at, i): (usize, &usize)| {
            let pod = &pods[*i];
            let later = order[at + 1..].iter().map(|i| &pods[*i]);
            let strict = match domain.labels[..] {
                [] => pod.clone(),
                _ => state.with_rules(pod, within),
            };
            let relaxed = relaxed(state, pod, later, within);
            let valid = if domain.is_constraint { strict.clone() } else { pod.clone() };
            let satisfies = |i: &usize| may_satisfy(state, pod, std::iter::once(&pods[*i]));
            let last = relaxed.as_ref().and_then(|_| order[at + 1..].iter().rposition(satisfies));
            Member { valid, strict, relaxed, settled_by: last.map_or(at, |last| at + 1 + last) }
        };
        order.iter().enumerate().map(member).collect()
    }

    /// By which rules its nodes are listed.
    pub(super) fn chosen_by(&self) -> &PreparedPod {
        self.relaxed.as_ref().unwrap_or(&self.strict)
    }
}

/// A pod without the rules that others may satisfy, if it has any: required affinity that they match, and spread
/// constraints that count them.
pub(super) fn relaxed<'a>(
    state: &mut State,
    pod: &PreparedPod,
    others: impl Iterator<Item = &'a PreparedPod> + Clone,
    change: impl FnOnce(&mut PodRules),
) -> Option<PreparedPod> {
    let affinity: Vec<usize> = terms_satisfied(state, pod, others.clone()).map(|term| term.index).collect();
    let spread = are_counted(state, pod, others);
    (!affinity.is_empty() || spread).then(|| {
        state.with_rules(pod, |rules| {
            change(rules);
            let mut index = 0..;
            rules.required_affinity.retain(|_| !index.next().is_some_and(|i| affinity.contains(&i)));
            if spread {
                let kept = |c: &WhenUnsatisfiable| *c == WhenUnsatisfiable::ScheduleAnyway;
                rules.spread_constraints.retain(|c| kept(&c.when_unsatisfiable));
            }
        })
    })
}

/// Whether others may satisfy rules of a pod.
fn may_satisfy<'a>(
    state: &State,
    pod: &PreparedPod,
    others: impl Iterator<Item = &'a PreparedPod> + Clone,
) -> bool {
    terms_satisfied(state, pod, others.clone()).next().is_some() || are_counted(state, pod, others)
}

/// Whether required spread constraints of a pod count others.
fn are_counted<'a>(
    state: &State,
    pod: &PreparedPod,
    others: impl Iterator<Item = &'a PreparedPod> + Clone,
) -> bool {
    state.spread_of(pod).iter().any(|spread| {
        let counted = |matcher| others.clone().any(|other| matches(state, other, matcher));
        spread.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
            && spread.matcher.is_some_and(counted)
    })
}
