//! Nominations: pods for which room is being made on a node.
#![allow(dead_code, reason = "decisions look at them in a moment")]

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::state::cluster::Cluster;
use crate::state::incoming::PreparedPod;
use crate::state::intern::Symbol;

/// Pods nominated to nodes.
#[derive(Default)]
pub(crate) struct Nominations {
    by_node: FxHashMap<Symbol, Vec<PreparedPod>>,
    /// Node by namespace and name of the pod.
    by_pod: HashMap<(Symbol, Box<str>), Symbol>,
}

impl Nominations {
    fn remove(&mut self, namespace: Symbol, name: &str) -> Option<Symbol> {
        let node = self.by_pod.remove(&(namespace, name.into()))?;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|p| (p.namespace, &*p.name) != (namespace, name));
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }
}

impl Cluster {
    /// Nominates a pod to a node: from now on the node is taken for pods of lower or equal priority as if the pod
    /// ran there. A pod has one nomination; a second one replaces the first.
    pub fn nominate(&mut self, pod: &PreparedPod, node: &str) {
        self.clear_nomination_of(pod.namespace, &pod.name);
        let node = self.symbols.intern(node);
        self.nominations.by_pod.insert((pod.namespace, pod.name.clone()), node);
        self.nominations.by_node.entry(node).or_default().push(pod.clone());
    }

    /// Takes a pod's nomination back, if it has one; tells whether it had.
    pub fn clear_nomination(&mut self, namespace: &str, name: &str) -> bool {
        let namespace = self.symbols.get(namespace);
        namespace.is_some_and(|namespace| self.clear_nomination_of(namespace, name))
    }

    fn clear_nomination_of(&mut self, namespace: Symbol, name: &str) -> bool {
        self.nominations.remove(namespace, name).is_some()
    }

    /// The node a pod is nominated to.
    pub fn nomination(&self, namespace: &str, name: &str) -> Option<&str> {
        let namespace = self.symbols.get(namespace)?;
        let node = self.nominations.by_pod.get(&(namespace, name.into()))?;
        Some(self.symbols.text(*node))
    }

    /// Number of pods that are nominated to a node.
    pub fn n_nominations(&self) -> usize {
        self.nominations.by_pod.len()
    }
}
