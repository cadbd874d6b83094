//! The ledger: the state of the limiter in a ConfigMap, so that a restart never resets the limits.
//!
//! An eviction is sent only after it was written to the ledger. If the enforcer is killed in between, the ledger already
//! counts the evictions that it was about to send. One request is in flight at a time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_client::Backoff;
use berth_client::call::CallError;
use berth_client::events::ObjectReference;
use berth_client::ledger::LedgerClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::completion::{Completion, Ledger};
use crate::limiter::{EvictionLimiter, LimiterState};
use crate::metrics::Metrics;
use crate::options::EnforcerOptions;

/// Says in the ConfigMap what it is for.
const DESCRIPTION: &str = "Evictions that the limits of Berth's enforcer count. To reset the limits, stop the \
                           enforcer and delete this ConfigMap.";

/// The ledger's state in this process.
enum State {
    /// It must be read.
    Unknown,
    InFlight,
    /// As last read or written.
    Synced(Ledger),
}

pub(crate) struct LedgerSync {
    client: Arc<LedgerClient>,
    state: State,
    /// Whether it was read during this leadership.
    is_read: bool,
    /// Number of the leadership. Responses of earlier ones are ignored.
    term: u64,
    /// Pods whose eviction is in the ledger, by uid.
    uids: HashSet<String>,
    /// Whether the limiter has changes to be written.
    is_dirty: bool,
    backoff: Backoff,
    not_before: Instant,
    /// `metadata.uid` of the ConfigMap.
    uid: String,
    completed: mpsc::UnboundedSender<Completion>,
    tasks: JoinSet<()>,
    metrics: Arc<Metrics>,
}

impl LedgerSync {
    pub(crate) fn new(
        client: kube::Client,
        options: &EnforcerOptions,
        completed: mpsc::UnboundedSender<Completion>,
        metrics: Arc<Metrics>,
    ) -> LedgerSync {
        let client = LedgerClient {
            client,
            namespace: options.ledger_namespace.clone(),
            name: options.ledger_name.clone(),
            key: berth_client::ledger::KEY,
            description: DESCRIPTION,
            timeout: options.request_timeout(),
        };
        LedgerSync {
            client: Arc::new(client),
            state: State::Unknown,
            is_read: false,
            term: 0,
            uids: HashSet::new(),
            is_dirty: false,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(10)),
            not_before: Instant::now(),
            uid: String::new(),
            completed,
            tasks: JoinSet::new(),
            metrics,
        }
    }

    /// Whether it was read, so that the limiter counts all earlier evictions.
    pub(crate) fn is_known(&self) -> bool {
        self.is_read
    }

    /// Whether a pod's eviction is in the ledger.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// A pod's entry does not count any more: a later eviction must be written again.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.uids.remove(uid);
    }

    /// The limiter has changes to be written.
    pub(crate) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// When to read or write next. A process that does not keep the ledger never wakes for it.
    pub(crate) fn retry_at(&self, keeps_ledger: bool) -> Option<Instant> {
        let waits = match self.state {
            _ if !keeps_ledger => false,
            State::Unknown => true,
            State::InFlight => false,
            State::Synced(_) => self.is_dirty,
        };
        waits.then_some(self.not_before)
    }

    /// Another process leads, and writes the ledger.
    pub(crate) fn reset(&mut self) {
        self.state = State::Unknown;
        self.is_read = false;
        self.uids.clear();
        self.term += 1;
    }

    /// The ConfigMap, for events about it.
    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: self.client.namespace.clone(),
            name: self.client.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Reads or writes the ledger, if necessary.
    pub(crate) fn sync(&mut self, limiter: &EvictionLimiter, now: Instant) {
        while self.tasks.try_join_next().is_some() {}
        if now < self.not_before {
            return;
        }
        let (client, completed, term) = (self.client.clone(), self.completed.clone(), self.term);
        match std::mem::replace(&mut self.state, State::InFlight) {
            State::InFlight => {}
            State::Unknown => {
                self.tasks.spawn(async move {
                    let read = client.read().await;
                    // The receiver is gone when the enforcer has ended.
                    let _ = completed.send(Completion::LedgerRead { term, read });
                });
            }
            State::Synced(before) if self.is_dirty => {
                self.is_dirty = false;
                let content = limiter.export();
                self.tasks.spawn(async move {
                    let written = client.write(before, content).await;
                    let _ = completed.send(Completion::LedgerWritten { term, written });
                });
            }
            synced => self.state = synced,
        }
    }

    /// A read ended. Returns what the ledger contains.
    pub(crate) fn read(&mut self, term: u64, read: Result<Ledger, CallError>) -> Option<LimiterState> {
        if term != self.term {
            return None;
        }
        match read {
            Ok(ledger) => {
                let content = ledger.content.clone();
                self.synced(ledger);
                self.is_read = true;
                Some(content)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    /// A write ended. Returns whether the ledger contains what was written.
    pub(crate) fn written(&mut self, term: u64, written: Result<Ledger, CallError>) -> bool {
        if term != self.term {
            return false;
        }
        match written {
            Ok(ledger) => {
                self.synced(ledger);
                true
            }
            Err(error) => {
                self.is_dirty = true;
                self.failed(&error);
                false
            }
        }
    }

    fn synced(&mut self, ledger: Ledger) {
        self.uids = ledger.content.uids().map(str::to_owned).collect();
        ledger.uid().clone_into(&mut self.uid);
        self.state = State::Synced(ledger);
        self.backoff.succeeded();
    }

    /// The result is unknown, or another process wrote the ledger: it is read again.
    fn failed(&mut self, error: &CallError) {
        self.metrics.ledger_failures.inc();
        tracing::warn!("the ledger is not available, no pods are evicted: {error}");
        let wait = self.backoff.failed(fastrand::f64());
        self.not_before = Instant::now() + error.retry_after().unwrap_or(wait);
        self.state = State::Unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_standby_and_a_dry_run_do_not_wake_for_a_ledger_that_they_do_not_keep() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = kube::Client::try_from(config).unwrap();
        let metrics = Arc::new(Metrics::new(&mut prometheus_client::registry::Registry::default()));
        let (completed, _) = mpsc::unbounded_channel();
        let mut written = LedgerSync::new(client, &EnforcerOptions::default(), completed, metrics);
        assert_eq!(written.retry_at(true), Some(written.not_before));
        assert_eq!(written.retry_at(false), None);
        written.state = State::Synced(Ledger::default());
        assert_eq!(written.retry_at(true), None);
        written.mark_dirty();
        assert_eq!(written.retry_at(true), Some(written.not_before));
        assert_eq!(written.retry_at(false), None);
    }
}
