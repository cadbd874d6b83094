//! Queueing hints of topology spread constraints.

use berth_api::object::TopologySpreadConstraint;
use berth_rules::WhenUnsatisfiable;

use super::super::hints::{Hints, Places, QueueingHint};
use super::constraints::constraints;
use crate::cycle::context::Context;
use crate::state::change::{Change, PodAt};

/// The counts that the constraints with `DoNotSchedule` read.
#[derive(Debug)]
pub(super) struct SpreadHints {
    counted: Places,
    has_constraints: bool,
}

impl Hints for SpreadHints {
    fn places(&mut self) -> Vec<&mut Places> {
        vec![&mut self.counted]
    }

    fn hint(&self, context: Context<'_>, change: &Change) -> QueueingHint {
        QueueingHint::queue_if(match change {
            Change::NodeAdded(_) | Change::NodeRemoved => self.has_constraints,
            // The node counts as it did not before.
            Change::NodeChanged(_, parts) => self.has_constraints && (parts.labels || parts.taints),
            Change::PodDetached(pod) => self.leaving_helps(context, pod),
            // There may be one more pod where there were the fewest.
            Change::PodAttached(pod) => {
                let matched = &context.state.signatures.get(pod.signature).matched;
                self.counted.matched(matched).next().is_some()
            }
            Change::SelectorChanged => has_hard_defaults(context),
            Change::NamespaceChanged(_) | Change::Volume(_) | Change::Device(_) => false,
        })
    }
}

impl SpreadHints {
    /// None for pods that cannot have constraints with `DoNotSchedule`.
    pub(super) fn new(context: Context<'_>) -> Option<SpreadHints> {
        let hard = constraints(context, WhenUnsatisfiable::DoNotSchedule);
        let has_constraints = !hard.is_empty();
        let counts = hard.iter().filter_map(|s| Some((s.matcher?, s.topology, 0)));
        let counted = Places::new(context.state, counts);
        (has_constraints || has_hard_defaults(context)).then_some(SpreadHints { counted, has_constraints })
    }

    /// Whether a pod that left could make another node feasible than the one it left.
    fn leaving_helps(&self, context: Context<'_>, pod: &PodAt) -> bool {
        let state = context.state;
        let matched = &state.signatures.get(pod.signature).matched;
        // If nodes have changed since, the domains that it left may not be those that the node has now.
        let node = state.find_node(&pod.node).filter(|_| state.changes.places == pod.places);
        self.counted.matched(matched).any(|place| {
            (node.is_none() || state.topologies.is_shared(place.topology))
                && self.counted.allow(state, place, &pod.node)
        })
    }
}

/// Whether the profile's default constraints keep the pod off nodes.
fn has_hard_defaults(context: Context<'_>) -> bool {
    let hard = |c: &TopologySpreadConstraint| c.when_unsatisfiable == "DoNotSchedule";
    context.rule_set.rules().spread_constraints.is_empty()
        && context.profile.default_constraints.iter().any(hard)
}
