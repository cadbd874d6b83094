//! A pod whose claims of devices are being bound, from the decision until the watch has shown all that was written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_input::journal::AssumedDevices;
use berth_mirror::DeviceClaimState;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::write::DeviceWrite;
use crate::completion::Binding;
use crate::queue::PodId;

/// A pod whose claims are being bound.
pub(super) struct DeviceWait {
    /// None when the pod can be bound, or the attempt ended.
    pub(super) binding: Option<Binding>,
    pub(super) node: Arc<str>,
    pub(super) assumed: AssumedDevices,
    pub(super) write: Arc<DeviceWrite>,
    pub(super) stage: Stage,
    /// Whether conditions of devices have to become true.
    pub(super) waits: bool,
    /// How long they may take.
    pub(super) timeout: Duration,
    pub(super) began: Instant,
    /// Claims that the watch has to show in this version, or a later one.
    pub(super) versions: Vec<(NamespacedName, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The volumes of the pod come first.
    Assumed,
    /// Requests are in flight.
    Writing,
    /// All is written; conditions of devices have to become true until then.
    Waiting(Instant),
    /// All is written, and the pod can be bound.
    Ready,
    /// The pod is bound: what was assumed ends when the watch shows what was written.
    Kept,
    /// The attempt ended while requests were in flight. They end soon.
    Abandoned,
    /// What was written is being taken back.
    RollingBack,
    /// The same is done, and what was assumed ends when the watch shows it.
    RolledBack,
}

/// The attempts, and what the watch has shown of all claims.
#[derive(Default)]
pub(super) struct DeviceWaits {
    waits: FxHashMap<PodId, DeviceWait>,
    /// By the uid of the pod. Users choose no uids, but other servers may.
    by_uid: HashMap<Box<str>, PodId>,
    by_claim: HashMap<NamespacedName, Vec<PodId>>,
    claims: HashMap<NamespacedName, DeviceClaimState>,
}

impl DeviceWaits {
    pub(super) fn add(&mut self, id: PodId, wait: DeviceWait) {
        self.by_uid.insert(wait.assumed.uid.as_str().into(), id);
        for claim in &wait.write.claims {
            self.by_claim.entry(claim.claim.clone()).or_default().push(id);
        }
        self.waits.insert(id, wait);
    }

    pub(super) fn remove(&mut self, id: PodId) -> Option<DeviceWait> {
        let wait = self.waits.remove(&id)?;
        self.by_uid.remove(&*wait.assumed.uid);
        for claim in &wait.write.claims {
            if let Some(pods) = self.by_claim.get_mut(&claim.claim) {
                pods.retain(|pod| *pod != id);
                if pods.is_empty() {
                    self.by_claim.remove(&claim.claim);
                }
            }
        }
        Some(wait)
    }

    pub(super) fn get(&self, id: PodId) -> Option<&DeviceWait> {
        self.waits.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: PodId) -> Option<&mut DeviceWait> {
        self.waits.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PodId, &DeviceWait)> {
        self.waits.iter().map(|(id, wait)| (*id, wait))
    }

    /// Whether an attempt for a pod has not ended in every respect.
    pub(super) fn has_pod(&self, uid: &str) -> bool {
        !self.by_uid.is_empty() && self.by_uid.contains_key(uid)
    }

    /// A claim as the watch has shown it last.
    pub(super) fn claim(&self, claim: &NamespacedName) -> Option<&DeviceClaimState> {
        self.claims.get(claim)
    }

    /// The watch shows a claim, or its deletion. Returns the pods that wait for it.
    pub(super) fn claim_changed(
        &mut self,
        claim: &NamespacedName,
        state: Option<DeviceClaimState>,
    ) -> Vec<PodId> {
        let pods = self.by_claim.get(claim).cloned().unwrap_or_default();
        match state {
            Some(state) => {
                self.claims.insert(claim.clone(), state);
            }
            None => {
                self.claims.remove(claim);
                for id in &pods {
                    // It is gone, in whatever version.
                    if let Some(wait) = self.waits.get_mut(id) {
                        wait.versions.retain(|(name, _)| name != claim);
                    }
                }
            }
        }
        pods
    }

    /// The watch has to show these claims of a pod in these versions. One that it does not have was deleted meanwhile, or was
    /// created a moment ago.
    pub(super) fn await_versions(&mut self, id: PodId, mut versions: Vec<(NamespacedName, u64)>) {
        let Some(wait) = self.waits.get_mut(&id) else { return };
        let is_new = |name: &NamespacedName| {
            wait.write.claims.iter().any(|claim| claim.claim == *name && claim.extended.is_some())
        };
        versions.retain(|(claim, _)| self.claims.contains_key(claim) || is_new(claim));
        wait.versions = versions;
    }

    /// The claims that the watch has to show and does not have.
    pub(super) fn unseen(&self) -> Vec<NamespacedName> {
        let awaited = self.waits.values().flat_map(|wait| &wait.versions).map(|(claim, _)| claim);
        awaited.filter(|claim| !self.claims.contains_key(claim)).cloned().collect()
    }

    /// Whether the watch has shown what was written for a pod.
    pub(super) fn is_shown(&self, wait: &DeviceWait) -> bool {
        let shown = |(claim, version): &(NamespacedName, u64)| {
            self.claims.get(claim).is_some_and(|state| state.version >= *version)
        };
        wait.versions.iter().all(shown)
    }
}

impl DeviceWait {
    pub(super) fn abandoned(&self) -> &AtomicBool {
        &self.write.abandoned
    }
}
