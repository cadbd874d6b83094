//! What is counted, under kube-scheduler's names where the meaning is the same, and under `berth_` otherwise.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::queue::QueueCounts;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AttemptLabels {
    result: &'static str,
    profile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct QueueLabels {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct IncomingLabels {
    queue: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TypeLabels {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AttemptsLabels {
    attempts: String,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    fn name(self) -> &'static str {
        match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        }
    }
}

/// All metrics of a scheduler.
pub(crate) struct Metrics {
    pending: Family<QueueLabels, Gauge>,
    attempts: Family<AttemptLabels, Counter>,
    attempt_duration: Family<AttemptLabels, Histogram, fn() -> Histogram>,
    algorithm_duration: Histogram,
    sli_duration: Family<AttemptsLabels, Histogram, fn() -> Histogram>,
    incoming: Family<IncomingLabels, Counter>,
    pub(crate) preemption_attempts: Counter,
    pub(crate) preemption_victims: Histogram,
    cache_size: Family<TypeLabels, Gauge>,
    pub(crate) bind_lookups: Counter,
    pub(crate) bind_retries: Counter,
    differences: Family<KindLabels, Counter>,
    pub(crate) events_dropped: Gauge,
    pub(crate) leads: Gauge,
}

fn durations() -> Histogram {
    // 1 ms to 16 s, as kube-scheduler has it.
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn decisions() -> Histogram {
    // 1 us to 2 s: most decisions take some tens of microseconds.
    Histogram::new(exponential_buckets(0.000_001, 2.0, 22))
}

fn waits() -> Histogram {
    // 10 ms to 3 hours.
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub(crate) fn new(registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            pending: Family::default(),
            attempts: Family::default(),
            attempt_duration: Family::new_with_constructor(durations),
            algorithm_duration: decisions(),
            sli_duration: Family::new_with_constructor(waits),
            incoming: Family::default(),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            cache_size: Family::default(),
            bind_lookups: Counter::default(),
            bind_retries: Counter::default(),
            differences: Family::default(),
            events_dropped: Gauge::default(),
            leads: Gauge::default(),
        };
        let m = &metrics;
        registry.register("scheduler_pending_pods", "Pending pods, by queue", m.pending.clone());
        registry.register(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result",
            m.attempts.clone(),
        );
        registry.register(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time from taking a pod out of the queue to its binding or failure",
            m.attempt_duration.clone(),
        );
        registry.register(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time of a decision",
            m.algorithm_duration.clone(),
        );
        registry.register(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from the first sight of a pod to its binding, over all attempts",
            m.sli_duration.clone(),
        );
        registry.register(
            "scheduler_queue_incoming_pods",
            "Pods added to queues, by queue and reason",
            m.incoming.clone(),
        );
        registry.register(
            "scheduler_preemption_attempts",
            "Attempts to preempt pods",
            m.preemption_attempts.clone(),
        );
        registry.register(
            "scheduler_preemption_victims",
            "Victims of one preemption",
            m.preemption_victims.clone(),
        );
        registry.register("scheduler_cache_size", "Objects in the state, by type", m.cache_size.clone());
        registry.register(
            "berth_scheduler_bind_lookups",
            "Lookups of pods whose binding had an unknown result",
            m.bind_lookups.clone(),
        );
        registry.register("berth_scheduler_bind_retries", "Retried bind requests", m.bind_retries.clone());
        registry.register(
            "berth_scheduler_state_differences",
            "Differences between the state and full lists that were repaired, by kind",
            m.differences.clone(),
        );
        registry.register(
            "berth_scheduler_events_dropped",
            "Events that were dropped because there were too many",
            m.events_dropped.clone(),
        );
        registry.register("berth_scheduler_leader", "1 while this process leads", m.leads.clone());
        metrics
    }

    pub(crate) fn decided(&self, duration: Duration) {
        self.algorithm_duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn attempted(&self, result: AttemptResult, profile: &str, duration: Duration) {
        let labels = AttemptLabels { result: result.name(), profile: profile.to_owned() };
        self.attempts.get_or_create(&labels).inc();
        self.attempt_duration.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    pub(crate) fn scheduled(&self, attempts: u32, waited: Duration) {
        // As kube-scheduler has it: more than fifteen attempts are one label.
        let attempts = if attempts >= 15 { "15+".to_owned() } else { attempts.to_string() };
        self.sli_duration.get_or_create(&AttemptsLabels { attempts }).observe(waited.as_secs_f64());
    }

    pub(crate) fn queued(&self, queue: &'static str, event: &'static str) {
        self.incoming.get_or_create(&IncomingLabels { queue, event }).inc();
    }

    pub(crate) fn drifted(&self, kind: &'static str, n: u64) {
        self.differences.get_or_create(&KindLabels { kind }).inc_by(n);
    }

    pub(crate) fn sizes(&self, queue: QueueCounts, n_nodes: usize, n_pods: usize, n_assumed: usize) {
        let QueueCounts { active, backoff, unschedulable, gated, in_flight: _ } = queue;
        for (queue, n) in
            [("active", active), ("backoff", backoff), ("unschedulable", unschedulable), ("gated", gated)]
        {
            self.pending.get_or_create(&QueueLabels { queue }).set(n as i64);
        }
        for (r#type, n) in [("nodes", n_nodes), ("pods", n_pods), ("assumed_pods", n_assumed)] {
            self.cache_size.get_or_create(&TypeLabels { r#type }).set(n as i64);
        }
    }
}
