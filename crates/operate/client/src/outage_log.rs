//! Messages about failures that repeat until the API server is back. An unavailable server interrupts all watches of a
//! process every few seconds: they share one log, whose lines become rarer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time between the first two lines; it doubles with every line.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

static LOG: Mutex<OutageLog> = Mutex::new(OutageLog::NEW);

struct OutageLog {
    last: Option<Instant>,
    pause: Duration,
    /// Failures since the last line.
    n_suppressed: u64,
}

impl OutageLog {
    const NEW: OutageLog = OutageLog { last: None, pause: FIRST_PAUSE, n_suppressed: 0 };

    /// Whether to log a failure now; if so, how many others there were since the last line.
    fn failed(&mut self, now: Instant) -> Option<u64> {
        if let Some(last) = self.last {
            if now.saturating_duration_since(last) < self.pause {
                self.n_suppressed += 1;
                return None;
            }
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.n_suppressed))
    }

    /// Whether a success ends an outage that was logged. One right after a failure does not: others still fail.
    fn succeeded(&mut self, now: Instant) -> bool {
        let ends = self.last.is_some_and(|last| now.saturating_duration_since(last) >= FIRST_PAUSE);
        if ends {
            *self = OutageLog::NEW;
        }
        ends
    }
}

/// Logs or counts a failure. The caller retries.
pub(crate) fn failed(what: impl FnOnce() -> String) {
    // In a statement of its own: the lock is not held while the line is written.
    let logged = LOG.lock().unwrap_or_else(PoisonError::into_inner).failed(Instant::now());
    match logged {
        None => tracing::debug!("{}, retrying", what()),
        Some(0) => tracing::warn!("{}, retrying", what()),
        Some(n) => tracing::warn!("{}, retrying ({n} more failures since the last message)", what()),
    }
}

/// Records that the API server answers.
pub(crate) fn succeeded() {
    if LOG.lock().unwrap_or_else(PoisonError::into_inner).succeeded(Instant::now()) {
        tracing::info!("the API server answers again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_outage_become_rarer() {
        let mut log = OutageLog::NEW;
        let start = Instant::now();
        // Twenty watches that retry every ten seconds for an hour.
        let failures = (0..360).flat_map(|round| [start + Duration::from_secs(10 * round); 20]);
        let lines: Vec<u64> = failures.filter_map(|at| log.failed(at)).collect();
        assert_eq!((lines.len(), &lines[..4]), (12, &[0, 19, 19, 39][..]));
        let end = start + Duration::from_secs(3600);
        assert!(log.succeeded(end));
        assert!(!log.succeeded(end));
        assert_eq!(log.failed(end), Some(0));
        assert!(!log.succeeded(end));
    }
}
