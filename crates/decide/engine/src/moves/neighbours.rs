//! Which classes of pods have rules that look at the pods of a class.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::standing::Place;
use super::{Class, ClassId};
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::TopologyId;
use crate::state::node::NodeId;

/// A class with a rule that looks at pods of another, or that is looked at by a rule of the other.
#[derive(Clone)]
pub(super) struct Neighbour {
    pub(super) class: ClassId,
    /// A count above this changes nothing when it changes by one; none if every change counts.
    up_to: Option<(MatcherId, i64)>,
    topologies: SmallVec<[TopologyId; 1]>,
    /// Whether it matters in which domain a pod comes or goes.
    is_local: bool,
}

/// A term of a class, as others see it.
struct Term {
    class: ClassId,
    topologies: SmallVec<[TopologyId; 1]>,
    limit: i64,
    is_local: bool,
}

pub(super) fn of_all(state: &State, classes: &[Class]) -> Vec<Vec<Neighbour>> {
    let mut terms: FxHashMap<MatcherId, Vec<Term>> = FxHashMap::default();
    let mut repelled: FxHashMap<MatcherId, Vec<ClassId>> = FxHashMap::default();
    for (class, of) in classes.iter().enumerate() {
        let rule_set = state.rule_sets.get(of.likeness.rule_set);
        let mut add = |matcher, topologies: &SmallVec<[TopologyId; 1]>, limit, is_local| {
            let term = Term { class, topologies: topologies.clone(), limit, is_local };
            terms.entry(matcher).or_default().push(term);
        };
        // Whether a pod is the first of its group depends on the pods of all domains.
        rule_set.required_affinity.iter().for_each(|t| add(t.matcher, &t.topologies, 0, false));
        let anti_affinity = rule_set.required_anti_affinity.iter();
        anti_affinity.for_each(|t| add(t.matcher, &t.topologies, i64::from(t.limit), true));
        rule_set.preferred.iter().for_each(|t| add(t.matcher, &t.topologies, 0, true));
        for matcher in &state.signatures.get(of.likeness.signature).matched_by_existing {
            repelled.entry(*matcher).or_default().push(class);
        }
    }
    let of_class = |class: &Class| {
        let matched = state.signatures.get(class.likeness.signature).matched.iter();
        let looking = matched.filter_map(|matcher| Some((*matcher, terms.get(matcher)?)));
        let looking = looking.flat_map(|(matcher, terms)| {
            terms.iter().map(move |term| Neighbour {
                class: term.class,
                up_to: Some((matcher, term.limit + 2)),
                topologies: term.topologies.clone(),
                is_local: term.is_local,
            })
        });
        let own = state.rule_sets.get(class.likeness.rule_set).required_anti_affinity.iter();
        let looked_at = own.flat_map(|term| {
            let classes = repelled.get(&term.matcher).into_iter().flatten();
            classes.map(|class| Neighbour {
                class: *class,
                up_to: None,
                topologies: term.topologies.clone(),
                is_local: true,
            })
        });
        looking.chain(looked_at).collect()
    };
    classes.iter().map(of_class).collect()
}

impl Neighbour {
    /// The nodes where its pods may stand otherwise after a pod of the other class went from one node to another.
    pub(super) fn affected(
        &self,
        state: &State,
        places: &FxHashMap<NodeId, Place>,
        from: NodeId,
        to: NodeId,
    ) -> Vec<NodeId> {
        if !self.is_local {
            return places.keys().copied().collect();
        }
        let mut nodes = Vec::new();
        for topology in &self.topologies {
            let domain = |node| state.topologies.domain(*topology, node);
            if domain(from) == domain(to) {
                continue;
            }
            for domain_of in [domain(from), domain(to)].into_iter().flatten() {
                let is_settled = self.up_to.is_some_and(|(matcher, most)| {
                    let counter = state.matchers.get(matcher).matching_in(*topology);
                    counter.is_some_and(|counter| counter.get(domain_of).count > most)
                });
                if is_settled {
                    continue;
                }
                if *topology == TopologyId::NODE {
                    nodes.push(NodeId(domain_of.0));
                } else {
                    nodes.extend(places.keys().copied().filter(|node| domain(*node) == Some(domain_of)));
                }
            }
        }
        nodes
    }
}
