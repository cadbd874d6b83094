//! Where each pod is in the list of pods, by name.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::{SimulatedPod, Simulation};

/// Positions by namespace and name, which stay with the pods.
#[derive(Clone, Default)]
pub(super) struct Positions {
    table: HashTable<u32>,
    key: RandomState,
}

impl Positions {
    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.key.hash_one((namespace, name))
    }

    fn hash_of(&self, pod: &SimulatedPod) -> u64 {
        self.hash(&pod.pod.metadata.namespace, &pod.pod.metadata.name)
    }
}

impl Simulation {
    /// The position of a pod in [`Simulation::pods`]. It changes when another pod is removed: the last pod takes its position.
    pub fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        let is_it = |at: &u32| self.pods[*at as usize].is_named(namespace, name);
        let found = self.positions.table.find(self.positions.hash(namespace, name), is_it);
        found.map(|at| *at as usize)
    }

    /// Makes room for so many pods, before the first.
    pub(super) fn reserve(&mut self, n_pods: usize) {
        self.positions.table.reserve(n_pods, |_| 0);
        self.pods.reserve(n_pods);
        self.cluster.reserve_pods(n_pods);
    }

    pub(super) fn push(&mut self, pod: SimulatedPod) {
        let Simulation { positions: Positions { table, key }, pods, .. } = self;
        let hash = |pod: &SimulatedPod| key.hash_one((&*pod.pod.metadata.namespace, &*pod.pod.metadata.name));
        table.insert_unique(hash(&pod), pods.len() as u32, |at| hash(&pods[*at as usize]));
        pods.push(pod);
    }

    /// Removes a pod; the last one takes its position.
    pub(super) fn take(&mut self, position: usize) -> SimulatedPod {
        for at in [position, self.pods.len() - 1] {
            let hash = self.positions.hash_of(&self.pods[at]);
            if let Ok(entry) = self.positions.table.find_entry(hash, |other| *other as usize == at) {
                entry.remove();
            }
        }
        let taken = self.pods.swap_remove(position);
        if position < self.pods.len() {
            let Simulation { positions: Positions { table, key }, pods, .. } = self;
            let hash =
                |pod: &SimulatedPod| key.hash_one((&*pod.pod.metadata.namespace, &*pod.pod.metadata.name));
            table.insert_unique(hash(&pods[position]), position as u32, |at| hash(&pods[*at as usize]));
        }
        taken
    }
}
