//! Pods whose volumes are being bound: PreBind of the plugin VolumeBinding.
//!
//! After the requests of [`VolumeWriter`], the claims are bound by the volume controller, or after their volumes have been
//! provisioned. The watches report it; other pods are decided and bound meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::object::{NamespacedName, VolumeDecision};
use berth_engine::{Cluster, Verdict};
use berth_mirror::{ClaimState, VolumeState};
use rustc_hash::FxHashMap;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pre_bind::PreBindOutcome;
use super::volume_writes::{VolumeWrite, VolumeWriter};
use super::watched::{Observed, Watched};
use crate::completion::{Binding, Completion, CompletionSender, VolumesWritten, WriteError};
use crate::metrics::Metrics;
use crate::pending::{QueuedPod, QueuedPods};
use crate::queue::PodId;

/// kube-scheduler's name of the plugin.
const PLUGIN: &str = "VolumeBinding";

pub(crate) struct VolumeBindings {
    writer: VolumeWriter,
    completed: CompletionSender,
    /// They end with the scheduler.
    tasks: JoinSet<()>,
    waits: FxHashMap<PodId, VolumeWait>,
    /// Objects that pods wait for.
    pub(crate) claims: Watched<NamespacedName, ClaimState>,
    pub(crate) volumes: Watched<String, VolumeState>,
    deadlines: BTreeSet<(Instant, PodId)>,
    metrics: Arc<Metrics>,
}

/// A pod whose volumes are being bound.
struct VolumeWait {
    binding: Binding,
    decision: Arc<VolumeDecision>,
    /// The requests have been answered.
    is_written: bool,
    began: Instant,
    deadline: Instant,
}

impl VolumeBindings {
    pub(crate) fn new(
        writer: VolumeWriter,
        completed: CompletionSender,
        metrics: Arc<Metrics>,
    ) -> VolumeBindings {
        VolumeBindings {
            writer,
            completed,
            tasks: JoinSet::new(),
            waits: FxHashMap::default(),
            claims: Watched::default(),
            volumes: Watched::default(),
            deadlines: BTreeSet::new(),
            metrics,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Starts the requests for a pod.
    pub(crate) fn start(
        &mut self,
        binding: Binding,
        decision: Arc<VolumeDecision>,
        timeout: Duration,
        now: Instant,
    ) {
        let id = binding.id;
        let namespace = binding.pod.metadata.namespace.clone();
        for claim in claims_of(&decision) {
            self.claims.add(NamespacedName::new(&namespace, claim), id);
        }
        for (_, volume) in &decision.bind {
            self.volumes.add(volume.clone(), id);
        }
        let abandoned = binding.abandoned.clone();
        let write = VolumeWrite {
            namespace,
            node: binding.node.clone(),
            decision: decision.clone(),
            abandoned: binding.abandoned.clone(),
        };
        let deadline = now + timeout;
        self.deadlines.insert((deadline, id));
        self.waits.insert(id, VolumeWait { binding, decision, is_written: false, began: now, deadline });
        let (writer, completed) = (self.writer.clone(), self.completed.clone());
        self.tasks.spawn(async move {
            let result = writer.write(&write).await;
            // The receiver is gone when the scheduler has ended.
            let _ = completed.send(Completion::VolumesWritten { id, abandoned, result });
        });
    }

    fn remove(&mut self, id: PodId) -> Option<VolumeWait> {
        let wait = self.waits.remove(&id)?;
        self.deadlines.remove(&(wait.deadline, id));
        for claim in claims_of(&wait.decision) {
            self.claims.remove(&NamespacedName::new(&wait.binding.pod.metadata.namespace, claim), id);
        }
        for (_, volume) in &wait.decision.bind {
            self.volumes.remove(volume, id);
        }
        Some(wait)
    }

    /// Whether all claims of a pod are bound.
    ///
    /// # Errors
    /// They will not be bound: kube-scheduler's text.
    fn are_bound(&self, wait: &VolumeWait) -> Result<bool, String> {
        let namespace = &wait.binding.pod.metadata.namespace;
        for (claim, volume) in &wait.decision.bind {
            match self.volumes.state(volume) {
                Observed::Unknown => return Ok(false),
                Observed::Deleted => {
                    return Err(format!(
                        "failed to check binding: could not find v1.PersistentVolume {volume:?}"
                    ));
                }
                Observed::Exists(state) if state.claim.as_ref().is_none_or(|(_, uid)| uid.is_empty()) => {
                    return Err(format!("ClaimRef got reset for pv {volume:?}"));
                }
                Observed::Exists(_) => {}
            }
            let key = NamespacedName::new(namespace, claim);
            match self.claims.state(&key) {
                Observed::Deleted => return Err(format!("failed to check binding: {}", not_found(&key))),
                Observed::Exists(state) if state.is_bound => {}
                Observed::Exists(_) | Observed::Unknown => return Ok(false),
            }
        }
        for claim in &wait.decision.provision {
            let key = NamespacedName::new(namespace, claim);
            match self.claims.state(&key) {
                Observed::Unknown => return Ok(false),
                Observed::Deleted => {
                    return Err(format!("failed to check provisioning pvc: {}", not_found(&key)));
                }
                Observed::Exists(state) if !state.has_annotations => {
                    return Err(format!("selectedNode annotation reset for PVC {claim:?}"));
                }
                Observed::Exists(state) if state.selected_node.as_deref() != Some(&wait.binding.node) => {
                    return Err(format!("provisioning failed for PVC {claim:?}"));
                }
                Observed::Exists(state) if !state.is_bound => return Ok(false),
                Observed::Exists(_) => {}
            }
        }
        Ok(true)
    }

    /// The requests for a pod have been answered. With `leads`, this process leads.
    pub(crate) fn written(
        &mut self,
        id: PodId,
        abandoned: &Arc<AtomicBool>,
        result: Result<VolumesWritten, WriteError>,
        leads: bool,
    ) -> Option<PreBindOutcome> {
        while self.tasks.try_join_next().is_some() {}
        // The pod may have been deleted meanwhile, or taken back with its group.
        let wait = self.waits.get_mut(&id);
        let wait = wait.filter(|wait| Arc::ptr_eq(&wait.binding.abandoned, abandoned))?;
        wait.is_written = true;
        match result {
            Ok(VolumesWritten { claims, volumes }) => {
                for (key, state) in claims {
                    self.claims.observe(&key, state);
                }
                for (name, state) in volumes {
                    self.volumes.observe(&name, state);
                }
                None
            }
            Err(WriteError::NotSent) if leads => self.fail_without_node(id),
            Err(WriteError::NotSent) => self.give_back(id),
            Err(WriteError::Failed(error)) => self.fail(id, &error),
        }
    }

    /// Ends the wait of a pod whose volumes are bound now, or will not be.
    pub(crate) fn check(
        &mut self,
        id: PodId,
        pods: &QueuedPods,
        cluster: &Cluster,
    ) -> Option<PreBindOutcome> {
        let wait = self.waits.get(&id).filter(|wait| wait.is_written)?;
        // A nomination that arrives after the binding would stay.
        if pods.get(id).is_some_and(QueuedPod::is_status_changing) {
            return None;
        }
        match self.are_bound(wait) {
            Ok(false) => None,
            Ok(true) => match pods.get(id).and_then(|queued| self.conflict(wait, queued, cluster)) {
                Some(error) => self.fail(id, &format!("binding volumes: {error}")),
                None => {
                    let VolumeWait { binding, began, .. } = self.remove(id)?;
                    let profile = &binding.pod.spec.scheduler_name;
                    self.metrics.ran(PLUGIN, "PreBind", "Success", profile, began.elapsed());
                    Some(PreBindOutcome::Bound(binding))
                }
            },
            Err(error) => self.fail(id, &format!("binding volumes: {error}")),
        }
    }

    /// Why the volumes that claims are bound to now cannot be used on the node.
    fn conflict(&self, wait: &VolumeWait, queued: &QueuedPod, cluster: &Cluster) -> Option<String> {
        let node = &wait.binding.node;
        let verdicts = cluster.verdicts_on(queued.decided(), node);
        let conflict = |v: &&Verdict| v.plugin.name() == PLUGIN && v.reason.contains("node affinity");
        let conflict = verdicts.iter().find(conflict)?;
        let namespace = &wait.binding.pod.metadata.namespace;
        let volumes = claims_of(&wait.decision).filter_map(|claim| {
            match self.claims.state(&NamespacedName::new(namespace, claim)) {
                Observed::Exists(state) => Some(state.volume_name.as_str()),
                Observed::Unknown | Observed::Deleted => None,
            }
        });
        let volumes: Vec<_> = volumes.collect();
        let named = volumes.iter().find(|volume| conflict.detail.contains(**volume));
        let volume = named.or(volumes.first())?;
        Some(format!(
            "pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms"
        ))
    }

    /// See [`PreBind::expire`](super::PreBind::expire).
    pub(crate) fn expire(&mut self, now: Instant, leads: bool) -> Option<PreBindOutcome> {
        if !leads {
            let written = self.waits.iter().find(|(_, wait)| wait.is_written);
            if let Some(id) = written.map(|(id, _)| *id) {
                return self.give_back(id);
            }
        }
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.pop_first();
            let Some(wait) = self.waits.get_mut(&id) else { continue };
            if wait.is_written {
                return self.fail(id, "binding volumes: context deadline exceeded");
            }
            // The requests have a timeout.
            wait.deadline = now + Duration::from_secs(1);
            self.deadlines.insert((wait.deadline, id));
        }
        None
    }

    /// The pods whose volumes are being bound for a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<PodId> {
        let on_node = |wait: &&VolumeWait| *wait.binding.node == *node;
        self.waits.values().filter(on_node).map(|wait| wait.binding.id).collect()
    }

    /// The node of a pod was deleted: its volumes are not bound any more.
    pub(crate) fn abandon(&mut self, id: PodId) -> Option<PreBindOutcome> {
        let wait = self.waits.get(&id)?;
        if wait.is_written {
            return self.fail_without_node(id);
        }
        wait.binding.abandoned.store(true, Ordering::Relaxed);
        None
    }

    fn fail_without_node(&mut self, id: PodId) -> Option<PreBindOutcome> {
        let node = &self.waits.get(&id)?.binding.node;
        let error = format!("binding volumes: failed to get node {node:?}: node {node:?} not found");
        self.fail(id, &error)
    }

    fn give_back(&mut self, id: PodId) -> Option<PreBindOutcome> {
        self.remove(id).map(|wait| PreBindOutcome::NotSent(wait.binding))
    }

    fn fail(&mut self, id: PodId, error: &str) -> Option<PreBindOutcome> {
        let VolumeWait { binding, began, .. } = self.remove(id)?;
        let profile = &binding.pod.spec.scheduler_name;
        self.metrics.ran(PLUGIN, "PreBind", "Error", profile, began.elapsed());
        self.metrics.volumes_failed();
        Some(PreBindOutcome::Failed(binding, format!("running PreBind plugin {PLUGIN:?}: {error}")))
    }

    /// The pod of a wait is not pending any more.
    pub(crate) fn forget(&mut self, id: PodId) {
        self.remove(id);
    }
}

fn claims_of(decision: &VolumeDecision) -> impl Iterator<Item = &String> {
    decision.bind.iter().map(|(claim, _)| claim).chain(&decision.provision)
}

fn not_found(claim: &NamespacedName) -> String {
    format!("could not find v1.PersistentVolumeClaim \"{claim}\"")
}

#[cfg(test)]
mod tests {
    use berth_api::object::Pod;
    use berth_client::connect;
    use berth_client::lease::Leadership;
    use prometheus_client::registry::Registry;
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    /// Two members of a group whose volumes are not bound in time.
    fn two_waits(now: Instant) -> VolumeBindings {
        let writer = VolumeWriter {
            client: connect::client(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap(),
            leadership: Leadership::uncontested(),
            timeout: Duration::from_secs(1),
            permits: Arc::new(Semaphore::new(1)),
        };
        let metrics = Arc::new(Metrics::new(&mut Registry::default()));
        let mut bindings = VolumeBindings::new(writer, mpsc::unbounded_channel().0, metrics);
        for id in [PodId(1), PodId(2)] {
            let (pod, node, abandoned) = (Arc::new(Pod::default()), "n".into(), Arc::default());
            let binding = Binding { id, pod, node, relaxed: None, abandoned };
            let decision = Arc::new(VolumeDecision::default());
            bindings.deadlines.insert((now, id));
            let wait = VolumeWait { binding, decision, is_written: true, began: now, deadline: now };
            bindings.waits.insert(id, wait);
        }
        bindings
    }

    #[tokio::test]
    async fn waits_that_the_end_of_another_wait_ended_ended_twice() {
        let now = Instant::now();
        for leads in [true, false] {
            let mut bindings = two_waits(now);
            let ended = match bindings.expire(now, leads) {
                Some(PreBindOutcome::Failed(binding, _)) if leads => binding.id,
                Some(PreBindOutcome::NotSent(binding)) if !leads => binding.id,
                _ => panic!("one wait ends"),
            };
            // The other member of the group is taken back.
            let other = if ended == PodId(1) { PodId(2) } else { PodId(1) };
            bindings.forget(other);
            assert!(bindings.expire(now, leads).is_none() && bindings.next_due().is_none());
        }
        let mut bindings = two_waits(now);
        let on_node = bindings.on_node("n");
        assert!(matches!(bindings.abandon(on_node[0]), Some(PreBindOutcome::Failed(..))));
        bindings.forget(on_node[1]);
        assert!(bindings.abandon(on_node[1]).is_none());
    }
}
