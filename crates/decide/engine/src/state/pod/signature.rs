//! Label sets and label signatures: what pods are to selectors.
//!
//! Pods with the same labels share a label set. Selectors distinguish pods only by labels whose keys some selector
//! mentions: the signature has only these, and pods are matched and counted by it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::state::counting::matcher::{Anchor, MatcherId};
use crate::state::interned::intern::{Labels, Symbol};
use crate::state::interned::table::{Id, Keyed, Table};
use crate::state::node::NodeId;

pub(crate) type LabelSetId = Id<LabelSet>;
pub(crate) type SignatureId = Id<LabelSignature>;

/// What selectors could see of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodLabels {
    pub(crate) namespace: Symbol,
    /// Whether the pod is being deleted.
    pub(crate) terminating: bool,
    pub(crate) labels: Labels,
}

impl PodLabels {
    pub(in crate::state) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.labels.symbols().chain([self.namespace])
    }
}

/// The labels of pods, all of them. A user of its signature and of its symbols.
#[derive(Clone)]
pub(crate) struct LabelSet {
    pub(crate) of: PodLabels,
    pub(crate) signature: SignatureId,
}

impl Keyed for LabelSet {
    type Key = PodLabels;

    fn key(&self) -> &PodLabels {
        &self.of
    }
}

/// The labels of pods whose keys some selector mentions, the matchers that they satisfy, and where the pods run.
///
/// A user of its symbols. It mentions its keys itself: signatures are not merged when no selector mentions a key any
/// more.
#[derive(Clone)]
pub(crate) struct LabelSignature {
    pub(crate) of: PodLabels,
    /// Matchers it satisfies as a running pod (terms of the incoming pod), sorted.
    pub(crate) matched: Vec<MatcherId>,
    /// Matchers it satisfies as the incoming pod (terms of running pods), sorted.
    pub(crate) matched_by_existing: Vec<MatcherId>,
    pub(crate) placed: FxHashMap<NodeId, u32>,
}

impl LabelSignature {
    /// Whether its pods match, as running pods.
    pub(crate) fn matches(&self, matcher: MatcherId) -> bool {
        self.matched.binary_search(&matcher).is_ok()
    }

    pub(in crate::state) fn place(&mut self, node: NodeId, sign: i64) {
        let placed = self.placed.entry(node).or_default();
        *placed = placed.wrapping_add_signed(sign as i32);
        if *placed == 0 {
            self.placed.remove(&node);
        }
    }
}

impl Keyed for LabelSignature {
    type Key = PodLabels;

    fn key(&self) -> &PodLabels {
        &self.of
    }
}

type Ids = FxHashSet<SignatureId>;

/// All signatures, and the index by which a matcher finds those that it may match.
#[derive(Clone, Default)]
pub(crate) struct Signatures {
    pub(in crate::state) table: Table<LabelSignature>,
    by_label: FxHashMap<Symbol, FxHashMap<Symbol, Ids>>,
    by_namespace: FxHashMap<Symbol, Ids>,
}

impl Signatures {
    #[inline]
    pub(crate) fn get(&self, id: SignatureId) -> &LabelSignature {
        self.table.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LabelSignature> {
        self.table.iter().map(|(_, signature)| signature)
    }

    pub(in crate::state) fn insert(&mut self, signature: LabelSignature) -> SignatureId {
        let (namespace, labels) = (signature.of.namespace, signature.of.labels.clone());
        let id = self.table.insert(signature);
        for (key, value) in labels.iter() {
            self.by_label.entry(key).or_default().entry(value).or_default().insert(id);
        }
        self.by_namespace.entry(namespace).or_default().insert(id);
        id
    }

    /// Counts one user fewer; returns the signature if that was the last one.
    pub(in crate::state) fn release(&mut self, id: SignatureId) -> Option<LabelSignature> {
        let signature = self.table.release(id)?;
        for (key, value) in signature.of.labels.iter() {
            let Some(by_value) = self.by_label.get_mut(&key) else { continue };
            remove_from(by_value, value, id);
            if by_value.is_empty() {
                self.by_label.remove(&key);
            }
        }
        remove_from(&mut self.by_namespace, signature.of.namespace, id);
        Some(signature)
    }

    pub(in crate::state) fn in_namespace(&self, namespace: Symbol) -> Vec<SignatureId> {
        self.by_namespace.get(&namespace).into_iter().flatten().copied().collect()
    }

    /// The signatures that a matcher may match: a superset found by one of its requirements.
    pub(in crate::state) fn candidates(&self, anchor: Anchor<'_>) -> Vec<SignatureId> {
        let with_key = |key: &Symbol| self.by_label.get(key).into_iter();
        match anchor {
            Anchor::Pairs(key, values) => {
                let values = values.iter().flat_map(|v| with_key(&key).filter_map(|by| by.get(v))).flatten();
                let mut found: Vec<_> = values.copied().collect();
                found.sort_unstable();
                found.dedup();
                found
            }
            Anchor::Key(key) => with_key(&key).flat_map(|by| by.values()).flatten().copied().collect(),
            Anchor::None => self.table.iter().map(|(id, _)| id).collect(),
        }
    }
}

fn remove_from(index: &mut FxHashMap<Symbol, Ids>, symbol: Symbol, id: SignatureId) {
    if let Some(ids) = index.get_mut(&symbol) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(&symbol);
        }
    }
}
