//! Eviction loops: replacements of evicted pods that violate the same rule again.
//!
//! Evictions of pods of one workload for one term belong to one *round* as long as all these pods existed when the round
//! began. The eviction of a newer pod for the same term starts the next round. So the eviction of a hundred pods from a
//! node whose label changed is one round, and each eviction of a pod that its controller puts back on a wrong node is
//! another one.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::entry::{Candidate, ENTRY_BYTES};
use super::options::LimitOptions;
use super::throttled::{LimitKind, Throttled};
use super::times::{after, before, millis, of_millis};

/// The stored size of a round's start.
const BEGIN_BYTES: usize = 16;

/// By workload and term, when each round of the window began, in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<StoredRounds>", into = "Vec<StoredRounds>")]
pub(super) struct RepeatGuard {
    began: BTreeMap<(String, String), Vec<i64>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredRounds {
    workload: String,
    term: String,
    began: Vec<i64>,
}

impl From<RepeatGuard> for Vec<StoredRounds> {
    fn from(rounds: RepeatGuard) -> Self {
        let stored = |((workload, term), began)| StoredRounds { workload, term, began };
        rounds.began.into_iter().map(stored).collect()
    }
}

impl From<Vec<StoredRounds>> for RepeatGuard {
    fn from(stored: Vec<StoredRounds>) -> Self {
        let read = |StoredRounds { workload, term, began }| ((workload, term), began);
        RepeatGuard { began: stored.into_iter().map(read).collect() }
    }
}

fn key(candidate: &Candidate<'_>) -> (String, String) {
    (candidate.workload.to_owned(), candidate.term.to_owned())
}

impl RepeatGuard {
    /// Whether a candidate would start a round beyond the limit.
    pub(super) fn throttled(&self, candidate: &Candidate<'_>, options: &LimitOptions) -> Option<Throttled> {
        let began = self.began.get(&key(candidate))?;
        let max = options.max_repeats as usize;
        // Rounds that had begun before the pod was created.
        let n_before = began.partition_point(|began| *began < millis(candidate.seen_at));
        let oldest_counted = began.get(n_before.checked_sub(max.max(1))?)?;
        let until = after(of_millis(*oldest_counted), options.repeat_window);
        Some(Throttled {
            limit_kind: LimitKind::Repeats,
            n: n_before,
            limit: max,
            window: options.repeat_window,
            until,
        })
    }

    pub(super) fn count(&mut self, candidate: &Candidate<'_>, now: Timestamp) {
        let began = self.began.entry(key(candidate)).or_default();
        if began.last().is_none_or(|last| *last < millis(candidate.seen_at)) {
            began.push(millis(now));
        }
    }

    /// An eviction at `at` was not carried out. The last other one for the same workload and term was at `last_other`.
    pub(super) fn cancel(&mut self, workload: &str, term: &str, at: i64, last_other: Option<i64>) {
        let key = (workload.to_owned(), term.to_owned());
        let Some(began) = self.began.get_mut(&key) else { return };
        let is_only = last_other.is_none_or(|other| other < at);
        if is_only && began.last() == Some(&at) {
            began.pop();
        }
        if began.is_empty() {
            self.began.remove(&key);
        }
    }

    /// The same, without times in the future: another machine's clock may be ahead.
    pub(super) fn not_after(mut self, now: Timestamp) -> RepeatGuard {
        for began in self.began.values_mut() {
            began.iter_mut().for_each(|at| *at = (*at).min(millis(now)));
            began.sort_unstable();
            began.dedup();
        }
        self
    }

    pub(super) fn expire(&mut self, now: Timestamp, window: Duration) {
        let oldest = millis(before(now, window));
        self.began.retain(|_, began| {
            began.retain(|at| *at > oldest);
            !began.is_empty()
        });
    }

    pub(super) fn n_bytes(&self) -> usize {
        let of = |((workload, term), began): (&(String, String), &Vec<i64>)| {
            ENTRY_BYTES + workload.len() + term.len() + began.len() * BEGIN_BYTES
        };
        self.began.iter().map(of).sum()
    }
}
