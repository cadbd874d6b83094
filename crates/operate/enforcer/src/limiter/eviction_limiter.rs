//! Counts evictions and applies the limits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::entry::{Candidate, Entry, GroupMember};
use super::options::{LEAST_CLUSTER_LIMIT, LimitOptions};
use super::repeat_guard::RepeatGuard;
use super::state::LimiterState;
use super::throttled::{LimitKind, Throttled};
use super::times::{after, before, millis, of_millis};

/// The largest size of the stored state: a ConfigMap holds 1 MiB.
pub(super) const MAX_BYTES: usize = 800 << 10;
/// A change of the cluster limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterStop {
    /// More pods would be evicted than the limit allows: all evictions stop.
    Started(Throttled),
    /// The number is within the limit again.
    Ended,
}

#[derive(Debug)]
pub(crate) struct EvictionLimiter {
    pub(super) options: LimitOptions,
    /// By time.
    pub(super) entries: Vec<Entry>,
    uids: HashSet<String>,
    n_by_node: HashMap<String, usize>,
    n_by_namespace: HashMap<String, usize>,
    n_by_workload: HashMap<String, usize>,
    n_bytes: usize,
    repeats: RepeatGuard,
    /// When the last evictions were reserved, in order: as many as may be sent at once.
    recent: VecDeque<Timestamp>,
    pub(super) cluster_limit: usize,
    /// Since when more pods would be evicted than the cluster limit allows.
    pub(super) stopped_at: Option<Timestamp>,
    /// This process, if several share the ledger; otherwise empty.
    sharer: String,
}

/// A share of `n`, rounded down, and at least `least`. A share of 1 is no limit.
pub(super) fn limit(share: f64, n: usize, least: usize) -> usize {
    if share >= 1.0 {
        return usize::MAX;
    }
    ((n as f64 * share.clamp(0.0, 1.0)) as usize).max(least)
}

impl EvictionLimiter {
    pub(crate) fn new(options: LimitOptions) -> EvictionLimiter {
        EvictionLimiter {
            options,
            entries: Vec::new(),
            uids: HashSet::new(),
            n_by_node: HashMap::new(),
            n_by_namespace: HashMap::new(),
            n_by_workload: HashMap::new(),
            n_bytes: 0,
            repeats: RepeatGuard::default(),
            recent: VecDeque::new(),
            cluster_limit: LEAST_CLUSTER_LIMIT,
            stopped_at: None,
            sharer: String::new(),
        }
    }

    /// Several processes evict at the same time; this one is `identity`.
    pub(crate) fn shared_as(self, identity: &str) -> EvictionLimiter {
        EvictionLimiter { sharer: identity.to_owned(), ..self }
    }

    /// Applies the cluster limit to a number of running pods and of pods that would be evicted without limits. Called before
    /// reservations. Returns whether a stop of all evictions started or ended.
    pub(crate) fn check_cluster_limit(
        &mut self,
        n_pods: usize,
        n_would_evict: usize,
        now: Timestamp,
    ) -> Option<ClusterStop> {
        self.expire(now);
        self.cluster_limit = limit(self.options.max_cluster_share, n_pods, LEAST_CLUSTER_LIMIT);
        let n = self.entries.len() + n_would_evict;
        match (n > self.cluster_limit, self.stopped_at) {
            (true, None) => {
                self.stopped_at = Some(now);
                let until = after(now, self.options.window);
                Some(ClusterStop::Started(self.throttled(LimitKind::Cluster, n, self.cluster_limit, until)))
            }
            (false, Some(_)) => {
                self.stopped_at = None;
                Some(ClusterStop::Ended)
            }
            _ => None,
        }
    }

    /// Whether all evictions stay stopped, given that about this many pods would be evicted. Then no victims need to be
    /// selected.
    pub(crate) fn stops_all(&mut self, n_would_evict: usize, now: Timestamp) -> Option<Throttled> {
        self.expire(now);
        let n = self.entries.len() + n_would_evict;
        let until = self.stopped_at.map(|at| after(at, self.options.window)).filter(|until| now < *until)?;
        (n > self.cluster_limit).then(|| self.throttled(LimitKind::Cluster, n, self.cluster_limit, until))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    #[cfg(test)]
    pub(super) fn n_evictions(&self) -> usize {
        self.entries.len()
    }

    /// Whether the replacements of a workload's pods repeatedly violate the same term. Such pods do not count as pods that
    /// would be evicted.
    pub(crate) fn repeats(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Option<Throttled> {
        self.expire(now);
        self.repeats.throttled(candidate, &self.options)
    }

    /// Counts an eviction that is about to be sent. One that is counted already is not counted again, and is left to the
    /// process that counted it. Returns whether the reservation is new, and so not in the ledger.
    ///
    /// # Errors
    /// The limit that delays it, and until when.
    pub(crate) fn reserve(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Result<bool, Throttled> {
        self.expire(now);
        if self.is_reserved(candidate.uid) {
            let entry =
                self.entries.iter().find(|entry| entry.uid == candidate.uid && entry.by != self.sharer);
            return entry.map_or(Ok(false), |entry| {
                let until = after(of_millis(entry.at), self.options.window);
                Err(self.throttled(LimitKind::OtherProcess, 1, 1, until))
            });
        }
        if let Some(throttled) = self.repeats.throttled(candidate, &self.options) {
            return Err(throttled);
        }
        self.check_cluster(now)?;
        let options = &self.options;
        let workload_limit = limit(options.max_workload_share, candidate.n_workload_pods, 1);
        let (per_namespace, per_node) = (options.max_per_namespace as usize, options.max_per_node as usize);
        self.check_limit(LimitKind::Workload, candidate.workload, workload_limit, now)?;
        self.check_limit(LimitKind::Namespace, candidate.namespace, per_namespace, now)?;
        self.check_limit(LimitKind::Node, candidate.node, per_node, now)?;
        let entry = Entry {
            at: millis(now),
            uid: candidate.uid.to_owned(),
            node: candidate.node.to_owned(),
            namespace: candidate.namespace.to_owned(),
            workload: candidate.workload.to_owned(),
            term: candidate.term.to_owned(),
            group: Vec::new(),
            by: self.sharer.clone(),
        };
        if self.n_bytes + self.repeats.n_bytes() + 2 * entry.n_bytes() > MAX_BYTES {
            let until = self.room_at(1, 1, |_| true, now);
            return Err(self.throttled(
                LimitKind::LedgerSize,
                self.entries.len() + 1,
                self.entries.len(),
                until,
            ));
        }
        self.check_rate(now)?;
        self.repeats.count(candidate, now);
        self.add(entry);
        Ok(true)
    }

    /// Evictions are sent in bursts of one second's number, or one by one if that is less than one.
    fn check_rate(&mut self, now: Timestamp) -> Result<(), Throttled> {
        let per_second = self.options.evictions_per_second.clamp(0.001, 1000.0);
        let n = per_second.floor().max(1.0);
        let period = Duration::from_secs_f64(n / per_second);
        while self.recent.len() > n as usize {
            self.recent.pop_front();
        }
        if let Some(first) = self.recent.front().filter(|_| self.recent.len() >= n as usize) {
            let next = after(*first, period);
            if now < next {
                return Err(self.throttled(LimitKind::Rate, n as usize + 1, n as usize, next));
            }
        }
        self.recent.push_back(now);
        Ok(())
    }

    fn check_limit(
        &self,
        limit_kind: LimitKind,
        name: &str,
        limit: usize,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        type Of = fn(&Entry) -> &String;
        let (counts, of): (_, Of) = match limit_kind {
            LimitKind::Workload => (&self.n_by_workload, |e| &e.workload),
            LimitKind::Namespace => (&self.n_by_namespace, |e| &e.namespace),
            _ => (&self.n_by_node, |e| &e.node),
        };
        let n = counts.get(name).copied().unwrap_or(0);
        if n < limit {
            return Ok(());
        }
        Err(self.throttled(limit_kind, n + 1, limit, self.room_at(n, limit, |e| of(e) == name, now)))
    }

    fn check_cluster(&self, now: Timestamp) -> Result<(), Throttled> {
        let n = self.entries.len();
        let opens = self.stopped_at.map(|at| after(at, self.options.window)).filter(|opens| now < *opens);
        if let Some(until) = opens {
            return Err(self.throttled(LimitKind::Cluster, n + 1, self.cluster_limit, until));
        }
        if n >= self.cluster_limit {
            let until = self.room_at(n, self.cluster_limit, |_| true, now);
            return Err(self.throttled(LimitKind::Cluster, n + 1, self.cluster_limit, until));
        }
        Ok(())
    }

    /// The workload of the last eviction for a term that begins so, and when it was counted.
    pub(crate) fn last_of(&self, term: &str) -> Option<(&str, Timestamp)> {
        let last = self.entries.iter().rev().find(|entry| entry.term.starts_with(term))?;
        Some((&last.workload, of_millis(last.at)))
    }

    /// The counted eviction of a pod is that of these pods, which are a group.
    pub(crate) fn set_group(&mut self, uid: &str, group: Vec<GroupMember>) {
        let Some(entry) = self.entries.iter_mut().rev().find(|entry| entry.uid == uid) else { return };
        self.n_bytes -= entry.n_bytes();
        entry.group = group;
        self.n_bytes += entry.n_bytes();
    }

    /// The counted evictions of groups, also those of other processes.
    pub(crate) fn of_groups(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.group.is_empty())
    }

    /// Whether an eviction of a pod is counted.
    pub(crate) fn is_reserved(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// An eviction was certainly not carried out. It does not count any more, except for the rate.
    pub(crate) fn cancel(&mut self, uid: &str) {
        let Some(i) = self.entries.iter().position(|entry| entry.uid == uid && entry.by == self.sharer)
        else {
            return;
        };
        let entry = self.entries.remove(i);
        self.discount(&entry);
        let is_of_round = |e: &Entry| e.workload == entry.workload && e.term == entry.term;
        let last_other = self.entries.iter().filter(|e| is_of_round(e)).map(|e| e.at).max();
        self.repeats.cancel(&entry.workload, &entry.term, entry.at, last_other);
    }

    pub(crate) fn export(&self) -> LimiterState {
        LimiterState {
            evictions: self.entries.clone(),
            rounds: self.repeats.clone(),
            stopped_at: self.stopped_at.map(millis),
        }
    }

    /// Imports the stored state. Reservations that are not in it are void: they were made without the evictions of other
    /// processes that are in it.
    pub(crate) fn import(&mut self, state: LimiterState, now: Timestamp) {
        let theirs = state.stopped_at.map(of_millis);
        *self = EvictionLimiter {
            cluster_limit: self.cluster_limit,
            sharer: std::mem::take(&mut self.sharer),
            // The stop is as long as a window, whichever process noticed it first.
            stopped_at: self.stopped_at.into_iter().chain(theirs).min(),
            repeats: state.rounds.not_after(now),
            ..EvictionLimiter::new(self.options.clone())
        };
        for mut entry in state.evictions {
            // Another machine's clock may be ahead.
            entry.at = entry.at.min(millis(now));
            if self.sharer.is_empty() {
                // The processes before this one have ended.
                entry.by.clear();
            }
            if !self.is_reserved(&entry.uid) {
                self.add(entry);
            }
        }
        self.entries.sort_by_key(|entry| entry.at);
        self.recent = self.entries.iter().map(|entry| of_millis(entry.at)).collect();
        self.expire(now);
    }

    fn add(&mut self, entry: Entry) {
        self.n_bytes += entry.n_bytes();
        *self.n_by_node.entry(entry.node.clone()).or_default() += 1;
        *self.n_by_namespace.entry(entry.namespace.clone()).or_default() += 1;
        *self.n_by_workload.entry(entry.workload.clone()).or_default() += 1;
        self.uids.insert(entry.uid.clone());
        self.entries.push(entry);
    }

    fn discount(&mut self, entry: &Entry) {
        self.n_bytes -= entry.n_bytes();
        self.uids.remove(&entry.uid);
        for (counts, name) in [
            (&mut self.n_by_node, &entry.node),
            (&mut self.n_by_namespace, &entry.namespace),
            (&mut self.n_by_workload, &entry.workload),
        ] {
            if let Some(n) = counts.get_mut(name) {
                *n -= 1;
                if *n == 0 {
                    counts.remove(name);
                }
            }
        }
    }

    /// Removes what is older than its window.
    fn expire(&mut self, now: Timestamp) {
        let oldest = millis(before(now, self.options.window));
        let n = self.entries.partition_point(|entry| entry.at <= oldest);
        let expired: Vec<Entry> = self.entries.drain(..n).collect();
        expired.iter().for_each(|entry| self.discount(entry));
        // The clock may have been set back: times in the future count as now.
        let now_millis = millis(now);
        self.entries.iter_mut().rev().take_while(|e| e.at > now_millis).for_each(|e| e.at = now_millis);
        self.recent.iter_mut().for_each(|at| *at = (*at).min(now));
        self.stopped_at = self.stopped_at.map(|at| at.min(now));
        self.repeats.expire(now, self.options.repeat_window);
    }

    /// When one more eviction is allowed, of `n` counted ones and `limit` within a window.
    fn room_at(&self, n: usize, limit: usize, counts: impl Fn(&Entry) -> bool, now: Timestamp) -> Timestamp {
        // This many must expire first.
        let n_over = (n + 1).saturating_sub(limit.max(1));
        let last = self.entries.iter().filter(|e| counts(e)).nth(n_over.saturating_sub(1));
        after(last.map_or(now, |entry| of_millis(entry.at)), self.options.window)
    }

    fn throttled(&self, limit_kind: LimitKind, n: usize, limit: usize, until: Timestamp) -> Throttled {
        Throttled { limit_kind, n, limit, window: self.options.window, until }
    }
}
