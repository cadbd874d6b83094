//! Eviction loops: a workload whose pods are replaced into the violation that the ones before them were evicted for.
//!
//! Pods of a workload that are evicted for one term are of the same *round* as long as they were all there when the
//! round began; a pod that appeared after that and has to go for the same term opens the next one. Thus a workload
//! with a hundred pods on a node whose label changed takes one round, and a single pod that is put back to where it
//! may not be takes one each time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::throttled::{Brake, Throttled};
use super::{BrakeOptions, Candidate, ENTRY_BYTES, after, before, millis, of_millis};

/// What one begin takes when written down.
const BEGIN_BYTES: usize = 16;

/// By workload and term, when each round of the window began, in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<LedgerSync>", into = "Vec<LedgerSync>")]
pub(super) struct RepeatGuard {
    began: BTreeMap<(String, String), Vec<i64>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct LedgerSync {
    workload: String,
    term: String,
    began: Vec<i64>,
}

impl From<RepeatGuard> for Vec<LedgerSync> {
    fn from(rounds: RepeatGuard) -> Self {
        let written = |((workload, term), began)| LedgerSync { workload, term, began };
        rounds.began.into_iter().map(written).collect()
    }
}

impl From<Vec<LedgerSync>> for RepeatGuard {
    fn from(written: Vec<LedgerSync>) -> Self {
        let read = |LedgerSync { workload, term, began }| ((workload, term), began);
        RepeatGuard { began: written.into_iter().map(read).collect() }
    }
}

fn key(candidate: &Candidate<'_>) -> (String, String) {
    (candidate.workload.to_owned(), candidate.term.to_owned())
}

impl RepeatGuard {
    /// Whether a candidate would open one round too many.
    pub(super) fn held(&self, candidate: &Candidate<'_>, options: &BrakeOptions) -> Option<Throttled> {
        let began = self.began.get(&key(candidate))?;
        let max = options.max_repeats as usize;
        // RepeatGuard over by the time it appeared.
        let n_before = began.partition_point(|began| *began < millis(candidate.seen_at));
        let oldest_in_the_way = began.get(n_before.checked_sub(max.max(1))?)?;
        let until = after(of_millis(*oldest_in_the_way), options.repeat_window);
        Some(Throttled {
            brake: Brake::Repeats,
            n: n_before,
            limit: max,
            window: options.repeat_window,
            until,
        })
    }

    /// A candidate is evicted.
    pub(super) fn count(&mut self, candidate: &Candidate<'_>, now: Timestamp) {
        let began = self.began.entry(key(candidate)).or_default();
        if began.last().is_none_or(|last| *last < millis(candidate.seen_at)) {
            began.push(millis(now));
        }
    }

    /// An eviction at `at` was not carried out; the last one left for the same workload and term was at `last_other`.
    pub(super) fn cancel(&mut self, workload: &str, term: &str, at: i64, last_other: Option<i64>) {
        let key = (workload.to_owned(), term.to_owned());
        let Some(began) = self.began.get_mut(&key) else { return };
        let is_alone = last_other.is_none_or(|other| other < at);
        if is_alone && began.last() == Some(&at) {
            began.pop();
        }
        if began.is_empty() {
            self.began.remove(&key);
        }
    }

    pub(super) fn adopt(&mut self, other: RepeatGuard, now: Timestamp) {
        for (key, theirs) in other.began {
            let began = self.began.entry(key).or_default();
            began.extend(theirs.into_iter().map(|at| at.min(millis(now))));
            began.sort_unstable();
            began.dedup();
        }
    }

    pub(super) fn expire(&mut self, now: Timestamp, window: Duration) {
        let oldest = millis(before(now, window));
        self.began.retain(|_, began| {
            began.retain(|at| *at > oldest);
            !began.is_empty()
        });
    }

    /// What it takes when written down.
    pub(super) fn n_bytes(&self) -> usize {
        let of = |((workload, term), began): (&(String, String), &Vec<i64>)| {
            ENTRY_BYTES + workload.len() + term.len() + began.len() * BEGIN_BYTES
        };
        self.began.iter().map(of).sum()
    }
}
