//! Pod disruption budgets.

use std::collections::HashMap;

use berth_api::object::PodDisruptionBudget;
use berth_api::rules::Selector;
use rustc_hash::FxHashMap;

use crate::state::State;
use crate::state::pod::{PodId, PodRecord};

/// A pod disruption budget, as preemption looks at it.
#[derive(Clone, Debug)]
pub struct DisruptionBudget {
    /// Its namespace.
    pub namespace: String,
    /// The pods it protects; as in kube-scheduler, one without requirements protects none.
    pub selector: Selector,
    /// How many of its pods may go now (`status.disruptionsAllowed`).
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
            disruptions_allowed: budget.status.disruptions_allowed,
            disrupted_pods: budget.status.disrupted_pods.keys().cloned().collect(),
        }
    }
}

/// Budgets by namespace, with a number each.
pub(super) struct Budgets<'a>(HashMap<&'a str, Vec<(usize, &'a DisruptionBudget)>>);

impl<'a> Budgets<'a> {
    pub(super) fn new(budgets: &'a [DisruptionBudget]) -> Budgets<'a> {
        let mut by_namespace: HashMap<&str, Vec<_>> = HashMap::new();
        for (i, budget) in budgets.iter().enumerate() {
            if !budget.selector.requirements().is_empty() {
                by_namespace.entry(&budget.namespace).or_default().push((i, budget));
            }
        }
        Budgets(by_namespace)
    }

    /// For each pod, in this order, whether its eviction violates a budget: every pod uses up one disruption of each
    /// budget that protects it, whether that is allowed or not.
    pub(super) fn violations(&self, state: &State, pods: &[PodId]) -> Vec<bool> {
        let mut used: FxHashMap<usize, i32> = FxHashMap::default();
        pods.iter().map(|pod| self.violates(state, state.pods.get(*pod), &mut used)).collect()
    }

    fn violates(&self, state: &State, pod: &PodRecord, used: &mut FxHashMap<usize, i32>) -> bool {
        let symbols = &state.symbols;
        let labels = &state.label_sets.get(pod.label_set).of.labels;
        let label = |key: &str| labels.get(symbols.get(key)?).map(|value| symbols.text(value));
        // As in kube-scheduler, no budget protects a pod without labels.
        let protects = |budget: &DisruptionBudget| {
            labels.iter().next().is_some()
                && budget.selector.matches(label)
                && !budget.disrupted_pods.iter().any(|name| **name == *pod.name)
        };
        let mut violated = false;
        let budgets = self.0.get(symbols.text(pod.namespace)).into_iter().flatten();
        for (i, budget) in budgets.filter(|(_, budget)| protects(budget)) {
            let used = used.entry(*i).or_default();
            *used += 1;
            violated |= *used > budget.disruptions_allowed;
        }
        violated
    }
}
