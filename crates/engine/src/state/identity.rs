//! Identities: pods that no selector can tell apart.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::intern::{Labels, Symbol};
use super::matcher::MatcherId;
use super::node::NodeId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IdentityId(pub(crate) u32);

/// What selectors see of a pod: its namespace, whether it is being deleted, and the labels whose keys
/// some selector mentions. A label that no selector mentions tells no pods apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdentityKey {
    pub(crate) namespace: Symbol,
    pub(crate) terminating: bool,
    pub(crate) labels: Labels,
}

/// An identity, the matchers it satisfies, and where its pods run.
pub(crate) struct Identity {
    pub(crate) key: IdentityKey,
    /// Matchers it satisfies as a running pod (terms of the incoming pod), sorted.
    pub(crate) matched: Vec<MatcherId>,
    /// Matchers it satisfies as the incoming pod (terms of running pods), sorted.
    pub(crate) matched_by_existing: Vec<MatcherId>,
    /// Number of its pods on each node.
    pub(crate) placed: FxHashMap<NodeId, u32>,
}

/// All identities.
#[derive(Default)]
pub(crate) struct Identities {
    all: Vec<Identity>,
    by_key: HashMap<IdentityKey, IdentityId>,
}

impl Identities {
    pub(crate) fn find(&self, key: &IdentityKey) -> Option<IdentityId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn insert(&mut self, identity: Identity) -> IdentityId {
        let id = IdentityId(self.all.len() as u32);
        self.by_key.insert(identity.key.clone(), id);
        self.all.push(identity);
        id
    }

    pub(crate) fn get(&self, id: IdentityId) -> &Identity {
        &self.all[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: IdentityId) -> &mut Identity {
        &mut self.all[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Identity)> {
        self.all.iter().enumerate().map(|(i, identity)| (IdentityId(i as u32), identity))
    }
}
