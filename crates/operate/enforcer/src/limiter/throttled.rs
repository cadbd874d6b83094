//! Delayed evictions: the limit, and what to do about it.

use std::fmt;
use std::time::Duration;

use berth_api::object::time::rfc3339;
use jiff::{SignedDuration, Timestamp};

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(crate) enum LimitKind(name) {
        /// Pods of the cluster within the window.
        Cluster = "cluster_share",
        /// Pods of one workload within the window.
        Workload = "workload_share",
        /// Pods of one namespace within the window.
        Namespace = "namespace_limit",
        /// Pods of one node within the window.
        Node = "node_limit",
        /// Repeated evictions of a workload for the same term.
        Repeats = "repeats",
        LedgerSize = "memory",
        /// Evictions per second.
        Rate = "rate",
        /// Another enforcer that shares the ledger evicts the pod.
        OtherProcess = "other_process",
    }
}

impl LimitKind {
    /// Why a pod is not evicted now, without numbers, which change often.
    pub(crate) fn delay(self) -> &'static str {
        match self {
            LimitKind::Cluster => "--max-cluster-share stops all evictions",
            LimitKind::Workload => "--max-workload-share delays the eviction",
            LimitKind::Namespace => "--max-evictions-per-namespace delays the eviction",
            LimitKind::Node => "--max-evictions-per-node delays the eviction",
            LimitKind::Repeats => "each replacement in the workload violated the rule again",
            LimitKind::LedgerSize => "the ledger is full",
            LimitKind::Rate => "--evictions-per-second delays the eviction",
            LimitKind::OtherProcess => "another enforcer has reserved the eviction",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) limit_kind: LimitKind,
    /// Number of evictions within the window, with this one.
    pub(crate) n: usize,
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

impl Throttled {
    /// The limit and what exceeds it.
    pub(crate) fn cause(&self) -> String {
        let Throttled { limit_kind, n, limit, window, .. } = self;
        let window = friendly(*window);
        let of = match limit_kind {
            LimitKind::Cluster => "the cluster",
            LimitKind::Workload => "this workload",
            LimitKind::Namespace => "this namespace",
            LimitKind::Node => "this node",
            LimitKind::Repeats => {
                return format!("evicted {n} times in a row within {window} for the same term");
            }
            LimitKind::LedgerSize => {
                return format!("the ledger is full with {limit} evictions of the last {window}");
            }
            LimitKind::Rate => return "delayed by --evictions-per-second".to_owned(),
            LimitKind::OtherProcess => return "reserved by another enforcer".to_owned(),
        };
        format!("evictions of {n} pods of {of} within {window}; the limit is {limit}")
    }
}

impl fmt::Display for Throttled {
    /// The limit, until when, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, until) = (self.cause(), rfc3339(self.until));
        let flag = match self.limit_kind {
            LimitKind::Cluster => {
                return write!(
                    f,
                    "{cause}. All evictions stop until {until}. If labels were changed by mistake, change them back; \
                     otherwise raise --max-cluster-share"
                );
            }
            LimitKind::Repeats => {
                return write!(
                    f,
                    "{cause}; each replacement violated it again. Stopped until {until}. Check what places the pods \
                     (nodeName in the template, another scheduler) against the rule"
                );
            }
            LimitKind::LedgerSize => return write!(f, "{cause}. Delayed until {until}"),
            LimitKind::Rate => return f.write_str(&cause),
            LimitKind::OtherProcess => {
                return write!(
                    f,
                    "left until {until} to the enforcer that has reserved the eviction in the same ledger"
                );
            }
            LimitKind::Workload => "--max-workload-share",
            LimitKind::Namespace => "--max-evictions-per-namespace",
            LimitKind::Node => "--max-evictions-per-node",
        };
        write!(f, "{cause}. Delayed until {until}; to evict faster, raise {flag}")
    }
}
