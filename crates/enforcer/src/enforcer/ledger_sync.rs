//! When the ledger is read and written: one request at a time, and nothing is evicted that is not written down.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_client::Backoff;
use berth_client::call::CallError;
use tokio::time::Instant;

use super::Enforcer;
use super::completions::Completion;
use crate::ledger::{Ledger, LedgerPlace};
use crate::options::EnforcerOptions;

/// What is known of the ledger.
enum State {
    /// Nothing: it has to be read.
    Unknown,
    /// A request is under way.
    Busy,
    /// It is as last read or written.
    Known(Ledger),
}

pub(super) struct LedgerSync {
    pub(super) place: Arc<LedgerPlace>,
    state: State,
    /// Whether it was read since this process leads.
    is_read: bool,
    /// Counts leaderships, so that what was asked in an earlier one is not taken for an answer.
    pub(super) term: u64,
    /// Pods whose eviction is written down, by uid.
    uids: HashSet<String>,
    /// Whether there is something to write that is waited for.
    is_wanted: bool,
    backoff: Backoff,
    not_before: Instant,
    /// `metadata.uid` of the ConfigMap.
    pub(super) uid: String,
}

impl LedgerSync {
    pub(super) fn new(client: kube::Client, options: &EnforcerOptions) -> LedgerSync {
        let place = LedgerPlace {
            client,
            namespace: options.ledger_namespace.clone(),
            name: options.ledger_name.clone(),
            timeout: options.request_timeout(),
        };
        LedgerSync {
            place: Arc::new(place),
            state: State::Unknown,
            is_read: false,
            term: 0,
            uids: HashSet::new(),
            is_wanted: false,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(10)),
            not_before: Instant::now(),
            uid: String::new(),
        }
    }

    /// Whether it was read, so that the brakes know all that went before.
    pub(super) fn is_known(&self) -> bool {
        self.is_read
    }

    /// Whether a pod's eviction is written down.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// What stands there about a pod counts no more: should it go after all, that is written anew.
    pub(super) fn took_back(&mut self, uid: &str) {
        self.uids.remove(uid);
    }

    /// What the brakes remember is to be written.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// When there is something to try again. Who keeps no ledger, because it only looks on, never wakes for it.
    pub(super) fn retry_at(&self, keeps_ledger: bool) -> Option<Instant> {
        let waits = match self.state {
            _ if !keeps_ledger => false,
            State::Unknown => true,
            State::Busy => false,
            State::Known(_) => self.is_wanted,
        };
        waits.then_some(self.not_before)
    }

    /// Somebody else leads, and writes.
    pub(super) fn forget(&mut self) {
        self.state = State::Unknown;
        self.is_read = false;
        self.uids.clear();
        self.term += 1;
    }
}

impl Enforcer {
    /// Reads or writes the ledger, if that is to be done.
    pub(super) fn keep_ledger(&mut self, now: Instant) {
        if !self.keeps_ledger() || now < self.written.not_before {
            return;
        }
        let (place, ended, term) = (self.written.place.clone(), self.ended.clone(), self.written.term);
        match std::mem::replace(&mut self.written.state, State::Busy) {
            State::Busy => {}
            State::Unknown => {
                self.tasks.spawn(async move {
                    let read = place.read().await;
                    // Nobody takes it when the enforcer has ended.
                    let _ = ended.send(Completion::LedgerRead { term, read });
                });
            }
            State::Known(before) if self.written.is_wanted => {
                self.written.is_wanted = false;
                let memory = self.brakes.memory();
                self.tasks.spawn(async move {
                    let written = place.write(before, memory).await;
                    let _ = ended.send(Completion::LedgerWritten { term, written });
                });
            }
            known => self.written.state = known,
        }
    }

    pub(super) fn ledger_read(&mut self, term: u64, read: Result<Ledger, CallError>) {
        if term != self.written.term {
            return;
        }
        match read {
            Ok(ledger) => {
                self.brakes.adopt(ledger.memory.clone(), jiff::Timestamp::now());
                self.ledger_is(ledger);
                self.written.is_read = true;
            }
            Err(error) => self.ledger_failed(&error),
        }
    }

    pub(super) fn ledger_written(&mut self, term: u64, written: Result<Ledger, CallError>) {
        if term != self.written.term {
            return;
        }
        match written {
            Ok(ledger) => self.ledger_is(ledger),
            Err(error) => {
                self.written.is_wanted = true;
                self.ledger_failed(&error);
            }
        }
    }

    fn ledger_is(&mut self, ledger: Ledger) {
        self.written.uids = ledger.memory.uids().map(str::to_owned).collect();
        ledger.uid().clone_into(&mut self.written.uid);
        self.written.state = State::Known(ledger);
        self.written.backoff.succeeded();
        self.judge_soon(Instant::now());
    }

    /// Whether it was written is not known, or somebody else did: it is read again.
    fn ledger_failed(&mut self, error: &CallError) {
        self.metrics.ledger_failures.inc();
        tracing::warn!("the ledger of evictions cannot be kept, and without it nobody is evicted: {error}");
        let wait = self.written.backoff.failed(fastrand::f64());
        self.written.not_before = Instant::now() + error.retry_after().unwrap_or(wait);
        self.written.state = State::Unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_standby_and_a_dry_run_do_not_wake_again_and_again_for_a_ledger_they_do_not_keep() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = kube::Client::try_from(config).unwrap();
        let mut written = LedgerSync::new(client, &EnforcerOptions::default());
        assert_eq!(written.retry_at(true), Some(written.not_before));
        assert_eq!(written.retry_at(false), None);
        written.state = State::Known(Ledger::default());
        assert_eq!(written.retry_at(true), None);
        written.want();
        assert_eq!(written.retry_at(true), Some(written.not_before));
        assert_eq!(written.retry_at(false), None);
    }
}
