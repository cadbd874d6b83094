//! Cells, groups and buckets: nodes with equal scores, kept so that a decision finds the best node without a pass
//! over all nodes.
//!
//! Memory per node and view: the number of its bucket and its entry there, 4 bytes each. Buckets, groups and cells
//! without nodes are freed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::plugins::{N_RAW_SCORES, inter_pod_affinity_view, pod_topology_spread_view};
use crate::state::counting::topology::DomainId;
use crate::state::node::NodeId;
use crate::state::node::name_order::NameOrder;

/// The domains of a cell's nodes in the topologies with several nodes per domain; `None` where they lack the key.
pub(super) type CellKey = SmallVec<[Option<DomainId>; 2]>;

/// The raw scores of a node that are normalized, by rule.
pub(super) type RawScores = [i64; N_RAW_SCORES];

/// The properties of a node that scores are normalized by, or that are checked again at each decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Features {
    /// Raw scores of the rules of [`RAW_SCORES`](crate::plugins::RAW_SCORES).
    pub(super) raw_scores: RawScores,
    pub(super) inter_pod: inter_pod_affinity_view::NodeFeatures,
    pub(super) spread: pod_topology_spread_view::NodeFeatures,
}

/// The cell, the group and the bucket of a feasible node.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) key: CellKey,
    pub(super) features: Features,
    /// Sum of the weighted scores that are not normalized.
    pub(super) sum: i64,
}

/// Nodes with the same domains.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) key: CellKey,
    /// Freed groups have no nodes.
    pub(super) groups: Vec<Group>,
    by_features: FxHashMap<Features, u32>,
    free: Vec<u32>,
}

/// Nodes of a cell with the same features. Only those with the highest sum can be the best.
#[derive(Default)]
pub(super) struct Group {
    pub(super) features: Features,
    pub(super) n_nodes: usize,
    /// Buckets by sum.
    buckets: BTreeMap<i64, u32>,
}

/// Nodes of a group with the same sum. Entries of nodes that have left the bucket are removed lazily.
#[derive(Default)]
struct Bucket {
    cell: u32,
    group: u32,
    sum: i64,
    n_nodes: usize,
    /// Nodes in descending order of their names: the first by name is taken from the end.
    sorted: Vec<NodeId>,
    /// Nodes that were added later, with their places in the order of names.
    recent: BinaryHeap<Reverse<(u32, NodeId)>>,
    /// Nodes that were added since the first one was last asked for, in no order: most buckets are never asked.
    added: Vec<NodeId>,
}

/// Entries that a bucket may have beyond what its nodes need.
const SPARE: usize = 128;

impl Bucket {
    /// Whether a place is in the same group.
    fn is_near(&self, place: &Place, cell: &Cell) -> bool {
        cell.key == place.key && cell.groups[self.group as usize].features == place.features
    }

    /// Whether the entries take more memory than the nodes justify.
    fn is_wasteful(&self) -> bool {
        self.recent.len() + self.added.len() > self.n_nodes / 2 + SPARE
            || self.sorted.capacity() > 2 * self.n_nodes + SPARE
    }

    /// Merges the recent entries into the sorted ones, and frees entries of nodes that have left.
    fn compact(&mut self, order: &NameOrder, is_here: impl Fn(NodeId) -> bool) {
        let recent = std::mem::take(&mut self.recent).into_sorted_vec();
        let recent = recent.into_iter().map(|Reverse((_, node))| node);
        let added = std::mem::take(&mut self.added);
        let entries = self.sorted.iter().copied().chain(recent).chain(added).filter(|node| is_here(*node));
        let mut sorted = Vec::with_capacity(self.n_nodes);
        sorted.extend(entries);
        sorted.sort_by_key(|node| Reverse(order.of(*node)));
        sorted.dedup();
        self.sorted = sorted;
    }

    /// The first node by name, with its place in that order.
    fn first(&mut self, order: &NameOrder, is_here: impl Fn(NodeId) -> bool) -> Option<(u32, NodeId)> {
        let added = self.added.drain(..).filter(|node| is_here(*node));
        self.recent.extend(added.map(|node| Reverse((order.of(node), node))));
        while self.sorted.last().is_some_and(|node| !is_here(*node)) {
            self.sorted.pop();
        }
        while self.recent.peek().is_some_and(|Reverse((_, node))| !is_here(*node)) {
            self.recent.pop();
        }
        let sorted = self.sorted.last().map(|node| (order.of(*node), *node));
        let recent = self.recent.peek().map(|Reverse(entry)| *entry);
        sorted.into_iter().chain(recent).min()
    }
}

/// The bucket of a node that is not feasible.
const NONE: u32 = u32::MAX;

/// All cells, and the bucket of each node.
#[derive(Default)]
pub(super) struct Cells {
    /// Freed cells have no groups.
    pub(super) all: Vec<Cell>,
    by_key: FxHashMap<CellKey, u32>,
    free: Vec<u32>,
    buckets: Vec<Bucket>,
    free_buckets: Vec<u32>,
    /// Indexed by node id.
    bucket_of: Vec<u32>,
    /// The bucket that was found last.
    last: u32,
}

impl Cells {
    /// No cells, and room for nodes with ids below `n_ids`.
    pub(super) fn new(n_ids: usize) -> Cells {
        Cells { bucket_of: vec![NONE; n_ids], last: NONE, ..Cells::default() }
    }

    /// Reads what [`Cells::put`] will read of some nodes, so that the processor waits for their memory together.
    pub(super) fn read_ahead(&self, nodes: &[NodeId]) {
        for node in nodes {
            let bucket = self.bucket_of.get(node.0 as usize).and_then(|id| self.buckets.get(*id as usize));
            std::hint::black_box(bucket.map(|bucket| bucket.n_nodes));
        }
    }

    /// Moves a node to where it belongs; `None` takes it out.
    pub(super) fn put(&mut self, node: NodeId, order: &NameOrder, place: Option<&Place>) {
        let (before, now) = self.assign(node, place);
        if now == before {
            return;
        }
        if let Some(bucket) = self.buckets.get_mut(now as usize) {
            bucket.added.push(node);
        }
        for id in [before, now] {
            if let Some(bucket) = self.buckets.get_mut(id as usize).filter(|bucket| bucket.is_wasteful()) {
                bucket.compact(order, |n| self.bucket_of[n.0 as usize] == id);
            }
        }
    }

    /// Notes the bucket of a node without an entry there. Returns its bucket before and now.
    pub(super) fn assign(&mut self, node: NodeId, place: Option<&Place>) -> (u32, u32) {
        let index = node.0 as usize;
        if self.bucket_of.len() <= index {
            self.bucket_of.resize(index + 1, NONE);
        }
        let before = self.bucket_of[index];
        let now =
            place.map_or(NONE, |place| self.find(place, if before == NONE { self.last } else { before }));
        if now == before {
            return (before, now);
        }
        self.bucket_of[index] = now;
        if let Some(bucket) = self.buckets.get_mut(now as usize) {
            self.last = now;
            bucket.n_nodes += 1;
            self.all[bucket.cell as usize].groups[bucket.group as usize].n_nodes += 1;
        }
        if before != NONE {
            self.leave(before);
        }
        (before, now)
    }

    /// Makes the entries of all nodes that were assigned to buckets.
    pub(super) fn fill(&mut self, order: &NameOrder) {
        for bucket in &mut self.buckets {
            bucket.sorted = Vec::with_capacity(bucket.n_nodes);
        }
        // In the order of names: ids are out of order where nodes have been replaced, and sorting would cost more.
        for node in order.nodes().rev() {
            let bucket = self.bucket_of[node.0 as usize];
            if bucket != NONE {
                self.buckets[bucket as usize].sorted.push(node);
            }
        }
    }

    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.bucket_of.get(node.0 as usize).is_some_and(|bucket| *bucket != NONE)
    }

    pub(super) fn best_sum(&self, cell: usize, group: usize) -> i64 {
        self.all[cell].groups[group].buckets.last_key_value().map_or(0, |(sum, _)| *sum)
    }

    /// The highest sum in a group, and the first by name of the nodes with it.
    pub(super) fn first_of_best(
        &mut self,
        cell: usize,
        group: usize,
        order: &NameOrder,
    ) -> Option<(i64, u32, NodeId)> {
        let (sum, bucket) = self.all[cell].groups[group].buckets.last_key_value()?;
        let is_here = |node: NodeId| self.bucket_of[node.0 as usize] == *bucket;
        let (order, node) = self.buckets[*bucket as usize].first(order, is_here)?;
        Some((*sum, order, node))
    }

    /// The bucket of a place, made if need be. `like` is tried first: nodes rarely change cell and group, and
    /// neighbours are often alike.
    fn find(&mut self, place: &Place, like: u32) -> u32 {
        let like_bucket = self.buckets.get(like as usize).filter(|bucket| bucket.n_nodes > 0);
        let (cell, group) = match like_bucket {
            Some(bucket) if bucket.is_near(place, &self.all[bucket.cell as usize]) => {
                if bucket.sum == place.sum {
                    return like;
                }
                (bucket.cell, bucket.group)
            }
            _ => {
                let cell = self.cell(&place.key);
                (cell, self.all[cell as usize].group(&place.features))
            }
        };
        let buckets = &mut self.all[cell as usize].groups[group as usize].buckets;
        *buckets.entry(place.sum).or_insert_with(|| {
            let bucket = Bucket { cell, group, sum: place.sum, ..Bucket::default() };
            insert(&mut self.buckets, &mut self.free_buckets, bucket)
        })
    }

    fn cell(&mut self, key: &CellKey) -> u32 {
        if let Some(cell) = self.by_key.get(key) {
            return *cell;
        }
        let cell = Cell { key: key.clone(), ..Cell::default() };
        let cell = insert(&mut self.all, &mut self.free, cell);
        self.by_key.insert(key.clone(), cell);
        cell
    }

    /// Takes a node out of a bucket, and frees what has no nodes then.
    fn leave(&mut self, id: u32) {
        let bucket = &mut self.buckets[id as usize];
        bucket.n_nodes -= 1;
        let cell = &mut self.all[bucket.cell as usize];
        let group = &mut cell.groups[bucket.group as usize];
        group.n_nodes -= 1;
        if bucket.n_nodes > 0 {
            return;
        }
        let Bucket { cell: cell_id, group: group_id, sum, .. } = std::mem::take(bucket);
        self.free_buckets.push(id);
        group.buckets.remove(&sum);
        if group.n_nodes > 0 {
            return;
        }
        cell.by_features.remove(&group.features);
        cell.free.push(group_id);
        if cell.by_features.is_empty() {
            let cell = std::mem::take(cell);
            self.by_key.remove(&cell.key);
            self.free.push(cell_id);
        }
    }
}

impl Cell {
    fn group(&mut self, features: &Features) -> u32 {
        if let Some(group) = self.by_features.get(features) {
            return *group;
        }
        let group = Group { features: features.clone(), ..Group::default() };
        let group = insert(&mut self.groups, &mut self.free, group);
        self.by_features.insert(features.clone(), group);
        group
    }
}

/// Puts a value into a free slot, or at the end.
fn insert<T>(all: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(slot) => {
            all[slot as usize] = value;
            slot
        }
        None => {
            all.push(value);
            (all.len() - 1) as u32
        }
    }
}
