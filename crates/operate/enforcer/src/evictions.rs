//! The pods that are evicted, and those whose eviction is tried again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_api::object::OwnerReference;
use berth_client::Backoff;
use berth_client::call::CallError;
use berth_engine::{Remedy, ViolationKey};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::completion::{Completion, Mark, Sent};
use crate::controllers;
use crate::evict::{Eviction, Evictor};
use crate::options::EnforcerOptions;

/// A pod whose eviction was rejected or failed.
struct Retry {
    backoff: Backoff,
    not_before: Instant,
    /// Whether the API server rejected it, rather than the request failed.
    is_refused: bool,
    why: String,
}

pub(crate) struct Evictions {
    evictor: Evictor,
    completed: mpsc::UnboundedSender<Completion>,
    /// Requests in flight. Their number is limited, and so are their completions.
    tasks: JoinSet<()>,
    n_in_flight: usize,
    /// The rules that the evictions of pods fix, by uid, until the pods are deleted.
    evicting: HashMap<String, Vec<ViolationKey>>,
    retries: HashMap<String, Retry>,
    first_backoff: Duration,
    longest_backoff: Duration,
}

impl Evictions {
    pub(crate) fn new(
        evictor: Evictor,
        completed: mpsc::UnboundedSender<Completion>,
        options: &EnforcerOptions,
    ) -> Evictions {
        Evictions {
            evictor,
            completed,
            tasks: JoinSet::new(),
            n_in_flight: 0,
            evicting: HashMap::new(),
            retries: HashMap::new(),
            first_backoff: options.first_backoff,
            longest_backoff: options.longest_backoff,
        }
    }

    pub(crate) fn n_in_flight(&self) -> usize {
        self.n_in_flight
    }

    /// The number of pods that are evicted and not deleted yet.
    pub(crate) fn len(&self) -> usize {
        self.evicting.len()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.evicting.contains_key(uid)
    }

    pub(crate) fn fixed_rules(&self) -> HashSet<ViolationKey> {
        self.evicting.values().flatten().cloned().collect()
    }

    /// Removes the evictions of a dry run that fix no violated rule any more.
    pub(crate) fn retain_violated(&mut self, is_violated: impl Fn(&ViolationKey) -> bool) {
        self.evicting.retain(|_, rules| rules.iter().any(&is_violated));
    }

    /// A pod counts as evicted.
    pub(crate) fn add(&mut self, remedy: &Remedy) {
        self.evicting.insert(remedy.victim.uid.clone(), remedy.cures.clone());
    }

    /// A pod that fixes no rule counts as evicted.
    pub(crate) fn add_without_rule(&mut self, uid: &str) {
        self.evicting.insert(uid.to_owned(), Vec::new());
    }

    /// Sends the eviction of a pod, or those of all pods of a group. With `is_begun`, another pod of the group is evicted already.
    pub(crate) fn send(&mut self, mut group: Vec<Sent>, is_begun: bool) {
        self.n_in_flight += group.len();
        let (evictor, completed) = (self.evictor.clone(), self.completed.clone());
        self.tasks.spawn(async move {
            // The receiver is gone when the enforcer has ended.
            let report = |sent, outcome| _ = completed.send(Completion::Eviction { sent, outcome });
            if is_begun {
                return evictor.evict_each(group, true, report).await;
            }
            match group.pop() {
                Some(sent) if group.is_empty() => {
                    let outcome = evictor.evict(&sent.eviction).await;
                    report(sent, outcome);
                }
                last => {
                    group.extend(last);
                    evictor.evict_all(group, report).await;
                }
            }
        });
    }

    /// Marks a pod whose eviction is to be checked once more, if these controllers, with their namespaces, are there.
    pub(crate) fn mark(&mut self, eviction: Eviction, controllers: HashSet<(String, OwnerReference)>) {
        let (evictor, completed) = (self.evictor.clone(), self.completed.clone());
        self.tasks.spawn(async move {
            let absent = controllers::absent(&evictor.client, evictor.timeout, controllers).await;
            let marked = if absent.is_empty() {
                evictor.mark(&eviction).await.map(Mark::Written)
            } else {
                Ok(Mark::Absent(absent))
            };
            _ = completed.send(Completion::Marked { uid: eviction.uid, marked });
        });
    }

    /// A pod that is marked is not evicted.
    pub(crate) fn unmark(&mut self, eviction: Eviction) {
        let evictor = self.evictor.clone();
        self.tasks.spawn(async move { evictor.unmark(&eviction).await });
    }

    /// The result of an eviction is being handled.
    pub(crate) fn completed(&mut self) {
        self.n_in_flight -= 1;
        while self.tasks.try_join_next().is_some() {}
    }

    /// A pod is evicted: it is not tried again.
    pub(crate) fn succeeded(&mut self, uid: &str) {
        self.retries.remove(uid);
    }

    /// An eviction was not carried out.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.evicting.remove(uid);
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.evicting.remove(uid);
        self.retries.remove(uid);
    }

    /// Tries an eviction again after its back-off, or after the time that the API server requested.
    pub(crate) fn retry(&mut self, uid: &str, error: &CallError, is_refused: bool) {
        let (first, longest) = (self.first_backoff, self.longest_backoff);
        let fresh = || Retry {
            backoff: Backoff::new(first, longest),
            not_before: Instant::now(),
            is_refused,
            why: String::new(),
        };
        let retry = self.retries.entry(uid.to_owned()).or_insert_with(fresh);
        let wait = retry.backoff.failed(fastrand::f64());
        let requested = error.retry_after();
        retry.not_before = Instant::now() + requested.map_or(wait, |requested| requested.max(wait));
        retry.is_refused = is_refused;
        let what = if is_refused { "the API server rejected the eviction" } else { "the eviction failed" };
        retry.why = format!("{what}: {error}");
    }

    /// Why an eviction is not tried now, in a word and in a sentence, and until when.
    pub(crate) fn waits(&self, uid: &str, now: Instant) -> Option<(&'static str, &str, Instant)> {
        let retry = self.retries.get(uid).filter(|retry| now < retry.not_before)?;
        Some((if retry.is_refused { "refused" } else { "failed" }, &retry.why, retry.not_before))
    }

    /// Stops looking up pods on a server that does not answer.
    pub(crate) fn abandon_lookups(&self) {
        self.evictor.stop.cancel();
    }
}
