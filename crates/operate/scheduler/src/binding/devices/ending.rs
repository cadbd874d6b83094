//! How attempts end: what was written stays, or is taken back.

use std::sync::atomic::Ordering;

use berth_api::object::NamespacedName;
use berth_engine::Cluster;
use tokio::time::Instant;

use super::wait::Stage;
use super::write::ClaimWrite;
use super::{DeviceBindings, PLUGIN, PreBindOutcome};
use crate::completion::Completion;
use crate::queue::PodId;

impl DeviceBindings {
    /// What was written for a pod is taken back.
    pub(crate) fn rolled_back(
        &mut self,
        cluster: &mut Cluster,
        id: PodId,
        versions: Vec<(NamespacedName, u64)>,
    ) {
        while self.tasks.try_join_next().is_some() {}
        if let Some(wait) = self.waits.get_mut(id) {
            wait.stage = Stage::RolledBack;
            self.waits.await_versions(id, versions);
            self.settle(cluster, id);
        }
    }

    /// Ends what was assumed for a pod, if the watch shows the claims as they were written.
    pub(super) fn settle(&mut self, cluster: &mut Cluster, id: PodId) {
        let Some(wait) = self.waits.get(id) else { return };
        if !matches!(wait.stage, Stage::Kept | Stage::RolledBack) || !self.waits.is_shown(wait) {
            return;
        }
        let is_kept = wait.stage == Stage::Kept;
        let Some(wait) = self.waits.remove(id) else { return };
        let mut assumed = wait.assumed;
        if is_kept {
            // The others are what the watch has shown.
            let is_shown = |write: &ClaimWrite| {
                self.waits.claim(&write.claim).is_some_and(|claim| claim.allocation.is_some())
            };
            let decided = std::mem::take(&mut assumed.devices.claims);
            let gone = decided
                .into_iter()
                .zip(&wait.write.claims)
                .filter(|(decided, write)| decided.allocation.is_some() && !is_shown(write));
            assumed.devices.claims = gone.map(|(decided, _)| decided).collect();
        }
        if !assumed.devices.claims.is_empty() {
            cluster.restore_devices(&assumed);
        }
    }

    /// A pod is bound: its claims stay as they are.
    pub(crate) fn keep(&mut self, cluster: &mut Cluster, id: PodId) {
        self.end_deadline(id);
        if let Some(wait) = self.waits.get_mut(id) {
            wait.stage = Stage::Kept;
            self.settle(cluster, id);
        }
    }

    /// An attempt ended without a binding: what was written for it is taken back.
    pub(crate) fn roll_back(&mut self, cluster: &mut Cluster, id: PodId) {
        let Some(wait) = self.waits.get_mut(id) else { return };
        wait.binding = None;
        match wait.stage {
            Stage::Assumed => {
                if let Some(wait) = self.waits.remove(id) {
                    cluster.restore_devices(&wait.assumed);
                }
            }
            Stage::Writing => {
                wait.stage = Stage::Abandoned;
                wait.abandoned().store(true, Ordering::Relaxed);
            }
            Stage::Waiting(_) | Stage::Ready => self.start_roll_back(id),
            Stage::Kept | Stage::Abandoned | Stage::RollingBack | Stage::RolledBack => {}
        }
    }

    pub(super) fn end_deadline(&mut self, id: PodId) {
        if let Some(Stage::Waiting(deadline)) = self.waits.get(id).map(|wait| wait.stage) {
            self.deadlines.remove(&(deadline, id));
        }
    }

    pub(super) fn start_roll_back(&mut self, id: PodId) {
        self.end_deadline(id);
        let Some(wait) = self.waits.get_mut(id) else { return };
        wait.stage = Stage::RollingBack;
        let (write, writer, completed) = (wait.write.clone(), self.writer.clone(), self.completed.clone());
        self.tasks.spawn(async move {
            let versions = writer.roll_back(&write).await;
            let _ = completed.send(Completion::DevicesRolledBack { id, versions });
        });
    }

    pub(super) fn fail(&mut self, id: PodId, error: &str) -> Option<PreBindOutcome> {
        let wait = self.waits.get_mut(id)?;
        let binding = wait.binding.take()?;
        self.metrics.ran(PLUGIN, "PreBind", "Error", &binding.pod.spec.scheduler_name, wait.began.elapsed());
        self.start_roll_back(id);
        Some(PreBindOutcome::Failed(binding, format!("running PreBind plugin {PLUGIN:?}: {error}")))
    }

    pub(crate) fn fail_without_node(&mut self, id: PodId) -> Option<PreBindOutcome> {
        let node = self.waits.get(id)?.node.clone();
        self.fail(id, &format!("node {node:?} not found"))
    }

    /// Another process leads: it continues with what was written.
    pub(super) fn give_back(&mut self, id: PodId) -> Option<PreBindOutcome> {
        let binding = self.waits.get_mut(id)?.binding.take()?;
        self.start_roll_back(id);
        Some(PreBindOutcome::NotSent(binding))
    }

    /// See [`PreBind::expire`](crate::binding::PreBind::expire).
    pub(crate) fn expire(&mut self, now: Instant) -> Option<PreBindOutcome> {
        if !self.deadlines.is_empty() && !self.writer.leadership.leads() {
            let id = self.deadlines.first().map(|(_, id)| *id)?;
            return self.give_back(id);
        }
        let (_, id) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
        self.fail(id, "device binding timeout")
    }
}
