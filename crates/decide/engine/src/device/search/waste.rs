//! The scoring strategy `LeastWaste`: what an allocation takes of what was whole on the node.
//!
//! The search then does not end with the first choice that meets everything: it goes on to the best one, and leaves out what
//! cannot become better. Of equally good ones, the first in kube-scheduler's order is chosen.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::device::DeviceAttribute;
use berth_api::syntax::quantity::Quantity;
use berth_input::config::LeastWaste;
use smallvec::SmallVec;

use super::{Candidate, ChosenClaim, Search};
use crate::device::pools::NodePool;
use crate::state::device::{Amounts, CounterSets};

/// What an allocation wastes, in the order in which it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waste {
    /// Groups of linked devices of which nothing was in use.
    n_groups: usize,
    /// Devices of which nothing was in use. Partitions of one device take from one set of counters.
    n_whole: usize,
    /// The sizes of the chosen devices, in thousandths of a whole one.
    size: i64,
    /// The number of chosen devices; it does not differ.
    n_devices: usize,
}

impl Waste {
    /// 100, less on average of the devices: 50 for each group and 30 for each device that is no longer whole, and 20 times the size.
    pub(crate) fn score(&self) -> i64 {
        let n = self.n_devices.max(1) as i64;
        let (groups, whole) = (n.min(self.n_groups as i64), n.min(self.n_whole as i64));
        100 - (50 * groups + 30 * whole + 20 * self.size.min(1000 * n) / 1000) / n
    }
}

/// What is known of the devices of a node, and the best choice so far.
pub(super) struct WasteSearch {
    costs: Vec<Cost>,
    /// The candidates that are chosen now, without those for administration.
    pub(super) taken: Vec<usize>,
    best: Option<(Rank, Vec<ChosenClaim>)>,
    /// Choices that met everything.
    pub(super) n_found: usize,
}

/// What choices are compared by: the alternatives of their requests, then what they waste.
type Rank = (Vec<usize>, Waste);

/// What a device takes of what is whole.
#[derive(Debug, PartialEq)]
struct Cost {
    /// The groups of linked devices that are whole, by number.
    groups: SmallVec<[usize; 2]>,
    /// The sets of counters that are whole, by number.
    counter_sets: SmallVec<[usize; 2]>,
    /// It takes from no counters, and is not in use.
    is_whole: bool,
    size: i64,
}

impl WasteSearch {
    pub(super) fn new(
        strategy: &LeastWaste,
        pools: &[NodePool<'_>],
        candidates: &[Candidate<'_>],
    ) -> WasteSearch {
        let sets = CounterSetsOfNode::of(pools);
        let mut largest: BTreeMap<&str, Quantity> = BTreeMap::new();
        let mut groups: Vec<(usize, &DeviceAttribute, bool)> = Vec::new();
        for candidate in candidates {
            for (name, capacity) in &candidate.device.shape.capacity {
                let known = largest.entry(name).or_default();
                *known = (*known).max(capacity.value);
            }
            for (i, value) in links(strategy, candidate) {
                let is_whole = candidate.used.is_none();
                match groups.iter_mut().find(|(of, with, _)| (*of, *with) == (i, value)) {
                    Some((_, _, whole)) => *whole &= is_whole,
                    None => groups.push((i, value, is_whole)),
                }
            }
        }
        let cost = |candidate: &Candidate<'_>| {
            let device = candidate.device;
            let own: Vec<_> =
                device.consumes.iter().filter_map(|(set, _)| sets.find(candidate.pool, set)).collect();
            let whole_group = |(i, value): (usize, &DeviceAttribute)| {
                groups.iter().position(|(of, with, whole)| *whole && (*of, *with) == (i, value))
            };
            let sizes = device.shape.capacity.iter().map(|(name, capacity)| {
                thousandths(capacity.value, largest.get(&**name).copied().unwrap_or_default())
            });
            Cost {
                groups: links(strategy, candidate).filter_map(whole_group).collect(),
                counter_sets: own.iter().filter(|set| set.is_whole).map(|set| set.number).collect(),
                is_whole: device.consumes.is_empty() && candidate.used.is_none(),
                size: match device.consumes.is_empty() {
                    true => sizes.max().unwrap_or(1000),
                    false => sets.size(candidate.pool, &device.consumes),
                },
            }
        };
        let costs = candidates.iter().map(cost).collect();
        WasteSearch { costs, taken: Vec::new(), best: None, n_found: 0 }
    }

    /// What the chosen devices waste.
    fn waste(&self) -> Waste {
        let mut waste = Waste { n_devices: self.taken.len(), ..Waste::default() };
        let (mut groups, mut sets) = (SmallVec::<[usize; 8]>::new(), SmallVec::<[usize; 8]>::new());
        for cost in self.taken.iter().map(|candidate| &self.costs[*candidate]) {
            groups.extend(cost.groups.iter().copied());
            sets.extend(cost.counter_sets.iter().copied());
            waste.n_whole += usize::from(cost.is_whole);
            waste.size += cost.size;
        }
        let n_different = |numbers: &mut SmallVec<[usize; 8]>| {
            numbers.sort_unstable();
            numbers.dedup();
            numbers.len()
        };
        waste.n_groups = n_different(&mut groups);
        waste.n_whole += n_different(&mut sets);
        waste
    }
}

/// The attributes of a device that link it to others, by their numbers.
fn links<'a>(
    strategy: &'a LeastWaste,
    candidate: &Candidate<'a>,
) -> impl Iterator<Item = (usize, &'a DeviceAttribute)> + use<'a> {
    let shape = &candidate.device.shape;
    let names = strategy.link_attributes.iter().enumerate();
    names.filter_map(|(i, name)| shape.attribute(name).map(|value| (i, value)))
}

fn thousandths(amount: Quantity, of: Quantity) -> i64 {
    if of.is_zero() { 0 } else { (1000.0 * amount.approximate() / of.approximate()).ceil() as i64 }
}

/// The sets of counters of the pools of a node.
struct CounterSetsOfNode<'a>(Vec<CounterSetOfNode<'a>>);

struct CounterSetOfNode<'a> {
    pool: usize,
    name: &'a str,
    number: usize,
    amounts: &'a Amounts,
    is_whole: bool,
}

impl<'a> CounterSetsOfNode<'a> {
    fn of(pools: &'a [NodePool<'a>]) -> CounterSetsOfNode<'a> {
        let mut sets = Vec::new();
        for (i, pool) in pools.iter().enumerate() {
            for (name, amounts) in pool.counter_sets() {
                let left = pool.counters.get(&**name);
                let is_whole = left.is_some_and(|left| left.values().eq(amounts.values()));
                sets.push(CounterSetOfNode { pool: i, name, number: sets.len(), amounts, is_whole });
            }
        }
        CounterSetsOfNode(sets)
    }

    fn find(&self, pool: usize, name: &str) -> Option<&CounterSetOfNode<'a>> {
        self.0.iter().find(|set| set.pool == pool && set.name == name)
    }

    /// The largest share that is taken of a counter, summed over the sets.
    fn size(&self, pool: usize, consumes: &CounterSets) -> i64 {
        let of_set = |(set, amounts): &(Arc<str>, Amounts)| {
            let total = self.find(pool, set)?.amounts;
            amounts.iter().filter_map(|(name, amount)| Some(thousandths(*amount, *total.get(name)?))).max()
        };
        consumes.iter().filter_map(of_set).sum()
    }
}

impl Search<'_> {
    /// A choice meets everything: whether the search ends with it.
    pub(super) fn complete(&mut self) -> bool {
        let Some(rank) = self.rank() else { return true };
        let Some(search) = &mut self.waste else { return true };
        search.n_found += 1;
        if search.best.as_ref().is_none_or(|(best, _)| rank < *best) {
            search.best = Some((rank, self.chosen.clone()));
        }
        false
    }

    /// Whether no choice with the devices that are taken now is better than the best so far.
    pub(super) fn is_too_wasteful(&self) -> bool {
        let best = self.waste.as_ref().and_then(|search| search.best.as_ref());
        best.is_some_and(|(best, _)| self.rank().is_some_and(|rank| rank >= *best))
    }

    /// Alternatives that are still open count as the first.
    fn rank(&self) -> Option<Rank> {
        let waste = self.waste.as_ref()?.waste();
        let alternatives = self.chosen.iter().flat_map(|claim| &claim.alternatives).copied().collect();
        Some((alternatives, waste))
    }

    /// The number of choices that met everything, where the search goes on after the first.
    pub(super) fn n_found(&self) -> usize {
        self.waste.as_ref().map_or(0, |search| search.n_found)
    }

    /// What of a device makes a difference to the waste.
    pub(super) fn waste_key(&self, candidate: usize) -> String {
        self.waste.as_ref().map(|search| format!(" {:?}", search.costs[candidate])).unwrap_or_default()
    }

    /// The best choice that was found.
    pub(super) fn take_best(&mut self) -> Option<(Vec<ChosenClaim>, Waste)> {
        let ((_, waste), chosen) = self.waste.as_mut()?.best.take()?;
        Some((chosen, waste))
    }
}
