//! Pods that wait for their volumes and devices, by claim.

use std::collections::HashMap;

use berth_api::object::NamespacedName;

use super::store::PodId;
use crate::pod::view::Needs;

/// Pods that wait, by claim.
#[derive(Default)]
pub(super) struct PendingMounts {
    needs: HashMap<PodId, Needs>,
    by_claim: HashMap<NamespacedName, Vec<PodId>>,
}

impl PendingMounts {
    /// Adds a pod, or replaces what it waits for.
    pub(super) fn insert(&mut self, pod: PodId, needs: Needs) {
        self.remove(pod);
        for claim in needs.claims() {
            self.by_claim.entry(claim.clone()).or_default().push(pod);
        }
        self.needs.insert(pod, needs);
    }

    pub(super) fn remove(&mut self, pod: PodId) {
        for claim in self.needs.remove(&pod).unwrap_or_default().claims() {
            if let Some(pods) = self.by_claim.get_mut(claim) {
                pods.retain(|other| *other != pod);
                if pods.is_empty() {
                    self.by_claim.remove(claim);
                }
            }
        }
    }

    pub(super) fn of_claim(&self, claim: &NamespacedName) -> Vec<PodId> {
        self.by_claim.get(claim).cloned().unwrap_or_default()
    }

    pub(super) fn needs_of(&self, pod: PodId) -> Option<&Needs> {
        self.needs.get(&pod)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.needs.keys().copied()
    }
}
