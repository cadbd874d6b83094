//! The usage of quotas as metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Amounts, PlacementQuota};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    quota: String,
    resource: &'static str,
}

/// Gauges in CPUs, bytes and nodes.
#[derive(Clone, Debug, Default)]
pub struct QuotaMetrics {
    used: Family<Labels, Gauge<f64, AtomicU64>>,
    hard: Family<Labels, Gauge<f64, AtomicU64>>,
}

impl QuotaMetrics {
    /// Adds the metrics to a registry without prefix.
    pub fn add_to(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("berth_admission");
        let used = "Opportunity cost charged to placement quotas, in CPUs, bytes and nodes";
        registry.register("placement_quota_used", used, self.used.clone());
        let hard = "Limits of placement quotas, in CPUs, bytes and nodes";
        registry.register("placement_quota_hard", hard, self.hard.clone());
    }

    pub(super) fn set(&self, quotas: &[Arc<PlacementQuota>]) {
        self.used.clear();
        self.hard.clear();
        for quota in quotas {
            let metadata = &quota.metadata;
            let value = |resource, amount: i64| {
                let unit = if resource == "cpu" { 1000.0 } else { 1.0 };
                amount as f64 / unit
            };
            let labels = |resource| Labels {
                namespace: metadata.namespace.clone(),
                quota: metadata.name.clone(),
                resource,
            };
            for (resource, used) in Amounts::sum(&quota.status.charges).per_resource() {
                self.used.get_or_create(&labels(resource)).set(value(resource, used));
            }
            for (resource, hard) in quota.spec.hard.per_resource() {
                if let Some(hard) = hard {
                    self.hard.get_or_create(&labels(resource)).set(value(resource, hard));
                }
            }
        }
    }
}
