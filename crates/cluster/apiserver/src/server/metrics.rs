//! Metrics with kube-apiserver's names.

use std::time::Duration;

use berth_schema::resource::{RESOURCES, Storage};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::admission::Admission;
use crate::request::{RequestInfo, Verb};
use crate::store::Store;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    request_kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LevelLabels {
    priority_level: &'static str,
}

/// The server's metrics.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<KindLabels, Gauge>,
    long_running: Family<DurationLabels, Gauge>,
    objects: Family<ResourceLabels, Gauge>,
    seats: Family<LevelLabels, Gauge>,
}

/// Bounds of durations in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

fn duration_histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    /// The server's metrics, and those of its in-process admission.
    pub fn new(admission: Option<&dyn Admission>) -> Metrics {
        let mut registry = Registry::default();
        if let Some(admission) = admission {
            admission.register_metrics(&mut registry);
        }
        let requests = Family::default();
        let durations = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        let (in_flight, long_running) = (Family::default(), Family::default());
        let (objects, seats) = (Family::default(), Family::default());
        registry.register("apiserver_request", "Requests by verb, resource and code", requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "How long requests took, watches excepted",
            durations.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests being worked on",
            in_flight.clone(),
        );
        registry.register("apiserver_longrunning_requests", "Watches that are open", long_running.clone());
        registry.register("apiserver_storage_objects", "Stored objects", objects.clone());
        registry.register(
            "apiserver_flowcontrol_current_executing_seats",
            "Seats of requests that are worked on or answered, by priority level",
            seats.clone(),
        );
        Metrics { registry, requests, durations, in_flight, long_running, objects, seats }
    }
}

fn duration_labels(info: &RequestInfo) -> DurationLabels {
    DurationLabels {
        verb: metric_verb(info.verb),
        group: info.resource.group,
        resource: info.resource.plural,
        subresource: info.subresource_name(),
    }
}

fn metric_verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
    }
}

/// Counts a request as in flight until it is dropped.
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Counts an answered request.
    pub fn answered(&self, info: Option<&RequestInfo>, code: u16, took: Duration) {
        let labels = RequestLabels {
            verb: info.map_or("GET", |i| metric_verb(i.verb)),
            group: info.map_or("", |i| i.resource.group),
            version: info.map_or("", |i| i.resource.version),
            resource: info.map_or("", |i| i.resource.plural),
            subresource: info.map_or("", RequestInfo::subresource_name),
            code,
        };
        self.requests.get_or_create(&labels).inc();
        if let Some(info) = info.filter(|info| info.verb != Verb::Watch) {
            self.durations.get_or_create(&duration_labels(info)).observe(took.as_secs_f64());
        }
    }

    /// Counts a request from here until the result is dropped.
    pub fn begin(&self, mutating: bool) -> InFlight {
        let labels = KindLabels { request_kind: if mutating { "mutating" } else { "readOnly" } };
        counted(&self.in_flight, &labels)
    }

    /// Counts a watch from here until the result is dropped.
    pub fn begin_watch(&self, info: &RequestInfo) -> InFlight {
        counted(&self.long_running, &duration_labels(info))
    }

    /// All metrics as text.
    pub fn text(&self, store: &Store, seats: impl Iterator<Item = (&'static str, usize)>) -> String {
        for (priority_level, n) in seats {
            self.seats
                .get_or_create(&LevelLabels { priority_level })
                .set(i64::try_from(n).unwrap_or(i64::MAX));
        }
        for resource in RESOURCES.iter().filter(|r| r.storage == Storage::Own) {
            let labels = ResourceLabels { resource: resource.group_resource() };
            self.objects.get_or_create(&labels).set(i64::try_from(store.count(resource)).unwrap_or(i64::MAX));
        }
        // Writing to a string does not fail.
        berth_serve::health::encode(&self.registry).unwrap_or_default()
    }
}

fn counted<L>(family: &Family<L, Gauge>, labels: &L) -> InFlight
where
    L: Clone + std::hash::Hash + Eq,
{
    let gauge = family.get_or_create(labels).clone();
    gauge.inc();
    InFlight(gauge)
}
