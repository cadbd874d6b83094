//! Evictions that would fix nothing because another pod stays.

use std::collections::HashSet;

use berth_engine::{Remedy, Victim, ViolationKey};

/// Leaves out the pods without a feasible node whose eviction would fix no rule: each of their rules also needs the eviction of a pod
/// that is held until a node is feasible.
pub(crate) fn leave_out_blocked(remedies: &mut Vec<Remedy>, is_always_held: impl Fn(&Victim) -> bool) {
    let (always, others): (Vec<&Remedy>, Vec<&Remedy>) =
        remedies.iter().filter(|remedy| remedy.is_held).partition(|remedy| is_always_held(&remedy.victim));
    let blocked: HashSet<&ViolationKey> = always.into_iter().flat_map(|remedy| &remedy.cures).collect();
    let is_useless = |remedy: &&Remedy| remedy.cures.iter().all(|rule| blocked.contains(rule));
    let useless: HashSet<(String, String)> = others
        .into_iter()
        .filter(is_useless)
        .map(|remedy| (remedy.victim.namespace.clone(), remedy.victim.name.clone()))
        .collect();
    remedies
        .retain(|Remedy { victim, .. }| !useless.contains(&(victim.namespace.clone(), victim.name.clone())));
}
