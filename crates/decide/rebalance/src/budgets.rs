//! Disruption budgets, computed from their specs at each step.

use std::collections::HashMap;

use berth_api::fenceposts::evicts_unready;
use berth_api::object::{Pod, PodDisruptionBudget};
use berth_rules::Selector;
use smallvec::SmallVec;

/// The budgets that select a pod, by index.
pub(crate) type OfPod = SmallVec<[usize; 1]>;

struct Budget<'a> {
    object: &'a PodDisruptionBudget,
    selector: Selector,
    n_pods: i32,
    n_healthy: i64,
    desired: i64,
}

/// All budgets. A pod that has moved is ready before the next one is evicted.
pub(crate) struct Budgets<'a> {
    all: Vec<Budget<'a>>,
    by_namespace: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Budgets<'a> {
    /// Budgets without pods.
    pub(crate) fn new(objects: &[&'a PodDisruptionBudget]) -> Budgets<'a> {
        let mut by_namespace: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, object) in objects.iter().enumerate() {
            by_namespace.entry(&object.metadata.namespace).or_default().push(i);
        }
        let budget = |object: &&'a PodDisruptionBudget| {
            let selector = Selector::parse(object.spec.selector.as_ref()).unwrap_or(Selector::Nothing);
            Budget { object, selector, n_pods: 0, n_healthy: 0, desired: 0 }
        };
        Budgets { all: objects.iter().map(budget).collect(), by_namespace }
    }

    /// Counts a pod. Returns its budgets; an empty selector selects all pods of the namespace.
    pub(crate) fn add(&mut self, pod: &Pod, is_running: bool) -> OfPod {
        let labels = &pod.metadata.labels;
        let selects = |i: &usize| self.all[*i].selector.matches(|key| labels.get(key).map(String::as_str));
        let of_namespace = self.by_namespace.get(pod.metadata.namespace.as_str()).into_iter().flatten();
        let of_pod: OfPod = of_namespace.copied().filter(selects).collect();
        if pod.metadata.is_deleting() {
            return of_pod;
        }
        for i in &of_pod {
            let Budget { object, n_pods, n_healthy, desired, .. } = &mut self.all[*i];
            *n_pods += 1;
            *n_healthy += i64::from(is_running && !pod.is_unready());
            *desired = object.spec.desired_healthy(*n_pods).into();
        }
        of_pod
    }

    /// Whether the API server would evict a pod now.
    pub(crate) fn allow(&self, of_pod: &[usize], is_ready: bool) -> bool {
        match of_pod {
            [] => true,
            [budget] => {
                let Budget { object, n_healthy, desired, .. } = &self.all[*budget];
                let policy = &object.spec.unhealthy_pod_eviction_policy;
                n_healthy > desired || (!is_ready && evicts_unready(policy, *n_healthy, *desired))
            }
            // It evicts no pod that several budgets select.
            _ => false,
        }
    }

    /// Why a pod is not evicted now, of one that a budget selects.
    pub(crate) fn refusal(&self, of_pod: &[usize], is_ready: bool) -> Option<String> {
        let budget = of_pod.first().filter(|_| !self.allow(of_pod, is_ready))?;
        let Budget { object, n_healthy, desired, .. } = &self.all[*budget];
        let name = object.metadata.namespaced_name();
        Some(format!(
            "PodDisruptionBudget {name} allows no eviction: {n_healthy} of its pods are ready, and {desired} have to be"
        ))
    }

    /// A pod is ready that was not (1), or the other way round (-1).
    pub(crate) fn count_ready(&mut self, of_pod: &[usize], sign: i64) {
        of_pod.iter().for_each(|budget| self.all[*budget].n_healthy += sign);
    }
}
