//! Results of requests.

use std::sync::Arc;
use std::time::Duration;

use berth_client::Backoff;
use berth_client::call::CallError;
use tokio::time::Instant;

use super::{Enforcer, Retry};
use crate::evict::{Eviction, EvictionOutcome};
use crate::ledger::Ledger;
use crate::metrics::EvictionResult;
use crate::pods::Workload;

/// The result of a request.
pub(super) enum Completion {
    Eviction { sent: Sent, outcome: EvictionOutcome },
    LedgerRead { term: u64, read: Result<Ledger, CallError> },
    LedgerWritten { term: u64, written: Result<Ledger, CallError> },
}

/// An eviction that was sent.
pub(super) struct Sent {
    pub(super) eviction: Eviction,
    pub(super) node: String,
    pub(super) workload: Arc<Workload>,
}

impl Enforcer {
    pub(super) fn apply_completion(&mut self, completion: Completion) {
        match completion {
            Completion::Eviction { sent, outcome } => {
                self.n_in_flight -= 1;
                self.eviction_completed(&sent, outcome);
                let Eviction { namespace, name, uid, .. } = &sent.eviction;
                if self.pods.get(namespace, name).is_none_or(|known| *known.uid != **uid) {
                    // The pod was deleted before the answer arrived: its entry must not be kept.
                    self.forget_pod(uid);
                }
                self.evaluate_by(Instant::now());
            }
            Completion::LedgerRead { term, read } => self.ledger_read(term, read),
            Completion::LedgerWritten { term, written } => self.ledger_written(term, written),
        }
    }

    fn eviction_completed(&mut self, sent: &Sent, outcome: EvictionOutcome) {
        let Eviction { uid, message, .. } = &sent.eviction;
        let pod = format!("{}/{}", sent.eviction.namespace, sent.eviction.name);
        if let Some(evicting) = self.evicting.get_mut(uid) {
            evicting.is_in_flight = false;
        }
        match outcome {
            EvictionOutcome::Evicted => {
                self.current.n_evicted += 1;
                self.metrics.evicted(EvictionResult::Evicted);
                self.retries.remove(uid);
                tracing::info!(pod, node = sent.node, "evicted: {message}");
                self.report_evicted(sent);
            }
            EvictionOutcome::Deleted => {
                self.metrics.evicted(EvictionResult::Gone);
                self.cancel(uid);
            }
            EvictionOutcome::NotSent => {
                self.evicting.remove(uid);
                self.cancel(uid);
            }
            EvictionOutcome::Refused(error) => {
                self.current.n_refused += 1;
                self.metrics.evicted(EvictionResult::Refused);
                tracing::info!(pod, node = sent.node, "eviction rejected: {error}");
                self.evicting.remove(uid);
                self.cancel(uid);
                self.retry(uid, error.retry_after(), true);
                self.report_refused(sent, &error);
            }
            EvictionOutcome::Failed { error, is_certain } => {
                self.current.n_failed += 1;
                self.metrics.evicted(EvictionResult::Failed);
                tracing::warn!(pod, node = sent.node, is_certain, "eviction failed: {error}");
                self.evicting.remove(uid);
                if is_certain {
                    self.cancel(uid);
                } else {
                    self.uncertain.insert(uid.clone());
                }
                self.retry(uid, error.retry_after(), false);
                self.report_failed(sent, &error);
            }
            EvictionOutcome::Unknown(error) => {
                tracing::warn!(pod, node = sent.node, "the result of the eviction is unknown: {error}");
                self.current.n_failed += 1;
                self.metrics.evicted(EvictionResult::Failed);
                self.uncertain.insert(uid.clone());
                self.evicting.remove(uid);
            }
        }
    }

    fn retry(&mut self, uid: &str, asked: Option<Duration>, is_refused: bool) {
        let (first, longest) = (self.options.first_backoff, self.options.longest_backoff);
        let fresh =
            || Retry { backoff: Backoff::new(first, longest), not_before: Instant::now(), is_refused };
        let retry = self.retries.entry(uid.to_owned()).or_insert_with(fresh);
        let wait = retry.backoff.failed(fastrand::f64());
        retry.not_before = Instant::now() + asked.map_or(wait, |asked| asked.max(wait));
        retry.is_refused = is_refused;
    }
}
