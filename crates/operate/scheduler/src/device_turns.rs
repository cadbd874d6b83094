//! Decisions about devices that take long. Each pod waits for its turn, in the order of priority; others are decided meanwhile.
//!
//! The first decision of a pod has a small budget. A pod whose decision is cut waits, marked; its next decisions have a larger
//! budget, one at a time, and a part of the time, whether they are cut or not. They continue with the nodes that are left, and with
//! what selectors have been evaluated.

use std::time::Duration;

use tokio::time::Instant;

/// Steps of a first decision: about 20 ms.
pub(crate) const FIRST: u64 = 2_000_000;
/// Steps of a first decision after several that were cut.
const LEAST: u64 = 20_000;
/// Steps of the decision of a pod that waited for its turn: about 0.2 s.
const IN_TURN: u64 = 15_000_000;
/// Steps of a decision that others need not wait for: about 2 ms.
const FEW: u64 = 200_000;
/// After a decision with more steps, there is no similar one for this many times as long.
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

    /// A decision that began at `began` took so many steps, with what it caused.
    pub(crate) fn took(&mut self, waited: bool, steps: u64, began: Instant, now: Instant) {
        if steps <= FEW {
            return;
        }
        let pause = now.saturating_duration_since(began) * PAUSE;
        let end = if waited { &mut self.next } else { &mut self.first };
        *end = Some(end.filter(|end| *end > now).unwrap_or(now) + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long another pod waits: `n` pods before it take `took` milliseconds for all the steps that they get.
    fn time_before_another(waits: bool, n: usize, ms_per_million_steps: u64) -> Duration {
        let start = Instant::now();
        let (mut turns, mut now) = (DeviceTurns::default(), start);
        for _ in 0..n {
            let Ok(steps) = turns.steps(waits, now) else { continue };
            let began = now;
            now += Duration::from_micros(steps * ms_per_million_steps / 1000);
            turns.took(waits, steps, began, now);
        }
        now - start
    }

    #[test]
    fn any_number_of_pods_with_costly_claims_keeps_another_one_waiting_for_a_moment_only() {
        let (first, in_turn) = (time_before_another(false, 100, 15), time_before_another(true, 100, 15));
        assert!(first + in_turn < Duration::from_millis(500), "{first:?} {in_turn:?}");
        assert!(in_turn >= Duration::from_millis(200), "one of them is decided");
    }

    #[test]
    fn decisions_that_were_not_cut_made_no_pause() {
        let now = Instant::now();
        let mut turns = DeviceTurns::default();
        turns.took(true, IN_TURN / 2, now, now + Duration::from_millis(100));
        let next = now + Duration::from_millis(500);
        assert_eq!(turns.steps(true, now + Duration::from_millis(100)), Err(next));
        assert_eq!(turns.steps(true, next), Ok(IN_TURN));
        assert_eq!(turns.steps(false, next), Ok(FIRST));
        turns.took(true, FEW, next, next + Duration::from_millis(100));
        assert_eq!(turns.steps(true, next + Duration::from_millis(100)), Ok(IN_TURN));
    }
}
