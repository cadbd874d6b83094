//! ReplicaSets and ReplicationControllers: keep the wanted number of pods.

mod plan;
mod rank;

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::{PODS, Resource};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use self::plan::{Failure, Plan};
use super::api::{Api, Precondition};
use super::cache::{Cache, Index};
use super::events::{Recorder, Reference};
use super::expectations::Expectations;
use super::informer::Informer;
use super::ownership::{Owner, claim};
use super::pod_control::{create_pods, delete_pods, pod_from_template};
use super::pod_events::PodEvents;
use super::queue::{Next, Queue, work};
use super::view::{Pod, ReplicaSet};
use berth_client::call::CallError;

/// Batching window: pod events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(10);

/// The controller of ReplicaSets or of ReplicationControllers.
pub(crate) struct ReplicaSets {
    kind: &'static Resource,
    api: Api,
    recorder: Recorder,
    replica_sets: Arc<Cache<ReplicaSet>>,
    pods: Arc<Cache<Pod>>,
    expectations: Arc<Expectations>,
    queue: Arc<Queue<NamespacedName>>,
}

impl ReplicaSets {
    /// Creates a controller and registers its handlers with these informers.
    pub(crate) fn new(
        kind: &'static Resource,
        api: &Api,
        recorder: Recorder,
        replica_sets: &mut Informer<ReplicaSet>,
        pods: &mut Informer<Pod>,
    ) -> Self {
        let controller = ReplicaSets {
            kind,
            api: api.clone(),
            recorder,
            replica_sets: replica_sets.cache(),
            pods: pods.cache(),
            expectations: Arc::default(),
            queue: Arc::default(),
        };
        PodEvents {
            kind,
            objects: controller.replica_sets.clone(),
            selector: |object| &object.spec.selector,
            queue: controller.queue.clone(),
            expectations: controller.expectations.clone(),
            settle: SETTLE,
        }
        .register(replica_sets, pods);
        controller
    }

    /// Runs until `stop`.
    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        let queue = self.queue.clone();
        work(self.kind.plural, queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(replica_set) = self.replica_sets.get(&key) else {
            self.expectations.forget(&key);
            return Ok(Next::Wait);
        };
        let may_act = self.expectations.are_met(&key, &self.queue);
        let owner = Owner { kind: self.kind, meta: &replica_set.metadata };
        let selector = &replica_set.spec.selector;
        let pods = claim(&self.api, owner, selector, &PODS, &self.pods, |pod| pod.is_active()).await?;

        let mut failure = None;
        let mut error = None;
        if may_act && !replica_set.metadata.is_deleting() {
            let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
            let related = || self.related_pods(&replica_set, &active);
            match plan::plan(&replica_set, &active, related, Timestamp::now()) {
                Plan::Nothing => {}
                Plan::Create(n) => error = self.create(&key, owner, &replica_set, n).await,
                Plan::Delete(pods) => error = self.delete(&key, owner, &pods).await,
            }
            if let Some((reason, error)) = &error {
                failure = Some(Failure { reason, message: error.message() });
            }
        }

        let now = Timestamp::now();
        let (status, next_available) = plan::status(&replica_set, &pods, failure.as_ref(), now);
        if status != replica_set.status {
            let meta = &replica_set.metadata;
            self.api.write_status(self.kind, meta, &status, Precondition::Uid).await?;
        }
        match error {
            Some((_, error)) if !error.is_namespace_terminating() => Err(error),
            _ => Ok(next_available.map_or(Next::Wait, |at| Next::After(until(at, now)))),
        }
    }

    async fn create(
        &self,
        key: &NamespacedName,
        owner: Owner<'_>,
        replica_set: &ReplicaSet,
        n: usize,
    ) -> Option<(&'static str, CallError)> {
        let pod = pod_from_template(&replica_set.spec.template, owner);
        let body = serde_json::to_vec(&pod).unwrap_or_default();
        self.expectations.expect_creations(key, n);
        let about = Reference::new(self.kind, owner.meta);
        let batch = create_pods(&self.api, &self.recorder, &about, vec![body; n]).await;
        self.expectations.creations_seen(key, batch.n_missing);
        batch.error.map(|error| ("FailedCreate", error))
    }

    async fn delete(
        &self,
        key: &NamespacedName,
        owner: Owner<'_>,
        pods: &[Arc<Pod>],
    ) -> Option<(&'static str, CallError)> {
        self.expectations.expect_deletions(key, pods.iter().map(|pod| pod.metadata.uid.clone()));
        let about = Reference::new(self.kind, owner.meta);
        let failed = delete_pods(&self.api, &self.recorder, &about, pods).await;
        let mut error = None;
        for (pod, failure) in failed {
            self.expectations.deletion_seen(key, &pod.metadata.uid);
            error.get_or_insert(failure);
        }
        // Deletions that the watch reported before they were expected are not reported again.
        for pod in pods {
            let now = self.pods.get(&pod.metadata.namespaced_name());
            if now.is_none_or(|now| now.metadata.uid != pod.metadata.uid || now.metadata.is_deleting()) {
                self.expectations.deletion_seen(key, &pod.metadata.uid);
            }
        }
        error.map(|error| ("FailedDelete", error))
    }

    /// The pods of all ReplicaSets of the same Deployment.
    fn related_pods(&self, replica_set: &ReplicaSet, active: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let Some(deployment) = replica_set.metadata.controller() else { return active.to_vec() };
        let siblings = self.replica_sets.by(&Index::Controller(deployment.uid.clone()));
        let of = |sibling: &Arc<ReplicaSet>| self.pods.by(&Index::Controller(sibling.metadata.uid.clone()));
        siblings.iter().flat_map(of).collect()
    }
}

/// Time from now until `at`, plus a margin, so that `at` has passed when it ends.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    left + Duration::from_millis(50)
}
