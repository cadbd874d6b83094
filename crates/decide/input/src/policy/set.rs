//! The policies of a cluster.

use std::collections::HashMap;

use super::apply::{Applied, apply};
use super::object::PlacementPolicy;
use berth_api::object::{ObjectMeta, Pod, Shared, StringMap};
use berth_api::work::{TooMuchWork, WorkBudget};
use berth_rules::NamespaceScope;

/// Steps of work for the policies of one pod: some tens of milliseconds.
pub const APPLY_STEPS: u64 = 3_000_000;

/// All policies of a cluster, and the labels of its namespaces.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    /// In the order in which they are applied.
    policies: Vec<PlacementPolicy>,
    namespaces: HashMap<String, Shared<StringMap>>,
}

impl PolicySet {
    /// The policies and, by name, the labels of namespaces.
    pub fn new(
        policies: impl IntoIterator<Item = PlacementPolicy>,
        namespaces: HashMap<String, Shared<StringMap>>,
    ) -> PolicySet {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.sort_by(|a, b| a.order().cmp(&b.order()));
        PolicySet { policies, namespaces }
    }

    /// The policies, in the order in which they are applied.
    pub fn policies(&self) -> &[PlacementPolicy] {
        &self.policies
    }

    /// Whether a namespace is known, or no policy asks for its labels.
    pub fn knows(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
            || self.policies.iter().all(|policy| policy.spec.namespace_selector.is_none())
    }

    /// Whether a scope has every namespace that exists, but for those that do not count. Fewer than two namespaces are not all:
    /// the scope of a pod's own namespace would be one of all.
    pub fn are_all_namespaces_in(&self, scope: &NamespaceScope, is_exempt: impl Fn(&str) -> bool) -> bool {
        let counted = self.namespaces.iter().filter(|(name, _)| !is_exempt(name));
        let (mut n_in, mut n_counted) = (0, 0);
        for (name, labels) in counted {
            n_counted += 1;
            n_in += usize::from(scope.contains(name, labels));
        }
        n_counted > 1 && n_in == n_counted
    }

    /// The policies that select a pod, in the order in which they are applied.
    pub fn of<'a>(&'a self, pod: &'a ObjectMeta) -> impl Iterator<Item = &'a PlacementPolicy> {
        static NO_LABELS: StringMap = StringMap::new();
        let labels = self.namespaces.get(&pod.namespace).map_or(&NO_LABELS, |labels| labels);
        self.policies.iter().filter(move |policy| policy.selects(pod, labels))
    }

    /// Adds the rules of all policies that select a new pod.
    ///
    /// # Errors
    /// Comparing the rules with each other takes more than a budget of [`APPLY_STEPS`]; the pod is not changed then.
    pub fn apply(&self, pod: &mut Pod) -> Result<Applied, TooMuchWork> {
        self.apply_within(pod, &WorkBudget::new(APPLY_STEPS))
    }

    /// As [`PolicySet::apply`], with a budget for several pods.
    ///
    /// # Errors
    /// The budget is spent; the pod is not changed then.
    pub fn apply_within(&self, pod: &mut Pod, budget: &WorkBudget) -> Result<Applied, TooMuchWork> {
        let in_namespace = |policy: &&PlacementPolicy| {
            policy.is_cluster_scoped() || policy.metadata.namespace == pod.metadata.namespace
        };
        let selecting: usize =
            self.policies.iter().filter(in_namespace).map(PlacementPolicy::n_entries).sum();
        budget.spend(selecting)?;
        let metadata = pod.metadata.clone();
        let policies: Vec<_> = self.of(&metadata).collect();
        let mut changed = pod.clone();
        let applied = apply(&mut changed, &policies, budget)?;
        *pod = changed;
        Ok(applied)
    }
}
