//! Failed requests in the log: a server that is down fails thousands of them a minute.

use std::time::Duration;

use tokio::time::Instant;

/// One line in so long a time; the others are counted.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Complaints {
    last: Option<Instant>,
    n_unsaid: u64,
}

impl Complaints {
    /// Logs what happened, or counts it. All requests that fail are tried again.
    pub(super) fn tell(&mut self, what: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            self.n_unsaid += 1;
            tracing::debug!("{}", what());
            return;
        }
        let others = match std::mem::take(&mut self.n_unsaid) {
            0 => String::new(),
            n => format!(" (and {n} more failures since the last one told)"),
        };
        self.last = Some(now);
        tracing::warn!("{}; it will be tried again{others}", what());
    }
}
