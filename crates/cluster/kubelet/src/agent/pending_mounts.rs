//! Pods that wait for their volumes, by claim.

use std::collections::HashMap;

use berth_api::object::NamespacedName;

use super::store::PodId;
use crate::pod::view::ClaimVolume;

/// Pods that wait, by claim.
#[derive(Default)]
pub(super) struct PendingMounts {
    volumes: HashMap<PodId, Vec<ClaimVolume>>,
    by_claim: HashMap<NamespacedName, Vec<PodId>>,
}

impl PendingMounts {
    pub(super) fn insert(&mut self, pod: PodId, volumes: Vec<ClaimVolume>) {
        for volume in &volumes {
            self.by_claim.entry(volume.claim.clone()).or_default().push(pod);
        }
        self.volumes.insert(pod, volumes);
    }

    pub(super) fn remove(&mut self, pod: PodId) {
        for volume in self.volumes.remove(&pod).unwrap_or_default() {
            if let Some(pods) = self.by_claim.get_mut(&volume.claim) {
                pods.retain(|other| *other != pod);
                if pods.is_empty() {
                    self.by_claim.remove(&volume.claim);
                }
            }
        }
    }

    pub(super) fn of_claim(&self, claim: &NamespacedName) -> Vec<PodId> {
        self.by_claim.get(claim).cloned().unwrap_or_default()
    }

    pub(super) fn volumes_of(&self, pod: PodId) -> Option<&Vec<ClaimVolume>> {
        self.volumes.get(&pod)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.volumes.keys().copied()
    }
}
