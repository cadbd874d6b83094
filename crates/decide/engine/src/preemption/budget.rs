//! Pod disruption budgets.

use std::collections::HashMap;

use berth_api::feature_gates::{FeatureGates, VersionChange};
use berth_api::object::PodDisruptionBudget;
use berth_rules::Selector;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::pod::{PodId, PodRecord};

/// A pod disruption budget, as preemption looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// Its namespace.
    pub namespace: String,
    /// The pods it protects; before Kubernetes 1.38, one without requirements protects none.
    pub selector: Selector,
    /// How many of its pods may be evicted now (`status.disruptionsAllowed`).
    pub disruptions_allowed: i32,
    /// Names of pods whose going is accounted for already (`status.disruptedPods`).
    pub disrupted_pods: Vec<String>,
}

impl From<&PodDisruptionBudget> for DisruptionBudget {
    /// A selector that does not parse protects nothing.
    fn from(budget: &PodDisruptionBudget) -> DisruptionBudget {
        DisruptionBudget {
            namespace: budget.metadata.namespace.clone(),
            selector: Selector::parse(budget.spec.selector.as_ref()).unwrap_or(Selector::Nothing),
            disruptions_allowed: budget.status.disruptions_allowed.unwrap_or(0),
            disrupted_pods: budget.status.disrupted_pods.keys().cloned().collect(),
        }
    }
}

impl DisruptionBudget {
    /// Counts victims that have been chosen. Returns for each whether that violates a budget.
    pub(crate) fn use_up(budgets: &mut [DisruptionBudget], state: &State, victims: &[PodId]) -> Vec<bool> {
        let (violations, used) = Budgets::new(state, budgets).violations(state, victims);
        for (i, n) in used {
            budgets[i].disruptions_allowed -= n;
        }
        violations
    }
}

/// Disruptions by the index of the budget.
pub(super) type Used = SmallVec<[(usize, i32); 1]>;

impl DisruptionBudget {
    /// Whether another budget protects the same pods, however many of them may be evicted.
    pub(super) fn protects_the_same(&self, other: &DisruptionBudget) -> bool {
        (&self.namespace, &self.selector, &self.disrupted_pods)
            == (&other.namespace, &other.selector, &other.disrupted_pods)
    }
}

/// Budgets by namespace, with a number each.
pub(super) struct Budgets<'a> {
    by_namespace: HashMap<&'a str, Vec<(usize, &'a DisruptionBudget)>>,
    gates: FeatureGates,
}

impl<'a> Budgets<'a> {
    pub(super) fn new(state: &State, budgets: &'a [DisruptionBudget]) -> Budgets<'a> {
        let gates = state.settings.config.feature_gates;
        let protects_none = |selector: &Selector| match selector {
            Selector::Nothing => true,
            selector => selector.is_everything() && !gates.has(VersionChange::EmptyBudgetSelector),
        };
        let mut by_namespace: HashMap<&str, Vec<_>> = HashMap::new();
        for (i, budget) in budgets.iter().enumerate() {
            if !protects_none(&budget.selector) {
                by_namespace.entry(&budget.namespace).or_default().push((i, budget));
            }
        }
        Budgets { by_namespace, gates }
    }

    /// For each pod, in this order, whether its eviction violates a budget, and how many disruptions all of them use up:
    /// every pod uses up one disruption of each budget that protects it, or of those up to the first that does not allow it.
    pub(super) fn violations(&self, state: &State, pods: &[PodId]) -> (Vec<bool>, Used) {
        let mut used = Used::new();
        if self.by_namespace.is_empty() {
            return (vec![false; pods.len()], used);
        }
        let violations = pods.iter().map(|pod| self.violates(state, state.pods.get(*pod), &mut used));
        (violations.collect(), used)
    }

    /// The budgets that protect a pod, with their numbers.
    pub(super) fn protecting(
        &self,
        state: &State,
        pod: &PodRecord,
    ) -> impl Iterator<Item = (usize, &'a DisruptionBudget)> {
        let symbols = &state.symbols;
        let labels = &state.label_sets.get(pod.label_set).of.labels;
        let label = move |key: &str| labels.get(symbols.get(key)?).map(|value| symbols.text(value));
        let may_be_protected =
            self.gates.has(VersionChange::EmptyBudgetSelector) || labels.iter().next().is_some();
        let protects = move |budget: &DisruptionBudget| {
            may_be_protected
                && budget.selector.matches(label)
                && !budget.disrupted_pods.iter().any(|name| **name == *pod.name)
        };
        let budgets = self.by_namespace.get(symbols.text(pod.namespace)).into_iter().flatten();
        budgets.copied().filter(move |(_, budget)| protects(budget))
    }

    fn violates(&self, state: &State, pod: &PodRecord, used: &mut Used) -> bool {
        let mut violated = false;
        for (i, budget) in self.protecting(state, pod) {
            violated |= use_one(used, i) > budget.disruptions_allowed;
            if violated && self.gates.has(VersionChange::BudgetsAfterViolation) {
                break;
            }
        }
        violated
    }
}

/// Uses up one disruption of a budget. Returns how many are used then.
pub(super) fn use_one(used: &mut Used, budget: usize) -> i32 {
    let known = used.iter().position(|(known, _)| *known == budget);
    let known = known.unwrap_or_else(|| {
        used.push((budget, 0));
        used.len() - 1
    });
    used[known].1 += 1;
    used[known].1
}
