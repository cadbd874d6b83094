//! PostFilter: what can be done about the claims of a pod that no node is feasible for.

use std::sync::Arc;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::DevicePostFilter;

use super::DeviceBindings;
use crate::completion::Completion;
use crate::queue::PodId;

impl DeviceBindings {
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
