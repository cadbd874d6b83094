//! Unschedulable pods that are equivalent for all rules.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::rank::{PodId, Rank, Ranked, ranked};

/// A group of unschedulable pods with one failure.
pub(super) struct Group<F> {
    pub(super) failure: F,
    /// Members whose back-off is over, or that never failed themselves.
    ready: BTreeSet<Ranked>,
    /// Members that failed recently, by the end of their back-off.
    backoff: BTreeSet<(Instant, Ranked)>,
    /// One of its pods is being decided; the others wait for the result.
    pub(super) is_out: bool,
    /// Since when none of its pods was decided.
    pub(super) idle_since: Instant,
}

impl<F> Group<F> {
    pub(super) fn new(failure: F, now: Instant) -> Group<F> {
        Group { failure, ready: BTreeSet::new(), backoff: BTreeSet::new(), is_out: false, idle_since: now }
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.backoff.len()
    }

    pub(super) fn insert(&mut self, id: PodId, rank: Rank, not_before: Option<Instant>) {
        match not_before {
            Some(at) => _ = self.backoff.insert((at, ranked(id, rank))),
            None => _ = self.ready.insert(ranked(id, rank)),
        }
    }

    pub(super) fn remove(&mut self, id: PodId, rank: Rank, not_before: Option<Instant>) {
        let member = ranked(id, rank);
        self.ready.remove(&member);
        if let Some(at) = not_before {
            self.backoff.remove(&(at, member));
        }
    }

    /// Whether it has no members, and none is being decided.
    pub(super) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.backoff.is_empty() && !self.is_out
    }

    pub(super) fn first(&mut self, now: Instant) -> Option<PodId> {
        while let Some((at, member)) = self.backoff.first().copied()
            && at <= now
        {
            self.backoff.pop_first();
            self.ready.insert(member);
        }
        let first = self.ready.first().or_else(|| self.backoff.first().map(|(_, member)| member))?;
        Some(first.2)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = PodId> {
        self.ready.iter().chain(self.backoff.iter().map(|(_, member)| member)).map(|member| member.2)
    }
}
