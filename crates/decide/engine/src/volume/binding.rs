//! Whether a node can use the bound volumes of a pod, and how its other claims would be bound there.

use std::sync::Arc;

use berth_api::object::VolumeDecision;
use berth_api::syntax::quantity::Quantity;
use smallvec::SmallVec;

use super::{BoundRule, CycleVolumes, Provision, UnboundRule};
use crate::state::State;
use crate::state::node::NodeRecord;
use crate::state::volume::{CapacityRecord, ClaimKey, Matching};

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

/// How a claim would get its volume on a node.
enum Supply<'a> {
    Volume(&'a Arc<str>),
    /// It would be provisioned, out of this capacity if the driver publishes it.
    Provisioned(Option<&'a CapacityRecord>),
}

/// The size of claims of one class, and the storage that they would be a part of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorageUse<'a> {
    pub(crate) class: &'a str,
    pub(crate) requested: i64,
    pub(crate) capacity: i64,
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
        self.bind_claims(state, node, &mut verdict, |_, _, _| {});
        verdict
    }

    /// Calls `report` for each claim in the order in which they are treated, with the volume that it would be bound to.
    fn bind_claims<'a>(
        &'a self,
        state: &'a State,
        node: &NodeRecord,
        verdict: &mut BindingVerdict,
        mut report: impl FnMut(&'a UnboundRule, &'a ClaimKey, Supply<'a>),
    ) {
        let unbound = || self.rules.unbound.iter().zip(&self.unbound);
        if unbound().any(|(rule, _)| rule.selected.is_some_and(|selected| selected != Some(node.name))) {
            verdict.no_volume = true;
            return;
        }
        let mut chosen: SmallVec<[&Arc<str>; 2]> = SmallVec::new();
        let mut to_provision: SmallVec<[(&UnboundRule, &ClaimKey); 2]> = SmallVec::new();
        for (rule, key) in unbound() {
            let matching = rule.matching.as_ref();
            match matching.and_then(|matching| state.volumes.matching_volume(state, matching, node, &chosen))
            {
                Some(volume) => {
                    chosen.push(volume);
                    report(rule, key, Supply::Volume(volume));
                }
                None => to_provision.push((rule, key)),
            }
        }
        for (rule, key) in to_provision {
            match &rule.provision {
                Provision::Unsupported => {
                    verdict.no_volume = true;
                    return;
                }
                Provision::Dynamic { topologies, capacity } => {
                    if topologies.as_ref().is_some_and(|topologies| !topologies.allow(node)) {
                        verdict.no_volume = true;
                        return;
                    }
                    let sufficient = |(class, size): &(Arc<str>, Quantity)| {
                        state.volumes.capacities(class).find(|capacity| {
                            capacity.limit.is_some_and(|limit| limit >= *size)
                                && capacity.is_accessible(&state.symbols, node)
                        })
                    };
                    let found = capacity.as_ref().map(sufficient);
                    if found == Some(None) {
                        verdict.no_capacity = true;
                        return;
                    }
                    report(rule, key, Supply::Provisioned(found.flatten()));
                }
            }
        }
    }
}

impl CycleVolumes {
    /// The storage that the claims without a volume would use on the node, by class: of free volumes if any of the claims
    /// would get one, and otherwise of the published capacity.
    pub(crate) fn storage_on<'a>(
        &'a self,
        state: &'a State,
        node: &NodeRecord,
    ) -> SmallVec<[StorageUse<'a>; 1]> {
        let (mut of_volumes, mut of_capacity) = (SmallVec::new(), SmallVec::new());
        self.bind_claims(state, node, &mut BindingVerdict::FITS.clone(), |rule, _, source| match source {
            Supply::Volume(name) => {
                let size = rule.matching.as_ref().and_then(|matching| matching.size(state));
                let Some((volume, requested)) = state.volumes.volume(name).zip(size) else { return };
                let storage = add(&mut of_volumes, &volume.class, requested);
                storage.capacity += volume.offer.capacity.units();
            }
            Supply::Provisioned(Some(capacity)) => {
                let Provision::Dynamic { capacity: Some((class, size)), .. } = &rule.provision else {
                    return;
                };
                add(&mut of_capacity, class, size.units()).capacity = capacity.capacity;
            }
            Supply::Provisioned(None) => {}
        });
        if of_volumes.is_empty() { of_capacity } else { of_volumes }
    }
}

/// Adds a claim to the storage of its class.
fn add<'s, 'a>(
    uses: &'s mut SmallVec<[StorageUse<'a>; 1]>,
    class: &'a str,
    requested: i64,
) -> &'s mut StorageUse<'a> {
    let at = uses.iter().position(|storage| storage.class == class).unwrap_or(uses.len());
    if at == uses.len() {
        uses.push(StorageUse { class, requested: 0, capacity: 0 });
    }
    uses[at].requested += requested;
    &mut uses[at]
}

impl Matching {
    /// The size of the claim, in bytes.
    fn size(&self, state: &State) -> Option<i64> {
        let needs = match self {
            Matching::Free(needs) => needs,
            Matching::Reserved(key) => &state.volumes.claim(key)?.needs,
        };
        Some(needs.size.units())
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
    volumes.bind_claims(state, node, &mut BindingVerdict::FITS.clone(), |_, (_, claim), source| {
        let claim = String::from(&**claim);
        match source {
            Supply::Volume(volume) => decision.bind.push((claim, String::from(&**volume))),
            Supply::Provisioned(_) => decision.provision.push(claim),
        }
    });
    decision.bind.sort_unstable();
    decision.provision.sort_unstable();
    Some(Box::new(decision))
}
