//! The limits of evictions in force: the limiter, and the ledger that stores its state.

use std::collections::HashSet;

use berth_client::call::CallError;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::completion::Ledger;
use crate::ledger_sync::LedgerSync;
use crate::limiter::{Candidate, ClusterStop, EvictionLimiter, Throttled};

/// Counts evictions, first in this process and then in the ledger.
pub(crate) struct Limits {
    pub(crate) limiter: EvictionLimiter,
    pub(crate) ledger: LedgerSync,
    /// Pods that the limiter counts and whose eviction is not sent yet, by uid.
    reserved: HashSet<String>,
    /// Pods whose eviction failed but may still be carried out, by uid: the limiter counts them.
    uncertain: HashSet<String>,
}

impl Limits {
    pub(crate) fn new(limiter: EvictionLimiter, ledger: LedgerSync) -> Limits {
        Limits { limiter, ledger, reserved: HashSet::new(), uncertain: HashSet::new() }
    }

    /// The number of evictions that are counted and not sent yet.
    pub(crate) fn n_reserved(&self) -> usize {
        self.reserved.len()
    }

    pub(crate) fn has_reserved(&self, uid: &str) -> bool {
        self.reserved.contains(uid)
    }

    /// See [`EvictionLimiter::repeats`]. An eviction that is counted already is not throttled.
    pub(crate) fn repeats(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Option<Throttled> {
        self.limiter.repeats(candidate, now).filter(|_| !self.limiter.is_reserved(candidate.uid))
    }

    /// See [`EvictionLimiter::check_cluster_limit`].
    pub(crate) fn check_cluster_limit(
        &mut self,
        n_pods: usize,
        n_would_evict: usize,
        now: Timestamp,
    ) -> Option<ClusterStop> {
        let change = self.limiter.check_cluster_limit(n_pods, n_would_evict, now);
        if change.is_some() {
            self.ledger.mark_dirty();
        }
        change
    }

    /// Counts an eviction.
    ///
    /// # Errors
    /// The limit that delays it.
    pub(crate) fn reserve(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Result<(), Throttled> {
        if self.limiter.reserve(candidate, now)? {
            // An earlier reservation of the same pod has expired.
            self.ledger.remove(candidate.uid);
        }
        Ok(())
    }

    /// Whether a counted eviction is in the ledger, so that it may be sent. If not, it is written.
    pub(crate) fn is_stored(&mut self, uid: &str) -> bool {
        let is_stored = self.ledger.has(uid);
        if is_stored {
            self.reserved.remove(uid);
        } else {
            self.reserved.insert(uid.to_owned());
            self.ledger.mark_dirty();
        }
        is_stored
    }

    /// Cancels the reservations of pods that need no eviction any more.
    pub(crate) fn release(&mut self, planned: &HashSet<String>) {
        let void: Vec<String> = self.reserved.extract_if(|uid| !planned.contains(uid)).collect();
        for uid in void {
            self.cancel(&uid);
        }
    }

    /// An eviction was not sent, or not carried out. If it may still be carried out, it stays counted.
    pub(crate) fn cancel(&mut self, uid: &str) {
        if !self.uncertain.contains(uid) {
            self.limiter.cancel(uid);
            self.ledger.remove(uid);
        }
    }

    /// An eviction failed, but may still be carried out.
    pub(crate) fn keep_counted(&mut self, uid: &str) {
        self.uncertain.insert(uid.to_owned());
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.uncertain.remove(uid);
    }

    /// Reads or writes the ledger, if necessary.
    pub(crate) fn sync(&mut self, now: Instant) {
        self.ledger.sync(&self.limiter, now);
    }

    /// A read of the ledger ended. Returns whether its content counts now.
    pub(crate) fn ledger_read(&mut self, term: u64, read: Result<Ledger, CallError>, now: Timestamp) -> bool {
        let Some(content) = self.ledger.read(term, read) else { return false };
        // Reservations that are not in it are made again at the next selection, with all that is in it.
        self.reserved.clear();
        self.limiter.import(content, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::Metrics;
    use crate::options::EnforcerOptions;

    #[tokio::test]
    async fn an_eviction_is_sent_after_it_is_stored_and_an_uncertain_one_stays_counted() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = kube::Client::try_from(config).unwrap();
        let metrics = Arc::new(Metrics::new(&mut prometheus_client::registry::Registry::default()));
        let (completed, _) = tokio::sync::mpsc::unbounded_channel();
        let options = EnforcerOptions::default();
        let ledger = LedgerSync::new(client, &options, completed, metrics);
        let mut limits = Limits::new(EvictionLimiter::new(options.limits), ledger);
        let now = Timestamp::UNIX_EPOCH;
        let candidate = |uid| Candidate {
            uid,
            node: "n",
            namespace: "d",
            workload: uid,
            term: "t",
            seen_at: now,
            n_workload_pods: 1,
        };
        for uid in ["a", "b"] {
            limits.reserve(&candidate(uid), now).unwrap();
            assert!(!limits.is_stored(uid));
        }
        assert_eq!(limits.n_reserved(), 2);
        limits.keep_counted("b");
        limits.release(&HashSet::new());
        assert!(!limits.limiter.is_reserved("a") && limits.limiter.is_reserved("b"));
        limits.forget("b");
        limits.cancel("b");
        assert!(!limits.limiter.is_reserved("b"));
    }
}
