//! How many requests to bind are in flight: as many as make bindings faster.
//!
//! Rate and latency are measured in windows in which all allowed requests were in flight. A trial allows more requests; it is
//! kept if the rate rises with them, and taken back otherwise. The next trial follows after a pause, which grows with each
//! trial in vain. The number falls when the server refuses requests (429), and when it has become slower although nothing
//! else changed; then not below the first one, since a busy machine makes any number slower.

use std::time::Duration;

use tokio::time::Instant;

/// At first: few enough for any server.
const FIRST: usize = 16;
/// A window lasts at least this long, and until each allowed request has been answered this often.
const WINDOW: Duration = Duration::from_millis(50);
const ANSWERS: usize = 4;
/// A trial is kept if the rate rises by this part of what it would with an idle server.
const LEAST_GAIN: f64 = 0.25;
/// A trial after a successful one doubles the number, the next after a pause adds a quarter.
const GROWTH: f64 = 2.0;
const CAREFUL_GROWTH: f64 = 1.25;
/// Windows before the next trial, after the first in vain, and at most.
const FIRST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 128;
/// The server has become slower when the latency is this many times that of the present number.
const SLOWER: f64 = 2.0;
const DECREASE: f64 = 0.75;
const DECREASE_REFUSED: f64 = 0.5;

/// The number of requests in flight; time is passed in.
#[derive(Debug)]
pub(crate) struct BindConcurrency {
    limit: usize,
    allowed: usize,
    window: Window,
    /// What was measured with the allowed number, or before the trial.
    known: Option<Measured>,
    trial: Option<Trial>,
    growth: f64,
    /// Windows before the next trial, and after the next one in vain.
    pause: u32,
    next_pause: u32,
    refused_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The number before.
    from: usize,
}

/// What a window showed.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Answers per second.
    rate: f64,
    /// Mean latency in seconds.
    latency: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    begun_at: Option<Instant>,
    n_answers: usize,
    latency: Duration,
}

impl BindConcurrency {
    pub(crate) fn new(limit: usize) -> BindConcurrency {
        let limit = limit.max(1);
        BindConcurrency {
            limit,
            allowed: FIRST.min(limit),
            window: Window::default(),
            known: None,
            trial: None,
            growth: GROWTH,
            pause: 0,
            next_pause: FIRST_PAUSE,
            refused_at: None,
        }
    }

    /// How many requests may be in flight.
    pub(crate) fn allowed(&self) -> usize {
        self.allowed
    }

    /// A request was answered after `took`. `is_full`: all others that are allowed are in flight.
    pub(crate) fn answered(&mut self, took: Duration, is_full: bool, now: Instant) {
        // Without enough bindings, the rate says nothing about the server.
        if !is_full {
            self.window = Window::default();
            return;
        }
        let begun_at = *self.window.begun_at.get_or_insert(now);
        if begun_at == now {
            return;
        }
        self.window.n_answers += 1;
        self.window.latency += took;
        let lasted = now - begun_at;
        if lasted >= WINDOW && self.window.n_answers >= ANSWERS * self.allowed {
            let n = self.window.n_answers as f64;
            let measured =
                Measured { rate: n / lasted.as_secs_f64(), latency: self.window.latency.as_secs_f64() / n };
            self.measured(measured);
        }
    }

    /// The server refused a request because it has too many (429).
    pub(crate) fn refused(&mut self, now: Instant) {
        // Those that were in flight at the first refusal count once.
        if self.refused_at.is_some_and(|at| now - at < WINDOW) {
            return;
        }
        self.refused_at = Some(now);
        let before = self.trial.take().map_or(self.allowed, |trial| trial.from);
        self.known = None;
        self.allow(((self.allowed as f64 * DECREASE_REFUSED) as usize).min(before));
        self.pause_trials();
    }

    fn measured(&mut self, measured: Measured) {
        match (self.trial.take(), self.known) {
            (Some(trial), Some(known)) => self.judge(trial, known, measured),
            (_, None) => self.known = Some(measured),
            (None, Some(known))
                if measured.latency > SLOWER * known.latency && measured.rate < known.rate =>
            {
                self.known = Some(measured);
                self.allow(((self.allowed as f64 * DECREASE) as usize).max(FIRST.min(self.allowed)));
                self.pause = FIRST_PAUSE;
                return;
            }
            (None, Some(known)) => self.known = Some(known.mean(measured)),
        }
        self.window = Window::default();
        if self.pause > 0 {
            self.pause -= 1;
        } else if self.allowed < self.limit {
            self.trial = Some(Trial { from: self.allowed });
            self.allow(((self.allowed as f64 * self.growth) as usize).max(self.allowed + 1));
        }
    }

    fn judge(&mut self, trial: Trial, known: Measured, measured: Measured) {
        let more = self.allowed as f64 / trial.from as f64 - 1.0;
        if measured.rate / known.rate - 1.0 >= LEAST_GAIN * more {
            self.known = Some(measured);
            self.next_pause = FIRST_PAUSE;
        } else {
            self.allow(trial.from);
            self.pause_trials();
        }
    }

    fn pause_trials(&mut self) {
        self.growth = CAREFUL_GROWTH;
        self.pause = self.next_pause;
        self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
    }

    fn allow(&mut self, n: usize) {
        self.allowed = n.clamp(1, self.limit);
        self.window = Window::default();
    }
}

impl Measured {
    /// Of two windows of equal weight.
    fn mean(self, other: Measured) -> Measured {
        Measured {
            rate: f64::midpoint(self.rate, other.rate),
            latency: f64::midpoint(self.latency, other.latency),
        }
    }
}

#[cfg(test)]
mod tests;
