//! What is counted, under kube-scheduler's names where there is such a metric, and under `berth_` otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::config::Profile;
use berth_engine::{Stage, StageTime};
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
pub(crate) struct ResultLabels {
    result: &'static str,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OperationLabels {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct UnschedulableLabels {
    plugin: &'static str,
    profile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ExtensionPointLabels {
    extension_point: &'static str,
    status: &'static str,
    profile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PluginLabels {
    plugin: &'static str,
    extension_point: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EvaluationLabels {
    plugin: &'static str,
    extension_point: &'static str,
    profile: String,
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

/// How holding room for a pod group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservationResult {
    Placed,
    Expired,
    Ended,
}

impl ReservationResult {
    fn name(self) -> &'static str {
        match self {
            ReservationResult::Placed => "placed",
            ReservationResult::Expired => "expired",
            ReservationResult::Ended => "ended",
        }
    }
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of a scheduler.
pub(crate) struct Metrics {
    pending: Family<QueueLabels, Gauge>,
    attempts: Family<AttemptLabels, Counter>,
    attempt_duration: Histograms<AttemptLabels>,
    algorithm_duration: Histogram,
    sli_duration: Histograms<AttemptsLabels>,
    scheduling_attempts: Histogram,
    incoming: Family<IncomingLabels, Counter>,
    unschedulable: Family<UnschedulableLabels, Gauge>,
    extension_point_duration: Histograms<ExtensionPointLabels>,
    plugin_duration: Histograms<PluginLabels>,
    evaluations: Family<EvaluationLabels, Counter>,
    pod_group_attempts: Family<ResultLabels, Counter>,
    pod_group_reservations: Family<ResultLabels, Counter>,
    pub(crate) preemption_attempts: Counter,
    pub(crate) preemption_victims: Histogram,
    cache_size: Family<TypeLabels, Gauge>,
    goroutines: Family<OperationLabels, Gauge>,
    volume_errors: Family<OperationLabels, Counter>,
    pub(crate) bind_lookups: Counter,
    pub(crate) bind_retries: Counter,
    differences: Family<KindLabels, Counter>,
    pub(crate) events_dropped: Gauge,
    pub(crate) leads: Gauge,
}

fn durations() -> Histogram {
    // 1 ms to 16 s.
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn decisions() -> Histogram {
    // kube-scheduler's 1 ms to 16 s, and ten more below: most decisions take some tens of microseconds.
    Histogram::new(exponential_buckets(0.001 / 1024.0, 2.0, 25))
}

fn waits() -> Histogram {
    // 10 ms to 3 hours.
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

fn extension_points() -> Histogram {
    // 0.1 ms to 200 ms.
    Histogram::new(exponential_buckets(0.0001, 2.0, 12))
}

fn plugins() -> Histogram {
    // 10 us to 22 ms.
    Histogram::new(exponential_buckets(0.00001, 1.5, 20))
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
            scheduling_attempts: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            incoming: Family::default(),
            unschedulable: Family::default(),
            extension_point_duration: Family::new_with_constructor(extension_points),
            plugin_duration: Family::new_with_constructor(plugins),
            evaluations: Family::default(),
            pod_group_attempts: Family::default(),
            pod_group_reservations: Family::default(),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            cache_size: Family::default(),
            goroutines: Family::default(),
            volume_errors: Family::default(),
            bind_lookups: Counter::default(),
            bind_retries: Counter::default(),
            differences: Family::default(),
            events_dropped: Gauge::default(),
            leads: Gauge::default(),
        };
        metrics.add_to(registry);
        metrics
    }

    fn add_to(&self, registry: &mut Registry) {
        let m = self;
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
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was scheduled",
            m.scheduling_attempts.clone(),
        );
        registry.register(
            "scheduler_queue_incoming_pods",
            "Pods added to queues, by queue and event",
            m.incoming.clone(),
        );
        registry.register(
            "scheduler_unschedulable_pods",
            "Unschedulable pods, by plugin that rejected them; a pod counts for each such plugin",
            m.unschedulable.clone(),
        );
        registry.register(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point; a sample for PreFilter, Filter, PreScore and Score",
            m.extension_point_duration.clone(),
        );
        registry.register(
            "scheduler_plugin_execution_duration_seconds",
            "Time of a plugin at an extension point, sampled; per node for Filter and Score",
            m.plugin_duration.clone(),
        );
        registry.register(
            "scheduler_plugin_evaluation",
            "Attempts to schedule pods, by plugin and extension point",
            m.evaluations.clone(),
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
            "scheduler_goroutines",
            "Work in progress beside the scheduling loop, by operation",
            m.goroutines.clone(),
        );
        registry.register(
            "scheduler_volume_scheduling_stage_error",
            "Failures to bind the volumes of a pod, by operation",
            m.volume_errors.clone(),
        );
        registry.register(
            "berth_scheduler_pod_group_attempts",
            "Attempts to schedule pod groups, by result",
            m.pod_group_attempts.clone(),
        );
        registry.register(
            "berth_scheduler_pod_group_reservations",
            "Times that room was held for a pod group, by result",
            m.pod_group_reservations.clone(),
        );
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
    }

    pub(crate) fn decided(&self, duration: Duration) {
        self.algorithm_duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn attempted(&self, result: AttemptResult, profile: &str, duration: Duration) {
        let labels = AttemptLabels { result: result.name(), profile: profile.to_owned() };
        self.attempts.get_or_create(&labels).inc();
        self.attempt_duration.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    pub(crate) fn pod_group_attempted(&self, result: AttemptResult) {
        self.pod_group_attempts.get_or_create(&ResultLabels { result: result.name() }).inc();
    }

    pub(crate) fn pod_group_reserved(&self, result: ReservationResult) {
        self.pod_group_reservations.get_or_create(&ResultLabels { result: result.name() }).inc();
    }

    pub(crate) fn scheduled(&self, attempts: u32, waited: Duration) {
        self.scheduling_attempts.observe(f64::from(attempts));
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

    /// A plugin ran at an extension point of which it is the only one.
    pub(crate) fn ran(
        &self,
        plugin: &'static str,
        extension_point: &'static str,
        status: &'static str,
        profile: &str,
        took: Duration,
    ) {
        self.extension_point(extension_point, status, profile, took);
        let labels = PluginLabels { plugin, extension_point, status };
        self.plugin_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn extension_point(
        &self,
        extension_point: &'static str,
        status: &'static str,
        profile: &str,
        took: Duration,
    ) {
        let labels = ExtensionPointLabels { extension_point, status, profile: profile.to_owned() };
        self.extension_point_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A sampled decision.
    pub(crate) fn sampled(&self, stages: &[StageTime], profile: &str) {
        for StageTime { stage, is_success, total, plugins } in stages {
            let extension_point = match stage {
                Stage::PreFilter => "PreFilter",
                Stage::Filter => "Filter",
                Stage::PreScore => "PreScore",
                Stage::Score => "Score",
            };
            let status = if *is_success { "Success" } else { "Unschedulable" };
            self.extension_point(extension_point, status, profile, *total);
            for (plugin, took) in plugins {
                let labels = PluginLabels { plugin: plugin.name(), extension_point, status: "Success" };
                self.plugin_duration.get_or_create(&labels).observe(took.as_secs_f64());
            }
        }
    }

    /// This many decisions were made with a profile.
    pub(crate) fn evaluated(&self, profile: &Profile, n: u64) {
        let score: Vec<_> = profile.score.iter().map(|(plugin, _)| *plugin).collect();
        for (extension_point, plugins) in [
            ("PreFilter", &profile.pre_filter),
            ("Filter", &profile.filter),
            ("PreScore", &profile.pre_score),
            ("Score", &score),
        ] {
            for plugin in plugins {
                let profile = profile.scheduler_name.clone();
                let labels = EvaluationLabels { plugin: plugin.name(), extension_point, profile };
                self.evaluations.get_or_create(&labels).inc_by(n);
            }
        }
    }

    /// The pods that plugins reject, by plugin and profile. Others have none.
    pub(crate) fn unschedulable(&self, pods: &BTreeMap<(&'static str, String), usize>) {
        self.unschedulable.clear();
        for ((plugin, profile), n) in pods {
            let labels = UnschedulableLabels { plugin, profile: profile.clone() };
            self.unschedulable.get_or_create(&labels).set(*n as i64);
        }
    }

    /// The volumes of a pod could not be bound.
    pub(crate) fn volumes_failed(&self) {
        self.volume_errors.get_or_create(&OperationLabels { operation: "bind" }).inc();
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

    pub(crate) fn binding(&self, n_in_flight: usize) {
        let labels = OperationLabels { operation: "binding" };
        self.goroutines.get_or_create(&labels).set(n_in_flight as i64);
    }
}
