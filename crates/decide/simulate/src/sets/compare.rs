//! The comparison of all sets with each other.

use std::collections::{BTreeMap, HashMap};

use berth_api::rules::{PodSet, SetRelation};

use super::membership::intersections;
use super::{
    ComparedSet, Conflict, EmptySet, Intersection, PodGroup, Relation, SelectorOwner, SelectorRole,
    SelectorSets, SetComparison, SetSummary,
};
use crate::simulation::SimulatedPod;

/// The selectors of which only one is to match a pod.
const EXCLUSIVE: [SelectorRole; 2] = [SelectorRole::Controller, SelectorRole::DisruptionBudget];

impl SelectorSets {
    /// Compares all sets with each other, and counts the pods in them.
    pub fn compare(mut self, pods: &[&SimulatedPod]) -> SetComparison {
        self.sets.sort_by(|(a, _), (b, _)| a.namespaces.cmp(&b.namespaces));
        let is_empty = |(set, _): &(PodSet, SelectorOwner)| set.is_empty(&self.namespaces);
        let (empty, sets): (Vec<_>, Vec<_>) = self.sets.iter().partition(|set| is_empty(set));
        let empty = empty.into_iter().map(|(set, owner)| EmptySet {
            namespaces: set.namespaces.to_string(),
            selector: set.selector.to_string(),
            owner: owner.clone(),
        });
        let empty: Vec<_> = empty.collect();
        let n_selectors = sets.len();
        let (distinct, mut relations) = self.distinct(sets);

        let pod_sets: Vec<_> = distinct.iter().map(|(set, _)| *set).collect();
        let mut intersections = intersections(&pod_sets, &self.namespaces, pods);
        let mut n_pods = vec![0; distinct.len()];
        let mut n_in_both: HashMap<(usize, usize), usize> = HashMap::new();
        for Intersection { sets, n_pods: n, .. } in &intersections {
            for (i, set) in sets.iter().enumerate() {
                n_pods[set - 1] += n;
                for other in &sets[i + 1..] {
                    *n_in_both.entry((*set, *other)).or_default() += n;
                }
            }
        }
        for relation in &mut relations {
            relation.n_pods = n_in_both.get(&(relation.set, relation.other)).copied().unwrap_or(0);
        }
        let compared =
            distinct.iter().zip(&n_pods).enumerate().map(|(i, ((set, owners), n_pods))| ComparedSet {
                id: i + 1,
                namespaces: set.namespaces.to_string(),
                selector: set.selector.to_string(),
                owners: owners.iter().map(|owner| (*owner).clone()).collect(),
                n_pods: *n_pods,
            });
        let sets: Vec<_> = compared.collect();
        let conflicts = conflicts(&distinct, &sets, &relations, &intersections);
        let has_service = |id: &usize| sets[id - 1].owners.iter().any(|o| o.role == SelectorRole::Service);
        let compares_services = (1..=sets.len()).any(|id| has_service(&id));
        let unserved = |i: &&Intersection| compares_services && !i.sets.iter().any(has_service);
        let without_service = merged(intersections.iter().filter(unserved));

        for intersection in &mut intersections {
            let n_owners = |role| {
                let of_set = |id: &usize| sets[id - 1].owners.iter().filter(|o| o.role == role).count();
                intersection.sets.iter().map(of_set).sum::<usize>()
            };
            intersection.selected_twice_by =
                EXCLUSIVE.into_iter().filter(|role| n_owners(*role) > 1).collect();
        }
        let n_selected_twice = |role| {
            intersections.iter().filter(|i| i.selected_twice_by.contains(&role)).map(|i| i.n_pods).sum()
        };
        let n_overlapping = relations.iter().filter(|r| r.relation == SetRelation::Overlaps).count();
        let summary = SetSummary {
            n_pods: pods.len(),
            n_selectors,
            n_sets: sets.len(),
            n_contained: relations.len() - n_overlapping,
            n_overlapping,
            n_disjoint: sets.len() * sets.len().saturating_sub(1) / 2 - relations.len(),
            n_empty: empty.len(),
            n_pods_of_two_controllers: n_selected_twice(SelectorRole::Controller),
            n_pods_of_two_budgets: n_selected_twice(SelectorRole::DisruptionBudget),
            n_pods_without_service: without_service.iter().map(|group| group.n_pods).sum(),
        };
        SetComparison { sets, empty, relations, intersections, conflicts, without_service, summary }
    }

    /// The sets with all selectors that describe them, and how they relate; the pods in both are not counted yet.
    fn distinct<'a>(&self, sets: Vec<&'a (PodSet, SelectorOwner)>) -> (Vec<DistinctSet<'a>>, Vec<Relation>) {
        let mut distinct: Vec<DistinctSet<'_>> = Vec::new();
        let mut positions: HashMap<&PodSet, usize> = HashMap::new();
        let mut relations = Vec::new();
        for (set, owner) in sets {
            if let Some(position) = positions.get(set) {
                distinct[*position].1.push(owner);
                continue;
            }
            let relation = |(i, (other, _)): (usize, &DistinctSet<'_>)| {
                Some((i, other.relation(set, &self.namespaces))).filter(|(_, r)| *r != SetRelation::Disjoint)
            };
            let related: Vec<_> = distinct.iter().enumerate().filter_map(relation).collect();
            let equal = related.iter().find(|(_, relation)| *relation == SetRelation::Equal);
            let position = equal.map_or(distinct.len(), |(position, _)| *position);
            positions.insert(set, position);
            if position < distinct.len() {
                distinct[position].1.push(owner);
                continue;
            }
            let other = position + 1;
            relations.extend(related.into_iter().map(|(i, relation)| Relation {
                set: i + 1,
                relation,
                other,
                n_pods: 0,
            }));
            distinct.push((set, vec![owner]));
        }
        relations.sort_by_key(|relation| (relation.set, relation.other));
        (distinct, relations)
    }
}

/// A set with the selectors that describe it.
type DistinctSet<'a> = (&'a PodSet, Vec<&'a SelectorOwner>);

/// The pairs of controllers, then of budgets, that could select the same pods.
fn conflicts(
    distinct: &[DistinctSet<'_>],
    sets: &[ComparedSet],
    relations: &[Relation],
    intersections: &[Intersection],
) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for role in EXCLUSIVE {
        let owners = |id: usize| sets[id - 1].owners.iter().filter(move |owner| owner.role == role);
        let mut add = |Relation { set, relation, other, n_pods },
                       first: &SelectorOwner,
                       second: &SelectorOwner| {
            let in_both = |i: &&Intersection| n_pods > 0 && i.sets.contains(&set) && i.sets.contains(&other);
            let selector = |id: usize| &distinct[id - 1].0.selector;
            conflicts.push(Conflict {
                role,
                first: first.clone(),
                relation,
                second: second.clone(),
                n_pods,
                pods: merged(intersections.iter().filter(in_both)),
                example_labels: selector(set).common_labels(selector(other)).unwrap_or_default(),
            });
        };
        for ComparedSet { id, n_pods, .. } in sets {
            let relation = Relation { set: *id, relation: SetRelation::Equal, other: *id, n_pods: *n_pods };
            for (i, first) in owners(*id).enumerate() {
                owners(*id).skip(i + 1).for_each(|second| add(relation, first, second));
            }
        }
        for relation in relations {
            for first in owners(relation.set) {
                owners(relation.other).for_each(|second| add(*relation, first, second));
            }
        }
    }
    conflicts.sort_by(|a, b| a.role.cmp(&b.role).then_with(|| b.n_pods.cmp(&a.n_pods)));
    conflicts
}

/// The pods of several intersections by workload.
fn merged<'a>(intersections: impl Iterator<Item = &'a Intersection>) -> Vec<PodGroup> {
    let mut merged = BTreeMap::new();
    for PodGroup { namespace, object, n_pods } in intersections.flat_map(|intersection| &intersection.pods) {
        *merged.entry((namespace, object)).or_default() += n_pods;
    }
    let group = |((namespace, object), n_pods): ((&String, &String), usize)| PodGroup {
        namespace: namespace.clone(),
        object: object.clone(),
        n_pods,
    };
    merged.into_iter().map(group).collect()
}
