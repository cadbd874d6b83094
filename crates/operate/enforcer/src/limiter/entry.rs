//! Evictions: to be counted, and as they are counted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The size of an entry without its strings.
pub(super) const ENTRY_BYTES: usize = 90;

/// The size of a member of a group without its strings.
const MEMBER_BYTES: usize = 22;

/// A pod of a group that is evicted as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupMember {
    pub(crate) name: String,
    pub(crate) uid: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) uid: &'a str,
    pub(crate) node: &'a str,
    pub(crate) namespace: &'a str,
    /// The controller that owns the pod, or the pod itself.
    pub(crate) workload: &'a str,
    /// Path of the term that its eviction fixes.
    pub(crate) term: &'a str,
    /// When it was first seen.
    pub(crate) seen_at: Timestamp,
    pub(crate) n_workload_pods: usize,
}

/// An eviction of the last window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) uid: String,
    pub(super) node: String,
    pub(crate) namespace: String,
    pub(super) workload: String,
    pub(crate) term: String,
    /// The pods of the group that is evicted as a whole, in their order, if it is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) group: Vec<GroupMember>,
    /// The process that made it, if several share the ledger; only this one may send or cancel it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) by: String,
}

impl Entry {
    pub(super) fn n_bytes(&self) -> usize {
        let Entry { at: _, uid, node, namespace, workload, term, group, by } = self;
        let of_group: usize =
            group.iter().map(|member| MEMBER_BYTES + member.name.len() + member.uid.len()).sum();
        ENTRY_BYTES
            + of_group
            + by.len()
            + uid.len()
            + node.len()
            + namespace.len()
            + workload.len()
            + term.len()
    }
}
