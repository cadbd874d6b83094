//! Whether a node can use the bound volumes of a pod, and how its other claims would be bound there.

use std::sync::Arc;

use berth_api::object::VolumeDecision;
use smallvec::SmallVec;

use super::{BoundRule, CycleVolumes, Provision};
use crate::state::State;
use crate::state::node::NodeRecord;
use crate::state::volume::ClaimKey;

/// What VolumeBinding finds out about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BindingVerdict {
    /// The node affinity of a bound volume rejects the node.
    pub(crate) affinity_conflict: bool,
    /// A bound volume does not exist.
    pub(crate) volume_missing: bool,
    /// A claim can neither be bound nor provisioned.
    pub(crate) no_volume: bool,
    /// There is not enough free capacity to provision a volume.
    pub(crate) no_capacity: bool,
}

impl BindingVerdict {
    const FITS: BindingVerdict = BindingVerdict {
        affinity_conflict: false,
        volume_missing: false,
        no_volume: false,
        no_capacity: false,
    };

    pub(crate) fn fits(self) -> bool {
        self == BindingVerdict::FITS
    }
}

impl CycleVolumes {
    /// Whether the node can use the bound volumes, and whether the other claims can be bound or provisioned there.
    pub(crate) fn binding_on(&self, state: &State, node: &NodeRecord) -> BindingVerdict {
        let mut verdict = BindingVerdict::FITS;
        for rule in &self.rules.bound {
            match rule {
                BoundRule::Missing => verdict.volume_missing = true,
                rule if !rule.allows(state, node) => verdict.affinity_conflict = true,
                BoundRule::Affinity { .. } => continue,
            }
            break;
        }
        self.bind_claims(state, node, &mut verdict, |_, _| {});
        verdict
    }

    /// Calls `report` for each claim in the order in which they are treated, with the volume that it would be bound to.
    fn bind_claims<'a>(
        &'a self,
        state: &'a State,
        node: &NodeRecord,
        verdict: &mut BindingVerdict,
        mut report: impl FnMut(&'a ClaimKey, Option<&'a Arc<str>>),
    ) {
        let unbound = || self.rules.unbound.iter().zip(&self.unbound);
        if unbound().any(|(rule, _)| rule.selected.is_some_and(|selected| selected != Some(node.name))) {
            verdict.no_volume = true;
            return;
        }
        let mut chosen: SmallVec<[&Arc<str>; 2]> = SmallVec::new();
        let mut to_provision: SmallVec<[(&Provision, &ClaimKey); 2]> = SmallVec::new();
        for (rule, key) in unbound() {
            let matching = rule.matching.as_ref();
            match matching.and_then(|matching| state.volumes.matching_volume(state, matching, node, &chosen))
            {
                Some(volume) => {
                    chosen.push(volume);
                    report(key, Some(volume));
                }
                None => to_provision.push((&rule.provision, key)),
            }
        }
        for (provision, key) in to_provision {
            match provision {
                Provision::Unsupported => {
                    verdict.no_volume = true;
                    return;
                }
                Provision::Dynamic { topologies, capacity } => {
                    if topologies.as_ref().is_some_and(|topologies| !topologies.allow(node)) {
                        verdict.no_volume = true;
                        return;
                    }
                    let suffices = |class: &str, size: i64| {
                        state.volumes.capacities(class).any(|capacity| {
                            capacity.limit.is_some_and(|limit| limit >= size)
                                && capacity.is_accessible(&state.symbols, node)
                        })
                    };
                    if capacity.as_ref().is_some_and(|(class, size)| !suffices(class, *size)) {
                        verdict.no_capacity = true;
                        return;
                    }
                    report(key, None);
                }
            }
        }
    }
}

impl BoundRule {
    /// Whether a node can use the volume, if it exists.
    pub(crate) fn allows(&self, state: &State, node: &NodeRecord) -> bool {
        let BoundRule::Affinity { affinity, migrated } = self else { return true };
        let migrates = |plugin| state.volumes.csi_node(node.name).is_some_and(|n| n.migrates(plugin));
        let affinity = match migrated {
            Some((plugin, translated)) if migrates(*plugin) => translated,
            _ => affinity,
        };
        affinity.as_ref().is_none_or(|affinity| affinity.matches(&state.symbols, node))
    }
}

/// How the claims of a pod that are not bound would be bound if the pod ran on the node; none if all are bound.
pub(crate) fn volume_decision(
    state: &State,
    volumes: &CycleVolumes,
    node: &NodeRecord,
) -> Option<Box<VolumeDecision>> {
    if volumes.unbound.is_empty() {
        return None;
    }
    let mut decision = VolumeDecision::default();
    volumes.bind_claims(state, node, &mut BindingVerdict::FITS.clone(), |(_, claim), volume| {
        let claim = String::from(&**claim);
        match volume {
            Some(volume) => decision.bind.push((claim, String::from(&**volume))),
            None => decision.provision.push(claim),
        }
    });
    decision.bind.sort_unstable();
    decision.provision.sort_unstable();
    Some(Box::new(decision))
}
