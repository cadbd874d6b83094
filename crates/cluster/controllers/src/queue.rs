//! A work queue of keys. Duplicate keys are merged, one worker at a time processes a key, and a failed key returns
//! after a backoff.
//!
//! A key added while a worker processes it is queued again afterwards, but not at once. It waits for twice as
//! long as the work took, so that one object with ten thousand pods cannot use all CPU time. A burst of events
//! therefore causes one sync. The queue holds only the keys that are added, so the number of objects
//! bounds it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::Resource;
use berth_client::HasMetadata;
use berth_client::call::CallError;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::index::{Cache, Index, Informer};
use super::view::WorkloadSelector;

/// Initial backoff after a failure; it doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Maximum wait after work on a key.
const LONGEST_REST: Duration = Duration::from_secs(2);

pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    /// The keys in `ready`.
    waiting: HashSet<K>,
    /// The keys in progress, and whether each was added again meanwhile.
    working: HashMap<K, bool>,
    delayed: BTreeMap<(Instant, u64), K>,
    delayed_at: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    sequence: u64,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Queue {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                waiting: HashSet::new(),
                working: HashMap::new(),
                delayed: BTreeMap::new(),
                delayed_at: HashMap::new(),
                failures: HashMap::new(),
                sequence: 0,
            }),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Makes the key ready for the next free worker.
    pub(crate) fn add(&self, key: K) {
        let mut state = self.lock();
        state.forget_delay(&key);
        if let Some(again) = state.working.get_mut(&key) {
            *again = true;
        } else if state.waiting.insert(key.clone()) {
            state.ready.push_back(key);
            self.changed.notify_one();
        }
    }

    /// Adds the key after a delay; the earlier of two delays applies.
    pub(crate) fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut state = self.lock();
        if state.waiting.contains(&key) {
            return;
        }
        let at = Instant::now() + delay;
        state.delay(key, at);
        self.changed.notify_one();
    }

    /// Adds the key after a backoff that grows with its failures.
    pub(crate) fn add_after_failure(&self, key: K) {
        let failures = {
            let mut state = self.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.add_after(key, retry_delay(failures));
    }

    pub(crate) fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Returns the next key; the caller returns it with [`Self::done`].
    pub(crate) async fn next(&self) -> K {
        loop {
            // Registers before the check, so that it misses no addition in between.
            let changed = self.changed.notified();
            let wait = {
                let mut state = self.lock();
                let n_due = state.wake(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.waiting.remove(&key);
                    state.working.insert(key.clone(), false);
                    if n_due > 1 || !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.delayed.first_key_value().map(|(&(at, _), _)| at)
            };
            match wait {
                None => changed.await,
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
        }
    }

    /// Ends the work on a key that took `took`.
    pub(crate) fn done(&self, key: &K, took: Duration) {
        let mut state = self.lock();
        if state.working.remove(key) == Some(true) {
            let rest = (took * 2).min(LONGEST_REST);
            state.delay(key.clone(), Instant::now() + rest);
        }
        // A delay that expired during the work is included.
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue<NamespacedName> {
    /// Adds the name of each changed object of an informer.
    pub(crate) fn follow<T: HasMetadata>(self: &Arc<Self>, informer: &mut Informer<T>) {
        let queue = self.clone();
        informer.on_change(move |change| {
            change.latest().into_iter().for_each(|object| queue.add(object.meta().namespaced_name()));
        });
    }

    /// Adds the owners of changed dependents: the controller that a dependent refers to, or, of an orphan, those whose
    /// selectors match it. Events within `settle` cause one sync.
    pub(crate) fn follow_dependents<O: HasMetadata + Send + Sync + 'static, T: HasMetadata>(
        self: &Arc<Self>,
        kind: &'static Resource,
        owners: Arc<Cache<O>>,
        selector: fn(&O) -> &WorkloadSelector,
        dependents: &mut Informer<T>,
        settle: Duration,
    ) {
        let queue = self.clone();
        dependents.on_change(move |change| {
            for dependent in change.old.into_iter().chain(change.new) {
                let meta = dependent.meta();
                match meta.controller() {
                    Some(owner) if owner.kind == kind.kind => {
                        queue.add_after(NamespacedName::new(&meta.namespace, &owner.name), settle);
                    }
                    Some(_) => {}
                    None => {
                        let mut matching = owners.by(&Index::Namespace(meta.namespace.clone()));
                        matching.retain(|owner| selector(owner).matches(&meta.labels));
                        for owner in matching {
                            queue.add_after(owner.meta().namespaced_name(), settle);
                        }
                    }
                }
            }
        });
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn delay(&mut self, key: K, at: Instant) {
        if self.delayed_at.get(&key).is_some_and(|&(earlier, _)| earlier <= at) {
            return;
        }
        self.forget_delay(&key);
        self.sequence += 1;
        self.delayed.insert((at, self.sequence), key.clone());
        self.delayed_at.insert(key, (at, self.sequence));
    }

    fn forget_delay(&mut self, key: &K) {
        if let Some(at) = self.delayed_at.remove(key) {
            self.delayed.remove(&at);
        }
    }

    /// Moves the keys whose delay has expired to `ready`; returns their number.
    fn wake(&mut self, now: Instant) -> usize {
        let mut n_due = 0;
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.delayed_at.remove(&key);
            if let Some(again) = self.working.get_mut(&key) {
                *again = true;
            } else if self.waiting.insert(key.clone()) {
                self.ready.push_back(key);
                n_due += 1;
            }
        }
        n_due
    }
}

fn retry_delay(failures: u32) -> Duration {
    let doubled = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(20));
    doubled.min(LAST_RETRY)
}

/// The next step for a key after a successful sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for the next event.
    Wait,
    /// Sync again after this time.
    After(Duration),
}

impl Next {
    /// Sync again when `at` has passed; without it, wait for the next event.
    pub(crate) fn at(at: Option<Timestamp>, now: Timestamp) -> Next {
        at.map_or(Next::Wait, |at| Next::After(until(at, now)))
    }
}

/// Time from now until `at`, plus a margin, so that `at` has passed when it ends.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    left + Duration::from_millis(50)
}

type SyncFn<'a, K> = dyn Fn(K) -> BoxFuture<'a, Result<Next, CallError>> + Send + Sync + 'a;

/// Runs `sync` on the queue's keys with this many workers until `stop`.
pub(crate) async fn work<'a, K, F>(
    name: &'static str,
    queue: &'a Queue<K>,
    n_workers: usize,
    sync: impl Fn(K) -> F + Send + Sync + 'a,
    stop: CancellationToken,
) where
    K: Clone + Eq + Hash + fmt::Display,
    F: Future<Output = Result<Next, CallError>> + Send + 'a,
{
    run_workers(name, queue, n_workers, &|key| sync(key).boxed(), stop).await;
}

/// Not generic over `sync`, so that it is compiled once, not once per controller.
async fn run_workers<K: Clone + Eq + Hash + fmt::Display>(
    name: &'static str,
    queue: &Queue<K>,
    n_workers: usize,
    sync: &SyncFn<'_, K>,
    stop: CancellationToken,
) {
    let worker = || async {
        loop {
            let key = tokio::select! {
                key = queue.next() => key,
                () = stop.cancelled() => return,
            };
            let start = Instant::now();
            let result = tokio::select! {
                result = sync(key.clone()) => result,
                () = stop.cancelled() => return,
            };
            queue.done(&key, start.elapsed());
            match result {
                Ok(next) => {
                    queue.forget(&key);
                    if let Next::After(delay) = next {
                        queue.add_after(key, delay);
                    }
                }
                Err(error) => {
                    // A write conflict or a stale cache: the retry reads a newer cache.
                    if error.is_stale() || error.is_not_found() {
                        tracing::debug!(controller = name, %key, %error, "looking again");
                    } else {
                        tracing::warn!(controller = name, %key, %error, "failed, will be retried");
                    }
                    queue.add_after_failure(key);
                }
            }
        }
    };
    futures::future::join_all((0..n_workers.max(1)).map(|_| worker())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_queued_once_and_processed_by_one_worker() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().now_or_never(), Some("a"));
        assert_eq!(queue.next().now_or_never(), Some("b"));
        queue.add("a");
        assert_eq!(queue.next().now_or_never(), None);
        queue.done(&"b", Duration::ZERO);
        queue.done(&"a", Duration::ZERO);
        assert_eq!(queue.next().now_or_never(), Some("a"));
        queue.done(&"a", Duration::ZERO);
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn the_earlier_delay_applies_and_add_cancels_it() {
        let hour = Duration::from_secs(3600);
        let queue = Queue::default();
        queue.add_after("a", hour);
        queue.add_after("a", Duration::from_millis(1));
        queue.add_after("a", hour);
        assert_eq!(queue.next().await, "a");
        queue.done(&"a", Duration::ZERO);
        queue.add_after("b", hour);
        queue.add("b");
        assert_eq!(queue.next().await, "b");
        queue.done(&"b", Duration::ZERO);
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[test]
    fn a_delay_that_expires_during_the_work_is_kept() {
        let queue = Queue::default();
        queue.add("a");
        assert_eq!(queue.next().now_or_never(), Some("a"));
        queue.add_after("a", Duration::from_nanos(1));
        while queue.lock().delayed.first_key_value().is_some_and(|(&(at, _), _)| at > Instant::now()) {}
        assert_eq!(queue.next().now_or_never(), None);
        queue.done(&"a", Duration::ZERO);
        assert_eq!(queue.next().now_or_never(), Some("a"));
    }

    #[test]
    fn failures_double_the_backoff_up_to_a_limit() {
        let delays: Vec<_> = [1, 2, 3, 12, 13, 1000].map(|n| retry_delay(n).as_millis()).into();
        assert_eq!(delays, [20, 40, 80, 40_960, 60_000, 60_000]);
    }
}
