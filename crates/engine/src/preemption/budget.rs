//! Pod disruption budgets.

use berth_api::object::PodDisruptionBudget;
use berth_api::rules::Selector;
use rustc_hash::FxHashMap;

use crate::state::State;
use crate::state::intern::{Symbol, Symbols};
use crate::state::pod::{PodId, PodRecord};
use crate::state::selector::LabelMatcher;

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

/// Budgets compiled for one cluster, by namespace.
pub(super) struct Budgets<'a> {
    by_namespace: FxHashMap<Symbol, Vec<usize>>,
    all: Vec<(LabelMatcher, &'a DisruptionBudget)>,
}

impl<'a> Budgets<'a> {
    pub(super) fn compile(symbols: &mut Symbols, budgets: &'a [DisruptionBudget]) -> Budgets<'a> {
        let mut compiled = Budgets { by_namespace: FxHashMap::default(), all: Vec::new() };
        for budget in budgets {
            let matcher = LabelMatcher::compile(symbols, &budget.selector);
            if matcher.is_nothing() || matcher.is_everything() {
                continue;
            }
            let namespace = symbols.intern(&budget.namespace);
            compiled.by_namespace.entry(namespace).or_default().push(compiled.all.len());
            compiled.all.push((matcher, budget));
        }
        compiled
    }

    /// For each pod, in this order, whether its going violates a budget: every pod uses up one disruption of each
    /// budget that protects it, whether that is allowed or not.
    pub(super) fn violations(&self, state: &State, pods: &[PodId]) -> Vec<bool> {
        let mut used: FxHashMap<usize, i32> = FxHashMap::default();
        pods.iter().map(|pod| self.violates(state, state.pods.get(*pod), &mut used)).collect()
    }

    fn violates(&self, state: &State, pod: &PodRecord, used: &mut FxHashMap<usize, i32>) -> bool {
        let mut violated = false;
        for i in self.by_namespace.get(&pod.namespace).into_iter().flatten() {
            let (matcher, budget) = &self.all[*i];
            if !matcher.matches(&state.symbols, &pod.labels)
                || budget.disrupted_pods.iter().any(|name| **name == *pod.name)
            {
                continue;
            }
            let used = used.entry(*i).or_default();
            *used += 1;
            violated |= *used > budget.disruptions_allowed;
        }
        violated
    }
}
