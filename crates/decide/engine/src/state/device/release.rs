//! Claims that lose their devices when pods leave: the controller of claims deallocates those that no pod uses any more.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::object::NamespacedName;

use super::Devices;
use super::claim::{Allocation, ClaimRecord, Consumer};
use super::pod_devices::{PodDevices, StatedClaim};
use crate::state::State;
use crate::state::pod::uid::Uid;

/// What is allocated to a claim that its last pods leave.
pub(crate) struct LeftClaim<'a> {
    /// None for a claim for extended resources that is not written yet.
    pub(crate) name: Option<&'a NamespacedName>,
    pub(crate) allocation: &'a Arc<Allocation>,
}

/// The claims of pods that were taken off hypothetically, as they were before.
#[derive(Default)]
pub(crate) struct ReleasedClaims {
    claims: Vec<(NamespacedName, ClaimRecord)>,
    /// Those for extended resources, by pod and uid.
    extended: HashMap<(NamespacedName, Box<str>), Arc<Allocation>>,
}

impl ReleasedClaims {
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.extended.is_empty()
    }
}

impl State {
    /// The claims that only these pods use. With `gone`, also those whose pods are gone.
    pub(crate) fn claims_left_by<'a>(&'a self, pods: &[&'a PodDevices], gone: bool) -> Vec<LeftClaim<'a>> {
        let devices = &self.devices;
        let names: BTreeSet<&NamespacedName> = match gone {
            true => devices.claims.keys().collect(),
            false => pods.iter().flat_map(|pod| devices.names_of_claims(pod)).collect(),
        };
        let left = names.into_iter().filter_map(|name| {
            let (name, claim) = devices.claims.get_key_value(name)?;
            let allocation = claim.allocation().filter(|_| self.is_left(name, claim, pods, gone))?;
            Some(LeftClaim { name: Some(name), allocation })
        });
        let assumed = pods.iter().filter_map(|pod| devices.assumed_extended.get(&devices_key(pod)));
        left.chain(assumed.map(|allocation| LeftClaim { name: None, allocation })).collect()
    }

    fn is_left(&self, name: &NamespacedName, claim: &ClaimRecord, pods: &[&PodDevices], gone: bool) -> bool {
        let leaves = |consumer: &Consumer| {
            let mut leaving = pods.iter().filter(|pod| pod.pod.namespace() == name.namespace());
            leaving.any(|pod| consumer.is(pod)) || (gone && self.is_gone(name.namespace(), consumer))
        };
        // An object from before the reservation does not show it.
        let mut consumers = claim.consumers.iter().chain(&claim.in_flight_for).peekable();
        consumers.peek().is_some() && consumers.all(leaves)
    }

    fn is_gone(&self, namespace: &str, consumer: &Consumer) -> bool {
        let found = self.find_pod(namespace, &consumer.pod);
        !consumer.pod.is_empty() && found.is_none_or(|id| self.pods.get(id).uid != Uid::new(&consumer.uid))
    }

    /// Deallocates the claims that a pod leaves, after it was taken off hypothetically. Undone by
    /// [`State::take_back_claims`].
    pub(crate) fn release_claims(&mut self, pod: &PodDevices, released: &mut ReleasedClaims) {
        let names: Vec<NamespacedName> = self.devices.names_of_claims(pod).cloned().collect();
        for name in names {
            let claim = self.devices.claims.get(&name);
            let Some(before) = claim.filter(|claim| self.is_left(&name, claim, &[pod], true)).cloned() else {
                continue;
            };
            if let Some(claim) = self.devices.claims.get_mut(&name) {
                (claim.written, claim.assumed) = (None, None);
                claim.consumers.clear();
            }
            self.count_allocation(before.allocation().map(|allocation| &**allocation), false);
            released.claims.push((name, before));
        }
        if let Some(allocation) = self.devices.assumed_extended.remove(&devices_key(pod)) {
            self.count_allocation(Some(&allocation), false);
            released.extended.insert(devices_key(pod), allocation);
        }
    }

    pub(crate) fn take_back_claims(&mut self, released: ReleasedClaims) {
        for (name, before) in released.claims {
            self.count_allocation(before.allocation().map(|allocation| &**allocation), true);
            self.devices.claims.insert(name, before);
        }
        for (key, allocation) in released.extended {
            self.count_allocation(Some(&allocation), true);
            self.devices.assumed_extended.insert(key, allocation);
        }
    }
}

fn devices_key(pod: &PodDevices) -> (NamespacedName, Box<str>) {
    (pod.pod.clone(), pod.pod_uid.clone())
}

impl Devices {
    /// The claims that a pod names, and those for its extended resources.
    fn names_of_claims<'a>(&'a self, pod: &'a PodDevices) -> impl Iterator<Item = &'a NamespacedName> {
        let stated = pod.claims.iter().filter_map(|entry| match &entry.claim {
            StatedClaim::Named(name) | StatedClaim::Made(name) => Some(name),
            StatedClaim::NotMade | StatedClaim::NotNeeded => None,
        });
        stated.chain(self.extended_claims.get(&pod.pod_uid).into_iter().flatten())
    }
}
