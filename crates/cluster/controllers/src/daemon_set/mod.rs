//! DaemonSets: one pod on every eligible node. The scheduler places the pods; the controller pins each to its node.

mod eligibility;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_api::resource::{DAEMON_SETS, PODS};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::eligibility::{add_standard_tolerations, eligibility, pin_to_node};
use self::plan::{by_node, plan};
use super::api::{Api, Precondition};
use super::events::{Recorder, Reference};
use super::failed_pods::FailedPods;
use super::informers::Informers;
use super::ownership::{Owner, claim};
use super::pod_control::{BURST, PodControl, object_at, pod_from_template};
use super::pod_events::PodEvents;
use super::queue::{Next, Queue, until, work};
use super::revisions::{REVISION_LABEL, history, truncate};
use super::view::DaemonSet;
use berth_client::call::CallError;

/// Batching window: pod and node events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(20);

pub(crate) struct DaemonSets {
    control: PodControl,
    /// By node.
    failed: FailedPods,
    queue: Arc<Queue<NamespacedName>>,
    feature_gates: FeatureGates,
}

impl DaemonSets {
    pub(crate) fn new(
        api: &Api,
        recorder: Recorder,
        informers: &mut Informers,
        feature_gates: FeatureGates,
    ) -> Self {
        let control = PodControl::new(api, recorder, informers);
        let (failed, queue) = Default::default();
        let controller = DaemonSets { control, failed, queue, feature_gates };
        let (queue, cache) = (controller.queue.clone(), controller.control.caches.daemon_sets.clone());
        informers.nodes.on_change(move |change| {
            // Heartbeats cause no sync.
            let same = change.old.zip(change.new).is_some_and(|(old, new)| {
                old.metadata.labels == new.metadata.labels && old.spec.taints == new.spec.taints
            });
            if !same {
                for set in cache.all() {
                    queue.add_after(set.metadata.namespaced_name(), SETTLE);
                }
            }
        });
        PodEvents {
            kind: &DAEMON_SETS,
            objects: controller.control.caches.daemon_sets.clone(),
            selector: |object| &object.spec.selector,
            queue: controller.queue.clone(),
            expectations: controller.control.expectations.clone(),
            settle: SETTLE,
        }
        .register(&mut informers.daemon_sets, &mut informers.pods);
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("daemonsets", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(set) = self.control.caches.daemon_sets.get(&key) else {
            self.control.expectations.forget(&key);
            self.failed.forget(&key);
            return Ok(Next::Wait);
        };
        let may_act = self.control.expectations.are_met(&key, &self.queue);
        let owner = Owner { kind: &DAEMON_SETS, meta: &set.metadata };
        let selector = &set.spec.selector;
        let pods = claim(&self.control.api, owner, selector, &PODS, &self.control.caches.pods, |pod| {
            pod.is_active()
        })
        .await?;
        if set.metadata.is_deleting() {
            return Ok(Next::Wait);
        }
        let collisions = set.status.collision_count;
        let history = history(
            &self.control.api,
            &self.control.caches.revisions,
            owner,
            selector,
            &set.spec.template,
            collisions,
        )
        .await?;
        let hash = history.update.hash();
        let Some(eligibility) = eligibility(&set.spec.template, self.feature_gates) else {
            let about = Reference::new(&DAEMON_SETS, &set.metadata);
            self.control.recorder.warning(
                &about,
                "FailedCreate",
                "spec.template: cannot be read as a pod template",
            );
            return Ok(Next::Wait);
        };
        let nodes = self.control.caches.nodes.all();
        let nodes = nodes.iter().map(|node| {
            let taints = node.spec.taints.iter().map(|taint| &taint.taint);
            (node.metadata.name.clone(), eligibility.check(&node.metadata, taints))
        });
        let (nodes, nowhere) = by_node(nodes, &pods);
        let mut plan = plan(&set, &nodes, nowhere, hash, Timestamp::now());
        plan.status.collision_count = history.collisions;

        let held_back = self.hold_back_failed(&set, &mut plan);
        let mut result = Ok(());
        if may_act {
            result = self.carry_out(&key, owner, &set, hash, &plan).await;
        }
        if plan.status != set.status {
            self.control
                .api
                .write_status(&DAEMON_SETS, &set.metadata, &plan.status, Precondition::Version)
                .await?;
        }
        let limit = set.spec.revision_history_limit;
        truncate(&self.control.api, &history, limit, &pods, None).await?;
        result?;
        let now = Timestamp::now();
        let available = plan.look_again.map(|at| until(at, now));
        Ok(available.into_iter().chain(held_back).min().map_or(Next::Wait, Next::After))
    }

    /// Removes failed pods in backoff from the plan, and returns when the backoff ends.
    fn hold_back_failed(&self, set: &DaemonSet, plan: &mut plan::Plan) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        let now = Instant::now();
        if !plan.failed.is_empty() {
            self.failed.sweep(now);
        }
        for pod in &plan.failed {
            let node = pod.target_node().unwrap_or_default();
            if let Some(left) = self.failed.backoff(&set.metadata, node, now) {
                plan.delete.retain(|other| other.metadata.uid != pod.metadata.uid);
                next = Some(next.map_or(left, |next| next.min(left)));
            }
        }
        next
    }

    async fn carry_out(
        &self,
        key: &NamespacedName,
        owner: Owner<'_>,
        set: &DaemonSet,
        hash: &str,
        plan: &plan::Plan,
    ) -> Result<(), CallError> {
        let about = Reference::new(&DAEMON_SETS, &set.metadata);
        let create_on = &plan.create_on[..plan.create_on.len().min(BURST)];
        let mut delete = plan.delete.clone();
        delete.truncate(BURST);
        delete.dedup_by(|a, b| a.metadata.uid == b.metadata.uid);
        let mut pod = pod_from_template(&set.spec.template, owner);
        let labels = object_at(object_at(&mut pod, "metadata"), "labels");
        labels.insert(REVISION_LABEL.to_owned(), hash.into());
        add_standard_tolerations(&mut pod);
        let bodies = create_on.iter().map(|node| {
            let mut pod = pod.clone();
            pin_to_node(&mut pod, node);
            Value::Object(pod).to_string().into_bytes()
        });
        let failed = self.control.create(key, &about, bodies.collect()).await;
        let error = failed.filter(|error| !error.is_namespace_terminating());
        let error = error.or(self.control.delete(key, &about, &delete).await);
        error.map_or(Ok(()), Err)
    }
}
