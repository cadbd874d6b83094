//! What is counted.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use berth_engine::ViolatedRule;
use berth_serve::metrics::{Labels, register, registered};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::rebalance::{Progress, StepResult};
use crate::status::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionResult {
    Evicted,
    Refused,
    Failed,
    Gone,
    DryRun,
}

impl EvictionResult {
    fn name(self) -> &'static str {
        match self {
            EvictionResult::Evicted => "evicted",
            EvictionResult::Refused => "refused",
            EvictionResult::Failed => "failed",
            EvictionResult::Gone => "gone",
            EvictionResult::DryRun => "dry_run",
        }
    }
}

pub(crate) struct Metrics {
    broken: Family<Labels<1>, Gauge>,
    began: Family<Labels<1>, Counter>,
    ended: Family<Labels<1>, Counter>,
    due: Gauge,
    evictions: Family<Labels<1>, Counter>,
    evicting: Gauge,
    held: Family<Labels<1>, Gauge>,
    stopped: Gauge,
    selection: Histogram,
    pub(crate) lookups: Counter,
    pub(crate) ledger_failures: Counter,
    cache_size: Family<Labels<1>, Gauge>,
    differences: Family<Labels<1>, Counter>,
    events_dropped: Gauge,
    leads: Gauge,
    rebalance_value: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    rebalance_left: Gauge,
    moves: Family<Labels<1>, Counter>,
}

pub(crate) fn rule_name(rule: ViolatedRule) -> &'static str {
    match rule {
        ViolatedRule::PodAffinity => "pod_affinity",
        ViolatedRule::PodAntiAffinity => "pod_anti_affinity",
        // Other rules are not required during execution and are never reported.
        _ => "node_affinity",
    }
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Metrics {
        let r = registry.sub_registry_with_prefix("berth_enforcer");
        // 10 us to 5 s.
        let selection = Histogram::new(exponential_buckets(0.000_01, 2.0, 20));
        let metrics = Metrics {
            broken: register(r, "violations", "Rules required during execution that are violated now"),
            began: register(r, "violations_began", "Violations that began"),
            ended: register(
                r,
                "violations_ended",
                "Violations that ended: the rule holds again, or its pod was deleted",
            ),
            due: register(r, "violations_due", "Violations whose grace period is over"),
            evictions: register(r, "evictions", "Evictions, by result"),
            evicting: register(r, "evictions_in_flight", "Pods that are evicted and not deleted yet"),
            held: register(r, "held", "Due pods or rules without an eviction now, by reason"),
            stopped: register(r, "evictions_limited", "1 while the cluster limit stops all evictions"),
            selection: registered(r, "evaluation_duration_seconds", "Time of a victim selection", selection),
            lookups: register(r, "eviction_lookups", "Lookups of pods whose eviction had an unknown result"),
            ledger_failures: register(r, "ledger_failures", "Failed reads and writes of the ledger"),
            cache_size: register(r, "cache_size", "Objects in the state, by type"),
            differences: register(
                r,
                "state_differences",
                "Differences between the state and full lists that were repaired, by kind",
            ),
            events_dropped: register(
                r,
                "events_dropped",
                "Events that were dropped because there were too many",
            ),
            leads: register(r, "leader", "1 while this process leads"),
            rebalance_value: register(
                r,
                "rebalance_value",
                "What is to be rebalanced, by goal; 0 is the best",
            ),
            rebalance_left: register(r, "rebalance_moves_left", "Moves of the plan that are left"),
            moves: register(r, "rebalance_moves", "Moves of pods that ended, by result"),
        };
        // The names of these two before this release.
        r.register("brake_engaged", "Deprecated: berth_enforcer_evictions_limited", metrics.stopped.clone());
        r.register(
            "judgement_duration_seconds",
            "Deprecated: berth_enforcer_evaluation_duration_seconds",
            metrics.selection.clone(),
        );
        metrics
    }

    pub(crate) fn began(&self, rule: ViolatedRule) {
        let labels = [("rule", rule_name(rule))];
        self.began.get_or_create(&labels).inc();
        self.broken.get_or_create(&labels).inc();
    }

    pub(crate) fn ended(&self, rule: ViolatedRule) {
        let labels = [("rule", rule_name(rule))];
        self.ended.get_or_create(&labels).inc();
        self.broken.get_or_create(&labels).dec();
    }

    pub(crate) fn evicted(&self, result: EvictionResult) {
        self.evictions.get_or_create(&[("result", result.name())]).inc();
    }

    pub(crate) fn moved(&self, result: StepResult) {
        self.moves.get_or_create(&[("result", result.name())]).inc();
    }

    pub(crate) fn rebalancing(&self, progress: &Progress) {
        for (goal, value) in &progress.now {
            self.rebalance_value.get_or_create(&[("goal", goal.name())]).set(*value);
        }
        self.rebalance_left.set(progress.n_left() as i64);
    }

    pub(crate) fn selected(&self, duration: Duration) {
        self.selection.observe(duration.as_secs_f64());
    }

    pub(crate) fn drifted(&self, kind: &'static str, n: u64) {
        self.differences.get_or_create(&[("kind", kind)]).inc_by(n);
    }

    /// Sets the gauges to a status; `before` is the previous [`Status::held`].
    pub(crate) fn update(&self, before: &BTreeMap<&'static str, usize>, status: &Status) {
        self.due.set(status.n_due as i64);
        self.evicting.set(status.n_evicting as i64);
        self.stopped.set(i64::from(status.is_stopped));
        self.leads.set(i64::from(status.leads));
        self.events_dropped.set(status.n_events_dropped as i64);
        for reason in before.keys().filter(|reason| !status.held.contains_key(*reason)) {
            self.held.get_or_create(&[("reason", *reason)]).set(0);
        }
        for (reason, n) in &status.held {
            self.held.get_or_create(&[("reason", *reason)]).set(*n as i64);
        }
        for (kind, n) in [("nodes", status.n_nodes), ("pods", status.n_pods)] {
            self.cache_size.get_or_create(&[("type", kind)]).set(n as i64);
        }
    }
}
