//! Disruption budgets, counted anew at each step.

use std::collections::HashMap;

use berth_api::object::{Pod, PodDisruptionBudget};
use berth_control::budget::{Budget, Scales};
use smallvec::SmallVec;

/// The budgets that select a pod, by index.
pub(crate) type OfPod = SmallVec<[usize; 1]>;

struct Counted<'a> {
    object: &'a PodDisruptionBudget,
    budget: Budget,
    /// Its pods, and whether each is healthy, before the first step.
    pods: Vec<(&'a Pod, bool)>,
    n_healthy: i64,
}

/// All budgets. A pod that has moved is ready before the next one is evicted.
pub(crate) struct Budgets<'a> {
    all: Vec<Counted<'a>>,
    by_namespace: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Budgets<'a> {
    /// Budgets without pods.
    pub(crate) fn new(objects: &[&'a PodDisruptionBudget]) -> Budgets<'a> {
        let mut by_namespace: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, object) in objects.iter().enumerate() {
            by_namespace.entry(&object.metadata.namespace).or_default().push(i);
        }
        let counted = |object: &&'a PodDisruptionBudget| Counted {
            object,
            budget: Budget::new(object),
            pods: Vec::new(),
            n_healthy: 0,
        };
        Budgets { all: objects.iter().map(counted).collect(), by_namespace }
    }

    /// Adds a pod. Returns its budgets.
    pub(crate) fn add(&mut self, pod: &'a Pod, is_running: bool) -> OfPod {
        let of_namespace = self.by_namespace.get(pod.metadata.namespace.as_str()).into_iter().flatten();
        let of_pod: OfPod = of_namespace.copied().filter(|i| self.all[*i].budget.covers(pod)).collect();
        let is_healthy = is_running && !pod.is_unready();
        for i in &of_pod {
            self.all[*i].pods.push((pod, is_healthy));
            self.all[*i].n_healthy += i64::from(is_healthy && !pod.metadata.is_deleting());
        }
        of_pod
    }

    /// Counts what the budgets demand of the pods, after the last was added.
    pub(crate) fn count(&mut self, scales: &Scales) {
        for Counted { object, budget, pods, .. } in &mut self.all {
            budget.count(object, scales, std::mem::take(pods).iter().copied());
        }
    }

    /// Whether the API server would evict a pod now.
    pub(crate) fn allow(&self, of_pod: &[usize], is_ready: bool) -> bool {
        match of_pod {
            [] => true,
            [budget] => {
                let Counted { budget, n_healthy, .. } = &self.all[*budget];
                let allowed = budget.allowed(*n_healthy);
                allowed > 0 || (!is_ready && budget.evicts_unready(allowed))
            }
            // It evicts no pod that several budgets select.
            _ => false,
        }
    }

    /// Why a pod is not evicted now, of one that a budget selects.
    pub(crate) fn refusal(&self, of_pod: &[usize], is_ready: bool) -> Option<String> {
        let Counted { budget, n_healthy, .. } =
            &self.all[*of_pod.first().filter(|_| !self.allow(of_pod, is_ready))?];
        let name = &budget.name;
        Some(match budget.failure() {
            Some(why) => format!("PodDisruptionBudget {name} allows no eviction: {why}"),
            None => {
                let desired = n_healthy - budget.allowed(*n_healthy);
                format!(
                    "PodDisruptionBudget {name} allows no eviction: {n_healthy} of its pods are ready, and {desired} have to be"
                )
            }
        })
    }

    /// A pod is ready that was not (1), or the other way round (-1).
    pub(crate) fn count_ready(&mut self, of_pod: &[usize], sign: i64) {
        of_pod.iter().for_each(|budget| self.all[*budget].n_healthy += sign);
    }
}
