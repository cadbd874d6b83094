//! Endless watches: the loop that lists, watches and retries.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::ended::Ended;
use super::event::{Deliver, Event, StreamEvent};
use super::frame::{Line, read_object};
use super::object::KubeObject;
use super::options::WatchOptions;
use super::watcher::Watcher;
use crate::backoff::Backoff;
use crate::outage_log;

/// A watch that stayed open this long counts as a success, even without events.
const LONG_WATCH: Duration = Duration::from_secs(5);

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
            let wait = ended.retry_after().map_or(wait, |requested| requested.max(wait));
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}
