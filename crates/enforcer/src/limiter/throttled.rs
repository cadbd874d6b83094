//! Delayed evictions: the limit, and what to do about it.

use std::fmt;
use std::time::Duration;

use berth_api::object::time::rfc3339;
use jiff::{SignedDuration, Timestamp};

/// A limit of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LimitKind {
    /// Pods of the cluster within the window.
    Cluster,
    /// Pods of one workload within the window.
    Workload,
    /// Pods of one namespace within the window.
    Namespace,
    /// Pods of one node within the window.
    Node,
    /// Repeated evictions of a workload for the same term.
    Repeats,
    /// The size of the ledger.
    LedgerSize,
    /// Evictions per second.
    Rate,
    /// Another enforcer that shares the ledger evicts the pod.
    OtherProcess,
}

impl LimitKind {
    /// Name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LimitKind::Cluster => "cluster_share",
            LimitKind::Workload => "workload_share",
            LimitKind::Namespace => "namespace_limit",
            LimitKind::Node => "node_limit",
            LimitKind::Repeats => "repeats",
            LimitKind::LedgerSize => "memory",
            LimitKind::Rate => "rate",
            LimitKind::OtherProcess => "other_process",
        }
    }
}

/// A limit delays an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) limit_kind: LimitKind,
    /// Number of evictions within the window, with this one.
    pub(crate) n: usize,
    /// The allowed number.
    pub(crate) limit: usize,
    pub(crate) window: Duration,
    /// When it may be allowed.
    pub(crate) until: Timestamp,
}

/// A duration for messages, such as `10m`.
pub(crate) fn friendly(duration: Duration) -> String {
    // A duration beyond the range of the type.
    SignedDuration::try_from(duration).map_or_else(|_| "ever".to_owned(), |duration| format!("{duration:#}"))
}

impl fmt::Display for Throttled {
    /// The limit, until when, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Throttled { limit_kind, n, limit, window, until } = self;
        let (window, until) = (friendly(*window), rfc3339(*until));
        match limit_kind {
            LimitKind::Cluster => write!(
                f,
                "evictions of {n} pods of the cluster within {window}; the limit is {limit}. All evictions stop until \
                 {until}. If labels were changed by mistake, change them back; otherwise raise --max-cluster-share"
            ),
            LimitKind::Workload => write!(
                f,
                "evictions of {n} pods of this workload within {window}; the limit is {limit}. Delayed until {until}; \
                 to evict faster, raise --max-workload-share"
            ),
            LimitKind::Namespace => write!(
                f,
                "evictions of {n} pods of this namespace within {window}; the limit is {limit}. Delayed until {until}; \
                 to evict faster, raise --max-evictions-per-namespace"
            ),
            LimitKind::Node => write!(
                f,
                "evictions of {n} pods of this node within {window}; the limit is {limit}. Delayed until {until}; to \
                 evict faster, raise --max-evictions-per-node"
            ),
            LimitKind::Repeats => write!(
                f,
                "evicted {n} times in a row within {window} for the same term; each replacement violated it again. \
                 Stopped until {until}. Check what places the pods (nodeName in the template, another scheduler) \
                 against the rule"
            ),
            LimitKind::LedgerSize => write!(
                f,
                "the ledger is full with {limit} evictions of the last {window}. Delayed until {until}"
            ),
            LimitKind::Rate => write!(f, "delayed by --evictions-per-second"),
            LimitKind::OtherProcess => {
                write!(
                    f,
                    "left until {until} to the enforcer that has reserved the eviction in the same ledger"
                )
            }
        }
    }
}
