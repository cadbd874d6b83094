//! What is counted.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use berth_engine::ViolatedRule;
use berth_serve::metrics::Labels;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::rebalance::{Progress, StepResult};
use crate::status::Status;

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum EvictionResult(name) {
        Evicted = "evicted",
        Refused = "refused",
        Failed = "failed",
        Gone = "gone",
        DryRun = "dry_run",
    }
}

berth_serve::metrics! {
    pub(crate) struct Metrics {
        /// Rules required during execution that are violated now
        broken: Family<Labels<1>, Gauge> = "violations";
        /// Violations that began
        began: Family<Labels<1>, Counter> = "violations_began";
        /// Violations that ended: the rule holds again, or its pod was deleted
        ended: Family<Labels<1>, Counter> = "violations_ended";
        /// Violations whose grace period is over
        due: Gauge = "violations_due";
        /// Evictions, by result
        evictions: Family<Labels<1>, Counter> = "evictions";
        /// Pods that are evicted and not deleted yet
        evicting: Gauge = "evictions_in_flight";
        /// Due pods or rules without an eviction now, by reason
        held: Family<Labels<1>, Gauge> = "held";
        /// 1 while the cluster limit stops all evictions
        stopped: Gauge = "evictions_limited";
        /// Time of a victim selection
        selection: Histogram = "evaluation_duration_seconds" with selections();
        /// Lookups of pods whose eviction had an unknown result
        pub(crate) lookups: Counter = "eviction_lookups";
        /// Failed reads and writes of the ledger
        pub(crate) ledger_failures: Counter = "ledger_failures";
        /// Objects in the state, by type
        cache_size: Family<Labels<1>, Gauge> = "cache_size";
        /// Differences between the state and full lists that were repaired, by kind
        differences: Family<Labels<1>, Counter> = "state_differences";
        /// Events that were dropped because there were too many
        events_dropped: Gauge = "events_dropped";
        /// 1 while this process leads
        leads: Gauge = "leader";
        /// What is to be rebalanced, by goal; 0 is the best
        rebalance_value: Family<Labels<1>, Gauge<f64, AtomicU64>> = "rebalance_value";
        /// Moves of the plan that are left
        rebalance_left: Gauge = "rebalance_moves_left";
        /// Moves of pods that ended, by result
        moves: Family<Labels<1>, Counter> = "rebalance_moves";
    }
}

pub(crate) fn rule_name(rule: ViolatedRule) -> &'static str {
    match rule {
        ViolatedRule::PodAffinity => "pod_affinity",
        ViolatedRule::PodAntiAffinity => "pod_anti_affinity",
        // Other rules are not required during execution and are never reported.
        _ => "node_affinity",
    }
}

fn selections() -> Histogram {
    // 10 us to 5 s.
    Histogram::new(exponential_buckets(0.000_01, 2.0, 20))
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Metrics {
        let r = registry.sub_registry_with_prefix("berth_enforcer");
        let metrics = Metrics::registered(r);
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
