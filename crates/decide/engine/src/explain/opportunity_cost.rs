//! What the required anti-affinity of a pod costs others: the nodes from which it excludes pods of other namespaces.
//!
//! The design proposal (inter-pod affinity, "Denial of Service") charges this "opportunity cost" to a quota: before the
//! pod has a node, for the largest or average domain that its node affinity allows; afterwards for its own domain. Terms
//! that select only pods of the pod's own namespace cost others nothing. The domains of several terms are counted once.

use berth_rules::TopologyScope;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::explain::blast_radius::{Domains, Reach, allowed_nodes, average};
use crate::state::State;
use crate::state::counting::topology::TopologyId;
use crate::state::pod::prepared::PreparedPod;

/// The nodes that a pod keeps from pods of other namespaces. Matching pods are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpportunityCost {
    /// The largest domain, each resource by itself: after binding, the pod never costs more.
    pub largest: Reach,
    /// The average domain, rounded up.
    pub average: Reach,
}

/// [`Cluster::opportunity_cost`](crate::Cluster::opportunity_cost).
pub(crate) fn opportunity_cost(
    state: &State,
    pod: &PreparedPod,
    node: Option<&str>,
) -> Option<OpportunityCost> {
    let rule_set = state.rule_sets.get(pod.rule_set);
    let namespace = state.symbols.text(rule_set.key.namespace);
    let compiled = rule_set.required_anti_affinity.iter();
    let mut charged = compiled
        .map(|compiled| (&rule_set.rules().required_anti_affinity[compiled.index], &compiled.topologies))
        .filter(|(term, _)| term.selects_other_namespaces(namespace))
        .peekable();
    charged.peek()?;
    let mut is_everywhere = false;
    let mut topologies: SmallVec<[TopologyId; 2]> = SmallVec::new();
    for (term, of_term) in charged {
        is_everywhere |= term.topology == TopologyScope::All;
        topologies.extend(of_term.iter().copied());
    }
    topologies.sort_unstable();
    topologies.dedup();
    let domains = Domains::new(state, &topologies, FxHashMap::default());
    if let Some(node) = node.and_then(|name| state.find_node(name)) {
        let actual = domains.of(&[node]).pop().unwrap_or_default();
        return Some(OpportunityCost { largest: actual.clone(), average: actual });
    }
    if is_everywhere {
        let mut cluster = Reach::default();
        state.nodes.iter().for_each(|(id, _)| cluster.add(&domains.node(id)));
        return Some(OpportunityCost { largest: cluster.clone(), average: cluster });
    }
    let reaches = domains.of(&allowed_nodes(state, rule_set));
    let largest = reaches.iter().fold(Reach::default(), |most, reach| Reach {
        n_nodes: most.n_nodes.max(reach.n_nodes),
        milli_cpu: most.milli_cpu.max(reach.milli_cpu),
        memory: most.memory.max(reach.memory),
        ..Reach::default()
    });
    Some(OpportunityCost { largest, average: average(&reaches).unwrap_or_default() })
}
