//! The node and the workload of every pod in a few bytes. Pages that count all pods walk through this table: walking through the
//! pods themselves takes a hundred times as long.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use berth_simulate::{SimulatedPod, Simulation};

use crate::workloads::{WorkloadName, name_of};

/// Instead of a number: the pod has no node, or no workload.
const NONE: u32 = u32::MAX;

/// The pods in the order of [`Simulation::pods`].
#[derive(Clone, Default)]
pub(crate) struct PodTable {
    rows: Vec<Row>,
    nodes: Names<Arc<str>>,
    workloads: Names<Arc<WorkloadName>>,
}

#[derive(Clone, Copy)]
struct Row {
    node: u32,
    workload: u32,
    /// Made from the name: the same for a pod, whatever its position.
    tag: u32,
}

/// A workload by its number, or a pod without one by its position.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Workload(usize),
    Single(usize),
}

impl PodTable {
    pub(crate) fn new(simulation: &Simulation) -> PodTable {
        let mut table = PodTable::default();
        for (position, pod) in simulation.pods().iter().enumerate() {
            table.set(position, pod);
        }
        table
    }

    /// Takes over the pod at a position: a pod that was there before, or the one after the last.
    pub(crate) fn set(&mut self, position: usize, pod: &SimulatedPod) {
        let node = pod.node().map_or(NONE, |node| self.nodes.take(node, || node.into()));
        let workload = match &pod.workload {
            Some(_) => {
                let name = name_of(pod);
                self.workloads.take(&name, || Arc::new(name.clone()))
            }
            None => NONE,
        };
        let row = Row { node, workload, tag: tag(&pod.pod.metadata.name) };
        match self.rows.get_mut(position) {
            Some(at) => {
                let before = std::mem::replace(at, row);
                self.release(before);
            }
            None => self.rows.push(row),
        }
    }

    /// The pod at a position is gone; the last one takes its position.
    pub(crate) fn remove(&mut self, position: usize) {
        let row = self.rows.swap_remove(position);
        self.release(row);
    }

    fn release(&mut self, row: Row) {
        self.nodes.release(row.node);
        self.workloads.release(row.workload);
    }

    pub(crate) fn n_pods(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn has_node(&self, position: usize) -> bool {
        self.rows[position].node != NONE
    }

    /// The number of the workload of a pod, below [`PodTable::n_numbers`].
    pub(crate) fn workload(&self, position: usize) -> Option<usize> {
        number(self.rows[position].workload)
    }

    pub(crate) fn subject(&self, position: usize) -> Subject {
        self.workload(position).map_or(Subject::Single(position), Subject::Workload)
    }

    /// The workloads of pods are numbered below this.
    pub(crate) fn n_numbers(&self) -> usize {
        self.workloads.entries.len()
    }

    /// The workloads of pods with their numbers, in no order.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = (usize, &WorkloadName)> {
        let entries = self.workloads.entries.iter().enumerate();
        entries.filter_map(|(number, entry)| Some((number, &*entry.as_ref()?.0)))
    }

    pub(crate) fn name_of(&self, number: usize) -> &WorkloadName {
        let (name, _) = self.workloads.entries[number].as_ref().expect("a row has the number");
        name
    }

    /// The rank of each workload by name, by its number.
    pub(crate) fn ranks(&self) -> Vec<usize> {
        let mut sorted: Vec<(usize, &WorkloadName)> = self.workloads().collect();
        sorted.sort_unstable_by_key(|(_, name)| *name);
        let mut ranks = vec![0; self.n_numbers()];
        sorted.iter().enumerate().for_each(|(rank, (number, _))| ranks[*number] = rank);
        ranks
    }

    /// The positions of pods without a node.
    pub(crate) fn pending(&self) -> impl Iterator<Item = usize> {
        self.positions(|row| row.node == NONE)
    }

    /// The positions of pods without a workload.
    pub(crate) fn single(&self) -> impl Iterator<Item = usize> {
        self.positions(|row| row.workload == NONE)
    }

    pub(crate) fn of_workload(&self, name: &WorkloadName) -> impl Iterator<Item = usize> {
        let wanted = self.workloads.numbers.get(name).copied();
        self.positions(move |row| Some(row.workload) == wanted)
    }

    pub(crate) fn on_node(&self, name: &str) -> impl Iterator<Item = usize> {
        let wanted = self.nodes.numbers.get(name).copied();
        self.positions(move |row| Some(row.node) == wanted)
    }

    fn positions(&self, is_wanted: impl Fn(&Row) -> bool) -> impl Iterator<Item = usize> {
        self.rows.iter().enumerate().filter(move |(_, row)| is_wanted(row)).map(|(position, _)| position)
    }

    /// The position of one pod of each workload by its number: the same pod, whatever the positions are.
    pub(crate) fn representatives(&self, simulation: &Simulation) -> Vec<Option<usize>> {
        let mut chosen: Vec<Option<usize>> = vec![None; self.n_numbers()];
        let key = |position: usize| (self.rows[position].tag, &simulation.pods()[position].pod.metadata.name);
        for (position, row) in self.rows.iter().enumerate() {
            let Some(chosen) = number(row.workload).map(|number| &mut chosen[number]) else { continue };
            let is_before = |other: usize| {
                let other_tag = self.rows[other].tag;
                row.tag < other_tag || (row.tag == other_tag && key(position) < key(other))
            };
            if chosen.is_none_or(is_before) {
                *chosen = Some(position);
            }
        }
        chosen
    }

    pub(crate) fn by_node(&self) -> ByNode<'_> {
        let mut starts = vec![0; self.nodes.entries.len() + 1];
        let with_node = || self.rows.iter().enumerate().filter_map(|(at, row)| Some((at, number(row.node)?)));
        with_node().for_each(|(_, node)| starts[node + 1] += 1);
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut next = starts.clone();
        let mut positions = vec![0; starts[starts.len() - 1]];
        for (position, node) in with_node() {
            positions[next[node]] = position;
            next[node] += 1;
        }
        ByNode { table: self, starts, positions }
    }
}

/// The positions of pods by their nodes.
pub(crate) struct ByNode<'a> {
    table: &'a PodTable,
    /// Where each node begins in `positions`, and the end.
    starts: Vec<usize>,
    positions: Vec<usize>,
}

impl ByNode<'_> {
    pub(crate) fn on(&self, node: &str) -> &[usize] {
        let number = self.table.nodes.numbers.get(node).map(|number| *number as usize);
        number.map_or(&[], |number| &self.positions[self.starts[number]..self.starts[number + 1]])
    }
}

fn number(number: u32) -> Option<usize> {
    (number != NONE).then_some(number as usize)
}

/// FNV-1a: two names rarely have the same tag.
fn tag(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |tag, byte| (tag ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Names by number. A number is used again when no row has it any more.
#[derive(Clone)]
struct Names<K> {
    numbers: HashMap<K, u32>,
    /// The name of each number, and how many rows have it.
    entries: Vec<Option<(K, u32)>>,
    free: Vec<u32>,
}

impl<K> Default for Names<K> {
    fn default() -> Self {
        Names { numbers: HashMap::new(), entries: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash> Names<K> {
    /// The number of a name that one more row has.
    fn take<Q: Eq + Hash + ?Sized>(&mut self, name: &Q, new: impl FnOnce() -> K) -> u32
    where
        K: Borrow<Q>,
    {
        if let Some(number) = self.numbers.get(name) {
            if let Some((_, n_rows)) = &mut self.entries[*number as usize] {
                *n_rows += 1;
            }
            return *number;
        }
        let name = new();
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        self.entries[number as usize] = Some((name.clone(), 1));
        self.numbers.insert(name, number);
        number
    }

    fn release(&mut self, number: u32) {
        let Some(entry) = self.entries.get_mut(number as usize) else { return };
        if let Some((_, n_rows)) = entry
            && *n_rows > 1
        {
            *n_rows -= 1;
        } else if let Some((name, _)) = entry.take() {
            self.numbers.remove(&name);
            self.free.push(number);
        }
    }
}
