//! What is counted.

use std::fmt;
use std::time::Duration;

use berth_serve::metrics::{Labels, register, registered};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::answer::{Answer, ReviewError};
use crate::quota::QuotaMetrics;
use crate::review::Endpoint;

pub(super) struct Metrics {
    registry: Registry,
    reviews: Family<Labels<2>, Counter>,
    denials: Family<Labels<1>, Counter>,
    refused: Family<Labels<1, u16>, Counter>,
    reloads: Family<Labels<1>, Counter>,
    duration: Histogram,
    held: Gauge,
}

impl Metrics {
    pub(super) fn new(quotas: &QuotaMetrics) -> Metrics {
        let mut all = Registry::default();
        quotas.add_to(&mut all);
        let r = all.sub_registry_with_prefix("berth_admission");
        // 20 µs to 2.6 s.
        let duration = Histogram::new(exponential_buckets(20e-6, 2.0, 18));
        let metrics = Metrics {
            reviews: register(r, "reviews", "Reviews, by path and result"),
            denials: register(r, "denials", "Requests that were denied, by rule"),
            refused: register(r, "refused_requests", "HTTP requests that were no reviews"),
            reloads: register(r, "certificate_reloads", "New certificates, by result"),
            duration: registered(r, "review_duration_seconds", "Time from body to answer", duration),
            held: register(r, "held_bindings", "Bindings that were allowed and not seen"),
            registry: Registry::default(),
        };
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
        self.reviews.get_or_create(&[("path", endpoint.path()), ("result", result)]).inc();
        if let Ok(Answer { denied: Some(denial), .. }) = answer {
            self.denials.get_or_create(&[("rule", denial.rule.name())]).inc();
        }
        self.duration.observe(duration.as_secs_f64());
    }

    pub(super) fn refused(&self, code: u16) {
        self.refused.get_or_create(&[("code", code)]).inc();
    }

    pub(super) fn certificate_reloaded(&self, is_good: bool) {
        let result = if is_good { "replaced" } else { "failed" };
        self.reloads.get_or_create(&[("result", result)]).inc();
    }

    pub(super) fn text(&self, n_held: usize) -> Result<String, fmt::Error> {
        self.held.set(i64::try_from(n_held).unwrap_or(i64::MAX));
        berth_serve::health::encode(&self.registry)
    }
}
