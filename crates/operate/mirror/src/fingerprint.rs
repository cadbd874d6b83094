//! Fingerprints: whether an object is still what it was, without keeping the object.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use berth_api::object::{Node, Pod};
use berth_engine::Cluster;

/// Makes fingerprints that are comparable with each other, and with no other process's: the hash is keyed, since
/// users write what is hashed.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    key: RandomState,
    /// What is hashed: in one piece it is hashed several times faster than as it is written.
    bytes: RefCell<Bytes>,
}

/// Collects what a value hashes.
#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// 64 bits of what matters of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64);

impl Fingerprints {
    pub(crate) fn of(&self, value: &impl Hash) -> Fingerprint {
        let mut bytes = self.bytes.borrow_mut();
        bytes.0.clear();
        value.hash(&mut *bytes);
        Fingerprint(self.key.hash_one(&bytes.0[..]))
    }

    /// The fingerprint of the node fields relevant to placement, without heartbeats. A node is applied again when rules
    /// mention annotations or fields that it was read without.
    pub(crate) fn of_node(&self, node: &Node, cluster: &Cluster) -> Fingerprint {
        let attributes = (cluster.attributes_to_keep(node), cluster.node_attributes_epoch());
        self.of(&(&node.metadata.uid, &node.metadata.labels, &node.spec, &node.status, attributes))
    }

    /// The fingerprint of the pod fields relevant to placement, without the node.
    pub(crate) fn of_pod(&self, pod: &Pod) -> PodFingerprint {
        let (fields, added_labels) = pod.placement_fields();
        PodFingerprint { fields: self.of(&fields), added_labels: self.of_labels(added_labels) }
    }

    /// The fingerprint of labels in the order of their keys.
    pub(crate) fn of_labels<'a>(
        &self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Fingerprint {
        Fingerprint(self.key.hash_one(labels.into_iter().collect::<Vec<_>>()))
    }
}

/// Of a pod, apart from its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodFingerprint {
    /// Without the labels that a binding adds.
    pub(crate) fields: Fingerprint,
    pub(crate) added_labels: Fingerprint,
}

impl PodFingerprint {
    pub(crate) fn bits(self) -> (u64, u64) {
        (self.fields.bits(), self.added_labels.bits())
    }
}

impl Fingerprint {
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}
