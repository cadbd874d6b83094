//! Limits of repeated preemptions.

use std::time::Duration;

use tokio::time::Instant;

/// So often a pod or group preempts without delay.
const PROMPT_PREEMPTIONS: u32 = 5;

/// The preemptions of a pod or group that is still pending. What replaces its victims may break its rules from other nodes:
/// then preemption never makes room, and must not go on without end.
#[derive(Clone, Copy, Default)]
pub(crate) struct Preemptions {
    n: u32,
    last: Option<Instant>,
}

impl Preemptions {
    /// Victims that were chosen at this time have been evicted; some of them may have been counted before.
    pub(crate) fn add(&mut self, chosen_at: Instant) {
        self.n += u32::from(self.last != Some(chosen_at));
        self.last = Some(chosen_at);
    }

    /// Why there is none now, if there have been several; one more follows in each `period`.
    pub(crate) fn too_many(&self, now: Instant, period: Duration) -> Option<String> {
        let is_recent = self.last.is_some_and(|last| now < last + period);
        (self.n >= PROMPT_PREEMPTIONS && is_recent).then(|| {
            format!("not tried again for {period:?}, as {PROMPT_PREEMPTIONS} preemptions have not made room.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemptions_that_make_no_room_become_rare() {
        let (mut preemptions, now, period) =
            (Preemptions::default(), Instant::now(), Duration::from_secs(300));
        let now = (0..PROMPT_PREEMPTIONS).fold(now, |now, _| {
            assert_eq!(preemptions.too_many(now, period), None);
            preemptions.add(now);
            preemptions.add(now);
            now + Duration::from_secs(1)
        });
        let now = now - Duration::from_secs(1);
        let reason = preemptions.too_many(now + period / 2, period).unwrap();
        assert!(reason.contains("5 preemptions have not made room"), "{reason}");
        assert_eq!(preemptions.too_many(now + period, period), None, "one follows in each period");
    }
}
