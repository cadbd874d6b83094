//! Pods whose claims of devices are being bound: PreBind of the plugin DynamicResources, and Unreserve.
//!
//! What was decided is assumed in the engine's state until the watch has shown what was written, or that it was taken back: no
//! device is given away meanwhile, whatever happens to the pod. Until then the pod is not decided again.

mod claim;
mod ending;
mod locks;
mod post_filter;
mod release;
#[cfg(test)]
mod tests;
mod wait;
mod write;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::device::DeviceReadiness;
use berth_api::object::{NamespacedName, Pod};
use berth_engine::Cluster;
use berth_input::journal::AssumedDevices;
use berth_mirror::DeviceClaimState;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::post_filter::ClaimsFreed;
use self::wait::{DeviceWait, DeviceWaits, Stage};
use self::write::{ClaimStep, ClaimWrite, DeviceWrite};
pub(crate) use self::writer::DeviceWriter;
use super::pre_bind::PreBindOutcome;
use crate::completion::{Binding, Completion, CompletionSender, WriteError};
use crate::metrics::Metrics;
use crate::pending::{QueuedPod, QueuedPods};
use crate::queue::PodId;

/// kube-scheduler's name of the plugin.
const PLUGIN: &str = "DynamicResources";

pub(crate) struct DeviceBindings {
    writer: DeviceWriter,
    completed: CompletionSender,
    /// They end with the scheduler.
    tasks: JoinSet<()>,
    waits: DeviceWaits,
    deadlines: BTreeSet<(Instant, PodId)>,
    /// Claims that PostFilter is changing.
    freeing: BTreeSet<NamespacedName>,
    metrics: Arc<Metrics>,
}

impl DeviceBindings {
    pub(crate) fn new(
        writer: DeviceWriter,
        completed: CompletionSender,
        metrics: Arc<Metrics>,
    ) -> DeviceBindings {
        DeviceBindings {
            writer,
            completed,
            tasks: JoinSet::new(),
            waits: DeviceWaits::default(),
            deadlines: BTreeSet::new(),
            freeing: BTreeSet::new(),
            metrics,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Whether an earlier attempt for a pod is being taken back, or is not shown by the watch yet.
    pub(crate) fn is_busy(&self, pod: &Pod) -> bool {
        self.waits.has_pod(&pod.metadata.uid)
    }

    /// Assumes what was decided for a pod. Its devices have to be ready within the timeout after they are allocated. Returns whether
    /// anything has to be written or waited for.
    pub(crate) fn assume(
        &mut self,
        cluster: &mut Cluster,
        Binding { id, pod, node, abandoned, .. }: &Binding,
        assumed: AssumedDevices,
        timeout: Duration,
        now: Instant,
    ) -> bool {
        cluster.assume_devices(&assumed);
        let decided = &assumed.devices.claims;
        let claims: Vec<_> =
            decided.iter().map(|claim| ClaimWrite::new(pod, claim, self.waits.claim(&claim.claim))).collect();
        let waits = decided.iter().any(|claim| claim.waits);
        let node_allocatable = assumed.devices.node_allocatable.clone();
        let has_writes = !node_allocatable.is_empty()
            || claims.iter().any(|claim| !matches!(claim.step, ClaimStep::Nothing));
        let write = DeviceWrite { pod: pod.clone(), claims, node_allocatable, abandoned: abandoned.clone() };
        let wait = DeviceWait {
            binding: None,
            node: node.clone(),
            assumed,
            write: Arc::new(write),
            stage: Stage::Assumed,
            waits,
            timeout,
            began: now,
            versions: Vec::new(),
        };
        self.waits.add(*id, wait);
        has_writes || waits
    }

    /// Starts the requests for a pod after its volumes are bound. Gives the binding back if the pod has no claims.
    pub(crate) fn start(&mut self, binding: Binding, now: Instant) -> Option<Binding> {
        let id = binding.id;
        let Some(wait) = self.waits.get_mut(id).filter(|wait| wait.stage == Stage::Assumed) else {
            return Some(binding);
        };
        wait.binding = Some(binding);
        wait.began = now;
        wait.stage = Stage::Writing;
        let (write, writer, completed) = (wait.write.clone(), self.writer.clone(), self.completed.clone());
        self.tasks.spawn(async move {
            let result = writer.write(&write).await;
            // The receiver is gone when the scheduler has ended.
            let _ = completed.send(Completion::DevicesWritten { id, result });
        });
        None
    }

    /// The requests for a pod have been answered. The pod is to be [checked](Self::check) if that is no outcome.
    pub(crate) fn written(
        &mut self,
        id: PodId,
        result: Result<Vec<(NamespacedName, DeviceClaimState)>, WriteError>,
        now: Instant,
    ) -> Option<PreBindOutcome> {
        while self.tasks.try_join_next().is_some() {}
        let leads = self.writer.leadership.leads();
        let is_abandoned = self.waits.get(id)?.stage == Stage::Abandoned;
        match result {
            Ok(claims) => {
                let versions = claims.into_iter().map(|(claim, state)| (claim, state.version)).collect();
                self.waits.await_versions(id, versions);
                self.metrics.devices_written("written");
                if is_abandoned {
                    self.start_roll_back(id);
                    return None;
                }
                let wait = self.waits.get_mut(id)?;
                let deadline = now + wait.timeout;
                wait.stage = Stage::Waiting(deadline);
                self.deadlines.insert((deadline, id));
                None
            }
            Err(error) => {
                if is_abandoned {
                    self.start_roll_back(id);
                    return None;
                }
                match error {
                    WriteError::NotSent if !leads => self.give_back(id),
                    WriteError::NotSent => self.fail_without_node(id),
                    WriteError::Failed(error) => {
                        self.metrics.devices_written("failed");
                        self.fail(id, &error)
                    }
                }
            }
        }
    }

    /// Whether a pod waits for conditions of its devices that are not true yet.
    pub(crate) fn waits_for_conditions(&self, id: PodId) -> bool {
        self.waits.get(id).is_some_and(|wait| wait.waits && matches!(wait.stage, Stage::Waiting(_)))
    }

    /// Ends the wait of a pod whose devices are ready now, or will not be.
    pub(crate) fn check(&mut self, id: PodId, pods: &QueuedPods) -> Option<PreBindOutcome> {
        let wait = self.waits.get(id)?;
        if !matches!(wait.stage, Stage::Waiting(_)) {
            return None;
        }
        // A nomination that arrives after the binding would stay.
        if pods.get(id).is_some_and(QueuedPod::is_status_changing) {
            return None;
        }
        if wait.waits {
            // A claim that was allocated a moment ago is not ready in its earlier versions.
            if !self.waits.is_shown(wait) {
                return None;
            }
            for claim in &wait.write.claims {
                let Some(state) = self.waits.claim(&claim.claim) else {
                    let error = format!("resourceclaim {:?} not found", claim.claim.name());
                    return self.fail(id, &error);
                };
                match &state.readiness {
                    DeviceReadiness::Ready if state.allocation.is_some() => {}
                    DeviceReadiness::Ready => {
                        let error = format!("claim {} got deallocated in the meantime", claim.claim);
                        return self.fail(id, &error);
                    }
                    DeviceReadiness::Waits => return None,
                    DeviceReadiness::Failed(reason, message) => {
                        let error = format!(
                            "claim {} binding failed: reason={reason}, message={message:?}",
                            claim.claim.name()
                        );
                        return self.fail(id, &error);
                    }
                }
            }
        }
        self.end_deadline(id);
        let wait = self.waits.get_mut(id)?;
        wait.stage = Stage::Ready;
        let binding = wait.binding.take()?;
        self.metrics.ran(
            PLUGIN,
            "PreBind",
            "Success",
            &binding.pod.spec.scheduler_name,
            wait.began.elapsed(),
        );
        Some(PreBindOutcome::Bound(binding))
    }

    /// The watch shows a claim, or its deletion. Returns the pods to be [checked](Self::check).
    pub(crate) fn claim_changed(
        &mut self,
        cluster: &mut Cluster,
        claim: &NamespacedName,
        state: Option<DeviceClaimState>,
    ) -> Vec<PodId> {
        let pods = self.waits.claim_changed(claim, state);
        pods.iter().for_each(|id| self.settle(cluster, *id));
        pods
    }

    /// A list of all claims is complete. A claim that was created for a pod and is not in it may have been deleted before any watch
    /// showed it: the API server is asked.
    pub(crate) fn claims_listed(&mut self) {
        for claim in self.waits.unseen() {
            let (writer, completed) = (self.writer.clone(), self.completed.clone());
            self.tasks.spawn(async move {
                if writer.is_gone(&claim).await {
                    let _ = completed.send(Completion::ClaimGone { claim });
                }
            });
        }
    }

    /// The pods whose devices are written or not ready on a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<PodId> {
        let on_node = self.waits.iter().filter(|(_, wait)| *wait.node == *node);
        on_node.filter(|(_, wait)| matches!(wait.stage, Stage::Waiting(_))).map(|(id, _)| id).collect()
    }
}
