//! ReplicaSets and ReplicationControllers: keep the wanted number of pods.

mod plan;
mod rank;
mod rejections;

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::{PODS, REPLICA_SETS, Resource};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::plan::{Failure, Plan};
use self::rejections::Rejections;
use super::api::{Api, Precondition};
use super::events::{Recorder, Reference};
use super::index::{Cache, Index};
use super::informers::Informers;
use super::ownership::{Owner, claim};
use super::pod_control::{PodControl, pod_from_template};
use super::pod_events::PodEvents;
use super::queue::{Next, Queue, until, work};
use super::view::{Pod, ReplicaSet};
use berth_client::call::CallError;

/// Batching window: pod events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(10);

/// The controller of ReplicaSets or of ReplicationControllers.
pub(crate) struct ReplicaSets {
    kind: &'static Resource,
    control: PodControl,
    replica_sets: Arc<Cache<ReplicaSet>>,
    rejections: Rejections,
    queue: Arc<Queue<NamespacedName>>,
}

impl ReplicaSets {
    pub(crate) fn new(
        kind: &'static Resource,
        api: &Api,
        recorder: Recorder,
        informers: &mut Informers,
    ) -> Self {
        let control = PodControl::new(api, recorder, informers);
        let Informers { replica_sets, replication_controllers, pods, .. } = informers;
        let replica_sets = if *kind == REPLICA_SETS { replica_sets } else { replication_controllers };
        let controller = ReplicaSets {
            kind,
            control,
            replica_sets: replica_sets.cache(),
            rejections: Rejections::default(),
            queue: Arc::default(),
        };
        PodEvents {
            kind,
            objects: controller.replica_sets.clone(),
            selector: |object| &object.spec.selector,
            queue: controller.queue.clone(),
            expectations: controller.control.expectations.clone(),
            settle: SETTLE,
        }
        .register(replica_sets, pods);
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work(self.kind.plural, &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(replica_set) = self.replica_sets.get(&key) else {
            self.control.expectations.forget(&key);
            self.rejections.forget(&key);
            return Ok(Next::Wait);
        };
        let may_act = self.control.expectations.are_met(&key, &self.queue);
        let owner = Owner { kind: self.kind, meta: &replica_set.metadata };
        let selector = &replica_set.spec.selector;
        let pods = claim(&self.control.api, owner, selector, &PODS, &self.control.caches.pods, |pod| {
            pod.is_active()
        })
        .await?;

        let (mut failure, mut backoff) = (None, None);
        let mut error = None;
        if may_act && !replica_set.metadata.is_deleting() {
            let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
            let related = || self.related_pods(&replica_set, &active);
            backoff = self.rejections.backoff(&replica_set, &pods, Instant::now());
            match plan::plan(&replica_set, &active, related, Timestamp::now()) {
                Plan::Nothing => {}
                Plan::Create(_) if backoff.is_some() => {}
                Plan::Create(n) => {
                    let failed = self.create(&key, owner, &replica_set, n).await;
                    error = failed.map(|error| ("FailedCreate", error));
                }
                Plan::Delete(pods) => {
                    let about = Reference::new(self.kind, owner.meta);
                    let failed = self.control.delete(&key, &about, &pods).await;
                    error = failed.map(|error| ("FailedDelete", error));
                }
            }
            if let Some((reason, error)) = &error {
                failure = Some(Failure { reason, message: error.message() });
            }
        }

        let now = Timestamp::now();
        let (status, next_available) = plan::status(&replica_set, &pods, failure.as_ref(), now);
        if status != replica_set.status {
            let meta = &replica_set.metadata;
            self.control.api.write_status(self.kind, meta, &status, Precondition::Uid).await?;
        }
        match error {
            Some((_, error)) if !error.is_namespace_terminating() => Err(error),
            _ => {
                let available = next_available.map(|at| until(at, now));
                Ok(available.into_iter().chain(backoff).min().map_or(Next::Wait, Next::After))
            }
        }
    }

    async fn create(
        &self,
        key: &NamespacedName,
        owner: Owner<'_>,
        replica_set: &ReplicaSet,
        n: usize,
    ) -> Option<CallError> {
        let pod = pod_from_template(&replica_set.spec.template, owner);
        let body = serde_json::to_vec(&pod).unwrap_or_default();
        self.control.create(key, &Reference::new(self.kind, owner.meta), vec![body; n]).await
    }

    /// The pods of all ReplicaSets of the same Deployment.
    fn related_pods(&self, replica_set: &ReplicaSet, active: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let Some(deployment) = replica_set.metadata.controller() else { return active.to_vec() };
        let siblings = self.replica_sets.by(&Index::Controller(deployment.uid.clone()));
        let of = |sibling: &Arc<ReplicaSet>| {
            self.control.caches.pods.by(&Index::Controller(sibling.metadata.uid.clone()))
        };
        siblings.iter().flat_map(of).collect()
    }
}
