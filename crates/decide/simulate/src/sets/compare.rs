//! The comparison of all sets with each other.

use std::collections::{BTreeMap, HashMap};

use berth_api::work::WorkBudget;
use berth_rules::{PodSet, SetRelation};

use super::membership::{NamespaceIndex, intersections};
use super::uses::{EXCLUSIVE, ExclusiveOwners, OwnerPairs, is_selected_twice, owner_pairs};
use super::{
    ComparedSet, Conflict, EmptySet, Intersection, PodGroup, Relation, SelectorOwner, SelectorRole,
    SelectorSets, SetComparison, SetSummary,
};
use crate::simulation::SimulatedPod;

/// Steps of the comparison of sets with each other: about a second.
const COMPARE_STEPS: u64 = 20_000_000;
/// Steps that a relation costs, which is kept.
const RELATION_STEPS: usize = 20;
/// Steps of the comparison of the ports that Services and monitors use.
const USE_STEPS: u64 = 10_000_000;
/// Conflicts that are listed.
const MAX_CONFLICTS: usize = 10_000;

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
        let empty: Vec<_> = empty.chain(std::mem::take(&mut self.without_service)).collect();
        let n_selectors = sets.len();
        let Distinct { sets: distinct, mut relations, n_compared } = self.distinct(sets);
        let exclusive: Vec<_> = distinct.iter().map(|(_, owners)| ExclusiveOwners::new(owners)).collect();
        let budget = WorkBudget::new(USE_STEPS);

        let pod_sets: Vec<_> = distinct.iter().map(|(set, _)| *set).collect();
        let mut intersections = intersections(&pod_sets, &self.namespaces, pods);
        let mut n_pods = vec![0; distinct.len()];
        // The intersections of each set.
        let mut of_set = vec![Vec::new(); distinct.len()];
        for (i, Intersection { sets, n_pods: n, .. }) in intersections.iter().enumerate() {
            for set in sets {
                n_pods[set - 1] += n;
                of_set[set - 1].push(i);
            }
        }
        let in_both = |Relation { set, other, .. }: Relation| {
            let of_set = of_set[set - 1].iter().map(|i| &intersections[*i]);
            of_set.filter(move |i| i.sets.binary_search(&other).is_ok())
        };
        for relation in &mut relations {
            relation.n_pods = in_both(*relation).map(|i| i.n_pods).sum();
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
        let mut conflicts = conflicts(&n_pods, &exclusive, &relations, &budget);
        let n_conflicts = conflicts.len();
        conflicts.truncate(MAX_CONFLICTS);
        let conflict = |(role, relation, pairs): (SelectorRole, Relation, OwnerPairs<'_>)| {
            let selector = |id: usize| &distinct[id - 1].0.selector;
            let Relation { set, relation: relates, other, n_pods } = relation;
            let pods = (n_pods > 0).then(|| merged(in_both(relation)));
            Conflict {
                role,
                not_counted: pairs.not_counted,
                first: pairs.first.0.clone(),
                relation: relates,
                second: pairs.first.1.clone(),
                n_pairs: pairs.n,
                n_pods,
                pods: pods.unwrap_or_default(),
                example_labels: selector(set).common_labels(selector(other)).unwrap_or_default(),
            }
        };
        let conflicts: Vec<_> = conflicts.into_iter().map(conflict).collect();
        let has_service = |id: &usize| !exclusive[id - 1].of(SelectorRole::Service).is_empty();
        let compares_services = (1..=sets.len()).any(|id| has_service(&id));
        let unserved = |i: &&Intersection| compares_services && !i.sets.iter().any(has_service);
        let without_service = merged(intersections.iter().filter(unserved));

        for intersection in &mut intersections {
            let is_twice = |role: &SelectorRole| {
                let owners = intersection.sets.iter().map(|id| exclusive[id - 1].of(*role));
                is_selected_twice(owners, &budget)
            };
            intersection.selected_twice_by = EXCLUSIVE.into_iter().filter(is_twice).collect();
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
            n_disjoint: n_compared * n_compared.saturating_sub(1) / 2 - relations.len(),
            n_not_compared: sets.len() - n_compared,
            n_monitors_not_compared: self.n_monitors_not_compared,
            n_conflicts,
            n_empty: empty.len(),
            n_pods_of_two_controllers: n_selected_twice(SelectorRole::Controller),
            n_pods_of_two_budgets: n_selected_twice(SelectorRole::DisruptionBudget),
            n_pods_of_two_services: n_selected_twice(SelectorRole::Service),
            n_pods_of_two_monitors: n_selected_twice(SelectorRole::Monitor),
            n_pods_without_service: without_service.iter().map(|group| group.n_pods).sum(),
        };
        SetComparison { sets, empty, relations, intersections, conflicts, without_service, summary }
    }

    /// The sets with all selectors that describe them, and how they relate; the pods in both are not counted yet.
    fn distinct<'a>(&self, sets: Vec<&'a (PodSet, SelectorOwner)>) -> Distinct<'a> {
        let mut distinct: Vec<DistinctSet<'_>> = Vec::new();
        let mut positions: HashMap<&PodSet, usize> = HashMap::new();
        let mut index = NamespaceIndex::default();
        let (mut relations, mut n_compared) = (Vec::new(), 0);
        let budget = WorkBudget::new(COMPARE_STEPS);
        for (set, owner) in sets {
            if let Some(position) = positions.get(set) {
                distinct[*position].1.push(owner);
                continue;
            }
            // Sets of which no pod can be in one namespace are disjoint.
            let relation = |i: usize| {
                let other = distinct[i].0;
                budget.spend(other.comparison_steps(set, &self.namespaces)).ok()?;
                let relation = other.relation(set, &self.namespaces);
                (relation != SetRelation::Disjoint).then_some((i, relation))
            };
            let related: Vec<_> =
                index.candidates(set, distinct.len()).into_iter().filter_map(relation).collect();
            let is_compared = budget.spend(related.len() * RELATION_STEPS).is_ok();
            let related = if is_compared { related } else { Vec::new() };
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
            index.add(distinct.len(), set);
            distinct.push((set, vec![owner]));
            n_compared += usize::from(is_compared);
        }
        relations.sort_by_key(|relation| (relation.set, relation.other));
        Distinct { sets: distinct, relations, n_compared }
    }
}

/// A set with the selectors that describe it.
type DistinctSet<'a> = (&'a PodSet, Vec<&'a SelectorOwner>);

struct Distinct<'a> {
    sets: Vec<DistinctSet<'a>>,
    relations: Vec<Relation>,
    /// The first sets, whose relations are all found; those of the others would be too much work.
    n_compared: usize,
}

/// The sets, and pairs of sets, that several controllers select, then those of several budgets, Services and monitors; those
/// that count before others, those of most pods first. Services and monitors only with pods: that others could be in both says
/// little.
fn conflicts<'a>(
    n_pods: &[usize],
    exclusive: &[ExclusiveOwners<'a>],
    relations: &[Relation],
    budget: &WorkBudget,
) -> Vec<(SelectorRole, Relation, OwnerPairs<'a>)> {
    let within = n_pods.iter().enumerate().map(|(i, n_pods)| Relation {
        set: i + 1,
        relation: SetRelation::Equal,
        other: i + 1,
        n_pods: *n_pods,
    });
    let all: Vec<Relation> = within.chain(relations.iter().copied()).collect();
    let mut conflicts = Vec::new();
    for role in EXCLUSIVE {
        let needs_pods = matches!(role, SelectorRole::Service | SelectorRole::Monitor);
        let start = conflicts.len();
        for relation in all.iter().filter(|relation| relation.n_pods > 0 || !needs_pods) {
            let set = exclusive[relation.set - 1].of(role);
            let other = (relation.set != relation.other).then(|| exclusive[relation.other - 1].of(role));
            let pairs = owner_pairs(set, other, budget);
            conflicts.extend(pairs.into_iter().map(|pairs| (role, *relation, pairs)));
        }
        conflicts[start..].sort_by(|(_, a, x), (_, b, y)| {
            x.not_counted.cmp(&y.not_counted).then_with(|| b.n_pods.cmp(&a.n_pods))
        });
    }
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
