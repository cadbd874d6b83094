//! PostFilter: what can be done about the claims of a pod that no node is feasible for.

use std::sync::Arc;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::DevicePostFilter;

use super::DeviceBindings;
use crate::completion::Completion;
use crate::queue::PodId;

/// Whether an allocation is being taken away, with what that adds to the message of the attempt.
pub(crate) enum ClaimsFreed {
    One(&'static str),
    None(&'static str),
}

impl DeviceBindings {
    /// Starts what can be done about the claims of a pod that no node is feasible for. Returns what it adds to the message of the
    /// attempt, in kube-scheduler's words.
    pub(crate) fn post_filter(&mut self, id: PodId, pod: &Arc<Pod>, found: DevicePostFilter) -> ClaimsFreed {
        let (claim, is_extended) = match found {
            DevicePostFilter::Nothing => return ClaimsFreed::None(""),
            DevicePostFilter::NotHelpful => return ClaimsFreed::None(" still not schedulable,"),
            DevicePostFilter::Delete(claim) => (claim, true),
            DevicePostFilter::Release(claims) => {
                claims.into_iter().for_each(|claim| self.give_up(pod, claim));
                return ClaimsFreed::None(" still not schedulable,");
            }
            // Any of them will do: another pod with the same problem takes another one.
            DevicePostFilter::Deallocate(claims) => {
                match claims.into_iter().find(|claim| !self.freeing.contains(claim)) {
                    Some(claim) => (claim, false),
                    None => return ClaimsFreed::None(" still not schedulable,"),
                }
            }
        };
        self.free(id, pod, claim, is_extended);
        ClaimsFreed::One(match is_extended {
            true => " deletion of ResourceClaim completed",
            false => " deallocation of ResourceClaim completed",
        })
    }

    /// The watch wakes the pods that this helps. If it fails, a later attempt tries it again.
    fn give_up(&mut self, pod: &Arc<Pod>, claim: NamespacedName) {
        let (writer, pod, allocation) = (self.writer.clone(), pod.clone(), self.allocation_of(&claim));
        self.tasks.spawn(async move {
            if let Err(error) = writer.deallocate(&pod, &claim, allocation).await {
                tracing::warn!(%claim, pod = pod.key(), %error, "the reservation of a claim was not removed");
            }
        });
    }

    /// What stands for the allocation of a claim, as the watch shows it.
    fn allocation_of(&self, claim: &NamespacedName) -> Option<u64> {
        self.waits.claim(claim)?.allocation
    }

    fn free(&mut self, id: PodId, pod: &Arc<Pod>, claim: NamespacedName, is_extended: bool) {
        if self.freeing.insert(claim.clone()) {
            let (writer, completed, pod) = (self.writer.clone(), self.completed.clone(), pod.clone());
            let allocation = self.allocation_of(&claim);
            self.tasks.spawn(async move {
                let result = match is_extended {
                    true => writer.delete_extended(&pod, &claim).await,
                    false => writer.deallocate(&pod, &claim, allocation).await,
                };
                let _ = completed.send(Completion::ClaimFreed { id, claim, result });
            });
        }
    }

    /// What PostFilter does about a claim is done.
    pub(crate) fn freed(&mut self, claim: &NamespacedName) {
        while self.tasks.try_join_next().is_some() {}
        self.freeing.remove(claim);
    }
}
