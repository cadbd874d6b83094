//! What can be done about the claims of a pod that no node is feasible for.

use berth_api::object::NamespacedName;
use berth_input::config::Plugin;

use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::nomination::Nominations;
use crate::device::{DevicesInUse, NOT_AVAILABLE, NodeVerdict};
use crate::plugins;
use crate::state::State;
use crate::state::pod::prepared::PreparedPod;

/// What can be done about the claims of a pod that no node is feasible for, as kube-scheduler's plugin does it in PostFilter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePostFilter {
    /// The pod has no claims, or its claims are rejected whatever the node.
    Nothing,
    /// None of its claims can be taken away.
    NotHelpful,
    /// The allocation of one of these claims keeps the pod from a node, and no other pod uses it: it can be taken away. The
    /// claims are sorted, and there is at least one.
    Deallocate(Vec<NamespacedName>),
    /// The same, but other pods have these claims as well: the pod, for which they are reserved since an earlier attempt, can give
    /// that up. kube-scheduler does not: if it ends while several pods wait for devices that turn out to be broken, the pods keep
    /// each other's claim for ever.
    Release(Vec<NamespacedName>),
    /// The claim for extended resources is left over from an earlier attempt: it has to be deleted.
    Delete(NamespacedName),
}

/// As kube-scheduler, it looks at the nodes that all rules before this one admit.
pub(crate) fn device_post_filter(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
) -> DevicePostFilter {
    if pod.devices.is_none() {
        return DevicePostFilter::Nothing;
    }
    let cycle = CycleState::new(state, nominations, pod);
    let (Some(context), Some(devices)) = (Context::new(state, &cycle), &cycle.devices) else {
        return DevicePostFilter::Nothing;
    };
    if devices.problem.is_some() || !context.allocates_devices() {
        return DevicePostFilter::Nothing;
    }
    if devices.rules.has_stale_claim {
        let stale = state.devices.extended_claim_of(&devices.pod);
        return stale.map_or(DevicePostFilter::Nothing, |(name, _)| DevicePostFilter::Delete(name.clone()));
    }
    let filters = plugins::filters(context);
    let before = || filters.iter().take_while(|(plugin, _)| *plugin != Plugin::DynamicResources);
    let mut claims: Vec<NamespacedName> = Vec::new();
    for (id, record) in state.nodes.iter() {
        let node = NodeRef::new(id, record);
        let is_unavailable = || {
            let verdict = devices.on(state, record, &DevicesInUse::default());
            matches!(verdict, NodeVerdict::Rejected(reason) if reason == NOT_AVAILABLE)
        };
        if before().all(|(_, filter)| filter.admits(node)) && is_unavailable() {
            claims.extend(devices.unavailable_on(state, record).cloned());
        }
    }
    claims.sort_unstable();
    claims.dedup();
    let users = |name: &NamespacedName| {
        let claim = state.devices.claim(name);
        let is_own = |uid: &str| uid == &*devices.pod.pod_uid;
        let uids = claim.into_iter().flat_map(|claim| &claim.consumers).map(|consumer| &*consumer.uid);
        (uids.clone().any(is_own), uids.clone().all(is_own))
    };
    let (own, shared): (Vec<_>, Vec<_>) = claims.into_iter().partition(|name| users(name).1);
    if !own.is_empty() {
        return DevicePostFilter::Deallocate(own);
    }
    let left: Vec<_> = shared.into_iter().filter(|name| users(name).0).collect();
    if left.is_empty() { DevicePostFilter::NotHelpful } else { DevicePostFilter::Release(left) }
}
