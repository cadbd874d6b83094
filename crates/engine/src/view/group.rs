//! Cells, groups and buckets: nodes that no score tells apart, kept so that the best is found at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::state::node::NodeId;
use crate::state::topology::DomainId;

/// The domains of a cell's nodes in the topologies that hold several nodes a domain; none where they lack
/// the key.
pub(super) type CellKey = SmallVec<[Option<DomainId>; 2]>;

/// What of a node goes into normalization, or is judged anew at each decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Features {
    /// Raw score of `TaintToleration`.
    pub(super) taints: i64,
    /// Raw score of `NodeAffinity`.
    pub(super) node_affinity: i64,
    /// Raw score of `InterPodAffinity` in topologies of single nodes.
    pub(super) inter_pod: i64,
    /// Bit i: required affinity term i is satisfied in a topology of single nodes.
    pub(super) affinity_terms: u64,
    /// Matching pods of the spread constraints that count by node; none if it lacks the key.
    pub(super) spread: SmallVec<[Option<i64>; 2]>,
    /// Lacks a key of a soft spread constraint.
    pub(super) ignored: bool,
}

/// Nodes with the same domains.
pub(super) struct Cell {
    pub(super) key: CellKey,
    pub(super) groups: Vec<Group>,
    by_features: FxHashMap<Features, u32>,
    free: Vec<u32>,
}

/// Nodes of a cell with the same features: only those with the highest sum of other scores can be the best.
#[derive(Default)]
pub(super) struct Group {
    pub(super) features: Features,
    pub(super) n_nodes: usize,
    buckets: BTreeMap<i64, Bucket>,
}

/// Nodes of a group with the same sum of scores. Entries of nodes that have gone elsewhere stay until they are
/// met.
#[derive(Default)]
struct Bucket {
    n_nodes: usize,
    /// By name, the first last: taking from the end is all that most buckets ever see.
    sorted: Vec<Entry>,
    /// Those that came later.
    recent: BinaryHeap<Reverse<Entry>>,
}

/// A node's place in the order of names, and the node.
type Entry = (u32, u32);

impl Bucket {
    /// Sorts everything that is still here.
    fn settle(&mut self, is_here: impl Fn(u32) -> bool) {
        self.sorted.extend(self.recent.drain().map(|Reverse(entry)| entry));
        self.sorted.retain(|(_, node)| is_here(*node));
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        self.sorted.dedup();
    }

    /// The first by name.
    fn first(&mut self, is_here: impl Fn(u32) -> bool) -> Option<Entry> {
        while self.sorted.last().is_some_and(|(_, node)| !is_here(*node)) {
            self.sorted.pop();
        }
        while self.recent.peek().is_some_and(|Reverse((_, node))| !is_here(*node)) {
            self.recent.pop();
        }
        let recent = self.recent.peek().map(|Reverse(entry)| *entry);
        self.sorted.last().copied().into_iter().chain(recent).min()
    }
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    cell: u32,
    group: u32,
    sum: i64,
}

/// Nodes that are not feasible stand nowhere.
pub(super) const NOWHERE: Slot = Slot { cell: u32::MAX, group: 0, sum: 0 };

/// All cells, and where each node stands.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) all: Vec<Cell>,
    by_key: FxHashMap<CellKey, u32>,
    slots: Vec<Slot>,
    /// The cell and group that were found last.
    last: (u32, u32),
}

impl Cells {
    /// Puts a node (`order` is its place by name) where it belongs; `None` takes it out.
    pub(super) fn put(&mut self, node: NodeId, order: u32, place: Option<(CellKey, Features, i64)>) {
        let index = node.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, NOWHERE);
        }
        let before = self.slots[index];
        let slot = match place {
            None => NOWHERE,
            Some((key, features, sum)) => {
                let (cell, group) = self.find(key, features);
                Slot { cell, group, sum }
            }
        };
        if slot == before {
            return;
        }
        self.slots[index] = slot;
        if slot != NOWHERE {
            let group = &mut self.all[slot.cell as usize].groups[slot.group as usize];
            group.n_nodes += 1;
            let bucket = group.buckets.entry(slot.sum).or_default();
            bucket.n_nodes += 1;
            bucket.recent.push(Reverse((order, node.0)));
            // Twice as many entries as nodes at the most, and a few.
            if bucket.recent.len() > bucket.n_nodes + 64 {
                bucket.settle(|n| self.slots[n as usize] == slot);
            }
        }
        if before != NOWHERE {
            self.all[before.cell as usize].take_out(before);
        }
    }

    /// Whether a node stands anywhere.
    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.slots.get(node.0 as usize).is_some_and(|slot| *slot != NOWHERE)
    }

    /// The cell and group of a node, made if need be. Neighbours are often alike: the last answer is tried first.
    fn find(&mut self, key: CellKey, features: Features) -> (u32, u32) {
        if let Some(cell) = self.all.get(self.last.0 as usize).filter(|c| c.key == key)
            && cell.groups.get(self.last.1 as usize).is_some_and(|g| g.n_nodes > 0 && g.features == features)
        {
            return self.last;
        }
        let cell = self.cell(key);
        self.last = (cell, self.all[cell as usize].group(features));
        self.last
    }

    fn cell(&mut self, key: CellKey) -> u32 {
        if let Some(cell) = self.by_key.get(&key) {
            return *cell;
        }
        let cell = self.all.len() as u32;
        self.all.push(Cell {
            key: key.clone(),
            groups: Vec::new(),
            by_features: FxHashMap::default(),
            free: Vec::new(),
        });
        self.by_key.insert(key, cell);
        cell
    }

    /// The highest sum in a group, and of the nodes with it the first by name.
    pub(super) fn first_of_best(&mut self, cell: usize, group: usize) -> Option<(i64, u32, NodeId)> {
        let slots = &self.slots;
        let mut last = self.all[cell].groups[group].buckets.last_entry()?;
        let sum = *last.key();
        let slot = Slot { cell: cell as u32, group: group as u32, sum };
        let (order, node) = last.get_mut().first(|n| slots[n as usize] == slot)?;
        Some((sum, order, NodeId(node)))
    }

    /// Sorts all buckets, once all nodes are in.
    pub(super) fn settle(&mut self) {
        for (i, cell) in self.all.iter_mut().enumerate() {
            for (j, group) in cell.groups.iter_mut().enumerate() {
                for (sum, bucket) in &mut group.buckets {
                    let slot = Slot { cell: i as u32, group: j as u32, sum: *sum };
                    bucket.settle(|n| self.slots[n as usize] == slot);
                }
            }
        }
    }

    /// The highest sum in a group.
    pub(super) fn best_sum(&self, cell: usize, group: usize) -> i64 {
        self.all[cell].groups[group].buckets.last_key_value().map_or(0, |(sum, _)| *sum)
    }
}

impl Cell {
    fn group(&mut self, features: Features) -> u32 {
        if let Some(group) = self.by_features.get(&features) {
            return *group;
        }
        let group = match self.free.pop() {
            Some(group) => {
                self.groups[group as usize].features = features.clone();
                group
            }
            None => {
                self.groups.push(Group { features: features.clone(), ..Group::default() });
                (self.groups.len() - 1) as u32
            }
        };
        self.by_features.insert(features, group);
        group
    }

    fn take_out(&mut self, slot: Slot) {
        let group = &mut self.groups[slot.group as usize];
        if let Some(bucket) = group.buckets.get_mut(&slot.sum) {
            bucket.n_nodes -= 1;
            if bucket.n_nodes == 0 {
                group.buckets.remove(&slot.sum);
            }
        }
        group.n_nodes -= 1;
        if group.n_nodes == 0 {
            self.by_features.remove(&group.features);
            self.free.push(slot.group);
        }
    }
}
