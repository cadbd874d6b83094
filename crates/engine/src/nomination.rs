//! Nominations: pods for which room is being made on a node.
//!
//! As in kube-scheduler, a node that pods of higher or equal priority are nominated to must let a pod in both
//! with them there and without: they may come, or not. Nominations to other nodes do not count, and scores are
//! those without them.

use std::collections::HashMap;

use berth_api::config::Plugin;
use rustc_hash::FxHashMap;

use crate::plugins::{Context, Filter};
use crate::state::class::ClassId;
use crate::state::cluster::Cluster;
use crate::state::identity::IdentityId;
use crate::state::incoming::PreparedPod;
use crate::state::intern::Symbol;
use crate::state::node::NodeId;
use crate::verdict::Rejection;
use crate::wake::Change;
use crate::what_if::{Concerns, WhatIf};

/// Pods nominated to nodes.
#[derive(Default)]
pub(crate) struct Nominations {
    by_node: FxHashMap<Symbol, Vec<PreparedPod>>,
    /// Node by namespace and name of the pod.
    by_pod: HashMap<(Symbol, Box<str>), Symbol>,
}

/// The nominated pods that a pod must leave room for, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nominated(FxHashMap<NodeId, Vec<(ClassId, IdentityId)>>);

impl Nominations {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    pub(crate) fn node(&self, namespace: Symbol, name: &str) -> Option<Symbol> {
        self.by_pod.get(&(namespace, name.into())).copied()
    }

    /// Pods nominated to a node.
    pub(crate) fn on(&self, node: Symbol) -> &[PreparedPod] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }

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
}

impl Nominated {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    /// Adds (`sign` 1) or takes away (−1) the pods nominated to a node; tells whether there are any.
    pub(crate) fn change(&self, node: &mut WhatIf<'_>, id: NodeId, sign: i64) -> bool {
        let pods = self.0.get(&id).map_or(&[][..], Vec::as_slice);
        pods.iter().for_each(|(class, identity)| node.change(*class, *identity, sign));
        !pods.is_empty()
    }
}

impl Cluster {
    /// Nominates a pod to a node: from now on the node admits pods of lower or equal priority only where this one
    /// would still fit. A pod has one nomination; a second one replaces the first.
    pub fn nominate(&mut self, pod: &PreparedPod, node: &str) {
        self.clear_nomination_of(pod.namespace, &pod.name);
        let node = self.symbols.intern(node);
        self.nominations.by_pod.insert((pod.namespace, pod.name.clone()), node);
        self.nominations.by_node.entry(node).or_default().push(pod.clone());
    }

    /// Takes a pod's nomination back, if it has one; tells whether it had.
    ///
    /// Assigning the pod does not do that by itself.
    pub fn clear_nomination(&mut self, namespace: &str, name: &str) -> bool {
        let namespace = self.symbols.get(namespace);
        namespace.is_some_and(|namespace| self.clear_nomination_of(namespace, name))
    }

    fn clear_nomination_of(&mut self, namespace: Symbol, name: &str) -> bool {
        let node = self.nominations.remove(namespace, name);
        if let Some(node) = node {
            self.note(Change::NominationCleared(node));
        }
        node.is_some()
    }

    /// The node a pod is nominated to.
    pub fn nomination(&self, namespace: &str, name: &str) -> Option<&str> {
        let node = self.nominations.node(self.symbols.get(namespace)?, name)?;
        Some(self.symbols.text(node))
    }

    /// Number of pods that are nominated to a node.
    pub fn n_nominations(&self) -> usize {
        self.nominations.by_pod.len()
    }

    /// The nominated pods that this one must leave room for: those of higher or equal priority, itself not.
    pub(crate) fn nominated_against(&mut self, pod: &PreparedPod) -> Nominated {
        let mut nominated = Nominated::default();
        if self.nominations.is_empty() {
            return nominated;
        }
        let mut found = Vec::new();
        for (node, pods) in &self.nominations.by_node {
            let Some(node) = self.nodes.find(*node) else { continue };
            let counts = |other: &&PreparedPod| {
                other.standing.priority >= pod.standing.priority
                    && (other.namespace, &other.name) != (pod.namespace, &pod.name)
            };
            found.extend(pods.iter().filter(counts).map(|other| (node, other.clone())));
        }
        for (node, other) in found {
            let identity = self.identity_of(other.namespace, other.terminating, &other.labels);
            nominated.0.entry(node).or_default().push((other.class, identity));
        }
        nominated
    }
}

impl Context<'_> {
    /// The first rejection of a node with the pods that are nominated to it there; none where there are none.
    pub(crate) fn rejection_with_nominated(
        self,
        filters: &[(Plugin, Box<dyn Filter + '_>)],
        nominated: &Nominated,
        id: NodeId,
    ) -> Option<Rejection> {
        if !nominated.0.contains_key(&id) {
            return None;
        }
        let concerns = Concerns::new(self);
        let mut node = concerns.on(id);
        nominated.change(&mut node, id, 1);
        filters.iter().find_map(|(_, filter)| filter.check(node.node()))
    }
}
