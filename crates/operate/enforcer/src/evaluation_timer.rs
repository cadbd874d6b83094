//! When victims are selected again.

use tokio::time::Instant;

/// Victim selection takes no more than one part in this many of the time.
const EVALUATION_SHARE: u32 = 8;

/// When to select victims for reasons other than the end of a grace period.
pub(crate) struct EvaluationTimer {
    at: Option<Instant>,
    not_before: Instant,
}

impl EvaluationTimer {
    pub(crate) fn new(now: Instant) -> EvaluationTimer {
        EvaluationTimer { at: None, not_before: now }
    }

    /// Victims are to be selected at this time, or before.
    pub(crate) fn set(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |planned| planned.min(at)));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.at.map(|at| at.max(self.not_before))
    }

    /// Whether a selection is due; it begins now.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.next().is_some_and(|next| next <= now) && self.at.take().is_some()
    }

    /// The selection that began at `began` has ended.
    pub(crate) fn end(&mut self, began: Instant, now: Instant) {
        self.not_before = now + (now - began) * EVALUATION_SHARE;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn selections_leave_most_of_the_time_to_other_work() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut timer = EvaluationTimer::new(start);
        assert!(!timer.begin(start), "there is no reason");
        timer.set(at(5));
        timer.set(at(2));
        assert!(!timer.begin(at(1)));
        assert!(timer.begin(at(2)));
        timer.end(at(2), at(3));
        timer.set(at(3));
        assert_eq!(timer.next(), Some(at(11)));
        assert!(!timer.begin(at(10)));
        assert!(timer.begin(at(11)));
        assert_eq!(timer.next(), None);
    }
}
