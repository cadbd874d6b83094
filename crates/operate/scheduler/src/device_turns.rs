//! Decisions about devices that take long. Each pod waits for its turn, in the order of priority; others are decided meanwhile.
//!
//! The first decision of a pod has a small budget. A pod whose decision is cut waits, marked; its next decisions have a larger
//! budget, one at a time, and a part of the time. They continue with what selectors have been evaluated.

use std::time::Duration;

use tokio::time::Instant;

/// Steps of a first decision: about 20 ms.
pub(crate) const FIRST: u64 = 500_000;
/// Steps of a first decision after several that were cut.
const LEAST: u64 = 2_000;
/// Steps of the decision of a pod that waited for its turn: about 0.2 s.
const IN_TURN: u64 = 5_000_000;
/// After a decision that is cut, there is no similar one for this many times as long.
const PAUSE: u32 = 4;
/// Pauses that first decisions may run up.
const MAX_PAUSE: Duration = Duration::from_millis(400);

/// When decisions may take long.
#[derive(Debug, Default)]
pub(crate) struct DeviceTurns {
    /// The end of the pauses after first decisions.
    first: Option<Instant>,
    /// The next turn of the pods that wait for theirs.
    next: Option<Instant>,
}

impl DeviceTurns {
    /// The steps of a decision that begins now.
    ///
    /// # Errors
    /// The time of the next turn, for a pod that waits for its own.
    pub(crate) fn steps(&self, waits: bool, now: Instant) -> Result<u64, Instant> {
        match (waits, self.next.filter(|next| *next > now)) {
            (true, Some(next)) => Err(next),
            (true, None) => Ok(IN_TURN),
            (false, _) if self.first.is_some_and(|first| first > now + MAX_PAUSE) => Ok(LEAST),
            (false, _) => Ok(FIRST),
        }
    }

    /// A decision that began at `began` was cut.
    pub(crate) fn cut(&mut self, waited: bool, began: Instant, now: Instant) {
        let pause = now.saturating_duration_since(began) * PAUSE;
        let end = if waited { &mut self.next } else { &mut self.first };
        *end = Some(end.filter(|end| *end > now).unwrap_or(now) + pause);
    }
}
