//! What holds an eviction back, and what to do about it.

use std::fmt;
use std::time::Duration;

use berth_api::object::time::rfc3339;
use jiff::{SignedDuration, Timestamp};

/// What holds an eviction back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Brake {
    /// Too many of the whole cluster would go.
    Cluster,
    /// Too many of one workload would go.
    Workload,
    /// Too many of one namespace would go.
    Namespace,
    /// Too many of one node would go.
    Node,
    /// The workload is replaced into the same violation again and again.
    Repeats,
    /// More than can be remembered would go.
    Memory,
    /// It is not its turn yet.
    Rate,
}

impl Brake {
    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Brake::Cluster => "cluster_share",
            Brake::Workload => "workload_share",
            Brake::Namespace => "namespace_limit",
            Brake::Node => "node_limit",
            Brake::Repeats => "repeats",
            Brake::Memory => "memory",
            Brake::Rate => "rate",
        }
    }
}

/// An eviction is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) brake: Brake,
    /// How many would have gone within the window.
    pub(crate) n: usize,
    /// How many may.
    pub(crate) limit: usize,
    pub(crate) window: Duration,
    /// When it is worth asking again.
    pub(crate) until: Timestamp,
}

/// A duration as people write it, such as `10m`.
pub(crate) fn friendly(duration: Duration) -> String {
    // A duration that has no name is as good as no end.
    SignedDuration::try_from(duration).map_or_else(|_| "ever".to_owned(), |duration| format!("{duration:#}"))
}

impl fmt::Display for Throttled {
    /// What holds it, until when, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Throttled { brake, n, limit, window, until } = self;
        let (window, until) = (friendly(*window), rfc3339(*until));
        match brake {
            Brake::Cluster => write!(
                f,
                "{n} pods of the cluster would have gone within {window}, and {limit} may: held until {until}. Were \
                 labels changed by mistake, change them back; if they were not, raise --max-cluster-share"
            ),
            Brake::Workload => write!(
                f,
                "{n} pods of this workload would have gone within {window}, and {limit} may: held until {until}. If \
                 that is too slow, raise --max-workload-share"
            ),
            Brake::Namespace => write!(
                f,
                "{n} pods of this namespace would have gone within {window}, and {limit} may: held until {until}. If \
                 that is too slow, raise --max-evictions-per-namespace"
            ),
            Brake::Node => write!(
                f,
                "{n} pods of this node would have gone within {window}, and {limit} may: held until {until}. If that \
                 is too slow, raise --max-evictions-per-node"
            ),
            Brake::Repeats => write!(
                f,
                "evicted {n} times in a row within {window} for the same term, and replaced into the same violation \
                 each time: held back until {until}. Whatever places its pods (nodeName in the template, another \
                 scheduler) and its rule have to agree"
            ),
            Brake::Memory => write!(
                f,
                "{limit} evictions of the last {window} are as many as can be kept account of: held until {until}"
            ),
            Brake::Rate => write!(f, "waits for its turn: see --evictions-per-second"),
        }
    }
}
