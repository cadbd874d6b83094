//! Nominations: pods for which room is being made on a node.
//!
//! As in kube-scheduler, a node that pods of higher or equal priority are nominated to must let a pod in both
//! with them there and without: they may come, or not. Nominations to other nodes do not count, and scores are
//! those without them.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::device::{DeviceUsers, PodDevices};
use crate::state::interned::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::RuleSetId;
use crate::state::volume::PodVolumes;

type ByNode = FxHashMap<Symbol, Vec<Nomination>>;

#[derive(Clone, Debug)]
pub(crate) struct Nomination {
    pod: PreparedPod,
    /// Those that are being evicted for it.
    victims: DeviceUsers,
}

#[derive(Clone, Default)]
pub(crate) struct Nominations {
    /// Shared with the decisions that are being made.
    by_node: Arc<ByNode>,
    /// Node by namespace and name of the pod.
    by_pod: HashMap<(Symbol, Box<str>), Symbol>,
    /// The nodes whose nominations changed, in order.
    changed: Vec<Symbol>,
    /// Position of the first entry of `changed`: older ones were dropped.
    first_changed: u64,
}

/// The nominated pods that a pod must leave room for: those of higher or equal priority, except itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct NominatedPods {
    by_node: Option<Arc<ByNode>>,
    priority: i32,
    /// Namespace and name.
    itself: Option<(Symbol, Box<str>)>,
}

/// Entries of the log of changes that are kept.
const MAX_CHANGED: usize = 1 << 14;

/// What of a nominated pod others have to leave room for.
pub(crate) struct NominatedPod {
    pub(crate) rule_set: RuleSetId,
    pub(crate) signature: SignatureId,
    pub(crate) volumes: Option<Arc<PodVolumes>>,
    pub(crate) devices: Option<Arc<PodDevices>>,
    pub(crate) victims: DeviceUsers,
}

impl Nominations {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_pod.len()
    }

    pub(crate) fn node(&self, namespace: Symbol, name: &str) -> Option<Symbol> {
        if self.by_pod.is_empty() {
            return None;
        }
        self.by_pod.get(&(namespace, name.into())).copied()
    }

    pub(crate) fn on(&self, node: Symbol) -> impl ExactSizeIterator<Item = &PreparedPod> {
        let nominations = self.by_node.get(&node).map_or(&[][..], Vec::as_slice);
        nominations.iter().map(|nomination| &nomination.pod)
    }

    /// Nominates a pod that has no nomination.
    pub(crate) fn insert(&mut self, pod: &PreparedPod, node: Symbol, victims: DeviceUsers) {
        self.put_back([(node, Nomination { pod: pod.clone(), victims })]);
    }

    /// Removes the nominations of some pods, to be put back.
    pub(crate) fn set_aside(&mut self, pods: &[PreparedPod]) -> Vec<(Symbol, Nomination)> {
        if self.is_empty() {
            return Vec::new();
        }
        pods.iter().filter_map(|pod| self.take(pod.namespace, &pod.name)).collect()
    }

    pub(crate) fn put_back(&mut self, nominations: impl IntoIterator<Item = (Symbol, Nomination)>) {
        for (node, nomination) in nominations {
            self.by_pod.insert((nomination.pod.namespace, nomination.pod.name.clone()), node);
            Arc::make_mut(&mut self.by_node).entry(node).or_default().push(nomination);
            self.log(node);
        }
    }

    /// The pods that are being evicted for a pod from a node that it is nominated to.
    pub(crate) fn victims(&self, namespace: Symbol, name: &str, node: Symbol) -> DeviceUsers {
        let mut on_node = self.by_node.get(&node).into_iter().flatten();
        let found = on_node.find(|n| (n.pod.namespace, &*n.pod.name) == (namespace, name));
        found.map(|nomination| nomination.victims.clone()).unwrap_or_default()
    }

    pub(crate) fn remove(&mut self, namespace: Symbol, name: &str) -> Option<Symbol> {
        self.take(namespace, name).map(|(node, _)| node)
    }

    fn take(&mut self, namespace: Symbol, name: &str) -> Option<(Symbol, Nomination)> {
        let node = self.by_pod.remove(&(namespace, name.into()))?;
        let by_node = Arc::make_mut(&mut self.by_node);
        let pods = by_node.get_mut(&node)?;
        let at = pods.iter().position(|n| (n.pod.namespace, &*n.pod.name) == (namespace, name))?;
        let nomination = pods.remove(at);
        if pods.is_empty() {
            by_node.remove(&node);
        }
        self.log(node);
        Some((node, nomination))
    }

    fn log(&mut self, node: Symbol) {
        if self.changed.len() >= MAX_CHANGED {
            self.first_changed = self.end();
            self.changed.clear();
        }
        self.changed.push(node);
    }

    /// The position after the last change.
    pub(crate) fn end(&self) -> u64 {
        self.first_changed + self.changed.len() as u64
    }

    /// The nodes whose nominations changed from a position on, by name; none if some entries were dropped. A name that
    /// is free by now may be that of another node.
    pub(crate) fn changed_since(&self, position: u64) -> Option<&[Symbol]> {
        let start = position.checked_sub(self.first_changed)?;
        self.changed.get(start as usize..)
    }

    /// The nominated pods that this one must leave room for: those of higher or equal priority, except itself.
    pub(crate) fn against(&self, pod: &PreparedPod) -> NominatedPods {
        if self.is_empty() {
            return NominatedPods::default();
        }
        NominatedPods {
            by_node: Some(self.by_node.clone()),
            priority: pod.precedence.priority,
            itself: Some((pod.namespace, pod.name.clone())),
        }
    }
}

impl NominatedPods {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_node.is_none()
    }

    /// The nodes with nominated pods, whether they count or not.
    pub(crate) fn nodes(&self, state: &State) -> impl Iterator<Item = NodeId> {
        let names = self.by_node.iter().flat_map(|by_node| by_node.keys());
        names.filter_map(|name| state.nodes.find(*name))
    }

    /// Those nominated to a node, by priority and name.
    pub(crate) fn on(&self, state: &State, node: NodeId) -> SmallVec<[NominatedPod; 2]> {
        let Some(by_node) = &self.by_node else { return SmallVec::new() };
        let nominations = by_node.get(&state.nodes.get(node).name).into_iter().flatten();
        let is_itself = |pod: &PreparedPod| {
            self.itself.as_ref().is_some_and(|(ns, name)| (*ns, name) == (pod.namespace, &pod.name))
        };
        let counts = |n: &&Nomination| n.pod.precedence.priority >= self.priority && !is_itself(&n.pod);
        let mut counted: SmallVec<[&Nomination; 2]> = nominations.filter(counts).collect();
        counted.sort_unstable_by(|a, b| {
            let text = |symbol| state.symbols.text(symbol);
            let by_priority = b.pod.precedence.priority.cmp(&a.pod.precedence.priority);
            by_priority
                .then_with(|| (text(a.pod.namespace), &a.pod.name).cmp(&(text(b.pod.namespace), &b.pod.name)))
        });
        let nominated = counted.into_iter().map(|Nomination { pod, victims }| NominatedPod {
            rule_set: pod.rule_set,
            signature: state.label_sets.get(pod.label_set).signature,
            volumes: pod.volumes.clone(),
            devices: pod.devices.clone(),
            victims: victims.clone(),
        });
        nominated.collect()
    }
}
