//! Other devices for a pod on a node, where those that it gets first keep other pods from theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::device::DeviceDecision;

use super::search::Search;
use super::{AvoidedDevices, CycleDevices, DevicesInUse, Requested};
use crate::state::State;
use crate::state::device::PoolName;
use crate::state::node::NodeRecord;

/// What a pod may avoid to get other devices than those of a decision, which avoided `avoided`: each set of devices leaves the pod fewer
/// devices of a kind than it has. Followed in turn, the sets lead to all choices that make a difference to the claims of `pods`.
pub(crate) fn alternatives(
    state: &State,
    node: &NodeRecord,
    pods: &[Arc<CycleDevices>],
    decision: &DeviceDecision,
    avoided: &AvoidedDevices,
) -> Vec<AvoidedDevices> {
    let extended: Vec<_> = pods.iter().filter_map(|pod| pod.extended_on(state, node)).collect();
    let of_pods = pods.iter().flat_map(|pod| &pod.rules.unallocated);
    let claims: Vec<&Requested> = of_pods.chain(extended.iter().map(|(requested, _)| requested)).collect();
    let in_use = DevicesInUse::default();
    let mut search = Search::on(state, node, &in_use, &claims, state.settings.device_work.meter());
    // Where the search could not begin, each device is of its own kind.
    let is_prepared = search.prepare().is_ok();
    let mut kinds: BTreeMap<usize, Vec<(PoolName, Arc<str>)>> = BTreeMap::new();
    for candidate in 0..search.candidates.len() {
        let kind = if is_prepared { search.class_of(candidate) } else { candidate };
        let (pool, device) = (search.candidates[candidate].pool, search.candidates[candidate].device);
        kinds.entry(kind).or_default().push((search.pools[pool].name.clone(), device.name.clone()));
    }
    let allocations = decision.claims.iter().filter_map(|claim| claim.allocation.as_ref());
    let results = allocations.flat_map(|allocation| &allocation.devices.results);
    let chosen: Vec<_> = results.filter(|result| result.admin_access != Some(true)).collect();
    let is_chosen = |(pool, device): &(PoolName, Arc<str>)| {
        let name = (&*pool.driver, &*pool.pool, &**device);
        chosen.iter().any(|result| (&*result.driver, &*result.pool, &*result.device) == name)
    };
    let of_kind = |devices: Vec<(PoolName, Arc<str>)>| {
        let (own, others): (Vec<_>, Vec<_>) = devices.into_iter().partition(&is_chosen);
        let last = own.into_iter().next_back()?;
        Some(avoided.iter().cloned().chain(others).chain([last]).collect())
    };
    kinds.into_values().filter_map(of_kind).collect()
}
