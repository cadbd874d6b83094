//! StatefulSets: create, replace and delete named pods in order.
//!
//! The retention policy decides who owns the claims: a claim is deleted with its owner. Claims without owner are kept,
//! and the next pod of the same ordinal uses them again.

mod identity;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::plan::{Action, POD_INDEX_LABEL, POD_NAME_LABEL, Plan, Revision, plan};
use super::api::{Api, DeleteOptions, Precondition};
use super::events::{Recorder, Reference};
use super::failed_pods::FailedPods;
use super::informers::{Caches, Informers};
use super::ownership::{OWNERS, Owner, claim};
use super::queue::{Next, Queue, until, work};
use super::revisions::{history, truncate};
use super::view::{ControllerRevision, PartialObjectMetadata, Pod, StatefulSet};
use berth_client::call::CallError;

/// Batching window: pod events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(10);
/// Interval between two checks of a claim that is being deleted.
const CLAIM_CHECK: Duration = Duration::from_millis(200);
/// How often a pod is tried to be created whose name a pod of another owner has: the end of that pod is not reported here.
const NAME_CHECK: Duration = Duration::from_secs(5);

pub(crate) struct StatefulSets {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    /// By pod.
    rejected: FailedPods,
    queue: Arc<Queue<NamespacedName>>,
}

impl StatefulSets {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let controller = StatefulSets {
            api: api.clone(),
            recorder,
            caches,
            rejected: FailedPods::default(),
            queue: Arc::default(),
        };
        controller.queue.follow(&mut informers.stateful_sets);
        controller.queue.follow_dependents(
            &STATEFUL_SETS,
            controller.caches.stateful_sets.clone(),
            |set| &set.spec.selector,
            &mut informers.pods,
            SETTLE,
        );
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("statefulsets", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(set) = self.caches.stateful_sets.get(&key) else {
            self.rejected.forget(&key);
            return Ok(Next::Wait);
        };
        let owner = Owner { kind: &STATEFUL_SETS, meta: &set.metadata };
        let selector = &set.spec.selector;
        let is_named = |pod: &Pod| set.ordinal_of(&pod.metadata.name).is_some();
        let pods = claim(&self.api, owner, selector, &PODS, &self.caches.pods, is_named).await?;
        if set.metadata.is_deleting() {
            return Ok(Next::Wait);
        }
        let collisions = set.status.collision_count;
        let history =
            history(&self.api, &self.caches.revisions, owner, selector, &set.spec.template, collisions)
                .await?;
        let update = &history.update;
        let current = history.all.iter().find(|r| *r.metadata.name == *set.status.current_revision);
        let current = current.unwrap_or(update);
        let names = (&current.metadata.name, &update.metadata.name);
        let Plan { mut actions, mut status, look_again } =
            plan(&set, &pods, names.0, names.1, Timestamp::now());
        let held_back = hold_back_rejected(&self.rejected, &set, &mut actions, Instant::now());
        status.collision_count = history.collisions;
        self.own_claims(&set, &pods).await?;
        let mut waits_for_claim = false;
        let mut result = Ok(());
        let mut name_is_taken = false;
        for action in actions {
            if let Action::Create(ordinal, _) = action
                && self.has_stale_claim(&set, ordinal)
            {
                // In order, no later pod may be created first.
                waits_for_claim = true;
                break;
            }
            result = match action {
                Action::Create(ordinal, revision) => {
                    let revision = if revision == Revision::Current { current } else { update };
                    self.create(&set, ordinal, revision).await.map(|created| name_is_taken |= !created)
                }
                Action::Delete(pod) => self.delete(&set, &pod).await,
                Action::Label(pod, ordinal) => {
                    let labels =
                        json!({POD_NAME_LABEL: &*pod.metadata.name, POD_INDEX_LABEL: ordinal.to_string()});
                    let patch = json!({"metadata": {"uid": pod.metadata.uid, "labels": labels}});
                    self.api.patch(&PODS, &pod.metadata.namespaced_name(), "", &patch).await.map(drop)
                }
            };
            if result.is_err() {
                break;
            }
        }
        if status != set.status {
            self.api.write_status(&STATEFUL_SETS, &set.metadata, &status, Precondition::Version).await?;
        }
        let current = Some(set.status.current_revision.as_str());
        truncate(&self.api, &history, set.spec.revision_history_limit, &pods, current).await?;
        result?;
        let now = Timestamp::now();
        let next = look_again.map(|at| until(at, now)).or(name_is_taken.then_some(NAME_CHECK));
        let next = next.into_iter().chain(held_back).min();
        let next = next.map_or(Next::Wait, Next::After);
        Ok(if waits_for_claim { Next::After(CLAIM_CHECK) } else { next })
    }

    /// Whether a claim of this ordinal will be deleted, so that its next pod must not use it.
    fn has_stale_claim(&self, set: &StatefulSet, ordinal: i64) -> bool {
        identity::claim_names(set, ordinal).any(|(_, name)| {
            let claim = self.caches.claims.get(&NamespacedName::new(&set.metadata.namespace, &name));
            claim.is_some_and(|claim| identity::is_stale(&claim.metadata))
        })
    }

    /// Applies the retention policy to the claims of these pods.
    async fn own_claims(&self, set: &StatefulSet, pods: &[Arc<Pod>]) -> Result<(), CallError> {
        for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
            let Some(ordinal) = set.ordinal_of(&pod.metadata.name) else { continue };
            let is_condemned = !set.ordinals().contains(&ordinal);
            for (_, name) in identity::claim_names(set, ordinal) {
                let key = NamespacedName::new(&set.metadata.namespace, &name);
                let meta = match self.caches.claims.get(&key) {
                    Some(claim) => claim.metadata.clone(),
                    // The pod is deleted now: this is the last opportunity.
                    None if is_condemned => {
                        match self.api.get::<PartialObjectMetadata>(&PERSISTENT_VOLUME_CLAIMS, &key).await? {
                            Some(claim) => claim.metadata,
                            None => continue,
                        }
                    }
                    None => continue,
                };
                let Some(owners) = identity::claim_owners(set, &pod.metadata, is_condemned, &meta) else {
                    continue;
                };
                self.api.set_metadata(&PERSISTENT_VOLUME_CLAIMS, &meta, OWNERS, json!(owners)).await?;
            }
        }
        Ok(())
    }

    /// Creates a pod and its claims. Returns whether it did: another pod may have the name.
    async fn create(
        &self,
        set: &StatefulSet,
        ordinal: i64,
        revision: &ControllerRevision,
    ) -> Result<bool, CallError> {
        let about = Reference::new(&STATEFUL_SETS, &set.metadata);
        let namespace = &set.metadata.namespace;
        for claim in identity::claims(set, ordinal) {
            let body = claim.to_string().into_bytes();
            match self.api.create(&PERSISTENT_VOLUME_CLAIMS, namespace, body).await {
                Err(error) if error.is_already_exists() => {}
                result => drop(result.inspect_err(|error| self.record_failed(&about, ordinal, set, error))?),
            }
        }
        let pod = identity::pod(set, ordinal, revision.template(), &revision.metadata.name);
        let body = Value::Object(pod).to_string().into_bytes();
        let name = identity::pod_name(set, ordinal);
        match self.api.create(&PODS, namespace, body).await {
            // The pod was just created or belongs to another owner: the cache will show which.
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => {
                self.record_failed(&about, ordinal, set, &error);
                Err(error)
            }
            Ok(_) => {
                let message = format!("create Pod {name} in StatefulSet {} successful", set.metadata.name);
                self.recorder.normal(&about, "SuccessfulCreate", message);
                Ok(true)
            }
        }
    }

    fn record_failed(&self, about: &Reference, ordinal: i64, set: &StatefulSet, error: &CallError) {
        if !error.is_namespace_terminating() {
            let (pod, set) = (identity::pod_name(set, ordinal), &set.metadata.name);
            let message = format!("create Pod {pod} in StatefulSet {set} failed error: {}", error.message());
            self.recorder.warning(about, "FailedCreate", message);
        }
    }

    async fn delete(&self, set: &StatefulSet, pod: &Pod) -> Result<(), CallError> {
        let key = pod.metadata.namespaced_name();
        match self.api.delete(&PODS, &key, DeleteOptions::of_uid(&pod.metadata.uid)).await {
            Err(error) if error.is_stale() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let about = Reference::new(&STATEFUL_SETS, &set.metadata);
                let message =
                    format!("delete Pod {} in StatefulSet {} successful", key.name(), set.metadata.name);
                self.recorder.normal(&about, "SuccessfulDelete", message);
                Ok(())
            }
        }
    }
}

/// Removes the replacement of rejected pods in backoff from the actions, and returns when the backoff ends.
fn hold_back_rejected(
    rejected: &FailedPods,
    set: &StatefulSet,
    actions: &mut Vec<Action>,
    now: Instant,
) -> Option<Duration> {
    let is_replaced = |pod: &Pod| {
        let ordinal = set.ordinal_of(&pod.metadata.name);
        pod.is_rejected() && ordinal.is_some_and(|ordinal| set.ordinals().contains(&ordinal))
    };
    if actions.iter().any(|action| matches!(action, Action::Delete(pod) if is_replaced(pod))) {
        rejected.sweep(now);
    }
    let mut next: Option<Duration> = None;
    actions.retain(|action| {
        let Action::Delete(pod) = action else { return true };
        if !is_replaced(pod) {
            return true;
        }
        let left = rejected.backoff(&set.metadata, &pod.metadata.name, now);
        next = next.into_iter().chain(left).min();
        left.is_none()
    });
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mended_template_of_a_stateful_set_is_tried_at_once() {
        let set = |uid: &str, generation: i64| -> StatefulSet {
            let metadata = json!({"name": "s", "namespace": "a", "uid": uid, "generation": generation});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"replicas": 1}})).unwrap()
        };
        let pod = json!({"metadata": {"name": "s-0", "namespace": "a"},
            "status": {"phase": "Failed", "message": "Pod was rejected: Predicate NodeAffinity failed"}});
        let pod: Arc<Pod> = Arc::new(serde_json::from_value(pod).unwrap());
        let rejected = FailedPods::default();
        let now = Instant::now();
        let check = |set: StatefulSet| {
            let mut actions = vec![Action::Delete(pod.clone())];
            let next = hold_back_rejected(&rejected, &set, &mut actions, now);
            (actions.len(), next.map(|next| next.as_secs()))
        };
        assert_eq!(check(set("1", 1)), (1, None), "the first rejection");
        assert_eq!(check(set("1", 1)), (0, Some(1)), "the same template");
        assert_eq!(check(set("1", 2)), (1, None), "a mended template");
        assert_eq!(check(set("1", 2)), (0, Some(1)), "rejected again");
        assert_eq!(check(set("2", 1)), (1, None), "a new set with the same name");
    }
}
