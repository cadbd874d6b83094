//! Evictions: to be counted, and as they are counted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The size of an entry without its strings.
pub(super) const ENTRY_BYTES: usize = 90;

/// A pod to be evicted.
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
    /// Number of pods of its workload.
    pub(crate) n_workload_pods: usize,
}

/// An eviction of the last window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) namespace: String,
    pub(super) workload: String,
    pub(super) term: String,
    /// The process that made it, if several share the ledger; only this one may send or cancel it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) by: String,
}

impl Entry {
    pub(super) fn n_bytes(&self) -> usize {
        let Entry { at: _, uid, node, namespace, workload, term, by } = self;
        ENTRY_BYTES + by.len() + uid.len() + node.len() + namespace.len() + workload.len() + term.len()
    }
}
