//! Rate-limited logging of failed requests: an unavailable server fails thousands of them per minute.

use std::time::Duration;

use tokio::time::Instant;

/// At most one line is logged in this time; the others are counted.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct FailureLog {
    last: Option<Instant>,
    n_suppressed: u64,
}

impl FailureLog {
    /// Logs or counts a failed request. The agent retries every failed request.
    pub(super) fn record(&mut self, what: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            self.n_suppressed += 1;
            tracing::debug!("{}", what());
            return;
        }
        let others = match std::mem::take(&mut self.n_suppressed) {
            0 => String::new(),
            n => format!(" ({n} more failures since the last message)"),
        };
        self.last = Some(now);
        tracing::warn!("{}, retrying{others}", what());
    }
}
