//! The state of the limiter, as the ledger stores it.

use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::repeat_guard::RepeatGuard;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LimiterState {
    pub(super) evictions: Vec<Entry>,
    pub(super) rounds: RepeatGuard,
    /// Since when the cluster limit stops evictions, in milliseconds since 1970.
    pub(super) stopped_at: Option<i64>,
}

impl LimiterState {
    /// `metadata.uid` of the pods whose evictions are in it.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &str> {
        self.evictions.iter().map(|entry| entry.uid.as_str())
    }
}
