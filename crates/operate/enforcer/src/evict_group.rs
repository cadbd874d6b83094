//! The eviction of a group that is disrupted as a whole: all of its pods, or none.
//!
//! Nothing is sent unless the PodDisruptionBudgets allow all pods to leave. Budgets can change between two evictions: once one pod is
//! evicted, those of the others are retried until they are carried out, this process stops or loses the leadership. The next process
//! finds the group in the ledger, and evicts the rest.

use std::time::Duration;

use berth_client::Backoff;
use berth_client::call::CallError;

use crate::completion::Sent;
use crate::evict::{EvictionOutcome, Evictor};

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

impl Evictor {
    /// Evicts the pods of a group, which are of one namespace, and reports what happened to each.
    pub(crate) async fn evict_all(&self, group: Vec<Sent>, report: impl Fn(Sent, EvictionOutcome)) {
        let mut group = group.into_iter();
        if let Err(error) = self.may_evict_all(group.as_slice()).await {
            let outcome = match error.code() {
                Some(429) => EvictionOutcome::Refused(error),
                _ => EvictionOutcome::Failed { error, is_certain: true },
            };
            if let Some(first) = group.next() {
                report(first, outcome);
            }
            group.for_each(|other| report(other, EvictionOutcome::NotSent));
            return;
        }
        self.evict_each(group.collect(), false, report).await;
    }

    /// Evicts the pods of a group one after the other, whatever the budgets allow after the first.
    pub(crate) async fn evict_each(
        &self,
        group: Vec<Sent>,
        mut any_evicted: bool,
        report: impl Fn(Sent, EvictionOutcome),
    ) {
        let mut group = group.into_iter();
        for sent in group.by_ref() {
            let outcome = self.evict_one_of(&sent, any_evicted).await;
            any_evicted |= matches!(outcome, EvictionOutcome::Evicted);
            let is_over = any_evicted || matches!(outcome, EvictionOutcome::Deleted);
            report(sent, outcome);
            if !is_over {
                break;
            }
        }
        group.for_each(|other| report(other, EvictionOutcome::NotSent));
    }

    async fn may_evict_all(&self, group: &[Sent]) -> Result<(), CallError> {
        let Some(first) = group.first() else { return Ok(()) };
        let names: Vec<&str> = group.iter().map(|sent| sent.eviction.name.as_str()).collect();
        let namespace = &first.eviction.namespace;
        berth_client::eviction::allows_all(&self.client, namespace, &names, self.timeout).await
    }

    /// Evicts a pod. With `must`, it is tried again: others of its group are evicted already.
    async fn evict_one_of(&self, sent: &Sent, must: bool) -> EvictionOutcome {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let outcome = self.evict(&sent.eviction).await;
            let (EvictionOutcome::Refused(error) | EvictionOutcome::Failed { error, .. }) = &outcome else {
                return outcome;
            };
            if !must {
                return outcome;
            }
            let wait = backoff.failed(fastrand::f64());
            tracing::info!(pod = sent.eviction.name, "the eviction of a pod of a group is retried: {error}");
            tokio::select! {
                () = self.stop.cancelled() => return outcome,
                () = tokio::time::sleep(error.retry_after().unwrap_or(wait)) => {}
            }
        }
    }
}
