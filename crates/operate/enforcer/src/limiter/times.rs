//! Wall clock times, as the ledger stores them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub(super) fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

pub(super) fn of_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn after(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

pub(super) fn before(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.saturating_sub(wait).unwrap_or(Timestamp::MIN)
}
