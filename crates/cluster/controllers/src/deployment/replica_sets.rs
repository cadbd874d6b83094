//! The ReplicaSets of a Deployment during planning: their current and their planned size.

use std::sync::Arc;

use crate::template::same_template;
use crate::view::{Deployment, ReplicaSet};
use berth_api::fenceposts::clamp;
use berth_api::rollout::Bounds;
use berth_api::rollout::deployment::SetSize;

/// A ReplicaSet and its planned number of pods.
#[derive(Clone, Debug)]
pub(super) struct Sized {
    pub(super) object: Arc<ReplicaSet>,
    /// `spec.replicas` after the plan.
    pub(super) replicas: i32,
}

impl Sized {
    pub(super) fn new(object: Arc<ReplicaSet>) -> Self {
        let replicas = object.replicas();
        Sized { object, replicas }
    }

    pub(super) fn size(&self) -> SetSize {
        SetSize { replicas: self.replicas, available: self.object.status.available_replicas }
    }
}

/// The ReplicaSet of the current template, and all others by age, oldest first.
pub(super) fn new_and_old(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
) -> (Option<Sized>, Vec<Sized>) {
    let mut all: Vec<_> = replica_sets.iter().cloned().map(Sized::new).collect();
    all.sort_by(|a, b| age(&a.object).cmp(&age(&b.object)));
    let template = &deployment.spec.template;
    let new = all.iter().position(|set| same_template(&set.object.spec.template, template));
    let new = new.map(|at| all.remove(at));
    (new, all)
}

/// Order by creation, then name.
pub(super) fn age(replica_set: &ReplicaSet) -> (Option<jiff::Timestamp>, &str) {
    (replica_set.metadata.creation_timestamp, &replica_set.metadata.name)
}

/// The limits of a rolling update; all zero for other strategies.
pub(super) fn bounds(deployment: &Deployment) -> Bounds {
    if !deployment.is_rolling() {
        return Bounds { max_surge: 0, max_unavailable: 0 };
    }
    let rolling = &deployment.spec.strategy.rolling_update;
    let (max_surge, max_unavailable) = (rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref());
    Bounds::of_deployment(max_surge, max_unavailable, deployment.replicas())
}

/// Planned pods of these ReplicaSets.
pub(super) fn total_replicas<'a>(sets: impl IntoIterator<Item = &'a Sized>) -> i32 {
    clamp(sets.into_iter().map(|set| i64::from(set.replicas)).sum())
}

pub(super) fn total_available<'a>(sets: impl IntoIterator<Item = &'a Sized>) -> i32 {
    clamp(sets.into_iter().map(|set| i64::from(set.object.status.available_replicas)).sum())
}
