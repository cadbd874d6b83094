//! Nominations: pods for which room is being made on a node.
//!
//! As in kube-scheduler, a node that pods of higher or equal priority are nominated to must let a pod in both
//! with them there and without: they may come, or not. Nominations to other nodes do not count, and scores are
//! those without them.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::state::State;
use crate::state::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::prepared::PreparedPod;
use crate::state::rule_set::RuleSetId;
use crate::state::signature::SignatureId;

/// Pods nominated to nodes.
#[derive(Default)]
pub(crate) struct Nominations {
    by_node: FxHashMap<Symbol, Vec<PreparedPod>>,
    /// Node by namespace and name of the pod.
    by_pod: HashMap<(Symbol, Box<str>), Symbol>,
}

/// The nominated pods that a pod must leave room for, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NominatedPods(FxHashMap<NodeId, Vec<(RuleSetId, SignatureId)>>);

impl Nominations {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// Number of nominated pods.
    pub(crate) fn len(&self) -> usize {
        self.by_pod.len()
    }

    pub(crate) fn node(&self, namespace: Symbol, name: &str) -> Option<Symbol> {
        self.by_pod.get(&(namespace, name.into())).copied()
    }

    /// Pods nominated to a node.
    pub(crate) fn on(&self, node: Symbol) -> &[PreparedPod] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Nominates a pod that has no nomination.
    pub(crate) fn insert(&mut self, pod: &PreparedPod, node: Symbol) {
        self.by_pod.insert((pod.namespace, pod.name.clone()), node);
        self.by_node.entry(node).or_default().push(pod.clone());
    }

    pub(crate) fn remove(&mut self, namespace: Symbol, name: &str) -> Option<Symbol> {
        let node = self.by_pod.remove(&(namespace, name.into()))?;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|p| (p.namespace, &*p.name) != (namespace, name));
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    /// The nominated pods that this one must leave room for: those of higher or equal priority, except itself.
    pub(crate) fn against(&self, state: &State, pod: &PreparedPod) -> NominatedPods {
        let mut nominated = NominatedPods::default();
        for (node, pods) in &self.by_node {
            let Some(node) = state.nodes.find(*node) else { continue };
            for other in pods {
                if other.precedence.priority >= pod.precedence.priority
                    && (other.namespace, &other.name) != (pod.namespace, &pod.name)
                {
                    let signature = state.label_sets.get(other.label_set).signature;
                    nominated.0.entry(node).or_default().push((other.rule_set, signature));
                }
            }
        }
        nominated
    }
}

impl NominatedPods {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    /// Those nominated to a node.
    pub(crate) fn on(&self, node: NodeId) -> &[(RuleSetId, SignatureId)] {
        self.0.get(&node).map_or(&[], Vec::as_slice)
    }
}
