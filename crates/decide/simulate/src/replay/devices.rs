//! Claims of devices in recordings.

use std::collections::BTreeMap;

use berth_api::object::device::{DeviceDecision, DeviceObject, ResourceClaim};
use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, DevicePostFilter};
use berth_input::recording::{RecordedClaim, RecordedPostFilter, Step};
use jiff::Timestamp;

use super::RECORDED_AT;
use super::comparison::Comparison;

/// The claims of a scenario, as the recorded steps write them.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(BTreeMap<NamespacedName, ResourceClaim>);

impl Claims {
    /// Notes an object of the scenario.
    pub(super) fn note(&mut self, object: &DeviceObject) {
        if let DeviceObject::ResourceClaim(claim) = object {
            self.0.insert(claim.metadata.namespaced_name(), (**claim).clone());
        }
    }

    /// Writes what a step says to the claims, as PreBind and PostFilter do.
    pub(super) fn write(&mut self, cluster: &mut Cluster, step: &Step, pod: &Pod) {
        let at = Timestamp::from_second(RECORDED_AT).unwrap_or_default();
        for recorded in &step.claims {
            let before = self.0.get(&recorded.claim);
            let name = recorded.claim.name();
            let claim = recorded.decision().written(before, &pod.metadata, name, at);
            cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim.clone())));
            self.0.insert(recorded.claim.clone(), claim);
        }
        let Some(post_filter) = &step.post_filter else { return };
        if let Some(claim) = post_filter.deallocated.as_ref().and_then(|name| self.0.get_mut(name)) {
            claim.status.allocation = None;
            claim.status.reserved_for.clear();
            cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim.clone())));
        }
        if let Some(name) = &post_filter.deleted
            && let Some(claim) = self.0.remove(name)
        {
            let kind = DeviceObject::ResourceClaim(Box::new(claim)).kind();
            cluster.remove_device_object(kind, name.namespace(), name.name());
        }
    }
}

impl Comparison<'_> {
    /// Compares what was decided about claims.
    pub(super) fn claims(&mut self, expected: &[RecordedClaim], got: Option<&DeviceDecision>) {
        let got = got.map(|decision| &*decision.claims).unwrap_or_default();
        let mut expected: Vec<_> = expected.iter().map(RecordedClaim::decision).collect();
        for (expected, got) in expected.iter_mut().zip(got) {
            // The name of a claim that the scheduler makes is random.
            if expected.extended.is_some() {
                expected.claim = got.claim.clone();
            }
        }
        self.same("claims", &*expected, got);
    }

    /// Compares what is done about the claims of a pod that no node is feasible for.
    pub(super) fn post_filter(&mut self, expected: Option<&RecordedPostFilter>, got: &DevicePostFilter) {
        let text = |what: &str, claim: &NamespacedName| format!("{what} {claim}");
        let got = match got {
            DevicePostFilter::Nothing | DevicePostFilter::NotHelpful | DevicePostFilter::Release(_) => None,
            DevicePostFilter::Deallocate(claims) => claims.first().map(|claim| text("deallocated", claim)),
            DevicePostFilter::Delete(claim) => Some(text("deleted", claim)),
        };
        let expected = expected.and_then(|expected| {
            let deallocated = expected.deallocated.as_ref().map(|claim| text("deallocated", claim));
            deallocated.or(expected.deleted.as_ref().map(|claim| text("deleted", claim)))
        });
        self.same("postFilter", &expected, &got);
    }
}
