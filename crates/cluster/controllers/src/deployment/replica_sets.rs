//! The ReplicaSets of a Deployment during planning: their current and their planned size.

use std::sync::Arc;

use crate::template::same_template;
use crate::view::{Deployment, ReplicaSet};
use berth_api::fenceposts::clamp;
use berth_control::bounds::Bounds;
use berth_control::deployment::{SetSize, Spec};

pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// A ReplicaSet and its planned number of pods.
#[derive(Clone, Debug)]
pub(super) struct Sized {
    pub(super) object: Arc<ReplicaSet>,
    /// `spec.replicas` after the plan.
    pub(super) replicas: i32,
    /// Its position among all by age, oldest first.
    age: usize,
}

impl Sized {
    pub(super) fn new(object: Arc<ReplicaSet>, age: usize) -> Self {
        let replicas = object.replicas();
        Sized { object, replicas, age }
    }

    pub(super) fn size(&self) -> SetSize {
        SetSize {
            replicas: self.replicas,
            available: self.object.status.available_replicas,
            desired: desired_replicas_annotation(&self.object),
            max_replicas: max_replicas_annotation(&self.object),
            age: self.age,
        }
    }
}

fn desired_replicas_annotation(replica_set: &ReplicaSet) -> Option<i32> {
    replica_set.metadata.annotation(DESIRED_REPLICAS)?.parse().ok()
}

fn max_replicas_annotation(replica_set: &ReplicaSet) -> Option<i32> {
    replica_set.metadata.annotation(MAX_REPLICAS)?.parse().ok()
}

/// The ReplicaSet of the current template, and all others by age, oldest first.
pub(super) fn new_and_old(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
) -> (Option<Sized>, Vec<Sized>) {
    let mut all = replica_sets.to_vec();
    all.sort_by(|a, b| age(a).cmp(&age(b)));
    let mut all: Vec<_> = all.into_iter().enumerate().map(|(age, set)| Sized::new(set, age)).collect();
    let template = &deployment.spec.template;
    let new = all.iter().position(|set| same_template(&set.object.spec.template, template));
    let new = new.map(|at| all.remove(at));
    (new, all)
}

/// Order by creation, then name.
fn age(replica_set: &ReplicaSet) -> (Option<jiff::Timestamp>, &str) {
    (replica_set.metadata.creation_timestamp, &replica_set.metadata.name)
}

/// What the sizes of the ReplicaSets depend on.
pub(super) fn spec(deployment: &Deployment) -> Spec {
    let rolling = &deployment.spec.strategy.rolling_update;
    let (max_surge, max_unavailable) = (rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref());
    let bounds = Bounds::of_deployment(max_surge, max_unavailable, deployment.replicas());
    Spec {
        replicas: deployment.replicas(),
        rolling: deployment.is_rolling().then_some(bounds),
        is_paused: deployment.spec.paused,
        status_replicas: deployment.status.replicas,
    }
}

pub(super) fn total_replicas<'a>(sets: impl IntoIterator<Item = &'a Sized>) -> i32 {
    clamp(sets.into_iter().map(|set| i64::from(set.replicas)).sum())
}

pub(super) fn total_available<'a>(sets: impl IntoIterator<Item = &'a Sized>) -> i32 {
    clamp(sets.into_iter().map(|set| i64::from(set.object.status.available_replicas)).sum())
}
