//! The cluster: the engine's public interface.
//!
//! [`Cluster`] holds the state and what is kept above it, and hands each request to the module that serves it. Requests
//! come in four groups: [`update`] (what the cluster is), [`query`] (what is known of it), [`schedule`] and [`relax`] (where
//! pods go), and [`enforce`] (whether rules of running pods hold). No module below this one uses it.

mod enforce;
mod journal;
mod moves;
mod query;
mod relax;
mod schedule;
mod update;

pub use self::relax::RelaxedPod;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::journal::Journal;
pub use self::moves::{Moves, SkewedConstraint, SpreadDomains};
use crate::cycle::nomination::Nominations;
use crate::group::DomainTables;
use crate::preemption::Candidates;
use crate::state::{Settings, State};
use crate::view::Views;
use crate::view::rejections::RejectionViews;
use crate::violation::tracker::ViolationTracker;
use crate::wake::ClusterChange;

/// A cluster, indexed for decisions.
///
/// Nodes, namespaces, services and assigned pods are set and removed in any order; a pod whose node is
/// not known is ignored until the node is added. No method fails: "does not fit" is a value.
pub struct Cluster {
    state: State,
    /// Caches, which requests that only read bring up to date.
    caches: Mutex<Caches>,
    nominations: Nominations,
    /// Changes since they were last taken, if they are recorded at all; later ones are with the state.
    recorded: Option<Vec<ClusterChange>>,
    /// Tracks broken rules that are required during execution, if that is enabled.
    tracker: Option<Box<ViolationTracker>>,
    journal: Option<Journal>,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(settings: Settings) -> Cluster {
        Cluster {
            state: State::new(settings),
            caches: Mutex::default(),
            nominations: Nominations::default(),
            recorded: None,
            tracker: None,
            journal: None,
        }
    }

    fn caches(&self) -> MutexGuard<'_, Caches> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Cluster {
    /// A copy of the state, for decisions on another thread: without what is recorded, tracked or reported. Pods are to be
    /// prepared for the copy.
    fn clone(&self) -> Self {
        Cluster {
            state: self.state.copy(),
            caches: Mutex::default(),
            nominations: self.nominations.clone(),
            recorded: None,
            tracker: None,
            journal: None,
        }
    }
}

/// What decisions learn about nodes.
#[derive(Default)]
struct Caches {
    views: Views,
    rejections: RejectionViews<Candidates>,
    domains: DomainTables,
}

#[cfg(test)]
mod tests {
    use super::Cluster;

    #[test]
    fn a_cluster_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Cluster>();
        shared::<crate::PreparedPod>();
        shared::<crate::WakeConditions>();
    }
}
