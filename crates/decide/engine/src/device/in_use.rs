//! What is in use of the devices of a node, with pods that leave it or come to it hypothetically.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::object::NamespacedName;
use smallvec::SmallVec;

use super::{CycleDevices, NodeVerdict};
use crate::state::State;
use crate::state::device::DeviceUsers;
use crate::state::device::{AllocatedDevice, DeviceUse, PodDevices, Pool, PoolName};
use crate::state::node::NodeRecord;

/// Pods with claims of devices that a node has more or less than the state says.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceDelta {
    pub(crate) pods: SmallVec<[(Arc<PodDevices>, i64); 1]>,
    /// Whether claims are deallocated whose pods are gone.
    pub(crate) without_gone: bool,
    /// Of the pods nominated there: their devices are in use until they have ended.
    victims: SmallVec<[DeviceUsers; 1]>,
    /// Pods whose devices take of the node, and that it has no more.
    left: SmallVec<[Arc<PodDevices>; 1]>,
}

impl DeviceDelta {
    pub(crate) fn add(&mut self, pod: &Arc<PodDevices>, sign: i64) {
        match self.pods.iter().position(|(known, _)| Arc::ptr_eq(known, pod)) {
            Some(i) => self.pods[i].1 += sign,
            None => self.pods.push((pod.clone(), sign)),
        }
    }

    /// A pod whose devices take of the node leaves it (`sign` −1) or comes back (1).
    pub(crate) fn change_left(&mut self, pod: &Arc<PodDevices>, sign: i64) {
        match sign {
            1 => self.left.retain(|left| !Arc::ptr_eq(left, pod)),
            _ => self.left.push(pod.clone()),
        }
    }

    pub(crate) fn change_victims(&mut self, victims: &DeviceUsers, sign: i64) {
        match sign {
            _ if victims.is_empty() => {}
            1 => self.victims.push(victims.clone()),
            _ => self.victims.retain(|known| !Arc::ptr_eq(known, victims)),
        }
    }
}

/// The use of devices, where it is not that of the state.
#[derive(Default)]
pub(crate) struct DevicesInUse {
    changed: BTreeMap<PoolName, HashMap<Arc<str>, DeviceUse>>,
    /// Devices that are not to be chosen, although they are free.
    pub(super) avoided: AvoidedDevices,
    /// Pods whose devices take of the node, and that it has no more.
    pub(super) left: SmallVec<[Arc<PodDevices>; 1]>,
}

/// Devices that are not to be chosen, by pool and name.
pub(crate) type AvoidedDevices = BTreeSet<(PoolName, Arc<str>)>;

#[derive(Clone, Copy)]
pub(super) struct PoolUse<'a> {
    of_state: &'a HashMap<Arc<str>, DeviceUse>,
    changed: Option<&'a HashMap<Arc<str>, DeviceUse>>,
}

impl<'a> PoolUse<'a> {
    /// Whether no device of the pool is in use.
    pub(super) fn is_empty(self) -> bool {
        self.of_state.is_empty() && self.changed.is_none()
    }

    /// None for a device that is free.
    pub(super) fn get(self, device: &str) -> Option<&'a DeviceUse> {
        match self.changed.and_then(|changed| changed.get(device)) {
            Some(changed) => Some(changed).filter(|changed| !changed.is_free()),
            None => self.of_state.get(device),
        }
    }
}

impl DevicesInUse {
    /// Without the devices of the claims that are left by the pods which the node has less, and with devices for those which it
    /// has more: as they would get them once the pods that are preempted there have ended. Claims of `pod` keep what they have.
    pub(crate) fn on(
        state: &State,
        node: &NodeRecord,
        delta: Option<&DeviceDelta>,
        pod: &CycleDevices,
    ) -> DevicesInUse {
        let Some(delta) = delta else { return DevicesInUse::default() };
        let leaving = delta.pods.iter().filter(|(_, n)| *n < 0).map(|(pod, _)| &**pod);
        let leaving: Vec<&PodDevices> = leaving.collect();
        let mut in_use = DevicesInUse::without(state, &leaving, delta.without_gone, pod);
        in_use.left.clone_from(&delta.left);
        let victims = delta.victims.iter().flat_map(|victims| victims.iter()).map(|victim| &**victim);
        let ending: Vec<&PodDevices> = leaving.iter().copied().chain(victims).collect();
        let mut reserved: Vec<AllocatedDevice> = Vec::new();
        for (nominated, _) in delta.pods.iter().filter(|(_, n)| *n > 0) {
            let nominated =
                CycleDevices::resolve(state, nominated, pod.binding_timeout, pod.least_waste.clone());
            reserved.extend(reserve(state, node, &ending, &reserved, &nominated));
        }
        reserved.iter().for_each(|device| in_use.change(state, device, true));
        in_use
    }

    pub(super) fn is_that_of_state(&self) -> bool {
        self.changed.is_empty() && self.avoided.is_empty() && self.left.is_empty()
    }

    /// The same, where some devices are not to be chosen.
    pub(crate) fn avoiding(self, avoided: &AvoidedDevices) -> DevicesInUse {
        DevicesInUse { avoided: avoided.clone(), ..self }
    }

    fn without(state: &State, leaving: &[&PodDevices], gone: bool, pod: &CycleDevices) -> DevicesInUse {
        let mut in_use = DevicesInUse::default();
        if leaving.is_empty() && !gone {
            return in_use;
        }
        let is_own = |name: &NamespacedName| pod.claims.iter().any(|claim| claim.claim == *name);
        for left in state.claims_left_by(leaving, gone) {
            if !left.name.is_some_and(is_own) {
                left.allocation.devices.iter().for_each(|device| in_use.change(state, device, false));
            }
        }
        in_use
    }

    /// Counts an allocated device, or counts it no longer.
    fn change(&mut self, state: &State, device: &AllocatedDevice, is_added: bool) {
        if device.is_admin {
            return;
        }
        let of_state = || Some(state.devices.pool(&device.pool)?.used.get(&device.device)?.clone());
        let pool = self.changed.entry(device.pool.clone()).or_default();
        let used = pool.entry(device.device.clone()).or_insert_with(|| of_state().unwrap_or_default());
        match is_added {
            true => used.add(device),
            false => _ = used.remove(device),
        }
    }

    pub(super) fn of<'a>(&'a self, name: &PoolName, pool: &'a Pool) -> PoolUse<'a> {
        PoolUse { of_state: &pool.used, changed: self.changed.get(name) }
    }
}

/// The devices that a nominated pod would get on its node, besides those that are reserved for others: once the pods that are
/// preempted there have ended, and once the claims of pods that are gone are deallocated.
fn reserve(
    state: &State,
    node: &NodeRecord,
    ending: &[&PodDevices],
    reserved: &[AllocatedDevice],
    nominated: &CycleDevices,
) -> Vec<AllocatedDevice> {
    if nominated.problem.is_some() {
        return Vec::new();
    }
    let pods = state.nodes.find(node.name).map(|id| &state.nodes.get(id).pods);
    let on_node = pods.into_iter().flatten().map(|id| state.pods.get(*id));
    let preempted = on_node.filter(|pod| pod.precedence.being_preempted);
    let preempted = preempted.filter_map(|pod| pod.devices.as_deref());
    let mut ending: Vec<&PodDevices> = ending.iter().copied().chain(preempted).collect();
    ending.sort_unstable_by_key(|pod| &pod.pod);
    ending.dedup_by_key(|pod| &pod.pod);
    // Looking for claims of pods that are gone takes long.
    for gone in [false, true] {
        let mut in_use = DevicesInUse::without(state, &ending, gone, nominated);
        reserved.iter().for_each(|device| in_use.change(state, device, true));
        if let NodeVerdict::Fits(found) = nominated.on(state, node, &in_use) {
            return found.allocated(nominated);
        }
    }
    Vec::new()
}
