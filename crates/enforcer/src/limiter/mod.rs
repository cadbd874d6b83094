//! EvictionLimiter: how many evictions are too many.
//!
//! A pure state machine: the time is handed in, and what it remembers can be taken out and put back, so that a
//! process that takes over goes on counting where the one before it stopped. What is remembered is an [`Entry`] for
//! each eviction of the last window and the [`rounds`] of each workload, bounded in bytes: what does not fit any more
//! is not evicted.
//!
//! An eviction is *reserved* before it is sent. It is taken back only if it was certainly not carried out.

mod repeat_guard;
mod throttled;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use repeat_guard::RepeatGuard;
pub(crate) use throttled::{Brake, Throttled};

/// A share of a small cluster is at least so many pods.
pub const LEAST_CLUSTER_LIMIT: usize = 5;
/// What is remembered may take no more than this when written down: a ConfigMap takes a MiB.
const MAX_BYTES: usize = 800 << 10;
/// What an entry takes besides its texts.
const ENTRY_BYTES: usize = 90;

/// How many evictions are too many.
#[derive(Clone, Debug, PartialEq)]
pub struct BrakeOptions {
    /// The window in which evictions are counted.
    pub window: Duration,
    /// Evictions per second, at most.
    pub evictions_per_second: f64,
    /// Evictions from one node within the window, at most.
    pub max_per_node: u32,
    /// Evictions from one namespace within the window, at most.
    pub max_per_namespace: u32,
    /// The share of the cluster's pods, between 0 and 1, that may go within the window; at least 5 pods may. When
    /// more would go, none does for the length of a window, and from then on no more than these. 1 is no limit.
    pub max_cluster_share: f64,
    /// The share of one workload's pods, between 0 and 1, that may go within the window; at least one pod may. 1 is
    /// no limit.
    pub max_workload_share: f64,
    /// How often in a row a workload's pods may be evicted for the same term, each time replaced into the same
    /// violation, within `repeat_window`.
    pub max_repeats: u32,
    /// The window in which repeats are counted.
    pub repeat_window: Duration,
}

impl Default for BrakeOptions {
    fn default() -> Self {
        BrakeOptions {
            window: Duration::from_secs(600),
            evictions_per_second: 5.0,
            max_per_node: 10,
            max_per_namespace: 100,
            max_cluster_share: 0.1,
            max_workload_share: 0.5,
            max_repeats: 3,
            repeat_window: Duration::from_secs(3600),
        }
    }
}

/// A pod that is to be evicted, as brakes look at it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) uid: &'a str,
    pub(crate) node: &'a str,
    pub(crate) namespace: &'a str,
    /// The controller that owns the pod, or the pod itself.
    pub(crate) workload: &'a str,
    /// Path of the term for which it goes.
    pub(crate) term: &'a str,
    /// When it appeared, as far as this process knows.
    pub(crate) seen_at: Timestamp,
    /// Pods of its workload that are there now.
    pub(crate) n_workload_pods: usize,
}

/// An eviction of the last window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Milliseconds since 1970.
    at: i64,
    uid: String,
    node: String,
    namespace: String,
    workload: String,
    term: String,
}

impl Entry {
    fn n_bytes(&self) -> usize {
        let Entry { at: _, uid, node, namespace, workload, term } = self;
        ENTRY_BYTES + uid.len() + node.len() + namespace.len() + workload.len() + term.len()
    }
}

/// What brakes remember, as it is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    evictions: Vec<Entry>,
    rounds: RepeatGuard,
}

impl Memory {
    /// `metadata.uid` of the pods whose evictions are in it.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &str> {
        self.evictions.iter().map(|entry| entry.uid.as_str())
    }
}

/// What happened to the brake on the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterBrake {
    /// More would go than may: it holds.
    Engaged(Throttled),
    /// No more would go than may.
    Released,
}

/// How many went, and who may go.
#[derive(Debug)]
pub(crate) struct EvictionLimiter {
    options: BrakeOptions,
    /// By time.
    entries: Vec<Entry>,
    uids: HashSet<String>,
    n_by_node: HashMap<String, usize>,
    n_by_namespace: HashMap<String, usize>,
    n_by_workload: HashMap<String, usize>,
    n_bytes: usize,
    rounds: RepeatGuard,
    /// When the last evictions were reserved, in order: as many as may follow each other at once.
    recent: VecDeque<Timestamp>,
    cluster_limit: usize,
    /// Since when more would go than may.
    engaged_at: Option<Timestamp>,
}

fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

fn of_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn after(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.saturating_sub(wait).unwrap_or(Timestamp::MIN)
}

/// A share of so many, rounded down, and no less than `least`. The whole is no limit.
fn limit(share: f64, n: usize, least: usize) -> usize {
    if share >= 1.0 {
        return usize::MAX;
    }
    ((n as f64 * share.clamp(0.0, 1.0)) as usize).max(least)
}

impl EvictionLimiter {
    pub(crate) fn new(options: BrakeOptions) -> EvictionLimiter {
        EvictionLimiter {
            options,
            entries: Vec::new(),
            uids: HashSet::new(),
            n_by_node: HashMap::new(),
            n_by_namespace: HashMap::new(),
            n_by_workload: HashMap::new(),
            n_bytes: 0,
            rounds: RepeatGuard::default(),
            recent: VecDeque::new(),
            cluster_limit: LEAST_CLUSTER_LIMIT,
            engaged_at: None,
        }
    }

    /// Before candidates are asked about: how many pods there are, and how many would go if nothing held them.
    /// Tells when that engages or releases the brake on the whole cluster.
    pub(crate) fn survey(
        &mut self,
        n_pods: usize,
        n_would_go: usize,
        now: Timestamp,
    ) -> Option<ClusterBrake> {
        self.expire(now);
        self.cluster_limit = limit(self.options.max_cluster_share, n_pods, LEAST_CLUSTER_LIMIT);
        let n = self.entries.len() + n_would_go;
        match (n > self.cluster_limit, self.engaged_at) {
            (true, None) => {
                self.engaged_at = Some(now);
                let until = after(now, self.options.window);
                Some(ClusterBrake::Engaged(self.held(Brake::Cluster, n, self.cluster_limit, until)))
            }
            (false, Some(_)) => {
                self.engaged_at = None;
                Some(ClusterBrake::Released)
            }
            _ => None,
        }
    }

    /// Whether the brake on the whole cluster goes on holding everybody back, given that about so many would go. It
    /// need not be asked then who exactly.
    pub(crate) fn holds_all(&mut self, n_would_go: usize, now: Timestamp) -> Option<Throttled> {
        self.expire(now);
        let n = self.entries.len() + n_would_go;
        let until = self.engaged_at.map(|at| after(at, self.options.window)).filter(|until| now < *until)?;
        (n > self.cluster_limit).then(|| self.held(Brake::Cluster, n, self.cluster_limit, until))
    }

    /// Whether more would go than may.
    pub(crate) fn is_engaged(&self) -> bool {
        self.engaged_at.is_some()
    }

    #[cfg(test)]
    fn n_evictions(&self) -> usize {
        self.entries.len()
    }

    /// Whether a workload keeps being replaced into the same violation. Such pods do not count among those that
    /// would go.
    pub(crate) fn repeats(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Option<Throttled> {
        self.expire(now);
        self.rounds.held(candidate, &self.options)
    }

    /// Counts an eviction that is about to be sent. One that is counted already, by whomever, is not counted again.
    ///
    /// # Errors
    /// What holds it back, and until when.
    pub(crate) fn reserve(&mut self, candidate: &Candidate<'_>, now: Timestamp) -> Result<(), Throttled> {
        self.expire(now);
        if self.is_reserved(candidate.uid) {
            return Ok(());
        }
        if let Some(held) = self.rounds.held(candidate, &self.options) {
            return Err(held);
        }
        self.check_cluster(now)?;
        let options = &self.options;
        let workload_limit = limit(options.max_workload_share, candidate.n_workload_pods, 1);
        let (per_namespace, per_node) = (options.max_per_namespace as usize, options.max_per_node as usize);
        self.check_limit(Brake::Workload, candidate.workload, workload_limit, now)?;
        self.check_limit(Brake::Namespace, candidate.namespace, per_namespace, now)?;
        self.check_limit(Brake::Node, candidate.node, per_node, now)?;
        let entry = Entry {
            at: millis(now),
            uid: candidate.uid.to_owned(),
            node: candidate.node.to_owned(),
            namespace: candidate.namespace.to_owned(),
            workload: candidate.workload.to_owned(),
            term: candidate.term.to_owned(),
        };
        if self.n_bytes + self.rounds.n_bytes() + 2 * entry.n_bytes() > MAX_BYTES {
            let until = self.room_at(1, 1, |_| true, now);
            return Err(self.held(Brake::Memory, self.entries.len() + 1, self.entries.len(), until));
        }
        self.take_turn(now)?;
        self.rounds.count(candidate, now);
        self.add(entry);
        Ok(())
    }

    /// Evictions come as many at once as go in a second, or one by one if that is less.
    fn take_turn(&mut self, now: Timestamp) -> Result<(), Throttled> {
        let per_second = self.options.evictions_per_second.clamp(0.001, 1000.0);
        let n = per_second.floor().max(1.0);
        let period = Duration::from_secs_f64(n / per_second);
        while self.recent.len() > n as usize {
            self.recent.pop_front();
        }
        if let Some(first) = self.recent.front().filter(|_| self.recent.len() >= n as usize) {
            let next = after(*first, period);
            if now < next {
                return Err(self.held(Brake::Rate, n as usize + 1, n as usize, next));
            }
        }
        self.recent.push_back(now);
        Ok(())
    }

    fn check_limit(&self, brake: Brake, name: &str, limit: usize, now: Timestamp) -> Result<(), Throttled> {
        type Of = fn(&Entry) -> &String;
        let (counts, of): (_, Of) = match brake {
            Brake::Workload => (&self.n_by_workload, |e| &e.workload),
            Brake::Namespace => (&self.n_by_namespace, |e| &e.namespace),
            _ => (&self.n_by_node, |e| &e.node),
        };
        let n = counts.get(name).copied().unwrap_or(0);
        if n < limit {
            return Ok(());
        }
        Err(self.held(brake, n + 1, limit, self.room_at(n, limit, |e| of(e) == name, now)))
    }

    fn check_cluster(&self, now: Timestamp) -> Result<(), Throttled> {
        let n = self.entries.len();
        let opens = self.engaged_at.map(|at| after(at, self.options.window)).filter(|opens| now < *opens);
        if let Some(until) = opens {
            return Err(self.held(Brake::Cluster, n + 1, self.cluster_limit, until));
        }
        if n >= self.cluster_limit {
            let until = self.room_at(n, self.cluster_limit, |_| true, now);
            return Err(self.held(Brake::Cluster, n + 1, self.cluster_limit, until));
        }
        Ok(())
    }

    /// Whether an eviction of a pod is counted.
    pub(crate) fn is_reserved(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// An eviction was certainly not carried out. It takes none of the limits, but for the rate.
    pub(crate) fn cancel(&mut self, uid: &str) {
        let Some(i) = self.entries.iter().position(|entry| entry.uid == uid) else { return };
        let entry = self.entries.remove(i);
        self.discount(&entry);
        let is_of_round = |e: &Entry| e.workload == entry.workload && e.term == entry.term;
        let last_other = self.entries.iter().filter(|e| is_of_round(e)).map(|e| e.at).max();
        self.rounds.cancel(&entry.workload, &entry.term, entry.at, last_other);
    }

    /// What is remembered.
    pub(crate) fn memory(&self) -> Memory {
        Memory { evictions: self.entries.clone(), rounds: self.rounds.clone() }
    }

    /// Goes on counting from what somebody else remembered as well.
    pub(crate) fn adopt(&mut self, memory: Memory, now: Timestamp) {
        for mut entry in memory.evictions {
            // Another machine's clock may be ahead; what was done was done before now.
            entry.at = entry.at.min(millis(now));
            if !self.is_reserved(&entry.uid) {
                self.add(entry);
            }
        }
        self.entries.sort_by_key(|entry| entry.at);
        self.rounds.adopt(memory.rounds, now);
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

    /// Forgets what is older than its window.
    fn expire(&mut self, now: Timestamp) {
        let oldest = millis(before(now, self.options.window));
        let n = self.entries.partition_point(|entry| entry.at <= oldest);
        let expired: Vec<Entry> = self.entries.drain(..n).collect();
        expired.iter().for_each(|entry| self.discount(entry));
        // A clock that was set back: what lies ahead happened at the latest now.
        let now_millis = millis(now);
        self.entries.iter_mut().rev().take_while(|e| e.at > now_millis).for_each(|e| e.at = now_millis);
        self.recent.iter_mut().for_each(|at| *at = (*at).min(now));
        self.engaged_at = self.engaged_at.map(|at| at.min(now));
        self.rounds.expire(now, self.options.repeat_window);
    }

    /// When one more of those that count `n` now may go, of whom no more than `limit` may within a window.
    fn room_at(&self, n: usize, limit: usize, counts: impl Fn(&Entry) -> bool, now: Timestamp) -> Timestamp {
        // So many have to be forgotten first.
        let n_over = (n + 1).saturating_sub(limit.max(1));
        let last = self.entries.iter().filter(|e| counts(e)).nth(n_over.saturating_sub(1));
        after(last.map_or(now, |entry| of_millis(entry.at)), self.options.window)
    }

    fn held(&self, brake: Brake, n: usize, limit: usize, until: Timestamp) -> Throttled {
        Throttled { brake, n, limit, window: self.options.window, until }
    }
}

#[cfg(test)]
mod tests;
