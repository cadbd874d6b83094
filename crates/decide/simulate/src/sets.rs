//! Sets of pods that the selectors of an input describe, and how they overlap; sets of nodes are in [`nodes`].
//!
//! [`SelectorSets`] collects the selectors of Services, controllers, PodDisruptionBudgets, monitors, NetworkPolicies, pod
//! affinity terms and spread constraints. [`SelectorSets::compare`] decides from the selectors and namespaces alone how their
//! sets relate, and counts the pods of a simulation in them.

mod collect;
mod compare;
mod membership;
mod monitors;
pub mod nodes;
mod uses;

use berth_api::object::StringMap;
use berth_rules::SetRelation;
use serde::Serialize;

pub use collect::SelectorSets;
pub use uses::{NotCounted, PodUse, UsedPort};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorRole {
    /// `spec.selector` of a Service.
    Service,
    /// `spec.selector` of a workload that no other workload owns.
    Controller,
    /// `spec.selector` of a PodDisruptionBudget.
    DisruptionBudget,
    /// `spec.podSelector` of a NetworkPolicy, or a peer in its rules.
    NetworkPolicy,
    /// A pod affinity or anti-affinity term.
    AffinityTerm,
    /// `labelSelector` of a topology spread constraint.
    SpreadConstraint,
    /// `spec.selector` of a PodMonitor; the Services that a ServiceMonitor selects.
    Monitor,
}

/// A selector by the object that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorOwner {
    pub role: SelectorRole,
    pub namespace: String,
    /// Kind and name of the object, such as `Deployment web`.
    pub object: String,
    /// Path of the selector; for terms of workloads, in the pods.
    pub field: String,
    /// The Service, as `namespace/name`, whose pods a ServiceMonitor selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through_service: Option<String>,
    /// What a Service or a monitor uses of the pods.
    #[serde(flatten)]
    pub uses: PodUse,
}

/// How the sets of an input overlap. Its JSON schema is stable: docs/sets.md.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetComparison {
    /// The sets, each with all selectors that describe it, by namespaces.
    pub sets: Vec<ComparedSet>,
    /// Selectors that no pod can match.
    pub empty: Vec<EmptySet>,
    /// The pairs of sets that are not disjoint.
    pub relations: Vec<Relation>,
    /// The pods by the sets that they are in, most pods first.
    pub intersections: Vec<Intersection>,
    /// Pairs of controllers, and of budgets, that select the same pods now or could, and pairs of Services, and of monitors, that
    /// select the same pods now: one for each pair of sets, those of most pods first.
    pub conflicts: Vec<Conflict>,
    /// Pods that no Service selects; none if no Service is compared.
    pub without_service: Vec<PodGroup>,
    pub summary: SetSummary,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedSet {
    /// Its number, from 1.
    pub id: usize,
    /// Its namespaces as text.
    pub namespaces: String,
    /// Its labels as text.
    pub selector: String,
    /// The equal selectors that describe it, at least one.
    pub owners: Vec<SelectorOwner>,
    pub n_pods: usize,
}

/// A selector that no pod can match.
#[derive(Clone, Debug, Serialize)]
pub struct EmptySet {
    /// Its namespaces as text.
    pub namespaces: String,
    /// Its labels as text.
    pub selector: String,
    pub owner: SelectorOwner,
}

/// Two sets that have pods in common, now or possibly.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Relation {
    pub set: usize,
    /// How it relates to the other.
    pub relation: SetRelation,
    /// Number of the other set, a larger one.
    pub other: usize,
    /// Pods in both.
    pub n_pods: usize,
}

/// The pods that are in the same sets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Intersection {
    /// Numbers of the sets, ascending; none for pods that are in no set.
    pub sets: Vec<usize>,
    /// The role if two controllers, two budgets, two Services or two monitors select the pods.
    pub selected_twice_by: Vec<SelectorRole>,
    pub n_pods: usize,
    pub pods: Vec<PodGroup>,
}

/// Pods of one workload, or one pod without a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroup {
    pub namespace: String,
    /// The workload, such as `Deployment web`, or `Pod web-0`.
    pub object: String,
    pub n_pods: usize,
}

/// Two controllers, budgets, Services or monitors whose selectors match the same pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    pub role: SelectorRole,
    /// Why the pods do not count as selected twice, if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<NotCounted>,
    pub first: SelectorOwner,
    /// How its set relates to the set of the second.
    pub relation: SetRelation,
    pub second: SelectorOwner,
    /// The number of such pairs of objects with these sets; the two are the first. [`ComparedSet::owners`] has all.
    pub n_pairs: usize,
    /// The pods that both select now.
    pub n_pods: usize,
    /// The same pods.
    pub pods: Vec<PodGroup>,
    /// Labels that both selectors match.
    pub example_labels: StringMap,
}

/// Counts of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetSummary {
    pub n_pods: usize,
    /// Selectors, without empty ones.
    pub n_selectors: usize,
    /// Sets: equal selectors count once.
    pub n_sets: usize,
    /// Pairs of sets of which one contains the other.
    pub n_contained: usize,
    /// Pairs of sets of which neither contains the other, and that could have pods in common.
    pub n_overlapping: usize,
    /// Pairs of sets that never have pods in common.
    pub n_disjoint: usize,
    /// Sets whose relations to the others are not known: comparing more sets with each other would be too much work.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_not_compared: usize,
    /// ServiceMonitors whose Services are not known: to find those of more ServiceMonitors would be too much work.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_monitors_not_compared: usize,
    /// Conflicts, also those that are not listed because there are too many.
    pub n_conflicts: usize,
    /// Selectors that no pod can match.
    pub n_empty: usize,
    /// Pods that two controllers select.
    pub n_pods_of_two_controllers: usize,
    /// Pods that two budgets select.
    pub n_pods_of_two_budgets: usize,
    /// Pods that two Services select, apart from pairs that are not counted.
    pub n_pods_of_two_services: usize,
    /// Pods that two monitors select, apart from pairs that are not counted.
    pub n_pods_of_two_monitors: usize,
    /// Pods that no Service selects.
    pub n_pods_without_service: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}
