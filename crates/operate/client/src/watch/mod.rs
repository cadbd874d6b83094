//! List and watch of one resource as one endless stream of events.
//!
//! A watcher lists, then watches from the resource version of the list. A watch that ends, breaks or stalls is resumed
//! from the last resource version. When that version has expired (410), the watcher lists again. It uses streaming lists
//! where the server supports them, otherwise pages. In both cases the watcher delivers a list as it arrives, without
//! buffering it; [`watch`] collects it for consumers that need it whole.
//!
//! A watcher never gives up: it logs errors and retries with back-off until its receiver is dropped.

#![allow(unexpected_cfgs, reason = "cargo-fuzz sets `fuzzing`")]

mod frame;
mod list;
mod object;
mod request;

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_api::resource::percent_encoded;
use futures::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::backoff::Backoff;
use crate::call::CallError;
use crate::outage_log;
#[cfg(fuzzing)]
pub use frame::fuzz_frames;
pub use frame::{Line, read_object};
pub use list::{ListError, Pages, list};
pub use object::{Generated, KubeObject};

/// A watch that stayed open this long counts as a success, even without events.
const LONG_WATCH: Duration = Duration::from_secs(5);

/// An event of [`watch_into`]: lists are streamed, object by object.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent<T> {
    /// A list starts: the first one, or one after the resource version expired. An interrupted list starts again.
    Init,
    /// An object of the list.
    InitApply(T),
    /// The list is complete. Objects that were neither in it nor applied since [`StreamEvent::Init`] no longer exist.
    InitDone,
    /// An object was added or changed.
    Apply(T),
    /// An object was deleted, or stopped matching the selectors. This is its last state.
    Delete(T),
}

/// An event of a [`WatchStream`]: lists are collected.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T> {
    /// A complete list. Objects of earlier events that are not in it no longer exist.
    Restarted(Vec<T>),
    /// An object was added or changed.
    Applied(T),
    /// An object was deleted, or stopped matching the selectors. This is its last state.
    Deleted(T),
}

/// What to watch, with timeouts and limits.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Path of the collection, such as `/api/v1/pods` or `/apis/apps/v1/namespaces/default/replicasets`.
    pub path: String,
    /// Field selector, such as `spec.nodeName=node-1`.
    pub field_selector: Option<String>,
    /// Label selector, such as `app=web`.
    pub label_selector: Option<String>,
    /// Objects in a page of a list, where lists do not stream.
    pub page_size: u32,
    /// Whether to use streaming lists. If the server refuses them, the client requests pages instead.
    pub streaming_lists: bool,
    /// Whether a resource that the server does not have (404) counts as an empty list. The watch keeps retrying.
    pub missing_is_empty: bool,
    /// `timeoutSeconds` of a watch is drawn between this and twice this, so that the watches of many clients do not end
    /// at the same time.
    pub watch_timeout: Duration,
    /// A watch or a streaming list without any data for this long (servers send a bookmark once a minute) is closed
    /// and started again.
    pub idle_timeout: Duration,
    /// Timeout for response headers, and for a page of a list.
    pub list_timeout: Duration,
    /// An object's JSON, with its event, may not be larger than this.
    pub max_object_bytes: usize,
    /// A page of a list may not be larger than this.
    pub max_page_bytes: usize,
    /// The back-off after the first failure.
    pub first_retry: Duration,
    /// The longest back-off.
    pub longest_retry: Duration,
    /// Capacity of the event channel; when it is full, the client stops reading from the server.
    pub buffer: usize,
    /// Gets the error while the watch is interrupted, and none while it works.
    pub outage: Option<tokio::sync::watch::Sender<Option<String>>>,
}

impl WatchOptions {
    /// All objects of a collection, with defaults that suit a cluster's API server.
    pub fn new(path: impl Into<String>) -> WatchOptions {
        WatchOptions {
            path: path.into(),
            field_selector: None,
            label_selector: None,
            page_size: 500,
            streaming_lists: true,
            missing_is_empty: false,
            watch_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(90),
            list_timeout: Duration::from_secs(60),
            max_object_bytes: 16 << 20,
            max_page_bytes: 1 << 30,
            first_retry: Duration::from_millis(200),
            longest_retry: Duration::from_secs(10),
            buffer: 1024,
            outage: None,
        }
    }

    /// Only objects whose fields match.
    pub fn fields(self, selector: impl Into<String>) -> WatchOptions {
        WatchOptions { field_selector: Some(selector.into()), ..self }
    }

    /// Only objects whose labels match.
    pub fn labels(self, selector: impl Into<String>) -> WatchOptions {
        WatchOptions { label_selector: Some(selector.into()), ..self }
    }

    fn report_outage(&self, error: Option<String>) {
        if let Some(outage) = &self.outage {
            outage.send_if_modified(|last| {
                let is_new = *last != error;
                *last = error;
                is_new
            });
        }
    }

    /// The path with selectors and more parameters.
    fn uri(&self, parameters: &str) -> String {
        let mut uri = format!("{}?{parameters}", self.path);
        for (name, selector) in
            [("fieldSelector", &self.field_selector), ("labelSelector", &self.label_selector)]
        {
            if let Some(selector) = selector {
                uri.push_str(&format!("&{name}={}", percent_encoded(selector)));
            }
        }
        uri
    }
}

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// The server closed the watch.
    #[error("the server closed the watch")]
    Closed,
    /// The resource version to continue from has expired.
    #[error("the resource version expired")]
    Expired,
    /// The server does not support streaming lists.
    #[error("the server does not support streaming lists")]
    NotStreaming,
    /// No data for too long.
    #[error("no data for {0:?}")]
    Silent(Duration),
    #[error(transparent)]
    Call(#[from] CallError),
    /// An event cannot be read: the same one would come again from the last resource version.
    #[error("an event cannot be read: {0}")]
    Unreadable(String),
    /// The connection broke, or the response is invalid.
    #[error("{0}")]
    Broken(String),
    /// The receiver of the events was dropped.
    #[error("the receiver was dropped")]
    Unwanted,
}

impl Ended {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Ended::Call(error) => error.retry_after(),
            _ => None,
        }
    }
}

/// The stream of events of [`watch`]. It never ends by itself; dropping it ends the watch.
#[derive(Debug)]
pub struct WatchStream<T> {
    events: mpsc::Receiver<Event<T>>,
}

impl<T> WatchStream<T> {
    /// The next event; none only when the runtime shuts down.
    pub async fn next(&mut self) -> Option<Event<T>> {
        self.events.recv().await
    }

    /// Waits for events and takes at most `limit` of them. Cancel safe. Returns how many were taken.
    pub async fn next_many(&mut self, taken: &mut Vec<Event<T>>, limit: usize) -> usize {
        self.events.recv_many(taken, limit).await
    }
}

impl<T> Stream for WatchStream<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        self.events.poll_recv(context)
    }
}

/// Watches a resource in a task of its own, which also decodes, and collects its lists.
pub fn watch<T>(client: kube::Client, options: WatchOptions) -> WatchStream<T>
where
    T: KubeObject + DeserializeOwned + Send + 'static,
{
    let (sender, events) = mpsc::channel(options.buffer.max(1));
    let listed: Mutex<Option<Vec<T>>> = Mutex::default();
    let collect = move |event| {
        let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            StreamEvent::Init => *listed = Some(Vec::new()),
            StreamEvent::InitApply(object) => listed.get_or_insert_default().push(object),
            StreamEvent::InitDone => return listed.take().map(Event::Restarted),
            StreamEvent::Apply(object) => return Some(Event::Applied(object)),
            StreamEvent::Delete(object) => match &mut *listed {
                Some(listed) => listed.retain(|other| other.key() != object.key()),
                None => return Some(Event::Deleted(object)),
            },
        }
        None
    };
    tokio::spawn(watch_with(client, options, sender, |line, _| read_object(line), collect));
    WatchStream { events }
}

/// Watches a resource and sends the events to a channel; `wrap` makes the channel's items. Ends when the channel closes.
pub async fn watch_into<T, M>(
    client: kube::Client,
    options: WatchOptions,
    sender: mpsc::Sender<M>,
    wrap: impl Fn(StreamEvent<T>) -> M + Send + Sync,
) where
    T: KubeObject + DeserializeOwned + Send,
    M: Send,
{
    watch_with(client, options, sender, |line, _| read_object(line), |event| Some(wrap(event))).await;
}

/// As [`watch_into`], with a reader for the lines of watches, and dropping the events for which `wrap` returns none.
/// Lists in pages are read as JSON of `T`.
pub async fn watch_with<T, M>(
    client: kube::Client,
    options: WatchOptions,
    sender: mpsc::Sender<M>,
    read: impl Fn(&[u8], Line) -> Result<T, serde_json::Error> + Send + Sync,
    wrap: impl Fn(StreamEvent<T>) -> Option<M> + Send + Sync,
) where
    T: KubeObject + DeserializeOwned + Send,
    M: Send,
{
    let mut watcher = Watcher { client, streaming: options.streaming_lists, options, version: None };
    let deliver = Deliver { sender: &sender, read: &read, wrap: &wrap };
    let mut backoff = Backoff::new(watcher.options.first_retry, watcher.options.longest_retry);
    let mut reported_empty = false;
    loop {
        let began = tokio::time::Instant::now();
        let (ended, mut progressed) = tokio::select! {
            // Without events, a watch would not notice that its receiver was dropped.
            () = sender.closed() => return,
            ended = watcher.step(&deliver) => ended,
        };
        let is_usual_end = matches!(ended, Ended::Closed | Ended::Silent(_));
        progressed |= is_usual_end && began.elapsed() >= LONG_WATCH.min(watcher.options.idle_timeout);
        if progressed {
            backoff.succeeded();
        }
        let path = &watcher.options.path;
        match &ended {
            Ended::Unwanted => return,
            Ended::NotStreaming => {
                tracing::debug!(path, "{ended}: listing in pages");
                watcher.streaming = false;
                continue;
            }
            Ended::Expired => {
                tracing::info!(path, "{ended}: listing again");
                watcher.version = None;
            }
            Ended::Closed | Ended::Silent(_) => tracing::debug!(path, "watch ended: {ended}"),
            Ended::Call(error) if error.is_not_found() && watcher.options.missing_is_empty => {
                if !std::mem::replace(&mut reported_empty, true) {
                    tracing::warn!(path, "the server does not have this resource: treated as an empty list");
                    for event in [StreamEvent::Init, StreamEvent::InitDone] {
                        if deliver.send(event).await.is_err() {
                            return;
                        }
                    }
                }
            }
            error => {
                if matches!(error, Ended::Unreadable(_)) {
                    watcher.version = None;
                }
                watcher.options.report_outage(Some(error.to_string()));
                outage_log::failed(|| format!("watch of {path} interrupted: {error}"));
            }
        }
        // A watch that made progress is resumed without delay.
        let at_once = progressed && matches!(ended, Ended::Closed | Ended::Expired | Ended::Silent(_));
        if !at_once {
            let wait = backoff.failed(fastrand::f64());
            let wait = ended.retry_after().map_or(wait, |asked| asked.max(wait));
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Reads the object of a line.
type Read<'a, T> = dyn Fn(&[u8], Line) -> Result<T, serde_json::Error> + Send + Sync + 'a;

/// How objects are read, and where events are sent.
struct Deliver<'a, T, M> {
    sender: &'a mpsc::Sender<M>,
    read: &'a Read<'a, T>,
    wrap: &'a (dyn Fn(StreamEvent<T>) -> Option<M> + Send + Sync),
}

struct Watcher {
    client: kube::Client,
    options: WatchOptions,
    /// Whether to ask for streaming lists.
    streaming: bool,
    /// The last resource version seen; none before the first list, and after it expired.
    version: Option<String>,
}

impl Watcher {
    /// Lists if there is no resource version, then watches until the watch ends. Returns also whether there was
    /// progress.
    async fn step<T, M>(&mut self, deliver: &Deliver<'_, T, M>) -> (Ended, bool)
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        let mut progressed = false;
        if self.version.is_none() && !self.streaming {
            match self.list(deliver).await {
                Ok(version) => self.version = Some(version),
                Err(ended) => return (ended, false),
            }
            progressed = true;
        }
        let ended = self.watch(deliver, &mut progressed).await;
        (ended, progressed)
    }
}

impl<T, M> Deliver<'_, T, M> {
    async fn send(&self, event: StreamEvent<T>) -> Result<(), Ended> {
        match (self.wrap)(event) {
            Some(item) => self.sender.send(item).await.map_err(|_| Ended::Unwanted),
            None => Ok(()),
        }
    }
}
