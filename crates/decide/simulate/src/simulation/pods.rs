//! The pods of a simulation, in input order and by name.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::{Deref, DerefMut};

use hashbrown::HashTable;

use super::pod::SimulatedPod;

/// The pods with their positions by namespace and name. The name of a pod in the list must not be changed.
#[derive(Clone, Default)]
pub(crate) struct Pods {
    pods: Vec<SimulatedPod>,
    positions: HashTable<u32>,
    key: RandomState,
}

impl Deref for Pods {
    type Target = [SimulatedPod];

    fn deref(&self) -> &[SimulatedPod] {
        &self.pods
    }
}

impl DerefMut for Pods {
    fn deref_mut(&mut self) -> &mut [SimulatedPod] {
        &mut self.pods
    }
}

impl Pods {
    /// The position of a pod. It changes when another pod is removed: the last pod takes its position.
    pub(super) fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        let is_it = |at: &u32| self.pods[*at as usize].is_named(namespace, name);
        let found = self.positions.find(self.key.hash_one((namespace, name)), is_it);
        found.map(|at| *at as usize)
    }

    /// Makes room for this many pods, before the first.
    pub(super) fn reserve(&mut self, n_pods: usize) {
        self.positions.reserve(n_pods, |_| 0);
        self.pods.reserve(n_pods);
    }

    pub(super) fn push(&mut self, pod: SimulatedPod) {
        self.pods.push(pod);
        self.insert_position(self.pods.len() - 1);
    }

    /// Another pod may have the name of this one.
    pub(super) fn forget_name(&mut self, position: usize) {
        let hash = hash(&self.key, &self.pods[position]);
        if let Ok(entry) = self.positions.find_entry(hash, |other| *other as usize == position) {
            entry.remove();
        }
    }

    /// Removes a pod; the last one takes its position.
    pub(super) fn swap_remove(&mut self, position: usize) {
        for at in [position, self.pods.len() - 1] {
            self.forget_name(at);
        }
        self.pods.swap_remove(position);
        if position < self.pods.len() {
            self.insert_position(position);
        }
    }

    fn insert_position(&mut self, position: usize) {
        let Pods { pods, positions, key } = self;
        let hash_at = |at: &u32| hash(key, &pods[*at as usize]);
        let position = position as u32;
        positions.insert_unique(hash_at(&position), position, hash_at);
    }
}

fn hash(key: &RandomState, pod: &SimulatedPod) -> u64 {
    let metadata = &pod.pod.metadata;
    key.hash_one((&*metadata.namespace, &*metadata.name))
}
