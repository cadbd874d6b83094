//! Exponential back-off with jitter.

use std::time::Duration;

/// Delays that double, with jitter, between two bounds.
///
/// Many clients that lost the same server must not retry at the same time: each delay is drawn between half and the whole
/// of its nominal length.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Delays that start with `first` and never exceed `longest`.
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, failures: 0 }
    }

    /// The delay after another failure. `draw` is a random number in `0.0..1.0`.
    pub fn failed(&mut self, draw: f64) -> Duration {
        let nominal = self.first.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        // 2^20 times any delay is beyond every sensible bound.
        self.failures = (self.failures + 1).min(20);
        nominal.min(self.longest).mul_f64(0.5 + draw.clamp(0.0, 1.0) / 2.0)
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Success: the next delay is the first one again.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(500));
        let waits: Vec<_> = (0..5).map(|_| backoff.failed(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 500, 500]);
        assert_eq!(backoff.failed(0.0).as_millis(), 250);
        backoff.succeeded();
        assert_eq!(backoff.failed(1.0).as_millis(), 100);
    }

    #[test]
    fn any_number_of_failures_stays_within_bounds() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let longest = (0..1000).map(|_| backoff.failed(0.5)).max();
        assert_eq!(longest, Some(Duration::from_millis(7500)));
    }
}
