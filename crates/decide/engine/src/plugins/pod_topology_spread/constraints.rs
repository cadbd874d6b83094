//! The constraints of a pod, and the pods and nodes that they count.

use berth_rules::WhenUnsatisfiable;

use crate::cycle::context::Context;
use crate::state::State;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::{NodeId, NodeRecord};
use crate::state::rule_set::spread::Spread;

impl Spread {
    pub(super) fn n_pods_on(&self, state: &State, node: NodeId) -> i64 {
        let Some(matcher) = self.matcher else { return 0 };
        let counter = state.matchers.get(matcher).matching_in(TopologyId::NODE);
        counter.map_or(0, |c| c.get(DomainId(node.0)).count)
    }

    /// Whether the inclusion policies include the node.
    pub(crate) fn includes(&self, context: Context<'_>, node: &NodeRecord) -> bool {
        (!self.constraint.honor_node_affinity
            || context.rule_set.satisfies_required_node_affinity(context.state, node))
            && (!self.constraint.honor_node_taints || context.tolerates_node(node))
    }
}

pub(super) fn constraints<'a>(context: Context<'a>, when: WhenUnsatisfiable) -> Vec<&'a Spread> {
    context.cycle.spread.iter().filter(|s| s.constraint.when_unsatisfiable == when).collect()
}

pub(super) fn has_all_keys(state: &State, constraints: &[&Spread], node: NodeId) -> bool {
    constraints.iter().all(|s| state.topologies.domain(s.topology, node).is_some())
}
