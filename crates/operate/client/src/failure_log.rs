//! Messages about failures that repeat until the API server is back: an unavailable server fails thousands of requests per
//! minute. Lines are written with pauses between them, and count the failures since the last one.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub struct FailureLog {
    first_pause: Duration,
    longest_pause: Duration,
    last: Option<Instant>,
    /// The time until the next line.
    pause: Duration,
    /// Failures since the last line.
    n_suppressed: u64,
}

impl FailureLog {
    /// A log with at least `first_pause` between lines. The pause doubles with every line up to `longest_pause`, until
    /// `succeeded`.
    pub const fn new(first_pause: Duration, longest_pause: Duration) -> FailureLog {
        FailureLog { first_pause, longest_pause, last: None, pause: first_pause, n_suppressed: 0 }
    }

    /// Logs or counts a failure.
    pub fn record(&mut self, what: impl FnOnce() -> String) {
        let logged = self.failed(Instant::now());
        write_line(logged, what);
    }

    /// Whether to log a failure now; if so, how many others there were since the last line.
    pub(crate) fn failed(&mut self, now: Instant) -> Option<u64> {
        if let Some(last) = self.last {
            if now.saturating_duration_since(last) < self.pause {
                self.n_suppressed += 1;
                return None;
            }
            self.pause = (self.pause * 2).min(self.longest_pause);
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.n_suppressed))
    }

    /// Whether a success ends a series of failures that was logged. One right after a failure does not: others still
    /// fail.
    pub(crate) fn succeeded(&mut self, now: Instant) -> bool {
        let ends = self.last.is_some_and(|last| now.saturating_duration_since(last) >= self.first_pause);
        if ends {
            *self = FailureLog::new(self.first_pause, self.longest_pause);
        }
        ends
    }
}

/// Writes the line of a failure, as [`FailureLog::failed`] decided.
pub(crate) fn write_line(logged: Option<u64>, what: impl FnOnce() -> String) {
    match logged {
        None => tracing::debug!("{}, retrying", what()),
        Some(0) => tracing::warn!("{}, retrying", what()),
        Some(n) => tracing::warn!("{}, retrying ({n} more failures since the last message)", what()),
    }
}
