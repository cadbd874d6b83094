//! Metrics that are sampled, or counted in bulk, so that decisions do not pay for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::Pod;
use berth_engine::Cluster;
use berth_input::config::Plugin;
use tokio::time::Instant;

use crate::context::Context;
use crate::metrics::Metrics;
use crate::pending::QueuedPod;

/// Sampled decisions take no more than one part in this many of the time.
const SAMPLING_SHARE: u32 = 400;
/// How often pods are counted by plugin.
const COUNTING_PERIOD: Duration = Duration::from_secs(1);

pub(crate) struct Instruments {
    sample_not_before: Instant,
    count_not_before: Instant,
    /// Decisions since they were counted last, by scheduler name.
    decisions: BTreeMap<String, u64>,
    metrics: Arc<Metrics>,
}

impl Instruments {
    pub(crate) fn new(metrics: Arc<Metrics>, now: Instant) -> Instruments {
        Instruments { sample_not_before: now, count_not_before: now, decisions: BTreeMap::new(), metrics }
    }

    pub(crate) fn decided(&mut self, pod: &Pod) {
        match self.decisions.get_mut(&pod.spec.scheduler_name) {
            Some(n) => *n += 1,
            None => _ = self.decisions.insert(pod.spec.scheduler_name.clone(), 1),
        }
    }

    /// Measures the plugins for a pod that is about to be decided, if there is time for it. Returns the time after that.
    pub(crate) fn sample(&mut self, cluster: &Cluster, queued: &QueuedPod, now: Instant) -> Instant {
        if now < self.sample_not_before {
            return now;
        }
        let stages = cluster.stage_times(&queued.prepared, &mut || now.elapsed());
        self.metrics.sampled(&stages, &queued.pod.spec.scheduler_name);
        let after = Instant::now();
        self.sample_not_before = after + (after - now) * SAMPLING_SHARE;
        after
    }

    /// Counts what is not counted at every decision.
    pub(crate) fn count_if_due(&mut self, context: &Context, n_bindings: usize, now: Instant) {
        if now < self.count_not_before {
            return;
        }
        self.count_not_before = now + COUNTING_PERIOD;
        for (name, n) in &mut self.decisions {
            if let Some(profile) = context.state.config.profile(name).filter(|_| *n > 0) {
                self.metrics.evaluated(profile, std::mem::take(n));
            }
        }
        let mut pods = BTreeMap::new();
        for (failure, n) in context.pending.queue.unschedulable() {
            for plugin in &*failure.plugins {
                *pods.entry((plugin.name(), failure.profile.to_string())).or_insert(0) += n;
            }
        }
        if context.pending.queue.counts().gated > 0 {
            let queued = context.pending.pods.iter().map(|(_, queued)| &queued.pod);
            for pod in queued.filter(|pod| context.state.is_gated(pod)) {
                let profile = pod.spec.scheduler_name.clone();
                *pods.entry((Plugin::SchedulingGates.name(), profile)).or_insert(0) += 1;
            }
        }
        self.metrics.unschedulable(&pods);
        let cluster = &context.state.cluster;
        for (counter, n) in [
            (&self.metrics.cut_device_searches, cluster.n_cut_device_searches()),
            (&self.metrics.cut_group_searches, cluster.n_cut_group_searches()),
            (&self.metrics.evaluated_nodes, cluster.n_evaluated_nodes()),
        ] {
            counter.inc_by(n.saturating_sub(counter.get()));
        }
        self.metrics.binding(n_bindings);
    }
}
