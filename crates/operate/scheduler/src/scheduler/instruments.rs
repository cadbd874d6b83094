//! Metrics that are sampled, or counted in bulk, so that decisions do not pay for them.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::config::Plugin;
use berth_api::object::Pod;
use tokio::time::Instant;

use super::Scheduler;
use crate::queue::PodId;

/// Sampled decisions take no more than one part in this many of the time.
const SAMPLING_SHARE: u32 = 400;
/// How often pods are counted by plugin.
const COUNTING_PERIOD: Duration = Duration::from_secs(1);

pub(super) struct Instruments {
    sample_not_before: Instant,
    count_not_before: Instant,
    /// Decisions since they were counted last, by scheduler name.
    decisions: BTreeMap<String, u64>,
}

impl Instruments {
    pub(super) fn new(now: Instant) -> Instruments {
        Instruments { sample_not_before: now, count_not_before: now, decisions: BTreeMap::new() }
    }

    pub(super) fn decided(&mut self, pod: &Pod) {
        match self.decisions.get_mut(&pod.spec.scheduler_name) {
            Some(n) => *n += 1,
            None => _ = self.decisions.insert(pod.spec.scheduler_name.clone(), 1),
        }
    }
}

impl Scheduler {
    /// Measures the plugins for a pod that is about to be decided, if there is time for it. Returns the time after that.
    pub(super) fn sample(&mut self, id: PodId, now: Instant) -> Instant {
        let Some(queued) = self.pods.get(id).filter(|_| now >= self.instruments.sample_not_before) else {
            return now;
        };
        let stages = self.cluster.stage_times(&queued.prepared, &mut || now.elapsed());
        self.metrics.sampled(&stages, &queued.pod.spec.scheduler_name);
        let after = Instant::now();
        self.instruments.sample_not_before = after + (after - now) * SAMPLING_SHARE;
        after
    }

    /// Counts what is not counted at every decision.
    pub(super) fn count_if_due(&mut self, now: Instant) {
        if now < self.instruments.count_not_before {
            return;
        }
        self.instruments.count_not_before = now + COUNTING_PERIOD;
        let config = &self.options.settings.config;
        for (name, n) in &mut self.instruments.decisions {
            if let Some(profile) = config.profile(name).filter(|_| *n > 0) {
                self.metrics.evaluated(profile, std::mem::take(n));
            }
        }
        let mut pods = BTreeMap::new();
        for (failure, n) in self.queue.unschedulable() {
            for plugin in &*failure.plugins {
                *pods.entry((plugin.name(), failure.profile.to_string())).or_insert(0) += n;
            }
        }
        if self.queue.counts().gated > 0 {
            let gated =
                self.pods.iter().map(|(_, queued)| queued).filter(|queued| self.is_gated(&queued.pod));
            for queued in gated {
                let profile = queued.pod.spec.scheduler_name.clone();
                *pods.entry((Plugin::SchedulingGates.name(), profile)).or_insert(0) += 1;
            }
        }
        self.metrics.unschedulable(&pods);
        self.metrics.binding(self.binds.n_in_flight());
    }
}
