//! The claims that the pods of a PodGroup share: they are reserved for the group, not for each pod (enhancement 5729).

use berth_api::object::NamespacedName;
use berth_input::journal::GroupClaims;

use super::claim::{ClaimRecord, Consumer};
use super::pod_devices::{ClaimReference, PodDevices, StatedClaim};
use crate::state::State;

impl State {
    /// Sets the claims of a PodGroup; none if it has none, or is gone. Returns whether that is new.
    pub(crate) fn set_group_claims(&mut self, group: &NamespacedName, claims: Option<GroupClaims>) -> bool {
        let known = &mut self.devices.group_claims;
        match claims.filter(|_| self.settings.config.feature_gates.dra_workload_resource_claims) {
            Some(claims) => known.insert(group.clone(), claims.clone()).as_ref() != Some(&claims),
            None => known.remove(group).is_some(),
        }
    }

    /// The PodGroup that a claim is reserved for when the pod uses it; none if that is the pod.
    pub(crate) fn shares_claim(
        &self,
        pod: &PodDevices,
        entry: &ClaimReference,
        claim: &ClaimRecord,
    ) -> Option<Consumer> {
        let group = pod.group.as_ref()?;
        let claims = self.devices.group_claims.get(&NamespacedName::new(pod.pod.namespace(), group))?;
        let is_shared = match &entry.claim {
            StatedClaim::Named(name) => claims.claims.iter().any(|of_group| {
                *of_group.name == *entry.name && of_group.resource_claim_name.as_deref() == Some(name.name())
            }),
            StatedClaim::Made(_) => {
                claim.group.as_ref().is_some_and(|owner| owner.group == *group && *owner.uid == *claims.uid)
            }
            StatedClaim::NotMade | StatedClaim::NotNeeded => false,
        };
        is_shared.then(|| Consumer::pod_group(group, &claims.uid))
    }
}
