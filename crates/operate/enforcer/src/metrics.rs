//! What is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_engine::ViolatedRule;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::status::Status;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RuleLabels {
    rule: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TypeLabels {
    r#type: &'static str,
}

/// How a request to evict ended.
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

/// All metrics of an enforcer.
pub(crate) struct Metrics {
    broken: Family<RuleLabels, Gauge>,
    began: Family<RuleLabels, Counter>,
    ended: Family<RuleLabels, Counter>,
    due: Gauge,
    evictions: Family<ResultLabels, Counter>,
    evicting: Gauge,
    held: Family<ReasonLabels, Gauge>,
    stopped: Gauge,
    selection: Histogram,
    pub(crate) lookups: Counter,
    pub(crate) ledger_failures: Counter,
    cache_size: Family<TypeLabels, Gauge>,
    differences: Family<KindLabels, Counter>,
    events_dropped: Gauge,
    leads: Gauge,
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
    /// Creates the metrics and registers them.
    pub(crate) fn new(registry: &mut Registry) -> Metrics {
        let m = Metrics {
            broken: Family::default(),
            began: Family::default(),
            ended: Family::default(),
            due: Gauge::default(),
            evictions: Family::default(),
            evicting: Gauge::default(),
            held: Family::default(),
            stopped: Gauge::default(),
            // 10 us to 5 s.
            selection: Histogram::new(exponential_buckets(0.000_01, 2.0, 20)),
            lookups: Counter::default(),
            ledger_failures: Counter::default(),
            cache_size: Family::default(),
            differences: Family::default(),
            events_dropped: Gauge::default(),
            leads: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("berth_enforcer");
        registry.register(
            "violations",
            "Rules required during execution that are violated now",
            m.broken.clone(),
        );
        registry.register("violations_began", "Violations that began", m.began.clone());
        registry.register(
            "violations_ended",
            "Violations that ended: the rule holds again, or its pod was deleted",
            m.ended.clone(),
        );
        registry.register("violations_due", "Violations whose grace period is over", m.due.clone());
        registry.register("evictions", "Evictions, by result", m.evictions.clone());
        registry.register(
            "evictions_in_flight",
            "Pods that are evicted and not deleted yet",
            m.evicting.clone(),
        );
        registry.register("held", "Due pods or rules without an eviction now, by reason", m.held.clone());
        registry.register(
            "evictions_limited",
            "1 while the cluster limit stops all evictions",
            m.stopped.clone(),
        );
        registry.register("evaluation_duration_seconds", "Time of a victim selection", m.selection.clone());
        // The names of these two before this release.
        registry.register("brake_engaged", "Deprecated: berth_enforcer_evictions_limited", m.stopped.clone());
        registry.register(
            "judgement_duration_seconds",
            "Deprecated: berth_enforcer_evaluation_duration_seconds",
            m.selection.clone(),
        );
        registry.register(
            "eviction_lookups",
            "Lookups of pods whose eviction had an unknown result",
            m.lookups.clone(),
        );
        registry.register(
            "ledger_failures",
            "Failed reads and writes of the ledger",
            m.ledger_failures.clone(),
        );
        registry.register("cache_size", "Objects in the state, by type", m.cache_size.clone());
        registry.register(
            "state_differences",
            "Differences between the state and full lists that were repaired, by kind",
            m.differences.clone(),
        );
        registry.register(
            "events_dropped",
            "Events that were dropped because there were too many",
            m.events_dropped.clone(),
        );
        registry.register("leader", "1 while this process leads", m.leads.clone());
        m
    }

    pub(crate) fn began(&self, rule: ViolatedRule) {
        let labels = RuleLabels { rule: rule_name(rule) };
        self.began.get_or_create(&labels).inc();
        self.broken.get_or_create(&labels).inc();
    }

    pub(crate) fn ended(&self, rule: ViolatedRule) {
        let labels = RuleLabels { rule: rule_name(rule) };
        self.ended.get_or_create(&labels).inc();
        self.broken.get_or_create(&labels).dec();
    }

    pub(crate) fn evicted(&self, result: EvictionResult) {
        self.evictions.get_or_create(&ResultLabels { result: result.name() }).inc();
    }

    pub(crate) fn selected(&self, duration: Duration) {
        self.selection.observe(duration.as_secs_f64());
    }

    pub(crate) fn drifted(&self, kind: &'static str, n: u64) {
        self.differences.get_or_create(&KindLabels { kind }).inc_by(n);
    }

    /// Sets the gauges to a status; `before` is the previous [`Status::held`].
    pub(crate) fn update(&self, before: &BTreeMap<&'static str, usize>, status: &Status) {
        self.due.set(status.n_due as i64);
        self.evicting.set(status.n_evicting as i64);
        self.stopped.set(i64::from(status.is_stopped));
        self.leads.set(i64::from(status.leads));
        self.events_dropped.set(status.n_events_dropped as i64);
        for reason in before.keys().filter(|reason| !status.held.contains_key(*reason)) {
            self.held.get_or_create(&ReasonLabels { reason }).set(0);
        }
        for (reason, n) in &status.held {
            self.held.get_or_create(&ReasonLabels { reason }).set(*n as i64);
        }
        for (r#type, n) in [("nodes", status.n_nodes), ("pods", status.n_pods)] {
            self.cache_size.get_or_create(&TypeLabels { r#type }).set(n as i64);
        }
    }
}
