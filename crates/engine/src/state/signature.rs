//! Signatures: pods that no selector can tell apart.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::intern::{Labels, Symbol};
use super::matcher::MatcherId;
use super::node::NodeId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SignatureId(pub(crate) u32);

/// What selectors see of a pod: its namespace, whether it is being deleted, and the labels whose keys
/// some selector mentions. A label that no selector mentions tells no pods apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SignatureKey {
    pub(crate) namespace: Symbol,
    pub(crate) terminating: bool,
    pub(crate) labels: Labels,
}

/// An signature, the matchers it satisfies, and where its pods run.
pub(crate) struct LabelSignature {
    pub(crate) key: SignatureKey,
    /// Matchers it satisfies as a running pod (terms of the incoming pod), sorted.
    pub(crate) matched: Vec<MatcherId>,
    /// Matchers it satisfies as the incoming pod (terms of running pods), sorted.
    pub(crate) matched_by_existing: Vec<MatcherId>,
    /// Number of its pods on each node.
    pub(crate) placed: FxHashMap<NodeId, u32>,
}

/// All signatures.
#[derive(Default)]
pub(crate) struct Signatures {
    all: Vec<LabelSignature>,
    by_key: HashMap<SignatureKey, SignatureId>,
}

impl Signatures {
    pub(crate) fn find(&self, key: &SignatureKey) -> Option<SignatureId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn insert(&mut self, signature: LabelSignature) -> SignatureId {
        let id = SignatureId(self.all.len() as u32);
        self.by_key.insert(signature.key.clone(), id);
        self.all.push(signature);
        id
    }

    pub(crate) fn get(&self, id: SignatureId) -> &LabelSignature {
        &self.all[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: SignatureId) -> &mut LabelSignature {
        &mut self.all[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SignatureId, &LabelSignature)> {
        self.all.iter().enumerate().map(|(i, signature)| (SignatureId(i as u32), signature))
    }
}
