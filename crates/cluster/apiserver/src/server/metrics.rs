//! Metrics with kube-apiserver's names.

use std::time::Duration;

use berth_schema::resource::{RESOURCES, Storage};
use berth_serve::metrics::{Histograms, Labels, register, registered};
use berth_serve::parts::{self, Part, SOCKETS, TLS};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::admission::Admission;
use crate::request::{RequestInfo, Verb};
use crate::store::{STORE, Store};

/// Requests, from their parsed heads to their answers, without the store.
pub static REQUESTS: Part = Part::new("requests");
/// Events of watches, and lists.
pub static RESPONSES: Part = Part::new("responses");

/// Verb, group, resource and subresource.
type RequestLabels = Labels<4>;

pub struct Metrics {
    registry: Registry,
    requests: Family<(RequestLabels, (Labels<1>, Labels<1, u16>)), Counter>,
    durations: Histograms<RequestLabels>,
    in_flight: Family<Labels<1>, Gauge>,
    long_running: Family<RequestLabels, Gauge>,
    objects: Family<Labels<1, String>, Gauge>,
    seats: Family<Labels<1>, Gauge>,
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
        parts::register(&mut registry, [&SOCKETS, &TLS, &REQUESTS, &RESPONSES, &STORE]);
        let r = &mut registry;
        let durations = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        Metrics {
            requests: register(r, "apiserver_request", "Requests by verb, resource and code"),
            durations: registered(
                r,
                "apiserver_request_duration_seconds",
                "How long requests took, watches excepted",
                durations,
            ),
            in_flight: register(r, "apiserver_current_inflight_requests", "Requests being worked on"),
            long_running: register(r, "apiserver_longrunning_requests", "Watches that are open"),
            objects: register(r, "apiserver_storage_objects", "Stored objects"),
            seats: register(
                r,
                "apiserver_flowcontrol_current_executing_seats",
                "Seats of requests that are worked on or answered, by priority level",
            ),
            registry,
        }
    }
}

fn request_labels(info: Option<&RequestInfo>) -> RequestLabels {
    [
        ("verb", info.map_or("GET", |info| metric_verb(info.verb))),
        ("group", info.map_or("", |info| info.resource.group)),
        ("resource", info.map_or("", |info| info.resource.plural)),
        ("subresource", info.map_or("", RequestInfo::subresource_name)),
    ]
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
    pub fn answered(&self, info: Option<&RequestInfo>, code: u16, took: Duration) {
        let labels = request_labels(info);
        let version = [("version", info.map_or("", |info| info.resource.version))];
        self.requests.get_or_create(&(labels, (version, [("code", code)]))).inc();
        if info.is_some_and(|info| info.verb != Verb::Watch) {
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// Counts a request from here until the result is dropped.
    pub fn begin(&self, mutating: bool) -> InFlight {
        let kind = if mutating { "mutating" } else { "readOnly" };
        counted(&self.in_flight, &[("request_kind", kind)])
    }

    /// Counts a watch from here until the result is dropped.
    pub fn begin_watch(&self, info: &RequestInfo) -> InFlight {
        counted(&self.long_running, &request_labels(Some(info)))
    }

    pub fn text(&self, store: &Store, seats: impl Iterator<Item = (&'static str, usize)>) -> String {
        for (priority_level, n) in seats {
            self.seats
                .get_or_create(&[("priority_level", priority_level)])
                .set(i64::try_from(n).unwrap_or(i64::MAX));
        }
        for resource in RESOURCES.iter().filter(|r| r.storage == Storage::Own) {
            let labels = [("resource", resource.group_resource())];
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
