//! What the watches of one component share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::failure::WatchFailure;

/// A watch that stayed open this long counts as a success, even without events.
pub(super) const LONG_WATCH: Duration = Duration::from_secs(5);

/// The memory of the process is measured each time that this much was read: objects take more than their text.
const MEASURED_EVERY: usize = 1 << 20;

/// What the watches of one component share: how much all of them keep, and the news that the server answers again.
#[derive(Clone, Debug)]
pub struct WatchGroup(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    /// How to raise the limit, for the error.
    remedy: &'static str,
    /// The memory of this process in bytes, if it is known.
    memory: fn() -> Option<usize>,
    kept: AtomicUsize,
    /// What was read since the memory was measured.
    unmeasured: AtomicUsize,
    /// The watch that exceeded the limit.
    excess: watch::Sender<Option<WatchFailure>>,
    /// How often a watch was answered after a failure, and the others learned of it.
    recoveries: watch::Sender<u64>,
    last_recovery: Mutex<Option<Instant>>,
}

impl Default for WatchGroup {
    fn default() -> Self {
        WatchGroup::with(WatchGroup::DEFAULT_LIMIT, "", || None)
    }
}

impl WatchGroup {
    /// 4 GiB.
    pub const DEFAULT_LIMIT: usize = 4 << 30;

    /// Watches whose objects may not cost more than `limit` bytes, nor fill the process beyond it: the option `--cache-limit` of a
    /// command.
    pub fn new(limit: usize) -> WatchGroup {
        WatchGroup::with(limit, ": if the server is right, raise the limit (--cache-limit)", allocated_bytes)
    }

    pub(super) fn with(limit: usize, remedy: &'static str, memory: fn() -> Option<usize>) -> WatchGroup {
        WatchGroup(Arc::new(Shared {
            limit,
            remedy,
            memory,
            kept: AtomicUsize::new(0),
            unmeasured: AtomicUsize::new(0),
            excess: watch::Sender::new(None),
            recoveries: watch::Sender::new(0),
            last_recovery: Mutex::new(None),
        }))
    }

    pub(super) fn limit(&self) -> usize {
        self.0.limit
    }

    /// Whether the process is within the limit after so many bytes were read.
    fn is_within_memory(&self, n_read: usize) -> bool {
        let Shared { limit, memory, unmeasured, .. } = &*self.0;
        if unmeasured.fetch_add(n_read, Ordering::Relaxed) + n_read < MEASURED_EVERY {
            return true;
        }
        unmeasured.store(0, Ordering::Relaxed);
        memory().is_none_or(|bytes| bytes <= *limit)
    }

    /// The collection at `path` exceeds the limit.
    pub(super) fn exceed(&self, path: &str) -> WatchFailure {
        let Shared { limit, remedy, excess, .. } = &*self.0;
        let failure = WatchFailure::TooLarge { path: path.to_owned(), limit: *limit, remedy };
        excess.send_replace(Some(failure.clone()));
        failure
    }

    /// Waits until the watches exceed the limit, and returns the error.
    pub async fn exceeded(&self) -> WatchFailure {
        let mut excess = self.0.excess.subscribe();
        match excess.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            // The sender lives in the group.
            _ => std::future::pending().await,
        }
    }

    /// A watch is answered after a failure: the others need not wait any longer. A server that answers and fails by turns
    /// does not make them try without pause.
    pub(super) fn recovered(&self) {
        let now = Instant::now();
        let mut last = self.0.last_recovery.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| now.saturating_duration_since(last) >= LONG_WATCH) {
            *last = Some(now);
            self.0.recoveries.send_modify(|n| *n += 1);
        }
    }

    pub(super) fn recoveries(&self) -> watch::Receiver<u64> {
        self.0.recoveries.subscribe()
    }
}

/// What one watch keeps. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    group: WatchGroup,
    bytes: usize,
}

impl Kept {
    pub(super) fn new(group: WatchGroup) -> Kept {
        Kept { group, bytes: 0 }
    }

    /// Returns false if that is too much.
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let kept = self.group.0.kept.fetch_add(bytes, Ordering::Relaxed) + bytes;
        kept <= self.group.0.limit && self.group.is_within_memory(bytes)
    }

    /// Something that is kept changed by this much. Returns false if the process is too large.
    pub(super) fn change(&self, bytes: usize) -> bool {
        self.group.is_within_memory(bytes)
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.group.0.kept.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn clear(&mut self) {
        self.remove(self.bytes);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The memory that this process has allocated and used, in bytes; on Linux only.
pub(super) fn allocated_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok()?.checked_mul(1024)
}
