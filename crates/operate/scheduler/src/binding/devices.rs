//! Pods whose claims of devices are being bound: PreBind of the plugin DynamicResources, and Unreserve.
//!
//! What was decided is assumed in the engine's state until the watch has shown what was written, or that it was taken back: no
//! device is given away meanwhile, whatever happens to the pod. Until then the pod is not decided again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::journal::AssumedDevices;
use berth_api::object::device::DeviceReadiness;
use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, DevicePostFilter};
use berth_mirror::DeviceClaimState;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::device_wait::{DeviceWait, DeviceWaits, Stage};
use super::device_writes::{ClaimStep, ClaimWrite, DeviceWrite, DeviceWriter};
use crate::completion::{Binding, Completion, CompletionSender, DeviceWriteError};
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

/// How the wait of a pod ended.
pub(crate) enum DeviceOutcome {
    /// Its claims are bound: the pod can be bound.
    Bound(Binding),
    /// They are not, for this reason.
    Failed(Binding, String),
    /// Nothing more may be sent. The pod goes back to the queue as if nothing had been tried.
    NotSent(Binding),
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

    /// Assumes what was decided for a pod. Returns whether anything has to be written or waited for.
    pub(crate) fn assume(
        &mut self,
        cluster: &mut Cluster,
        (id, pod, node): (PodId, &Arc<Pod>, &Arc<str>),
        assumed: AssumedDevices,
        abandoned: &Arc<AtomicBool>,
        now: Instant,
    ) -> bool {
        cluster.assume_devices(&assumed);
        let decided = &assumed.devices.claims;
        let claims: Vec<_> =
            decided.iter().map(|claim| ClaimWrite::new(pod, claim, self.waits.claim(&claim.claim))).collect();
        let waits = decided.iter().any(|claim| claim.waits);
        let has_writes = claims.iter().any(|claim| !matches!(claim.step, ClaimStep::Nothing));
        let write = DeviceWrite { pod: pod.clone(), claims, abandoned: abandoned.clone() };
        let wait = DeviceWait {
            binding: None,
            node: node.clone(),
            assumed,
            write: Arc::new(write),
            stage: Stage::Assumed,
            waits,
            timeout: Duration::ZERO,
            began: now,
            versions: Vec::new(),
        };
        self.waits.add(id, wait);
        has_writes || waits
    }

    /// Starts the requests for a pod after its volumes are bound. Its devices have to be ready within the timeout after they are
    /// allocated. Gives the binding back if the pod has no claims.
    pub(crate) fn start(&mut self, binding: Binding, timeout: Duration, now: Instant) -> Option<Binding> {
        let id = binding.id;
        let Some(wait) = self.waits.get_mut(id).filter(|wait| wait.stage == Stage::Assumed) else {
            return Some(binding);
        };
        wait.binding = Some(binding);
        wait.timeout = timeout;
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
        result: Result<Vec<(NamespacedName, DeviceClaimState)>, DeviceWriteError>,
        now: Instant,
    ) -> Option<DeviceOutcome> {
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
                    DeviceWriteError::NotSent if !leads => self.give_back(id),
                    DeviceWriteError::NotSent => self.fail_without_node(id),
                    DeviceWriteError::Failed(error) => {
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
    pub(crate) fn check(&mut self, id: PodId, pods: &QueuedPods) -> Option<DeviceOutcome> {
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
        Some(DeviceOutcome::Bound(binding))
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
    fn settle(&mut self, cluster: &mut Cluster, id: PodId) {
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

    fn end_deadline(&mut self, id: PodId) {
        if let Some(Stage::Waiting(deadline)) = self.waits.get(id).map(|wait| wait.stage) {
            self.deadlines.remove(&(deadline, id));
        }
    }

    fn start_roll_back(&mut self, id: PodId) {
        self.end_deadline(id);
        let Some(wait) = self.waits.get_mut(id) else { return };
        wait.stage = Stage::RollingBack;
        let (write, writer, completed) = (wait.write.clone(), self.writer.clone(), self.completed.clone());
        self.tasks.spawn(async move {
            let versions = writer.roll_back(&write).await;
            let _ = completed.send(Completion::DevicesRolledBack { id, versions });
        });
    }

    fn fail(&mut self, id: PodId, error: &str) -> Option<DeviceOutcome> {
        let wait = self.waits.get_mut(id)?;
        let binding = wait.binding.take()?;
        self.metrics.ran(PLUGIN, "PreBind", "Error", &binding.pod.spec.scheduler_name, wait.began.elapsed());
        self.start_roll_back(id);
        Some(DeviceOutcome::Failed(binding, format!("running PreBind plugin {PLUGIN:?}: {error}")))
    }

    fn fail_without_node(&mut self, id: PodId) -> Option<DeviceOutcome> {
        let node = self.waits.get(id)?.node.clone();
        self.fail(id, &format!("node {node:?} not found"))
    }

    /// Another process leads: it continues with what was written.
    fn give_back(&mut self, id: PodId) -> Option<DeviceOutcome> {
        let binding = self.waits.get_mut(id)?.binding.take()?;
        self.start_roll_back(id);
        Some(DeviceOutcome::NotSent(binding))
    }

    /// Ends a wait whose time is over, or one that a process without leadership must not continue. Called until there is
    /// none: what happens to one pod may end the waits of others.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<DeviceOutcome> {
        if !self.deadlines.is_empty() && !self.writer.leadership.leads() {
            let id = self.deadlines.first().map(|(_, id)| *id)?;
            return self.give_back(id);
        }
        let (_, id) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
        self.fail(id, "device binding timeout")
    }

    /// The pods whose devices are written or not ready on a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<PodId> {
        let on_node = self.waits.iter().filter(|(_, wait)| *wait.node == *node);
        on_node.filter(|(_, wait)| matches!(wait.stage, Stage::Waiting(_))).map(|(id, _)| id).collect()
    }

    /// The node of a pod was deleted.
    pub(crate) fn abandon(&mut self, id: PodId) -> Option<DeviceOutcome> {
        self.fail_without_node(id)
    }

    /// Starts what can be done about the claims of a pod that no node is feasible for. Returns kube-scheduler's text about it; none if nothing
    /// can be done.
    pub(crate) fn post_filter(
        &mut self,
        id: PodId,
        pod: &Arc<Pod>,
        found: DevicePostFilter,
    ) -> Option<&'static str> {
        let (claim, is_extended) = match found {
            DevicePostFilter::Nothing => return None,
            DevicePostFilter::Delete(claim) => (claim, true),
            // Any of them will do: another pod with the same problem takes another one.
            DevicePostFilter::Deallocate(claims) => {
                (claims.into_iter().find(|claim| !self.freeing.contains(claim))?, false)
            }
        };
        if self.freeing.insert(claim.clone()) {
            let (writer, completed, pod) = (self.writer.clone(), self.completed.clone(), pod.clone());
            self.tasks.spawn(async move {
                let result = match is_extended {
                    true => writer.delete_extended(&pod, &claim).await,
                    false => writer.deallocate(&pod, &claim).await,
                };
                let _ = completed.send(Completion::ClaimFreed { id, claim, result });
            });
        }
        Some(match is_extended {
            true => "deletion of ResourceClaim completed",
            false => "deallocation of ResourceClaim completed",
        })
    }

    /// What PostFilter does about a claim is done.
    pub(crate) fn freed(&mut self, claim: &NamespacedName) {
        while self.tasks.try_join_next().is_some() {}
        self.freeing.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::device::{AllocationResult, ClaimDecision, DeviceDecision};
    use berth_client::connect;
    use berth_client::lease::Leadership;
    use berth_engine::Settings;
    use prometheus_client::registry::Registry;
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    const ID: PodId = PodId(1);
    const TIMEOUT: Duration = Duration::from_secs(7);

    struct Fixture {
        bindings: DeviceBindings,
        cluster: Cluster,
        pod: Arc<Pod>,
        claim: NamespacedName,
        now: Instant,
    }

    /// A claim in a version, with what is allocated.
    fn state(version: u64, readiness: DeviceReadiness) -> DeviceClaimState {
        DeviceClaimState { uid: "c".to_owned(), version, allocation: Some(1), readiness }
    }

    impl Fixture {
        /// A pod whose claim is being written. The claim was shown in version 1.
        fn writing() -> Fixture {
            let writer = DeviceWriter {
                client: connect::client(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap(),
                leadership: Leadership::uncontested(),
                timeout: Duration::from_secs(1),
                permits: Arc::new(Semaphore::new(1)),
            };
            let metrics = Arc::new(Metrics::new(&mut Registry::default()));
            let mut pod = Pod::default();
            pod.metadata.uid = "p".to_owned();
            let mut fixture = Fixture {
                bindings: DeviceBindings::new(writer, mpsc::unbounded_channel().0, metrics),
                cluster: Cluster::new(Settings::default()),
                pod: Arc::new(pod),
                claim: NamespacedName::new("n", "c"),
                now: Instant::now(),
            };
            fixture.show(DeviceClaimState { allocation: None, ..state(1, DeviceReadiness::Ready) });
            let decided = ClaimDecision {
                claim: fixture.claim.clone(),
                name_in_pod: Some("c".to_owned()),
                allocation: Some(AllocationResult::default()),
                is_reserved_now: true,
                waits: true,
                extended: None,
            };
            let devices = DeviceDecision { claims: vec![decided] };
            let assumed =
                AssumedDevices { uid: "p".to_owned(), devices, in_flight: true, ..Default::default() };
            let (abandoned, node): (Arc<AtomicBool>, Arc<str>) = (Arc::default(), "a".into());
            let Fixture { bindings, cluster, pod, now, .. } = &mut fixture;
            assert!(bindings.assume(cluster, (ID, pod, &node), assumed, &abandoned, *now));
            let binding = Binding { id: ID, pod: pod.clone(), node, relaxed: None, abandoned };
            assert!(bindings.start(binding, TIMEOUT, *now).is_none());
            fixture
        }

        fn show(&mut self, state: DeviceClaimState) {
            self.bindings.claim_changed(&mut self.cluster, &self.claim, Some(state));
        }

        fn written(&mut self) -> Option<DeviceOutcome> {
            let written = vec![(self.claim.clone(), state(2, DeviceReadiness::Waits))];
            self.bindings.written(ID, Ok(written), self.now)
        }

        fn check(&mut self) -> Option<DeviceOutcome> {
            self.bindings.check(ID, &QueuedPods::default())
        }

        fn rolled_back(&mut self, version: u64) {
            let versions = vec![(self.claim.clone(), version)];
            self.bindings.rolled_back(&mut self.cluster, ID, versions);
        }
    }

    #[tokio::test]
    async fn a_pod_is_bound_when_the_watch_shows_that_its_devices_are_ready() {
        let mut fixture = Fixture::writing();
        assert!(fixture.check().is_none(), "its requests are not answered");
        assert!(fixture.written().is_none() && fixture.check().is_none(), "the watch shows the claim before");
        fixture.show(state(2, DeviceReadiness::Waits));
        assert!(fixture.check().is_none() && fixture.bindings.waits_for_conditions(ID));
        fixture.show(state(3, DeviceReadiness::Ready));
        assert!(matches!(fixture.check(), Some(DeviceOutcome::Bound(_))));
        assert!(fixture.bindings.next_due().is_none() && fixture.bindings.is_busy(&fixture.pod));
        fixture.bindings.keep(&mut fixture.cluster, ID);
        assert!(!fixture.bindings.is_busy(&fixture.pod));
    }

    #[tokio::test]
    async fn devices_that_are_not_ready_in_time_end_the_attempt_and_the_pod_waits_until_all_is_taken_back() {
        let mut fixture = Fixture::writing();
        fixture.written();
        let end = fixture.now + TIMEOUT;
        assert!(fixture.bindings.expire(end - Duration::from_secs(1)).is_none());
        let Some(DeviceOutcome::Failed(_, error)) = fixture.bindings.expire(end) else {
            panic!("the time is over")
        };
        assert_eq!(error, "running PreBind plugin \"DynamicResources\": device binding timeout");
        assert!(fixture.bindings.expire(end).is_none());
        fixture.rolled_back(3);
        assert!(fixture.bindings.is_busy(&fixture.pod), "the watch does not show it");
        fixture.show(state(3, DeviceReadiness::Waits));
        assert!(!fixture.bindings.is_busy(&fixture.pod));
    }

    #[tokio::test]
    async fn an_attempt_that_ends_while_it_is_written_is_taken_back_when_its_requests_are_answered() {
        for is_written in [true, false] {
            let mut fixture = Fixture::writing();
            fixture.bindings.roll_back(&mut fixture.cluster, ID);
            assert!(fixture.bindings.is_busy(&fixture.pod));
            let outcome = match is_written {
                true => fixture.written(),
                false => fixture.bindings.written(ID, Err(DeviceWriteError::NotSent), fixture.now),
            };
            assert!(outcome.is_none() && fixture.check().is_none());
            // The claim was deleted meanwhile.
            fixture.bindings.claim_changed(&mut fixture.cluster, &fixture.claim, None);
            fixture.rolled_back(3);
            assert!(!fixture.bindings.is_busy(&fixture.pod));
        }
    }
}
