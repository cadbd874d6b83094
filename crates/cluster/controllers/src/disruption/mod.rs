//! Pod disruption budgets: compute how many more pods may be evicted.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::POD_DISRUPTION_BUDGETS;
use berth_control::budget::{Scale, demand};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::api::{Api, Precondition};
use super::events::{Recorder, Reference};
use super::index::{Index, Informer};
use super::informers::{Caches, Informers};
use super::queue::{Next, Queue, work};
use super::view::{
    Condition, Deployment, OwnerReference, Pod, PodDisruptionBudgetStatus, ReplicaSet, StatefulSet,
};
use berth_client::HasMetadata;
use berth_client::call::CallError;

/// Batching window: pod events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(50);

/// The condition of a pod that a component evicts.
pub(crate) fn disruption_target(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Condition {
    let observed_generation = pod.metadata.generation;
    Condition { observed_generation, ..Condition::new("DisruptionTarget", "True", reason, message, now) }
}

pub(crate) struct DisruptionBudgets {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl DisruptionBudgets {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let controller = DisruptionBudgets { api: api.clone(), recorder, caches, queue: Arc::default() };
        controller.queue.follow(&mut informers.budgets);
        let (queue, cache) = (controller.queue.clone(), controller.caches.budgets.clone());
        informers.pods.on_change(move |change| {
            let Some(pod) = change.latest() else { return };
            let matters = change.old.zip(change.new).is_none_or(|(old, new)| {
                old.is_ready() != new.is_ready()
                    || old.metadata.is_deleting() != new.metadata.is_deleting()
                    || old.metadata.labels != new.metadata.labels
                    || old.metadata.owner_references != new.metadata.owner_references
            });
            if !matters {
                return;
            }
            for budget in cache.by(&Index::Namespace(pod.metadata.namespace.clone())) {
                let mut both = change.old.into_iter().chain(change.new);
                if both.any(|pod| budget.spec.selector.matches(&pod.metadata.labels)) {
                    queue.add_after(budget.metadata.namespaced_name(), SETTLE);
                }
            }
        });
        controller.follow_scale(&mut informers.deployments, Deployment::replicas);
        controller.follow_scale(&mut informers.replica_sets, ReplicaSet::replicas);
        controller.follow_scale(&mut informers.replication_controllers, ReplicaSet::replicas);
        controller.follow_scale(&mut informers.stateful_sets, StatefulSet::replicas);
        controller
    }

    /// Enqueues the budgets of a namespace when a wanted pod count changes.
    fn follow_scale<T: HasMetadata>(
        &self,
        informer: &mut Informer<T>,
        replicas: impl Fn(&T) -> i32 + Send + Sync + 'static,
    ) {
        let (queue, cache) = (self.queue.clone(), self.caches.budgets.clone());
        informer.on_change(move |change| {
            let same = change.old.zip(change.new).is_some_and(|(old, new)| replicas(old) == replicas(new));
            let Some(latest) = change.latest().filter(|_| !same) else { return };
            for budget in cache.by(&Index::Namespace(latest.meta().namespace.clone())) {
                queue.add_after(budget.metadata.namespaced_name(), SETTLE);
            }
        });
    }

    /// The top-level controller of a pod and its wanted pod count.
    fn scale_of(&self, namespace: &String, owner: &OwnerReference) -> Option<Scale> {
        let (key, caches) = (NamespacedName::new(namespace, &owner.name), &self.caches);
        let replicas = match owner.kind.as_str() {
            "ReplicaSet" => {
                let set = caches.replica_sets.get(&key).filter(|set| set.metadata.uid == owner.uid)?;
                if let Some(owner) = set.metadata.controller() {
                    return self.scale_of(namespace, owner);
                }
                set.replicas()
            }
            "Deployment" => caches.deployments.get(&key).filter(|d| d.metadata.uid == owner.uid)?.replicas(),
            "ReplicationController" => {
                let sets = &caches.replication_controllers;
                sets.get(&key).filter(|set| set.metadata.uid == owner.uid)?.replicas()
            }
            "StatefulSet" => {
                caches.stateful_sets.get(&key).filter(|set| set.metadata.uid == owner.uid)?.replicas()
            }
            _ => return None,
        };
        Some(Scale::Of(owner.uid.clone(), replicas))
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("poddisruptionbudgets", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(budget) = self.caches.budgets.get(&key) else { return Ok(Next::Wait) };
        let mut pods = self.caches.pods.by(&Index::Namespace(key.namespace().to_owned()));
        pods.retain(|pod| budget.spec.selector.matches(&pod.metadata.labels));
        let now = Timestamp::now();
        let (min, max) = (budget.spec.min_available.as_ref(), budget.spec.max_unavailable.as_ref());
        let controllers = pods.iter().map(|pod| pod.metadata.controller());
        let namespace = &key.namespace().to_owned();
        let demand =
            demand(min, max, controllers, |owner| self.scale_of(namespace, owner).unwrap_or(Scale::No));
        let (status, look_again): (PodDisruptionBudgetStatus, _) = match demand {
            Ok(demand) => plan::status(&budget, &pods, demand, now),
            Err(message) => {
                let about = Reference::new(&POD_DISRUPTION_BUDGETS, &budget.metadata);
                let event = format!("Failed to calculate the number of expected pods: {message}");
                self.recorder.warning(&about, "CalculateExpectedPodCountFailed", event);
                (plan::failed(&budget, message, now), None)
            }
        };
        if status != budget.status {
            // A merge patch keeps absent names, so each name that is no longer disrupted is removed explicitly.
            let mut written =
                serde_json::to_value(&status).expect("texts, numbers and lists of them are JSON");
            for name in
                budget.status.disrupted_pods.keys().filter(|name| !status.disrupted_pods.contains_key(*name))
            {
                written["disruptedPods"][name] = serde_json::Value::Null;
            }
            let meta = &budget.metadata;
            self.api.write_status(&POD_DISRUPTION_BUDGETS, meta, &written, Precondition::Version).await?;
        }
        Ok(Next::at(look_again, now))
    }
}
