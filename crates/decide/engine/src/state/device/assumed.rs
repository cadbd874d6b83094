//! What decisions assume of claims until it is written.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::object::device::{ClaimDecision, ResourceClaimConsumerReference};
use berth_input::journal::AssumedDevices;

use super::claim::{Allocation, Consumer};
use crate::state::State;
use crate::state::change::DeviceChange;

impl State {
    /// Assumes that the claims of a pod are allocated as it was decided and reserved for it, or for its PodGroup, until newer objects
    /// come. While they are in flight, no other pod gets a claim that was not allocated before. What the devices take of the node
    /// counts if the pod is assigned.
    pub(crate) fn assume_devices(&mut self, assumed: &AssumedDevices) {
        self.assume_taken(assumed);
        let pod = ResourceClaimConsumerReference {
            resource: "pods".to_owned(),
            name: assumed.pod.name().to_owned(),
            uid: assumed.uid.clone(),
            ..ResourceClaimConsumerReference::default()
        };
        for decided in &assumed.devices.claims {
            if decided.extended.is_some() {
                self.assume_extended(assumed, decided);
                continue;
            }
            let Some(claim) = self.devices.claims.get_mut(&decided.claim) else { continue };
            let consumer = Consumer::assumed(decided.group.as_ref().unwrap_or(&pod));
            if !claim.consumers.iter().any(|known| known.uid == consumer.uid) {
                claim.consumers.push(consumer);
            }
            let Some(allocation) = decided.allocation.as_ref().filter(|_| claim.allocation().is_none())
            else {
                continue;
            };
            let allocation = Arc::new(Allocation::compile(&mut self.symbols, allocation));
            claim.assumed = Some(allocation.clone());
            claim.in_flight_for = assumed.in_flight.then(|| Consumer::assumed(&pod));
            self.count_allocation(Some(&allocation), true);
        }
    }

    /// Takes back what was assumed.
    pub(crate) fn restore_devices(&mut self, assumed: &AssumedDevices) {
        for decided in &assumed.devices.claims {
            if decided.extended.is_some() {
                self.end_extended(&assumed.pod, &assumed.uid);
                self.record_devices(|| DeviceChange::Claim { name: decided.claim.clone(), frees: true });
                continue;
            }
            let Some(claim) = self.devices.claims.get_mut(&decided.claim) else { continue };
            match &decided.group {
                // What is written for a group stays.
                Some(group) => claim.consumers.retain(|known| *known.uid != *group.uid || known.is_written),
                None if decided.is_reserved_now => {
                    claim.consumers.retain(|consumer| *consumer.uid != *assumed.uid);
                }
                None => {}
            }
            if decided.allocation.is_none() {
                continue;
            }
            claim.in_flight_for = None;
            if let Some(assumed) = claim.assumed.take() {
                let counts = claim.written.is_none();
                if counts {
                    self.count_allocation(Some(&assumed), false);
                }
                self.symbols.release_all(assumed.scope.symbols());
            }
            self.record_devices(|| DeviceChange::Claim { name: decided.claim.clone(), frees: true });
        }
    }

    /// Counts the devices of a claim for extended resources, which does not exist yet.
    fn assume_extended(&mut self, assumed: &AssumedDevices, decided: &ClaimDecision) {
        let Some(allocation) = &decided.allocation else { return };
        self.end_extended(&assumed.pod, &assumed.uid);
        let allocation = Arc::new(Allocation::compile(&mut self.symbols, allocation));
        self.count_allocation(Some(&allocation), true);
        self.devices.assumed_extended.insert((assumed.pod.clone(), assumed.uid.as_str().into()), allocation);
    }

    /// Ends what is assumed of the extended resources of a pod, if anything is.
    pub(super) fn end_extended(&mut self, pod: &NamespacedName, uid: &str) -> Option<Arc<Allocation>> {
        let assumed = self.devices.assumed_extended.remove(&(pod.clone(), uid.into()))?;
        self.count_allocation(Some(&assumed), false);
        self.symbols.release_all(assumed.scope.symbols());
        Some(assumed)
    }
}
