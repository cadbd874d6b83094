//! Binds claims to volumes, and keeps both while they are used.
//!
//! A binding is four writes: the volume's reference to the claim, the volume's phase, the claim's reference to the
//! volume, the claim's phase. Each is repeated until it is done. The first carries the version of the volume, so that one
//! volume is never bound to two claims. Volumes are created and deleted by a provisioner, claims of generic ephemeral
//! volumes by [`EphemeralVolumes`].

mod claim;
mod ephemeral;
mod volume;
mod write;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::object::volume::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus};
use berth_api::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use berth_client::HasMetadata;
use berth_client::call::CallError;
use berth_control::claim::{default_class, is_default_class};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::claim::Observed;
pub(crate) use self::ephemeral::EphemeralVolumes;
use super::api::{Api, Precondition};
use super::events::{Recorder, Reference};
use super::index::Index;
use super::informers::{Caches, Informers};
use super::queue::{Next, Queue, work};
use super::view::{ObjectMeta, Pod};

/// Keeps a claim while pods use it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume while a claim is bound to it.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Interval of the syncs of a claim that waits.
const RESYNC: Duration = Duration::from_secs(15);

pub(crate) struct PersistentVolumes {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    claim_queue: Arc<Queue<NamespacedName>>,
    volume_queue: Arc<Queue<NamespacedName>>,
    /// Names of volumes that were bound, until the cache shows it.
    binding: Arc<Mutex<HashSet<String>>>,
}

impl PersistentVolumes {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let controller = PersistentVolumes {
            api: api.clone(),
            recorder,
            caches: informers.caches(),
            claim_queue: Arc::default(),
            volume_queue: Arc::default(),
            binding: Arc::default(),
        };
        let (claim_queue, volume_queue) = (controller.claim_queue.clone(), controller.volume_queue.clone());
        informers.claims.on_change(move |change| {
            let Some(claim) = change.latest() else { return };
            claim_queue.add(claim.metadata.namespaced_name());
            if !claim.spec.volume_name.is_empty() {
                volume_queue.add(NamespacedName::new("", &claim.spec.volume_name));
            }
        });
        let (claim_queue, volume_queue) = (controller.claim_queue.clone(), controller.volume_queue.clone());
        // A volume that loses its claim without being named by it is found by its own reference.
        let by_claim = (controller.caches.volumes.clone(), controller.volume_queue.clone());
        informers.claims.on_change(move |change| {
            if let (Some(gone), None) = (change.old, change.new) {
                let (volumes, queue) = &by_claim;
                for volume in volumes.by(&Index::Claim(gone.metadata.namespaced_name())) {
                    queue.add(volume.metadata.namespaced_name());
                }
            }
        });
        let (cache, binding) = (controller.caches.claims.clone(), controller.binding.clone());
        informers.volumes.on_change(move |change| {
            let Some(volume) = change.latest() else { return };
            volume_queue.add(volume.metadata.namespaced_name());
            if change.new.is_none_or(|volume| volume.spec.claim_ref.is_some()) {
                binding.lock().unwrap_or_else(PoisonError::into_inner).remove(&volume.metadata.name);
            }
            let waiting = match volume.claim() {
                Some(claim) => vec![claim],
                None => keys(&cache.by(&Index::Class(volume.storage_class().to_owned()))),
            };
            let naming = keys(&cache.by(&Index::Volume(volume.metadata.name.clone())));
            waiting.into_iter().chain(naming).for_each(|claim| claim_queue.add(claim));
        });
        let (queue, cache) = (controller.claim_queue.clone(), controller.caches.claims.clone());
        informers.classes.on_change(move |change| {
            let Some(class) = change.latest() else { return };
            let unset = is_default_class(&class.metadata).then(String::new);
            for name in [class.metadata.name.clone()].into_iter().chain(unset) {
                keys(&cache.by(&Index::Class(name))).into_iter().for_each(|claim| queue.add(claim));
            }
        });
        let queue = controller.claim_queue.clone();
        informers.pods.on_change(move |change| {
            // A pod that does not use its claims any more may be the last that protects them.
            let ended = change.new.is_none_or(|pod| pod.is_terminal());
            if let Some(pod) = change.latest().filter(|_| ended) {
                pod.claims().for_each(|claim| queue.add(claim));
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        tokio::join!(
            work(
                "persistentvolumeclaims",
                &self.claim_queue,
                n_workers,
                |key| self.sync_claim(key),
                stop.clone()
            ),
            work("persistentvolumes", &self.volume_queue, n_workers, |key| self.sync_volume(key), stop),
        );
    }

    async fn sync_claim(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(claim) = self.caches.claims.get(&key) else { return Ok(Next::Wait) };
        let users = self.caches.pods.by(&Index::Claim(key));
        if claim.metadata.is_deleting() {
            let is_used = users.iter().any(|pod| uses(pod, &claim));
            return self.protect(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata, CLAIM_PROTECTION, is_used).await;
        }
        self.protect(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata, CLAIM_PROTECTION, true).await?;
        let about = Reference::new(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata);
        match claim::plan(&claim, &self.observe(&claim, &users)) {
            claim::Step::Bind(volume) => {
                self.bind(&claim, &volume).await?;
                return Ok(Next::Wait);
            }
            claim::Step::Lost(notice) => {
                if claim.status.phase != "Lost" {
                    self.write_claim_status(&claim, &write::claim_status("Lost", None)).await?;
                    self.recorder.record(&about, notice);
                }
                return Ok(Next::Wait);
            }
            claim::Step::SetClass(class) => {
                let patch = json!({"spec": {"storageClassName": class}});
                self.patch_claim(&claim.metadata, patch).await?;
            }
            claim::Step::Provision { provisioner } => {
                if let Some(patch) = write::provisioner(&claim, &provisioner) {
                    self.patch_claim(&claim.metadata, patch).await?;
                }
                let message = format!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
                     manually by the system administrator. If volume creation is delayed, please verify that the \
                     provisioner is running and correctly registered."
                );
                self.recorder.normal(&about, "ExternalProvisioning", message);
            }
            claim::Step::Pending(notice) => {
                let status = write::claim_status("Pending", None);
                if claim.status != status {
                    self.write_claim_status(&claim, &status).await?;
                }
                notice.into_iter().for_each(|notice| self.recorder.record(&about, notice));
            }
        }
        Ok(Next::After(RESYNC))
    }

    fn observe(&self, claim: &PersistentVolumeClaim, users: &[Arc<Pod>]) -> Observed {
        let name = &claim.spec.volume_name;
        let named =
            (!name.is_empty()).then(|| self.caches.volumes.get(&NamespacedName::new("", name))).flatten();
        if !name.is_empty() {
            return Observed { named, ..Observed::default() };
        }
        let class = self.caches.classes.get(&NamespacedName::new("", claim.storage_class()));
        let mut free = Vec::new();
        if class.as_ref().is_none_or(|class| !class.waits_for_first_consumer()) {
            free = self.caches.volumes.by(&Index::Class(claim.storage_class().to_owned()));
            let binding = self.binding.lock().unwrap_or_else(PoisonError::into_inner);
            free.retain(|volume| !binding.contains(&volume.metadata.name));
        }
        let classes = if claim.needs_class() { self.caches.classes.all() } else { Vec::new() };
        let default_class = default_class(classes.iter().map(|class| &class.metadata)).map(str::to_owned);
        let waiting = users.iter().filter(|pod| pod.spec.node_name.is_empty() && !pod.is_terminal());
        let mut waiting_pods: Vec<String> = waiting.map(|pod| pod.metadata.name.clone()).collect();
        waiting_pods.sort_unstable();
        let reserved = self.caches.volumes.by(&Index::Claim(claim.metadata.namespaced_name()));
        Observed { reserved, free, named, class, default_class, waiting_pods }
    }

    /// Makes those writes of a binding that are not done.
    async fn bind(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), CallError> {
        if let Some(patch) = write::volume_to_claim(volume, claim) {
            let name = volume.metadata.name.clone();
            let binding = || self.binding.lock().unwrap_or_else(PoisonError::into_inner);
            if !binding().insert(name.clone()) {
                // Another claim gets it at this moment, or the cache does not show yet that this claim has it.
                return self.again(claim);
            }
            if let Err(error) = self.patch_volume(&volume.metadata, patch).await {
                binding().remove(&name);
                return if error.is_stale() { self.again(claim) } else { Err(error) };
            }
        }
        if volume.status.phase != "Bound" {
            self.write_volume_phase(volume, "Bound", "").await?;
        }
        if let Some(patch) = write::claim_to_volume(claim, volume) {
            self.patch_claim(&claim.metadata, patch).await?;
        }
        let status = write::claim_status("Bound", Some(volume));
        if claim.status != status {
            self.write_claim_status(claim, &status).await?;
        }
        Ok(())
    }

    /// The cached volume is outdated: the claim is synced when the cache has changed.
    fn again(&self, claim: &PersistentVolumeClaim) -> Result<(), CallError> {
        self.claim_queue.add_after(claim.metadata.namespaced_name(), Duration::from_millis(20));
        Ok(())
    }

    async fn sync_volume(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(volume) = self.caches.volumes.get(&key) else { return Ok(Next::Wait) };
        let is_bound = volume.status.phase == "Bound";
        let keeps = !volume.metadata.is_deleting() || is_bound;
        self.protect(&PERSISTENT_VOLUMES, &volume.metadata, VOLUME_PROTECTION, keeps).await?;
        let mut claim = volume.claim().and_then(|claim| self.caches.claims.get(&claim));
        let is_released = matches!(volume.status.phase.as_str(), "Released" | "Failed");
        if let Some(key) = volume.claim().filter(|_| claim.is_none() && !is_released) {
            // The scheduler or the provisioner may know a claim that this cache does not show yet.
            claim = self.api.get(&PERSISTENT_VOLUME_CLAIMS, &key).await?.map(Arc::new);
        }
        match volume::plan(&volume, claim.as_deref()) {
            volume::Step::Nothing => {}
            volume::Step::SyncClaim => {
                volume.claim().into_iter().for_each(|claim| self.claim_queue.add(claim))
            }
            volume::Step::Unbind => {
                self.patch_volume(&volume.metadata, volume::unbound(&volume)).await?;
                self.write_volume_phase(&volume, "Available", "").await?;
            }
            volume::Step::Phase(phase, notice) => {
                let message = notice.as_ref().map(|notice| notice.message.as_str()).unwrap_or_default();
                self.write_volume_phase(&volume, phase, message).await?;
                let about = Reference::new(&PERSISTENT_VOLUMES, &volume.metadata);
                notice.into_iter().for_each(|notice| self.recorder.record(&about, notice));
            }
        }
        Ok(Next::Wait)
    }

    /// Adds or removes the finalizer that keeps an object.
    async fn protect(
        &self,
        kind: &'static berth_api::resource::Resource,
        meta: &ObjectMeta,
        finalizer: &str,
        keeps: bool,
    ) -> Result<Next, CallError> {
        let has = meta.finalizers.iter().any(|present| present == finalizer);
        // A finalizer cannot be added to an object that is being deleted.
        if has == keeps || keeps && meta.is_deleting() {
            return Ok(Next::Wait);
        }
        let others = meta.finalizers.iter().filter(|present| *present != finalizer).map(String::as_str);
        let finalizers: Vec<&str> = others.chain(keeps.then_some(finalizer)).collect();
        let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version,
            "finalizers": finalizers}});
        self.api.patch(kind, &meta.namespaced_name(), "", &patch).await?;
        Ok(Next::Wait)
    }

    async fn patch_claim(&self, meta: &ObjectMeta, mut patch: serde_json::Value) -> Result<(), CallError> {
        patch["metadata"]["uid"] = meta.uid.as_str().into();
        let key = meta.namespaced_name();
        self.api.patch(&PERSISTENT_VOLUME_CLAIMS, &key, "", &patch).await.map(drop)
    }

    /// Changes a volume, if it is still as the cache shows it.
    async fn patch_volume(&self, meta: &ObjectMeta, mut patch: serde_json::Value) -> Result<(), CallError> {
        patch["metadata"]["uid"] = meta.uid.as_str().into();
        patch["metadata"]["resourceVersion"] = meta.resource_version.as_str().into();
        let key = meta.namespaced_name();
        self.api.patch(&PERSISTENT_VOLUMES, &key, "", &patch).await.map(drop)
    }

    async fn write_claim_status(
        &self,
        claim: &PersistentVolumeClaim,
        status: &PersistentVolumeClaimStatus,
    ) -> Result<(), CallError> {
        let status = write::as_patch(status, &claim.status);
        self.api.write_status(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata, &status, Precondition::Uid).await
    }

    async fn write_volume_phase(
        &self,
        volume: &PersistentVolume,
        phase: &str,
        message: &str,
    ) -> Result<(), CallError> {
        let message = Some(message).filter(|message| !message.is_empty());
        let status = json!({"phase": phase, "message": message});
        self.api.write_status(&PERSISTENT_VOLUMES, &volume.metadata, &status, Precondition::Uid).await
    }
}

fn keys<T: HasMetadata>(objects: &[Arc<T>]) -> Vec<NamespacedName> {
    objects.iter().map(|object| object.meta().namespaced_name()).collect()
}

/// Whether a claim must stay for a pod: the pod has a node, and the claim is not an ephemeral one of an ended pod.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    !pod.spec.node_name.is_empty()
        && pod.spec.volumes.iter().any(|volume| {
            volume.claim_name(&pod.metadata.name).as_deref() == Some(claim.metadata.name.as_str())
                && (volume.persistent_volume_claim.is_some()
                    || !pod.is_terminal() && claim.metadata.is_controlled_by(&pod.metadata.uid))
        })
}
