//! What is counted.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::answer::{Answer, ReviewError};
use crate::quota::QuotaMetrics;
use crate::review::Endpoint;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Review {
    path: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Denied {
    rule: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reload {
    result: &'static str,
}

/// The metrics of a server.
pub(super) struct Metrics {
    registry: Registry,
    reviews: Family<Review, Counter>,
    denials: Family<Denied, Counter>,
    refused: Family<Refused, Counter>,
    reloads: Family<Reload, Counter>,
    duration: Histogram,
    held: Gauge,
}

impl Metrics {
    pub(super) fn new(quotas: &QuotaMetrics) -> Metrics {
        let mut all = Registry::default();
        quotas.add_to(&mut all);
        let registry = all.sub_registry_with_prefix("berth_admission");
        let metrics = Metrics {
            reviews: Family::default(),
            denials: Family::default(),
            refused: Family::default(),
            reloads: Family::default(),
            // 20 µs to 2.6 s.
            duration: Histogram::new(exponential_buckets(20e-6, 2.0, 18)),
            held: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("reviews", "Reviews, by path and result", metrics.reviews.clone());
        registry.register("denials", "Requests that were denied, by rule", metrics.denials.clone());
        registry.register("refused_requests", "HTTP requests that were no reviews", metrics.refused.clone());
        registry.register("certificate_reloads", "New certificates, by result", metrics.reloads.clone());
        registry.register("review_duration_seconds", "Time from body to answer", metrics.duration.clone());
        registry.register("held_bindings", "Bindings that were allowed and not seen", metrics.held.clone());
        Metrics { registry: all, ..metrics }
    }

    pub(super) fn reviewed(
        &self,
        endpoint: Endpoint,
        answer: &Result<Answer, ReviewError>,
        duration: Duration,
    ) {
        let result = match answer {
            Ok(answer) if answer.is_allowed() => "allowed",
            Ok(_) => "denied",
            Err(_) => "unanswered",
        };
        self.reviews.get_or_create(&Review { path: endpoint.path(), result }).inc();
        if let Ok(Answer { denied: Some(denial), .. }) = answer {
            self.denials.get_or_create(&Denied { rule: denial.rule.name() }).inc();
        }
        self.duration.observe(duration.as_secs_f64());
    }

    pub(super) fn refused(&self, code: u16) {
        self.refused.get_or_create(&Refused { code }).inc();
    }

    pub(super) fn certificate_reloaded(&self, is_good: bool) {
        let result = if is_good { "replaced" } else { "failed" };
        self.reloads.get_or_create(&Reload { result }).inc();
    }

    /// The metrics as text.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn text(&self, n_held: usize) -> Result<String, fmt::Error> {
        self.held.set(i64::try_from(n_held).unwrap_or(i64::MAX));
        berth_serve::health::encode(&self.registry)
    }
}
