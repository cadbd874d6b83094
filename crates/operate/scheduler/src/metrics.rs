//! What is counted, under kube-scheduler's names where there is such a metric, and under `berth_` otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::watch::READING;
use berth_engine::{Stage, StageTime};
use berth_input::config::Profile;
use berth_serve::metrics::{Histograms, Labels};
use berth_serve::parts::{self, Part};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::queue::QueueCounts;

/// Applying watch events to the state.
pub(crate) static EVENTS: Part = Part::new("events");
pub(crate) static DECISIONS: Part = Part::new("decisions");
/// Assuming pods on their nodes.
pub(crate) static ASSUMPTIONS: Part = Part::new("assumptions");
/// Making requests to bind, and handing them to the client.
pub(crate) static REQUESTS: Part = Part::new("requests");
/// Handling the results of requests.
pub(crate) static COMPLETIONS: Part = Part::new("completions");

type ProfileLabels<const N: usize> = (Labels<N>, Labels<1, String>);

fn profile_label(profile: &str) -> Labels<1, String> {
    [("profile", profile.to_owned())]
}

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum AttemptResult(name) {
        Scheduled = "scheduled",
        Unschedulable = "unschedulable",
        Error = "error",
    }
}

berth_api::named! {
    /// How holding room for a pod group ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ReservationResult(name) {
        Placed = "placed",
        Expired = "expired",
        Ended = "ended",
    }
}

berth_serve::metrics! {
    pub(crate) struct Metrics {
        /// Pending pods, by queue
        pending: Family<Labels<1>, Gauge> = "scheduler_pending_pods";
        /// Attempts to schedule pods, by result
        attempts: Family<ProfileLabels<1>, Counter> = "scheduler_schedule_attempts";
        /// Time from taking a pod out of the queue to its binding or failure
        attempt_duration: Histograms<ProfileLabels<1>> = "scheduler_scheduling_attempt_duration_seconds"
            with Family::new_with_constructor(durations);
        /// Time of a decision
        algorithm_duration: Histogram = "scheduler_scheduling_algorithm_duration_seconds" with decisions();
        /// Time from the first sight of a pod to its binding, over all attempts
        sli_duration: Histograms<Labels<1, String>> = "scheduler_pod_scheduling_sli_duration_seconds"
            with Family::new_with_constructor(waits);
        /// Attempts until a pod was scheduled
        scheduling_attempts: Histogram = "scheduler_pod_scheduling_attempts" with Histogram::new(exponential_buckets(1.0, 2.0, 5));
        /// Pods added to queues, by queue and event
        incoming: Family<Labels<2>, Counter> = "scheduler_queue_incoming_pods";
        /// Unschedulable pods, by plugin that rejected them; a pod counts for each such plugin
        unschedulable: Family<ProfileLabels<1>, Gauge> = "scheduler_unschedulable_pods";
        /// Time of all plugins of an extension point; a sample for PreFilter, Filter, PreScore and Score
        extension_point_duration: Histograms<ProfileLabels<2>> = "scheduler_framework_extension_point_duration_seconds"
            with Family::new_with_constructor(extension_points);
        /// Time of a plugin at an extension point, sampled; per node for Filter and Score
        plugin_duration: Histograms<Labels<3>> = "scheduler_plugin_execution_duration_seconds"
            with Family::new_with_constructor(plugins);
        /// Attempts to schedule pods, by plugin and extension point
        evaluations: Family<ProfileLabels<2>, Counter> = "scheduler_plugin_evaluation";
        /// Attempts to preempt pods
        pub(crate) preemption_attempts: Counter = "scheduler_preemption_attempts";
        /// Victims of one preemption
        pub(crate) preemption_victims: Histogram = "scheduler_preemption_victims" with Histogram::new(exponential_buckets(1.0, 2.0, 7));
        /// Objects in the state, by type
        cache_size: Family<Labels<1>, Gauge> = "scheduler_cache_size";
        /// Work in progress beside the scheduling loop, by operation
        goroutines: Family<Labels<1>, Gauge> = "scheduler_goroutines";
        /// Failures to bind the volumes of a pod, by operation
        volume_errors: Family<Labels<1>, Counter> = "scheduler_volume_scheduling_stage_error";
        /// Pods whose claims of devices were written, by result
        device_claims: Family<Labels<1>, Counter> = "berth_scheduler_device_claims";
        /// Searches for devices on a node that ended at their limit of steps
        pub(crate) cut_device_searches: Counter = "berth_scheduler_cut_device_searches";
        /// Searches for places of a pod group that ended at their limit of evaluations
        pub(crate) cut_group_searches: Counter = "berth_scheduler_cut_group_searches";
        /// Nodes that were evaluated to place pods: by each decision, those that changed since the last one by the same rules
        pub(crate) evaluated_nodes: Counter = "berth_scheduler_evaluated_nodes";
        /// Attempts to schedule pod groups, by result
        pod_group_attempts: Family<Labels<1>, Counter> = "berth_scheduler_pod_group_attempts";
        /// Times that room was held for a pod group, by result
        pod_group_reservations: Family<Labels<1>, Counter> = "berth_scheduler_pod_group_reservations";
        /// Lookups of pods whose binding had an unknown result
        pub(crate) bind_lookups: Counter = "berth_scheduler_bind_lookups";
        /// Retried bind requests
        pub(crate) bind_retries: Counter = "berth_scheduler_bind_retries";
        /// Concurrent bind requests allowed
        pub(crate) bind_concurrency: Gauge = "berth_scheduler_bind_concurrency";
        /// Differences between the state and full lists that were repaired, by kind
        differences: Family<Labels<1>, Counter> = "berth_scheduler_state_differences";
        /// Events that were dropped because there were too many
        pub(crate) events_dropped: Gauge = "berth_scheduler_events_dropped";
        /// 1 while this process leads
        pub(crate) leads: Gauge = "berth_scheduler_leader";
    }
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
    pub(crate) fn new(registry: &mut Registry) -> Metrics {
        parts::register(registry, [&READING, &EVENTS, &DECISIONS, &ASSUMPTIONS, &REQUESTS, &COMPLETIONS]);
        Metrics::registered(registry)
    }

    pub(crate) fn decided(&self, duration: Duration) {
        self.algorithm_duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn attempted(&self, result: AttemptResult, profile: &str, duration: Duration) {
        let labels = ([("result", result.name())], profile_label(profile));
        self.attempts.get_or_create(&labels).inc();
        self.attempt_duration.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    pub(crate) fn pod_group_attempted(&self, result: AttemptResult) {
        self.pod_group_attempts.get_or_create(&[("result", result.name())]).inc();
    }

    pub(crate) fn pod_group_reserved(&self, result: ReservationResult) {
        self.pod_group_reservations.get_or_create(&[("result", result.name())]).inc();
    }

    pub(crate) fn scheduled(&self, attempts: u32, waited: Duration) {
        self.scheduling_attempts.observe(f64::from(attempts));
        // As kube-scheduler has it: more than fifteen attempts are one label.
        let attempts = if attempts >= 15 { "15+".to_owned() } else { attempts.to_string() };
        self.sli_duration.get_or_create(&[("attempts", attempts)]).observe(waited.as_secs_f64());
    }

    pub(crate) fn queued(&self, queue: &'static str, event: &'static str) {
        self.incoming.get_or_create(&[("queue", queue), ("event", event)]).inc();
    }

    pub(crate) fn drifted(&self, kind: &'static str, n: u64) {
        self.differences.get_or_create(&[("kind", kind)]).inc_by(n);
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
        let labels = [("plugin", plugin), ("extension_point", extension_point), ("status", status)];
        self.plugin_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn extension_point(
        &self,
        extension_point: &'static str,
        status: &'static str,
        profile: &str,
        took: Duration,
    ) {
        let labels = [("extension_point", extension_point), ("status", status)];
        let labels = (labels, profile_label(profile));
        self.extension_point_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

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
                let labels =
                    [("plugin", plugin.name()), ("extension_point", extension_point), ("status", "Success")];
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
                let labels = [("plugin", plugin.name()), ("extension_point", extension_point)];
                let labels = (labels, profile_label(&profile.scheduler_name));
                self.evaluations.get_or_create(&labels).inc_by(n);
            }
        }
    }

    /// The pods that plugins reject, by plugin and profile. Others have none.
    pub(crate) fn unschedulable(&self, pods: &BTreeMap<(&'static str, String), usize>) {
        self.unschedulable.clear();
        for ((plugin, profile), n) in pods {
            let labels = ([("plugin", *plugin)], profile_label(profile));
            self.unschedulable.get_or_create(&labels).set(*n as i64);
        }
    }

    /// The claims of devices of a pod were written, or that failed.
    pub(crate) fn devices_written(&self, result: &'static str) {
        self.device_claims.get_or_create(&[("result", result)]).inc();
    }

    /// The volumes of a pod could not be bound.
    pub(crate) fn volumes_failed(&self) {
        self.volume_errors.get_or_create(&[("operation", "bind")]).inc();
    }

    pub(crate) fn sizes(&self, queue: QueueCounts, n_nodes: usize, n_pods: usize, n_assumed: usize) {
        let QueueCounts { active, backoff, unschedulable, gated, in_flight: _ } = queue;
        for (queue, n) in
            [("active", active), ("backoff", backoff), ("unschedulable", unschedulable), ("gated", gated)]
        {
            self.pending.get_or_create(&[("queue", queue)]).set(n as i64);
        }
        for (kind, n) in [("nodes", n_nodes), ("pods", n_pods), ("assumed_pods", n_assumed)] {
            self.cache_size.get_or_create(&[("type", kind)]).set(n as i64);
        }
    }

    pub(crate) fn binding(&self, n_in_flight: usize) {
        self.goroutines.get_or_create(&[("operation", "binding")]).set(n_in_flight as i64);
    }
}
