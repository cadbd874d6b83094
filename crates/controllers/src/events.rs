//! Events, as `kubectl describe` shows them.
//!
//! Recording never waits and never fails its caller: what cannot be written in time is dropped. The same event again raises the
//! count of the first one; an object that has many different things happen to it gets only so many events.

use std::collections::HashMap;

use berth_api::object::NamespacedName;
use berth_api::object::time::rfc3339;
use berth_api::resource::{EVENTS, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::view::{ObjectMeta, PartialObjectMetadata};

/// Events that wait to be written.
const MAX_WAITING: usize = 2_000;
/// Events remembered for counting.
const MAX_REMEMBERED: usize = 4_096;
/// New events of one object and source in a row, as of kube-controller-manager.
const BURST: f64 = 25.0;
/// Seconds after which an object may have one more.
const REFILL_SECONDS: f64 = 300.0;
/// Longest message the API accepts.
const MAX_MESSAGE: usize = 1_024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// What an event is about.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) resource: &'static Resource,
    pub(crate) key: NamespacedName,
    pub(crate) uid: String,
}

impl Reference {
    pub(crate) fn new(kind: &'static Resource, meta: &ObjectMeta) -> Self {
        Reference { resource: kind, key: meta.namespaced_name(), uid: meta.uid.clone() }
    }
}

struct Event {
    source: &'static str,
    about: Reference,
    severity: Severity,
    reason: &'static str,
    message: String,
    time: Timestamp,
}

/// Hands events to the task that writes them.
#[derive(Clone)]
pub(crate) struct Recorder {
    source: &'static str,
    waiting: mpsc::Sender<Event>,
}

impl Recorder {
    /// The same recorder under the name of another controller.
    pub(crate) fn of(&self, source: &'static str) -> Recorder {
        Recorder { source, waiting: self.waiting.clone() }
    }

    pub(crate) fn normal(&self, about: &Reference, reason: &'static str, message: impl Into<String>) {
        self.record(about, Severity::Normal, reason, message.into());
    }

    pub(crate) fn warning(&self, about: &Reference, reason: &'static str, message: impl Into<String>) {
        self.record(about, Severity::Warning, reason, message.into());
    }

    fn record(&self, about: &Reference, severity: Severity, reason: &'static str, mut message: String) {
        if message.len() > MAX_MESSAGE {
            let cut = (0..=MAX_MESSAGE - 3).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
            message.truncate(cut);
            message.push_str("...");
        }
        let time = Timestamp::now();
        let event = Event { source: self.source, about: about.clone(), severity, reason, message, time };
        if self.waiting.try_send(event).is_err() {
            tracing::debug!(reason, "an event was dropped: too many at once");
        }
    }
}

/// A recorder and the task that writes its events until `stop`.
pub(crate) fn recorder(api: Api, stop: CancellationToken) -> (Recorder, impl Future<Output = ()>) {
    let (waiting, mut events) = mpsc::channel(MAX_WAITING);
    let task = async move {
        let mut correlator = Correlator::default();
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = stop.cancelled() => return,
            };
            let Some(event) = event else { return };
            match correlator.correlate(&event) {
                Write::Nothing => {}
                Write::Create(name, object) => {
                    let namespace = event_namespace(&event.about);
                    let body = object.to_string().into_bytes();
                    if let Err(error) = api.create::<PartialObjectMetadata>(&EVENTS, namespace, body).await {
                        correlator.forget(&name);
                        tracing::debug!(%error, "an event was not written");
                    }
                }
                Write::Count(name, patch) => {
                    let key = NamespacedName::new(event_namespace(&event.about), name.as_str());
                    if api.patch::<PartialObjectMetadata>(&EVENTS, &key, "", &patch).await.is_err() {
                        // Most likely expired: the next one is a new event.
                        correlator.forget(&name);
                    }
                }
            }
        }
    };
    (Recorder { source: "", waiting }, task)
}

/// Events of cluster-scoped objects live in `default`.
fn event_namespace(about: &Reference) -> &str {
    if about.key.namespace().is_empty() { "default" } else { about.key.namespace() }
}

enum Write {
    Nothing,
    Create(String, Value),
    Count(String, Value),
}

/// Tells new events from repeated ones.
#[derive(Default)]
struct Correlator {
    known: HashMap<(&'static str, String, &'static str, String), Known>,
    budgets: HashMap<(&'static str, String), (f64, Timestamp)>,
    sequence: u64,
}

struct Known {
    name: String,
    count: i64,
    used: u64,
}

impl Correlator {
    fn correlate(&mut self, event: &Event) -> Write {
        self.sequence += 1;
        let id = (event.source, event.about.uid.clone(), event.reason, event.message.clone());
        // Repetitions are paid for as well: a controller that fails in a loop must not write in a loop.
        if !self.pay(event) {
            return Write::Nothing;
        }
        let time = rfc3339(event.time);
        if let Some(known) = self.known.get_mut(&id) {
            known.count += 1;
            known.used = self.sequence;
            let patch = json!({"count": known.count, "lastTimestamp": time});
            return Write::Count(known.name.clone(), patch);
        }
        let suffix = u64::try_from(event.time.as_nanosecond()).unwrap_or_default();
        let name = format!("{}.{:x}", event.about.key.name(), suffix.wrapping_add(self.sequence));
        let about = &event.about;
        let severity = match event.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let mut involved = json!({"apiVersion": about.resource.api_version(), "kind": about.resource.kind, "name": about.key.name(), "uid": about.uid});
        if !about.key.namespace().is_empty() {
            involved["namespace"] = (*about.key.namespace()).into();
        }
        let object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": event_namespace(about)},
            "involvedObject": involved,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": event.source},
            "reportingComponent": event.source,
            "reportingInstance": "",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "type": severity,
        });
        if self.known.len() >= MAX_REMEMBERED {
            let mut uses: Vec<u64> = self.known.values().map(|known| known.used).collect();
            let (_, &mut median, _) = uses.select_nth_unstable(MAX_REMEMBERED / 2);
            self.known.retain(|_, known| known.used > median);
        }
        self.known.insert(id, Known { name: name.clone(), count: 1, used: self.sequence });
        Write::Create(name, object)
    }

    fn pay(&mut self, event: &Event) -> bool {
        if self.budgets.len() >= MAX_REMEMBERED {
            self.budgets.retain(|_, (left, since)| refilled(*left, *since, event.time) < BURST);
            if self.budgets.len() >= MAX_REMEMBERED {
                self.budgets.clear();
            }
        }
        let id = (event.source, event.about.uid.clone());
        let (left, since) = self.budgets.entry(id).or_insert((BURST, event.time));
        *left = refilled(*left, *since, event.time);
        *since = event.time;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    fn forget(&mut self, name: &str) {
        self.known.retain(|_, known| known.name != name);
    }
}

fn refilled(left: f64, since: Timestamp, now: Timestamp) -> f64 {
    let seconds = now.duration_since(since).as_secs_f64().max(0.0);
    (left + seconds / REFILL_SECONDS).min(BURST)
}

#[cfg(test)]
mod tests {
    use berth_api::resource::PODS;

    use super::*;

    fn event(uid: &str, message: &str) -> Event {
        let key = NamespacedName::new("a", "x");
        let about = Reference { resource: &PODS, key, uid: uid.into() };
        let (message, time) = (message.to_owned(), Timestamp::UNIX_EPOCH);
        Event { source: "test", about, severity: Severity::Normal, reason: "Reason", message, time }
    }

    #[test]
    fn the_same_event_again_raises_its_count() {
        let mut correlator = Correlator::default();
        let Write::Create(first, _) = correlator.correlate(&event("1", "m")) else { panic!("new") };
        let Write::Count(name, patch) = correlator.correlate(&event("1", "m")) else { panic!("repeated") };
        assert_eq!((name, &patch["count"]), (first.clone(), &json!(2)));
        let Write::Create(other, _) = correlator.correlate(&event("2", "m")) else {
            panic!("another object")
        };
        assert_ne!(first, other);
    }

    #[test]
    fn an_object_gets_only_so_many_events_and_memory_is_bounded() {
        let mut correlator = Correlator::default();
        let written = |write| !matches!(write, Write::Nothing);
        let n = (0..100).filter(|i| written(correlator.correlate(&event("1", &i.to_string())))).count();
        assert_eq!(n, BURST as usize);
        for i in 0..3 * MAX_REMEMBERED {
            correlator.correlate(&event(&format!("u{i}"), "m"));
        }
        assert!(correlator.known.len() <= MAX_REMEMBERED && correlator.budgets.len() <= MAX_REMEMBERED);
    }
}
