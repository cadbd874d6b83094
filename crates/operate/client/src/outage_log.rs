//! The failures of all watches and elections of a process. An unavailable server interrupts all of them every few
//! seconds: they share one log, whose lines become rarer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure_log::{FailureLog, write_line};

/// The time between the first two lines; it doubles with every line.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

static LOG: Mutex<FailureLog> = Mutex::new(FailureLog::new(FIRST_PAUSE, LONGEST_PAUSE));

/// Logs or counts a failure. The caller retries.
pub(crate) fn failed(what: impl FnOnce() -> String) {
    // In a separate statement: the lock is not held while the line is written.
    let logged = LOG.lock().unwrap_or_else(PoisonError::into_inner).failed(Instant::now());
    write_line(logged, what);
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
        let mut log = FailureLog::new(FIRST_PAUSE, LONGEST_PAUSE);
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
