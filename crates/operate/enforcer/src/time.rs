//! The time of a step by both clocks.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The time of a step, as timers and as objects of the API have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) instant: Instant,
    pub(crate) timestamp: Timestamp,
}

impl Time {
    pub(crate) fn at(instant: Instant) -> Time {
        Time { instant, timestamp: Timestamp::now() }
    }

    /// A timestamp as an instant of this process: not before this time.
    pub(crate) fn instant_of(self, timestamp: Timestamp) -> Instant {
        self.instant + Duration::try_from(timestamp.duration_since(self.timestamp)).unwrap_or(Duration::ZERO)
    }
}
