//! Pods whose volumes are being bound: PreBind of the plugin VolumeBinding.
//!
//! After the requests of [`VolumeWriter`], the claims are bound by the volume controller, or after their volumes have been
//! provisioned. The watches report it; other pods are decided and bound meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::object::{NamespacedName, VolumeDecision};
use berth_mirror::{ClaimState, VolumeState};
use rustc_hash::FxHashMap;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Scheduler;
use super::completions::{Completion, CompletionSender};
use super::queued_pods::QueuedPod;
use crate::bind::{BindResult, Binding};
use crate::queue::PodId;
use crate::volume_writes::{VolumeWrite, VolumeWriteError, VolumeWriter, Written};

/// kube-scheduler's name of the plugin.
const PLUGIN: &str = "VolumeBinding";

pub(super) struct VolumeBindings {
    writer: VolumeWriter,
    completed: CompletionSender,
    /// They end with the scheduler.
    tasks: JoinSet<()>,
    waits: FxHashMap<PodId, VolumeWait>,
    /// Objects that pods wait for.
    claims: Watched<NamespacedName, ClaimState>,
    volumes: Watched<String, VolumeState>,
    deadlines: BTreeSet<(Instant, PodId)>,
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

/// Objects that pods wait for, as they are known since the wait began.
struct Watched<K, S>(HashMap<K, Entry<S>>);

struct Entry<S> {
    pods: Vec<PodId>,
    state: Known<S>,
}

enum Known<S> {
    Unknown,
    Exists(S),
    Deleted,
}

/// An object in a version.
trait Versioned {
    fn version(&self) -> u64;
}

impl Versioned for ClaimState {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for VolumeState {
    fn version(&self) -> u64 {
        self.version
    }
}

impl<K: Hash + Eq, S: Versioned> Watched<K, S> {
    fn add(&mut self, key: K, pod: PodId) {
        let entry = self.0.entry(key).or_insert(Entry { pods: Vec::new(), state: Known::Unknown });
        if !entry.pods.contains(&pod) {
            entry.pods.push(pod);
        }
    }

    fn remove(&mut self, key: &K, pod: PodId) {
        let Some(entry) = self.0.get_mut(key) else { return };
        entry.pods.retain(|id| *id != pod);
        if entry.pods.is_empty() {
            self.0.remove(key);
        }
    }

    /// Takes note of an object, unless a later version of it is known. Returns the pods that wait for it.
    fn observe(&mut self, key: &K, state: S) -> Vec<PodId> {
        let Some(entry) = self.0.get_mut(key) else { return Vec::new() };
        if matches!(&entry.state, Known::Exists(known) if known.version() > state.version()) {
            return Vec::new();
        }
        entry.state = Known::Exists(state);
        entry.pods.clone()
    }

    fn deleted(&mut self, key: &K) -> Vec<PodId> {
        let Some(entry) = self.0.get_mut(key) else { return Vec::new() };
        entry.state = Known::Deleted;
        entry.pods.clone()
    }

    fn state(&self, key: &K) -> &Known<S> {
        self.0.get(key).map_or(&Known::Unknown, |entry| &entry.state)
    }
}

impl VolumeBindings {
    pub(super) fn new(writer: VolumeWriter, completed: CompletionSender) -> VolumeBindings {
        VolumeBindings {
            writer,
            completed,
            tasks: JoinSet::new(),
            waits: FxHashMap::default(),
            claims: Watched(HashMap::new()),
            volumes: Watched(HashMap::new()),
            deadlines: BTreeSet::new(),
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Starts the requests for a pod.
    fn start(&mut self, binding: Binding, decision: Arc<VolumeDecision>, timeout: Duration, now: Instant) {
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

    /// Ends the wait of a pod.
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
                Known::Unknown => return Ok(false),
                Known::Deleted => {
                    return Err(format!(
                        "failed to check binding: could not find v1.PersistentVolume {volume:?}"
                    ));
                }
                Known::Exists(state) if state.claim.as_ref().is_none_or(|(_, uid)| uid.is_empty()) => {
                    return Err(format!("ClaimRef got reset for pv {volume:?}"));
                }
                Known::Exists(_) => {}
            }
            let key = NamespacedName::new(namespace, claim);
            match self.claims.state(&key) {
                Known::Deleted => return Err(format!("failed to check binding: {}", not_found(&key))),
                Known::Exists(state) if state.is_bound => {}
                Known::Exists(_) | Known::Unknown => return Ok(false),
            }
        }
        for claim in &wait.decision.provision {
            let key = NamespacedName::new(namespace, claim);
            match self.claims.state(&key) {
                Known::Unknown => return Ok(false),
                Known::Deleted => {
                    return Err(format!("failed to check provisioning pvc: {}", not_found(&key)));
                }
                Known::Exists(state) if !state.has_annotations => {
                    return Err(format!("selectedNode annotation reset for PVC {claim:?}"));
                }
                Known::Exists(state) if state.selected_node.as_deref() != Some(&wait.binding.node) => {
                    return Err(format!("provisioning failed for PVC {claim:?}"));
                }
                Known::Exists(state) if !state.is_bound => return Ok(false),
                Known::Exists(_) => {}
            }
        }
        Ok(true)
    }
}

fn claims_of(decision: &VolumeDecision) -> impl Iterator<Item = &String> {
    decision.bind.iter().map(|(claim, _)| claim).chain(&decision.provision)
}

fn not_found(claim: &NamespacedName) -> String {
    format!("could not find v1.PersistentVolumeClaim \"{claim}\"")
}

impl Scheduler {
    /// Binds the volumes of a pod that is assumed on a node, and then the pod.
    pub(super) fn bind_volumes(&mut self, binding: Binding, decision: Arc<VolumeDecision>, now: Instant) {
        let profile = self.options.settings.config.profile(&binding.pod.spec.scheduler_name);
        let seconds = profile.map_or(0, |profile| profile.volume_binding.bind_timeout_seconds);
        // Components such as the cluster autoscaler learn where the pod is going to be (NominatedNodeNameForExpectation).
        let node = binding.node.to_string();
        self.write_status(binding.id, |status| status.nominated_node = node);
        self.volumes.start(binding, decision, Duration::from_secs(seconds.unsigned_abs()), now);
    }

    pub(super) fn volumes_written(
        &mut self,
        id: PodId,
        abandoned: &Arc<AtomicBool>,
        result: Result<Written, VolumeWriteError>,
    ) {
        while self.volumes.tasks.try_join_next().is_some() {}
        // The pod may have been deleted meanwhile, or taken back with its group.
        let wait = self.volumes.waits.get_mut(&id);
        let Some(wait) = wait.filter(|wait| Arc::ptr_eq(&wait.binding.abandoned, abandoned)) else { return };
        wait.is_written = true;
        match result {
            Ok(Written { claims, volumes }) => {
                for (key, state) in claims {
                    self.volumes.claims.observe(&key, state);
                }
                for (name, state) in volumes {
                    self.volumes.volumes.observe(&name, state);
                }
                self.check_volumes(&[id]);
            }
            Err(VolumeWriteError::NotSent) if self.leadership.leads() => self.node_of_volumes_is_gone(id),
            Err(VolumeWriteError::NotSent) => self.give_back(id),
            Err(VolumeWriteError::Failed(error)) => self.volumes_failed(id, &error),
        }
    }

    pub(super) fn claim_applied(&mut self, key: &NamespacedName, state: ClaimState) {
        let pods = self.volumes.claims.observe(key, state);
        self.check_volumes(&pods);
    }

    pub(super) fn claim_deleted(&mut self, key: &NamespacedName) {
        let pods = self.volumes.claims.deleted(key);
        self.check_volumes(&pods);
    }

    pub(super) fn volume_applied(&mut self, name: &String, state: VolumeState) {
        let pods = self.volumes.volumes.observe(name, state);
        self.check_volumes(&pods);
    }

    pub(super) fn volume_deleted(&mut self, name: &String) {
        let pods = self.volumes.volumes.deleted(name);
        self.check_volumes(&pods);
    }

    /// Binds the pods whose volumes are bound now.
    pub(super) fn check_volumes(&mut self, pods: &[PodId]) {
        for id in pods {
            let Some(wait) = self.volumes.waits.get(id).filter(|wait| wait.is_written) else { continue };
            // A nomination that arrives after the binding would stay.
            if self.pods.get(*id).is_some_and(QueuedPod::is_status_changing) {
                continue;
            }
            match self.volumes.are_bound(wait) {
                Ok(false) => {}
                Ok(true) => match self.volume_conflict(*id) {
                    Some(error) => self.volumes_failed(*id, &format!("binding volumes: {error}")),
                    None => {
                        let Some(VolumeWait { binding, began, .. }) = self.volumes.remove(*id) else {
                            continue;
                        };
                        let profile = &binding.pod.spec.scheduler_name;
                        self.metrics.ran(PLUGIN, "PreBind", "Success", profile, began.elapsed());
                        let group = self.pods.get(*id).and_then(|queued| queued.group);
                        self.send_binding(group, binding);
                    }
                },
                Err(error) => self.volumes_failed(*id, &format!("binding volumes: {error}")),
            }
        }
    }

    /// Why the volumes that claims are bound to now cannot be used on the node.
    fn volume_conflict(&self, id: PodId) -> Option<String> {
        let wait = self.volumes.waits.get(&id)?;
        let (queued, node) = (self.pods.get(id)?, &wait.binding.node);
        let verdicts = self.cluster.verdicts_on(queued.decided(), node);
        let conflict =
            |v: &&berth_engine::Verdict| v.plugin.name() == PLUGIN && v.reason.contains("node affinity");
        let conflict = verdicts.iter().find(conflict)?;
        let namespace = &wait.binding.pod.metadata.namespace;
        let volumes = claims_of(&wait.decision).filter_map(|claim| {
            match self.volumes.claims.state(&NamespacedName::new(namespace, claim)) {
                Known::Exists(state) => Some(state.volume_name.as_str()),
                Known::Unknown | Known::Deleted => None,
            }
        });
        let volumes: Vec<_> = volumes.collect();
        let named = volumes.iter().find(|volume| conflict.detail.contains(**volume));
        let volume = named.or(volumes.first())?;
        Some(format!(
            "pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms"
        ))
    }

    /// Ends waits whose time is over, and those that a process without leadership must not continue.
    pub(super) fn expire_volumes(&mut self, now: Instant) {
        if !self.leadership.leads() && !self.volumes.waits.is_empty() {
            let is_written = |(id, wait): (&PodId, &VolumeWait)| wait.is_written.then_some(*id);
            let waits: Vec<_> = self.volumes.waits.iter().filter_map(is_written).collect();
            waits.into_iter().for_each(|id| self.give_back(id));
        }
        while let Some((_, id)) = self.volumes.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.volumes.deadlines.pop_first();
            if self.volumes.waits.get(&id).is_some_and(|wait| wait.is_written) {
                self.volumes_failed(id, "binding volumes: context deadline exceeded");
            } else if let Some(wait) = self.volumes.waits.get_mut(&id) {
                // The requests end within their own time.
                wait.deadline = now + Duration::from_secs(1);
                self.volumes.deadlines.insert((wait.deadline, id));
            }
        }
    }

    /// A node was deleted: volumes are not bound for it any more.
    pub(super) fn abandon_volumes(&mut self, node: &str) {
        let on_node = |wait: &&VolumeWait| *wait.binding.node == *node;
        let waits: Vec<_> = self.volumes.waits.values().filter(on_node).map(|wait| wait.binding.id).collect();
        for id in waits {
            match self.volumes.waits.get(&id) {
                Some(wait) if wait.is_written => self.node_of_volumes_is_gone(id),
                Some(wait) => wait.binding.abandoned.store(true, Ordering::Relaxed),
                None => {}
            }
        }
    }

    fn node_of_volumes_is_gone(&mut self, id: PodId) {
        let Some(wait) = self.volumes.waits.get(&id) else { return };
        let node = &wait.binding.node;
        let error = format!("binding volumes: failed to get node {node:?}: node {node:?} not found");
        self.volumes_failed(id, &error);
    }

    /// The pod goes back to the queue as if nothing had been tried.
    fn give_back(&mut self, id: PodId) {
        if let Some(wait) = self.volumes.remove(id) {
            self.bind_completed(&wait.binding, BindResult::NotSent);
        }
    }

    fn volumes_failed(&mut self, id: PodId, error: &str) {
        let Some(VolumeWait { binding, began, .. }) = self.volumes.remove(id) else { return };
        let profile = &binding.pod.spec.scheduler_name;
        self.metrics.ran(PLUGIN, "PreBind", "Error", profile, began.elapsed());
        self.metrics.volumes_failed();
        self.bind_completed(
            &binding,
            BindResult::VolumesFailed(format!("running PreBind plugin {PLUGIN:?}: {error}")),
        );
    }

    /// The pod of a wait is not pending any more.
    pub(super) fn forget_volumes(&mut self, id: PodId) {
        self.volumes.remove(id);
    }
}
