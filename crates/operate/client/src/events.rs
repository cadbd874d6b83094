//! Records events about objects (`events.k8s.io/v1`).
//!
//! Events never delay other work: recording never waits, one request at a time is in flight for all of them, and the rate
//! is limited to [`RecorderOptions::rate`]. Events beyond that are dropped (type `Normal` before type `Warning`) and
//! counted. A repeated event increases the count of its `series` instead of being written again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_api::object::time::rfc3339_micros;
use berth_api::resource::NEW_EVENTS;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::call;
use crate::rate_limit::{RateLimit, Tokens};

/// The longest `note` an API server takes.
pub const MAX_NOTE_BYTES: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ATTEMPTS: u32 = 3;

#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// `reportingController`, such as `berth`.
    pub controller: String,
    /// `reportingInstance`, such as the name of the machine.
    pub instance: String,
    /// Events waiting to be written, of each type.
    pub queue: usize,
    pub rate: RateLimit,
    /// Events that are remembered to detect repetitions.
    pub remembered: usize,
    /// The count of a repeating event is written no more often than this.
    pub series_interval: Duration,
    /// An event that repeats after a longer time is a new one.
    pub series_end: Duration,
}

impl RecorderOptions {
    /// kube-scheduler's own limits: 50 a second, 100 at once.
    pub fn new(controller: impl Into<String>, instance: impl Into<String>) -> RecorderOptions {
        RecorderOptions {
            controller: controller.into(),
            instance: instance.into(),
            queue: 1024,
            rate: RateLimit { qps: 50.0, burst: 100 },
            remembered: 4096,
            series_interval: Duration::from_secs(30),
            series_end: Duration::from_secs(6 * 60),
        }
    }
}

/// An object that events are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectReference {
    pub api_version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    /// Namespace; an event without one is created in `default`.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl ObjectReference {
    pub fn pod(namespace: &str, name: &str, uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewEvent {
    pub regarding: ObjectReference,
    /// Another object that is involved.
    pub related: Option<ObjectReference>,
    pub event_type: EventType,
    /// The reason, such as `FailedScheduling`.
    pub reason: &'static str,
    /// The action, such as `Binding`.
    pub action: &'static str,
    /// The message, cut to [`MAX_NOTE_BYTES`].
    pub note: String,
    /// `reportingController`; the recorder's own if none.
    pub controller: Option<String>,
}

#[derive(Clone, Debug)]
pub struct EventRecorder {
    normal: mpsc::Sender<NewEvent>,
    warning: mpsc::Sender<NewEvent>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl EventRecorder {
    /// Starts the task that writes events; it ends at `stop`, or when the last recorder is dropped.
    pub fn start(client: kube::Client, options: RecorderOptions, stop: CancellationToken) -> EventRecorder {
        let (normal, normals) = mpsc::channel(options.queue.max(1));
        let (warning, warnings) = mpsc::channel(options.queue.max(1));
        let counts = Arc::new(Counts::default());
        let writer = Writer {
            tokens: Tokens::new(options.rate.qps, options.rate.burst, Instant::now()),
            reported_forbidden: false,
            client,
            options,
            counts: counts.clone(),
            series: HashMap::new(),
        };
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = writer.run(normals, warnings) => {}
            }
        });
        EventRecorder { normal, warning, counts }
    }

    /// Records an event, or drops it if the queue is full.
    pub fn record(&self, event: NewEvent) {
        let queue = match event.event_type {
            EventType::Normal => &self.normal,
            EventType::Warning => &self.warning,
        };
        if queue.try_send(event).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether an event of this type would be dropped now. Checking first saves formatting its message.
    pub fn is_full(&self, event_type: EventType) -> bool {
        match event_type {
            EventType::Normal => self.normal.capacity() == 0,
            EventType::Warning => self.warning.capacity() == 0,
        }
    }

    /// Events written so far, repeats included that were counted into a series.
    pub fn written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

/// An event that may repeat.
#[derive(Debug)]
struct Series {
    /// Path of the event's object.
    path: String,
    count: u64,
    /// The count as the server has it.
    written_count: u64,
    last: jiff::Timestamp,
    seen_at: Instant,
    written_at: Instant,
}

struct Writer {
    client: kube::Client,
    options: RecorderOptions,
    counts: Arc<Counts>,
    tokens: Tokens,
    reported_forbidden: bool,
    series: HashMap<NewEvent, Series>,
}

impl Writer {
    async fn run(mut self, mut normals: mpsc::Receiver<NewEvent>, mut warnings: mpsc::Receiver<NewEvent>) {
        let mut tick = tokio::time::interval(self.options.series_interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some(event) = warnings.recv() => self.write(event).await,
                _ = tick.tick() => self.write_counts().await,
                event = normals.recv() => match event {
                    Some(event) => self.write(event).await,
                    None => return,
                },
            }
        }
    }

    async fn write(&mut self, mut event: NewEvent) {
        event.note = cut(event.note, MAX_NOTE_BYTES);
        let now = Instant::now();
        if let Some(series) = self.series.get_mut(&event) {
            if now.duration_since(series.seen_at) < self.options.series_end {
                series.count += 1;
                series.seen_at = now;
                series.last = jiff::Timestamp::now();
                return;
            }
            self.series.remove(&event);
        }
        let (body, collection, name) = self.object(&event);
        let written = self.send(|| call::with_json(Method::POST, &collection, &body)).await;
        self.count(1, written);
        if written {
            if self.series.len() >= self.options.remembered {
                let end = self.options.series_end;
                self.series.retain(|_, series| now.duration_since(series.seen_at) < end);
            }
            // If the series table is full of recent entries, repetitions of this event are not counted.
            if self.series.len() < self.options.remembered {
                let last = jiff::Timestamp::now();
                let path = format!("{collection}/{name}");
                let series = Series {
                    path,
                    count: 1,
                    written_count: 1,
                    last,
                    seen_at: now,
                    written_at: Instant::now(),
                };
                self.series.insert(event, series);
            }
        }
    }

    async fn write_counts(&mut self) {
        let interval = self.options.series_interval;
        let is_due = |s: &Series| s.count > s.written_count && s.written_at.elapsed() >= interval;
        let due: Vec<NewEvent> =
            self.series.iter().filter(|(_, s)| is_due(s)).map(|(event, _)| event.clone()).collect();
        for event in due {
            let Some(series) = self.series.get_mut(&event) else { continue };
            let (count, path) = (series.count, series.path.clone());
            let grown = count - series.written_count;
            series.written_at = Instant::now();
            series.written_count = count;
            let patch = json!({"series": {"count": count, "lastObservedTime": rfc3339_micros(series.last)}});
            let request = || {
                let body = patch.to_string().into_bytes();
                call::with_body(Method::PATCH, &path, "application/merge-patch+json", body)
            };
            let written = self.send(request).await;
            self.count(grown, written);
            if !written {
                // The event may have expired; the next occurrence creates a new one.
                self.series.remove(&event);
            }
        }
    }

    fn count(&self, n: u64, written: bool) {
        let counter = if written { &self.counts.written } else { &self.counts.dropped };
        counter.fetch_add(n, Ordering::Relaxed);
    }

    async fn send(&mut self, request: impl Fn() -> http::Request<Vec<u8>>) -> bool {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));
        loop {
            tokio::time::sleep(self.tokens.take(Instant::now())).await;
            let Err(error) = call::send(&self.client, request(), TIMEOUT, call::MAX_OBJECT_BYTES).await
            else {
                return true;
            };
            let is_forbidden = error.code() == Some(403) && !error.is_namespace_terminating();
            if is_forbidden && !std::mem::replace(&mut self.reported_forbidden, true) {
                let remedy = call::rule_to_add("events.k8s.io", "events", &["create", "patch"]);
                tracing::warn!("events are dropped: {error}: {remedy}");
            }
            let is_worth_another = !error.is_refusal() || error.code() == Some(429);
            let wait = backoff.failed(fastrand::f64());
            if !is_worth_another || backoff.failures() >= MAX_ATTEMPTS {
                tracing::debug!("an event is dropped: {error}");
                return false;
            }
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }

    /// The event's object, its collection, and its name.
    fn object(&self, event: &NewEvent) -> (Value, String, String) {
        let namespace = match event.regarding.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        // Names may be 253 bytes long, the object's own as well.
        let suffix = format!(".{:016x}", fastrand::u64(..));
        let name = format!("{}{suffix}", cut_plain(&event.regarding.name, 253 - suffix.len()));
        let mut body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": rfc3339_micros(jiff::Timestamp::now()),
            "reportingController": event.controller.as_ref().unwrap_or(&self.options.controller),
            "reportingInstance": cut_plain(&self.options.instance, 128),
            "type": match event.event_type {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
            "regarding": reference(&event.regarding),
        });
        if let Some(related) = &event.related {
            body["related"] = reference(related);
        }
        (body, NEW_EVENTS.path(namespace), name)
    }
}

fn reference(object: &ObjectReference) -> Value {
    let ObjectReference { api_version, kind, namespace, name, uid } = object;
    let mut reference = json!({"apiVersion": api_version, "kind": kind, "name": name});
    for (field, value) in [("namespace", namespace), ("uid", uid)] {
        if !value.is_empty() {
            reference[field] = json!(value);
        }
    }
    reference
}

fn cut_plain(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Truncates the text to a byte limit; appends an ellipsis if it was longer.
pub fn cut(text: String, max_bytes: usize) -> String {
    const ELLIPSIS: &str = "...";
    if text.len() <= max_bytes {
        return text;
    }
    format!("{}{ELLIPSIS}", cut_plain(&text, max_bytes.saturating_sub(ELLIPSIS.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(cut("short".into(), 10), "short");
        assert_eq!(cut("ääääää".into(), 10), "äää...");
        assert!(cut("ä".repeat(2000), MAX_NOTE_BYTES).len() <= MAX_NOTE_BYTES);
    }
}
