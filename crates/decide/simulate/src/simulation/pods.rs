//! The pods of a simulation, in input order and by name.

use std::iter::Map;
use std::ops::{Index, IndexMut};
use std::slice::Iter;
use std::sync::Arc;

use berth_api::by_hash::ByHash;

use super::pod::SimulatedPod;

/// The pods with their positions by namespace and name. Copies share pods until they change them. The name of a pod in the list must
/// not be changed.
#[derive(Clone, Default)]
pub struct Pods {
    pods: Vec<Arc<SimulatedPod>>,
    positions: ByHash,
}

impl Index<usize> for Pods {
    type Output = SimulatedPod;

    fn index(&self, position: usize) -> &SimulatedPod {
        &self.pods[position]
    }
}

impl IndexMut<usize> for Pods {
    fn index_mut(&mut self, position: usize) -> &mut SimulatedPod {
        Arc::make_mut(&mut self.pods[position])
    }
}

impl<'a> IntoIterator for &'a Pods {
    type Item = &'a SimulatedPod;
    type IntoIter = Map<Iter<'a, Arc<SimulatedPod>>, fn(&'a Arc<SimulatedPod>) -> &'a SimulatedPod>;

    fn into_iter(self) -> Self::IntoIter {
        self.pods.iter().map(|pod| &**pod)
    }
}

impl Pods {
    pub fn iter(&self) -> <&Pods as IntoIterator>::IntoIter {
        self.into_iter()
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub fn get(&self, position: usize) -> Option<&SimulatedPod> {
        self.pods.get(position).map(|pod| &**pod)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SimulatedPod> {
        self.pods.iter_mut().map(Arc::make_mut)
    }

    /// The position of a pod. It changes when another pod is removed: the last pod takes its position.
    pub(super) fn position(&self, namespace: &str, name: &str) -> Option<usize> {
        let is_it = |at: u32| self.pods[at as usize].is_named(namespace, name);
        self.positions.find(&(namespace, name), is_it).map(|at| at as usize)
    }

    /// Makes room for this many pods, before the first.
    pub(super) fn reserve(&mut self, n_pods: usize) {
        self.positions.reserve(n_pods);
        self.pods.reserve(n_pods);
    }

    pub(super) fn shared(&self, position: usize) -> &Arc<SimulatedPod> {
        &self.pods[position]
    }

    pub(super) fn push(&mut self, pod: impl Into<Arc<SimulatedPod>>) {
        self.pods.push(pod.into());
        self.insert_position(self.pods.len() - 1);
    }

    pub(super) fn forget_name(&mut self, position: usize) {
        self.positions.remove(&name(&self.pods[position]), position as u32);
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
        self.positions.insert(&name(&self.pods[position]), position as u32);
    }
}

fn name(pod: &SimulatedPod) -> (&str, &str) {
    let metadata = &pod.pod.metadata;
    (&metadata.namespace, &metadata.name)
}
