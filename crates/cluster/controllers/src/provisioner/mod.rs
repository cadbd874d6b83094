//! A simulated CSI provisioner: it creates volumes for claims, grows them, and deletes those that are released. No data
//! is stored.
//!
//! It stands in for the provisioners of all classes except those of Kubernetes itself (`kubernetes.io/...`). A volume
//! is accessible in one zone: that of the selected node, or one that the class allows. As an external provisioner does
//! when a zone has no capacity left, it removes the selected node after a failure, and the scheduler tries again.

mod install;
mod volume;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::object::volume::{
    PROVISIONED_BY_ANNOTATION as PROVISIONED_BY, PersistentVolume, PersistentVolumeClaim,
    SELECTED_NODE_ANNOTATION as SELECTED_NODE,
};
use berth_api::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use berth_client::call::CallError;
use berth_control::volume::{Segments, for_any_node, for_node};
use jiff::SignedDuration;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::install::install_storage_class;
use super::api::{Api, DeleteOptions};
use super::events::{Recorder, Reference};
use super::informers::{Caches, Informers};
use super::queue::{Next, Queue, work};
use super::view::StorageClass;

/// Annotation of a claim: how many attempts to create its volume fail.
pub const FAILURES_ANNOTATION: &str = "berth.dev/provisioning-failures";
/// Annotation of a claim: how long an attempt to create its volume takes.
pub const DELAY_ANNOTATION: &str = "berth.dev/provisioning-delay";
/// Wait before the second attempt for a claim without selected node; it doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
pub struct ProvisionerOptions {
    /// How long the creation of a volume takes.
    pub delay: Duration,
    /// Fraction of the attempts that fail, from 0 to 1, chosen at random.
    pub failures: f64,
}

impl Default for ProvisionerOptions {
    /// No delay, no failures.
    fn default() -> Self {
        ProvisionerOptions { delay: Duration::ZERO, failures: 0.0 }
    }
}

pub(crate) struct Provisioner {
    api: Api,
    recorder: Recorder,
    options: ProvisionerOptions,
    caches: Caches,
    claim_queue: Arc<Queue<NamespacedName>>,
    volume_queue: Arc<Queue<NamespacedName>>,
    /// By the uid of the claim.
    attempts: Arc<Mutex<HashMap<String, Attempt>>>,
}

/// The attempts to create the volume of a claim.
#[derive(Clone, Debug, Default)]
struct Attempt {
    ends: Option<Instant>,
    n_failed: u32,
}

enum Failure {
    /// Another node may be better: the scheduler selects one.
    Reschedule(String),
    /// Only a change of the class or of nodes helps.
    Wait(String),
}

impl Provisioner {
    /// Creates a provisioner and registers its handlers with these informers.
    pub(crate) fn new(
        api: &Api,
        recorder: Recorder,
        options: ProvisionerOptions,
        informers: &mut Informers,
    ) -> Self {
        let provisioner = Provisioner {
            api: api.clone(),
            recorder,
            options,
            caches: informers.caches(),
            claim_queue: Arc::default(),
            volume_queue: Arc::default(),
            attempts: Arc::default(),
        };
        let (queue, attempts) = (provisioner.claim_queue.clone(), provisioner.attempts.clone());
        informers.claims.on_change(move |change| match change.new {
            Some(claim) if claim.spec.volume_name.is_empty() => queue.add(claim.metadata.namespaced_name()),
            latest => {
                latest.into_iter().for_each(|claim| queue.add(claim.metadata.namespaced_name()));
                let uid = change.latest().map(|claim| claim.metadata.uid.as_str()).unwrap_or_default();
                attempts.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
            }
        });
        let queue = provisioner.volume_queue.clone();
        informers.volumes.on_change(move |change| {
            if let Some(volume) = change.new.filter(|volume| is_to_delete(volume)) {
                queue.add(volume.metadata.namespaced_name());
            }
        });
        provisioner
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        tokio::join!(
            work("provisioner", &self.claim_queue, n_workers, |key| self.sync_claim(key), stop.clone()),
            work("provisioner", &self.volume_queue, n_workers, |key| self.sync_volume(key), stop),
        );
    }

    async fn sync_claim(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(claim) = self.caches.claims.get(&key) else { return Ok(Next::Wait) };
        let name = volume::name(&claim);
        let class = self.caches.classes.get(&NamespacedName::new("", claim.storage_class()));
        let (false, Some(class)) = (claim.metadata.is_deleting(), class) else { return Ok(Next::Wait) };
        if claim.status.phase == "Bound" {
            return self.grow(&claim, &class).await;
        }
        let selected = claim.metadata.annotation(SELECTED_NODE);
        if !claim.spec.volume_name.is_empty()
            || !is_simulated(&class.provisioner)
            // The controller of volumes names the provisioner when no existing volume fits.
            || claim.metadata.annotation(volume::PROVISIONER) != Some(class.provisioner.as_str())
            || class.waits_for_first_consumer() && selected.is_none()
            || self.caches.volumes.contains(&NamespacedName::new("", &name))
        {
            return Ok(Next::Wait);
        }
        let about = Reference::new(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata);
        let ends = self.begin(&claim, || {
            let message = format!("External provisioner is provisioning volume for claim \"{key}\"");
            self.recorder.normal(&about, "Provisioning", message);
        });
        let left = ends.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Ok(Next::After(left));
        }
        match self.attempt(&claim, &class) {
            Ok(segments) => {
                let object = volume::new_volume(&claim, &class, segments).to_string().into_bytes();
                match self.api.create(&PERSISTENT_VOLUMES, "", object).await {
                    Err(error) if error.is_already_exists() => {}
                    result => {
                        result?;
                        let message = format!("Successfully provisioned volume {name}");
                        self.recorder.normal(&about, "ProvisioningSucceeded", message);
                    }
                }
                Ok(Next::Wait)
            }
            Err(failure) => {
                let retry = self.failed(&claim);
                let (why, reschedules) = match failure {
                    Failure::Reschedule(why) => (why, true),
                    Failure::Wait(why) => (why, false),
                };
                self.recorder.warning(&about, "ProvisioningFailed", why);
                if reschedules && selected.is_some() {
                    let patch = json!({"metadata": {"uid": claim.metadata.uid,
                        "resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: null}}});
                    self.api.patch(&PERSISTENT_VOLUME_CLAIMS, &key, "", &patch).await?;
                    return Ok(Next::Wait);
                }
                Ok(Next::After(retry))
            }
        }
    }

    /// Grows the volume of a bound claim that requests more, as an external resizer does. The claim's status follows its
    /// volume.
    async fn grow(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<Next, CallError> {
        let key = NamespacedName::new("", &claim.spec.volume_name);
        let Some(volume) = self.caches.volumes.get(&key) else { return Ok(Next::Wait) };
        let is_ours = volume.metadata.annotation(PROVISIONED_BY).is_some_and(is_simulated);
        if !is_ours
            || !class.allow_volume_expansion
            || !volume.is_for(claim)
            || volume.capacity() >= claim.requested()
        {
            return Ok(Next::Wait);
        }
        let patch = json!({"metadata": {"uid": volume.metadata.uid,
            "resourceVersion": volume.metadata.resource_version}, "spec": {"capacity": claim.spec.resources.requests}});
        self.api.patch(&PERSISTENT_VOLUMES, &key, "", &patch).await?;
        let about = Reference::new(&PERSISTENT_VOLUME_CLAIMS, &claim.metadata);
        self.recorder.normal(&about, "VolumeResizeSuccessful", "Resize volume succeeded");
        Ok(Next::Wait)
    }

    /// When the current attempt ends; `announce` is called when it begins.
    fn begin(&self, claim: &PersistentVolumeClaim, announce: impl FnOnce()) -> Instant {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = attempts.entry(claim.metadata.uid.clone()).or_default();
        *attempt.ends.get_or_insert_with(|| {
            announce();
            Instant::now() + delay_of(claim).unwrap_or(self.options.delay)
        })
    }

    /// Ends a failed attempt; returns the time until the next one.
    fn failed(&self, claim: &PersistentVolumeClaim) -> Duration {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = attempts.entry(claim.metadata.uid.clone()).or_default();
        attempt.ends = None;
        attempt.n_failed = attempt.n_failed.saturating_add(1);
        FIRST_RETRY.saturating_mul(1 << (attempt.n_failed - 1).min(6))
    }

    /// Where the volume is accessible, unless the attempt fails.
    fn attempt(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<Segments, Failure> {
        let wrapped = |why: &str| {
            format!("failed to provision volume with StorageClass {:?}: {why}", class.metadata.name)
        };
        let segments = match claim.metadata.annotation(SELECTED_NODE) {
            Some(node) => {
                let found = self.caches.nodes.get(&NamespacedName::new("", node)).ok_or_else(|| {
                    Failure::Reschedule(format!("failed to get target node: nodes {node:?} not found"))
                })?;
                for_node(&class.allowed_topologies, &found.metadata.labels).ok_or_else(|| {
                    let why = format!(
                        "error generating accessibility requirements: selected node {node:?} is not in the allowed \
                         topologies"
                    );
                    Failure::Wait(wrapped(&why))
                })?
            }
            None => {
                let nodes = self.caches.nodes.all();
                for_any_node(
                    &class.allowed_topologies,
                    nodes.iter().map(|node| &*node.metadata.labels),
                    &claim.metadata.name,
                )
                .ok_or_else(|| {
                    let why =
                        "error generating accessibility requirements: no node is in the allowed topologies";
                    Failure::Wait(wrapped(why))
                })?
            }
        };
        let n_failed = {
            let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            attempts.get(&claim.metadata.uid).map_or(0, |attempt| attempt.n_failed)
        };
        let first_fail =
            claim.metadata.annotation(FAILURES_ANNOTATION).and_then(|n| n.parse().ok()).unwrap_or(0);
        if n_failed < first_fail || fastrand::f64() < self.options.failures {
            let why = "rpc error: code = ResourceExhausted desc = simulated failure";
            return Err(Failure::Reschedule(wrapped(why)));
        }
        Ok(segments)
    }

    async fn sync_volume(&self, key: NamespacedName) -> Result<Next, CallError> {
        if let Some(volume) = self.caches.volumes.get(&key).filter(|volume| is_to_delete(volume)) {
            let options = DeleteOptions::of_uid(&volume.metadata.uid);
            self.api.delete(&PERSISTENT_VOLUMES, &key, options).await?;
        }
        Ok(Next::Wait)
    }
}

/// Whether this provisioner stands in for one of this name.
fn is_simulated(provisioner: &str) -> bool {
    !provisioner.starts_with("kubernetes.io/")
}

fn is_to_delete(volume: &PersistentVolume) -> bool {
    volume.status.phase == "Released"
        && volume.spec.persistent_volume_reclaim_policy == "Delete"
        && !volume.metadata.is_deleting()
        && volume.metadata.annotation(PROVISIONED_BY).is_some_and(is_simulated)
}

fn delay_of(claim: &PersistentVolumeClaim) -> Option<Duration> {
    let text = claim.metadata.annotation(DELAY_ANNOTATION)?;
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}
