//! Requests in flight, and their results, which the enforcer's task receives through a channel.

use std::collections::HashMap;
use std::sync::Arc;

use berth_client::call::CallError;

use crate::evict::{Eviction, EvictionOutcome};
use crate::limiter::LimiterState;
use crate::pods::Workload;
use crate::rebalance::Answer;

/// The ledger as the API server has it.
pub(crate) type Ledger = berth_client::ledger::Ledger<LimiterState>;

pub(crate) enum Completion {
    Eviction { sent: Sent, outcome: EvictionOutcome },
    Planned(Box<Answer>),
    Marked { uid: String, marked: Result<Mark, CallError> },
    LedgerRead { term: u64, read: Result<Ledger, CallError> },
    LedgerWritten { term: u64, written: Result<Ledger, CallError> },
}

pub(crate) enum Mark {
    /// What the condition of the pod says.
    Written(String),
    /// It is not marked: controllers create no pods. Why, by uid.
    Absent(HashMap<String, String>),
}

pub(crate) struct Sent {
    pub(crate) eviction: Eviction,
    pub(crate) node: String,
    pub(crate) workload: Arc<Workload>,
}
