//! Results of requests.

use jiff::Timestamp;
use tokio::time::Instant;

use super::enforcer::Enforcer;
use crate::completion::{Completion, Sent};
use crate::evict::{Eviction, EvictionOutcome};
use crate::metrics::EvictionResult;

impl Enforcer {
    pub(super) fn apply_completion(&mut self, completion: Completion) {
        let now = Instant::now();
        let is_over = match completion {
            Completion::Eviction { sent, outcome } => {
                self.evictions.completed();
                self.step_sent(&sent.eviction.uid, &outcome, now);
                self.eviction_completed(&sent, outcome);
                let Eviction { namespace, name, uid, .. } = &sent.eviction;
                if self.pods.get(namespace, name).is_none_or(|pod| *pod.uid != **uid) {
                    // The pod was deleted before the answer arrived: its entry must not be kept.
                    self.forget_pod(uid);
                }
                true
            }
            Completion::Planned(answer) => {
                self.answered(*answer, now);
                false
            }
            Completion::Marked { uid, marked } => {
                self.step_marked(&uid, marked, now);
                false
            }
            Completion::LedgerRead { term, read } => self.limits.ledger_read(term, read, Timestamp::now()),
            Completion::LedgerWritten { term, written } => self.limits.ledger.written(term, written),
        };
        if is_over {
            self.timer.set(now);
        }
    }

    fn eviction_completed(&mut self, sent: &Sent, outcome: EvictionOutcome) {
        let Eviction { uid, message, .. } = &sent.eviction;
        let pod = format!("{}/{}", sent.eviction.namespace, sent.eviction.name);
        match outcome {
            EvictionOutcome::Evicted => {
                self.reporter.current.n_evicted += 1;
                self.metrics.evicted(EvictionResult::Evicted);
                self.evictions.succeeded(uid);
                tracing::info!(pod, node = sent.node, "evicted: {message}");
                self.events.evicted(sent);
            }
            EvictionOutcome::Deleted => {
                self.metrics.evicted(EvictionResult::Gone);
                self.limits.cancel(uid);
            }
            EvictionOutcome::NotSent => {
                self.evictions.remove(uid);
                self.limits.cancel(uid);
            }
            EvictionOutcome::Refused(error) => {
                self.reporter.current.n_refused += 1;
                self.metrics.evicted(EvictionResult::Refused);
                tracing::info!(pod, node = sent.node, "eviction rejected: {error}");
                self.evictions.remove(uid);
                self.limits.cancel(uid);
                self.evictions.retry(uid, &error, true);
                self.events.refused(sent, &error);
            }
            EvictionOutcome::Failed { error, is_certain } => {
                self.reporter.current.n_failed += 1;
                self.metrics.evicted(EvictionResult::Failed);
                tracing::warn!(pod, node = sent.node, is_certain, "eviction failed: {error}");
                self.evictions.remove(uid);
                if is_certain {
                    self.limits.cancel(uid);
                } else {
                    self.limits.keep_counted(uid);
                }
                self.evictions.retry(uid, &error, false);
                self.events.failed(sent, &error);
            }
            EvictionOutcome::Unknown(error) => {
                tracing::warn!(pod, node = sent.node, "the result of the eviction is unknown: {error}");
                self.reporter.current.n_failed += 1;
                self.metrics.evicted(EvictionResult::Failed);
                self.limits.keep_counted(uid);
                self.evictions.remove(uid);
            }
        }
    }
}
