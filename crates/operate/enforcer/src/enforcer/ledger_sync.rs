//! When the ledger is read and written: one request at a time, and before an eviction is sent.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_client::Backoff;
use berth_client::call::CallError;
use berth_client::ledger::LedgerClient;
use tokio::time::Instant;

use super::Enforcer;
use super::completions::Completion;
use crate::ledger::{DESCRIPTION, Ledger};
use crate::options::EnforcerOptions;

/// The ledger's state in this process.
enum State {
    /// It must be read.
    Unknown,
    /// A request is in flight.
    InFlight,
    /// As last read or written.
    Known(Ledger),
}

pub(super) struct LedgerSync {
    pub(super) client: Arc<LedgerClient>,
    state: State,
    /// Whether it was read during this leadership.
    is_read: bool,
    /// Number of the leadership. Responses of earlier ones are ignored.
    pub(super) term: u64,
    /// Pods whose eviction is in the ledger, by uid.
    uids: HashSet<String>,
    /// Whether the limiter has changes to be written.
    is_dirty: bool,
    backoff: Backoff,
    not_before: Instant,
    /// `metadata.uid` of the ConfigMap.
    pub(super) uid: String,
}

impl LedgerSync {
    pub(super) fn new(client: kube::Client, options: &EnforcerOptions) -> LedgerSync {
        let client = LedgerClient {
            client,
            namespace: options.ledger_namespace.clone(),
            name: options.ledger_name.clone(),
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
        }
    }

    /// Whether it was read, so that the limiter counts all earlier evictions.
    pub(super) fn is_known(&self) -> bool {
        self.is_read
    }

    /// Whether a pod's eviction is in the ledger.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// A pod's entry does not count any more: a later eviction must be written again.
    pub(super) fn remove(&mut self, uid: &str) {
        self.uids.remove(uid);
    }

    /// The limiter has changes to be written.
    pub(super) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// When to read or write next. A process that does not keep the ledger never wakes for it.
    pub(super) fn retry_at(&self, keeps_ledger: bool) -> Option<Instant> {
        let waits = match self.state {
            _ if !keeps_ledger => false,
            State::Unknown => true,
            State::InFlight => false,
            State::Known(_) => self.is_dirty,
        };
        waits.then_some(self.not_before)
    }

    /// Another process leads, and writes the ledger.
    pub(super) fn reset(&mut self) {
        self.state = State::Unknown;
        self.is_read = false;
        self.uids.clear();
        self.term += 1;
    }
}

impl Enforcer {
    /// Reads or writes the ledger, if necessary.
    pub(super) fn sync_ledger(&mut self, now: Instant) {
        if !self.keeps_ledger() || now < self.ledger.not_before {
            return;
        }
        let (place, completed, term) = (self.ledger.client.clone(), self.completed.clone(), self.ledger.term);
        match std::mem::replace(&mut self.ledger.state, State::InFlight) {
            State::InFlight => {}
            State::Unknown => {
                self.tasks.spawn(async move {
                    let read = place.read().await;
                    // The receiver is gone when the enforcer has ended.
                    let _ = completed.send(Completion::LedgerRead { term, read });
                });
            }
            State::Known(before) if self.ledger.is_dirty => {
                self.ledger.is_dirty = false;
                let memory = self.limiter.export();
                self.tasks.spawn(async move {
                    let written = place.write(before, memory).await;
                    let _ = completed.send(Completion::LedgerWritten { term, written });
                });
            }
            known => self.ledger.state = known,
        }
    }

    pub(super) fn ledger_read(&mut self, term: u64, read: Result<Ledger, CallError>) {
        if term != self.ledger.term {
            return;
        }
        match read {
            Ok(ledger) => {
                // Reservations that are not in it are made again at the next selection, with all that is in it.
                self.reserved.clear();
                self.limiter.import(ledger.content.clone(), jiff::Timestamp::now());
                self.ledger_synced(ledger);
                self.ledger.is_read = true;
            }
            Err(error) => self.ledger_failed(&error),
        }
    }

    pub(super) fn ledger_written(&mut self, term: u64, written: Result<Ledger, CallError>) {
        if term != self.ledger.term {
            return;
        }
        match written {
            Ok(ledger) => self.ledger_synced(ledger),
            Err(error) => {
                self.ledger.is_dirty = true;
                self.ledger_failed(&error);
            }
        }
    }

    fn ledger_synced(&mut self, ledger: Ledger) {
        self.ledger.uids = ledger.content.uids().map(str::to_owned).collect();
        ledger.uid().clone_into(&mut self.ledger.uid);
        self.ledger.state = State::Known(ledger);
        self.ledger.backoff.succeeded();
        self.evaluate_by(Instant::now());
    }

    /// The result is unknown, or another process wrote the ledger: it is read again.
    fn ledger_failed(&mut self, error: &CallError) {
        self.metrics.ledger_failures.inc();
        tracing::warn!("the ledger is not available, no pods are evicted: {error}");
        let wait = self.ledger.backoff.failed(fastrand::f64());
        self.ledger.not_before = Instant::now() + error.retry_after().unwrap_or(wait);
        self.ledger.state = State::Unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_standby_and_a_dry_run_do_not_wake_for_a_ledger_that_they_do_not_keep() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = kube::Client::try_from(config).unwrap();
        let mut written = LedgerSync::new(client, &EnforcerOptions::default());
        assert_eq!(written.retry_at(true), Some(written.not_before));
        assert_eq!(written.retry_at(false), None);
        written.state = State::Known(Ledger::default());
        assert_eq!(written.retry_at(true), None);
        written.mark_dirty();
        assert_eq!(written.retry_at(true), Some(written.not_before));
        assert_eq!(written.retry_at(false), None);
    }
}
