//! Volumes that any claim of their class may be bound to, found by size and by node label.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::syntax::quantity::Quantity;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::claim::Needs;
use super::persistent_volume::Offer;
use super::{ClaimKey, ClaimRecord, VolumeRecord, Volumes};
use crate::state::State;
use crate::state::interned::intern::Symbol;
use crate::state::node::NodeRecord;

/// The volumes that a claim may be bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Matching {
    /// Any free volume that has what the claim needs.
    Free(Arc<Needs>),
    /// One that is reserved for this claim, or else a free one.
    Reserved(ClaimKey),
}

/// Volumes by size and name.
type BySize = BTreeSet<(Quantity, Arc<str>)>;

/// The free volumes of one class, the smallest first.
#[derive(Clone, Default)]
pub(super) struct FreeVolumes {
    /// Volumes whose node affinity requires one value of a label. Most local volumes do.
    by_label: FxHashMap<(Symbol, Symbol), BySize>,
    /// The keys of these labels, and how many values each has.
    keys: FxHashMap<Symbol, usize>,
    others: BySize,
    /// The number of volumes by what they offer, of those that several nodes may be able to use.
    n_alike: HashMap<Arc<Offer>, usize>,
}

impl FreeVolumes {
    pub(super) fn len(&self) -> usize {
        self.others.len() + self.by_label.values().map(BTreeSet::len).sum::<usize>()
    }

    pub(super) fn n_offers(&self) -> usize {
        self.n_alike.len()
    }

    fn insert(&mut self, name: &Arc<str>, volume: &VolumeRecord) {
        let entry = (volume.offer.capacity, name.clone());
        match label(volume) {
            Some(label) => {
                let volumes = self.by_label.entry(label).or_insert_with(|| {
                    *self.keys.entry(label.0).or_default() += 1;
                    BTreeSet::new()
                });
                volumes.insert(entry);
            }
            None => _ = self.others.insert(entry),
        }
    }

    fn remove(&mut self, name: &Arc<str>, volume: &VolumeRecord) {
        let entry = (volume.offer.capacity, name.clone());
        let Some(label) = label(volume) else {
            self.others.remove(&entry);
            return;
        };
        let Some(volumes) = self.by_label.get_mut(&label) else { return };
        volumes.remove(&entry);
        if volumes.is_empty() {
            self.by_label.remove(&label);
            if let Some(n_values) = self.keys.get_mut(&label.0) {
                *n_values -= 1;
                if *n_values == 0 {
                    self.keys.remove(&label.0);
                }
            }
        }
    }

    /// The volumes that a node may be able to use, in lists sorted by size.
    fn near(&self, node: &NodeRecord) -> SmallVec<[&BySize; 2]> {
        let value = |key: &Symbol| Some((*key, node.labels.get(*key)?));
        let by_label = self.keys.keys().filter_map(value).filter_map(|label| self.by_label.get(&label));
        by_label.chain([&self.others]).collect()
    }
}

/// A label that a volume's node affinity requires with one value, if it does so.
fn label(volume: &VolumeRecord) -> Option<(Symbol, Symbol)> {
    volume.offer.affinity.as_ref()?.required_label()
}

impl Volumes {
    /// The hostname of the nodes that can use the volume, if it names one. There is rarely more than one such node.
    fn host_of(&self, volume: &VolumeRecord) -> Option<Symbol> {
        label(volume).filter(|(key, _)| *key == self.hostname).map(|(_, host)| host)
    }

    /// The volumes that a claim might be bound to on some node; none if there are none.
    pub(crate) fn matching(&self, key: &ClaimKey, claim: &ClaimRecord) -> Option<Matching> {
        if self.reserved.contains_key(key) {
            return Some(Matching::Reserved(key.clone()));
        }
        self.free.contains_key(&claim.class).then(|| Matching::Free(claim.needs.clone()))
    }

    /// The volume that a claim is bound to if its pod runs on the node: one that is reserved for the claim, or else the
    /// smallest free one; of equal ones the first by name. `chosen` are those for other claims of the pod.
    pub(crate) fn matching_volume(
        &self,
        state: &State,
        matching: &Matching,
        node: &NodeRecord,
        chosen: &[&Arc<str>],
    ) -> Option<&Arc<str>> {
        let usable = |volume: &VolumeRecord| {
            volume.offer.affinity.as_ref().is_none_or(|affinity| affinity.matches(&state.symbols, node))
        };
        let needs = match matching {
            Matching::Free(needs) => needs,
            Matching::Reserved(key) => {
                let claim = self.claim(key)?;
                for name in self.reserved.get(key).into_iter().flatten() {
                    let Some(volume) = self.volumes.get(name) else { continue };
                    let is_candidate = volume.is_for(key, claim)
                        && volume.class == claim.class
                        && volume.suffices(&claim.needs)
                        && !chosen.contains(&name);
                    if is_candidate {
                        return usable(volume).then_some(name);
                    }
                }
                &claim.needs
            }
        };
        let smallest = (needs.size, Arc::from(""));
        let fits = |name: &Arc<str>| {
            !chosen.contains(&name)
                && self.volumes.get(name).is_some_and(|volume| volume.matches(needs) && usable(volume))
        };
        let lists = self.free.get(&needs.class)?.near(node);
        let first =
            lists.into_iter().filter_map(|list| list.range(smallest.clone()..).find(|(_, name)| fits(name)));
        first.min().map(|(_, name)| name)
    }
}

impl State {
    pub(super) fn add_free_volume(&mut self, name: &Arc<str>, volume: &VolumeRecord) {
        let host = self.volumes.host_of(volume);
        let free = self.volumes.free.entry(volume.class.clone()).or_default();
        free.insert(name, volume);
        if let Some(host) = host {
            return self.push_hosts(host);
        }
        let n_alike = free.n_alike.entry(volume.offer.clone()).or_default();
        self.changes.epochs.record_free_volumes(*n_alike);
        *n_alike += 1;
    }

    pub(super) fn remove_free_volume(&mut self, name: &Arc<str>, volume: &VolumeRecord) {
        let host = self.volumes.host_of(volume);
        let Entry::Occupied(mut of_class) = self.volumes.free.entry(volume.class.clone()) else { return };
        let free = of_class.get_mut();
        free.remove(name, volume);
        if host.is_none()
            && let Entry::Occupied(mut n_alike) = free.n_alike.entry(volume.offer.clone())
        {
            *n_alike.get_mut() -= 1;
            self.changes.epochs.record_free_volumes(*n_alike.get());
            if *n_alike.get() == 0 {
                n_alike.remove();
            }
        }
        if free.len() == 0 {
            of_class.remove();
        }
        if let Some(host) = host {
            self.push_hosts(host);
        }
    }

    fn push_hosts(&mut self, host: Symbol) {
        self.volumes.hosts(host).iter().for_each(|node| self.changes.push(*node));
    }
}
