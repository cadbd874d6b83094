//! List and watch of one resource as one endless stream of changes.
//!
//! A watcher lists, then watches from the version of the list. A watch that ends, breaks or goes silent is taken up
//! again from the last version seen; when the server has forgotten that version (410), everything is listed anew and
//! told as [`Event::Restarted`], which replaces all that was told before: what is not in it is gone. Where the server
//! has streaming lists they are used, otherwise lists in pages.
//!
//! Nothing is given up: refusals, errors and dead servers are logged and tried again, later and later, as long as
//! somebody takes the events.

mod frame;
mod list;
mod object;
mod watch;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::backoff::Backoff;
use crate::call::{CallError, encoded};
pub use frame::{Line, read_object};
pub use object::{Generated, KubeObject};

/// A watch of this length has done its work, though nothing was told.
const LONG_WATCH: Duration = Duration::from_secs(5);

/// A change of the followed objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T> {
    /// All objects there are now. What was told before and is not among them is gone.
    Restarted(Vec<T>),
    /// An object as it is now, new or changed.
    Applied(T),
    /// An object as it was when it went, or when it stopped matching the selectors.
    Deleted(T),
}

/// What to follow, and with how much patience.
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
    /// Whether to ask for streaming lists. Servers that refuse them are asked for pages instead.
    pub streaming_lists: bool,
    /// Whether a resource that the server does not have (404) is told as empty, once; it is asked for again all the
    /// same.
    pub missing_is_empty: bool,
    /// How long the server is asked to keep a watch open. Drawn between this and twice this, so that not all watches
    /// of all clients end at once.
    pub watch_timeout: Duration,
    /// A watch or a streaming list that says nothing for this long (not even a bookmark, which servers send once a
    /// minute) is taken for dead and started again.
    pub idle_timeout: Duration,
    /// How long the head of an answer, or a page of a list, may take.
    pub list_timeout: Duration,
    /// An object's JSON, with its event, may not be larger than this.
    pub max_object_bytes: usize,
    /// A page of a list may not be larger than this.
    pub max_page_bytes: usize,
    /// The wait after the first failure.
    pub first_retry: Duration,
    /// The longest wait after failures in a row.
    pub longest_retry: Duration,
    /// Events waiting to be taken; when as many wait, the server is not read any further.
    pub buffer: usize,
}

impl WatchOptions {
    /// Everything under a path, with the patience that suits a cluster's API server.
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

    /// The path with selectors and more parameters.
    fn uri(&self, parameters: &str) -> String {
        let mut uri = format!("{}?{parameters}", self.path);
        for (name, selector) in
            [("fieldSelector", &self.field_selector), ("labelSelector", &self.label_selector)]
        {
            if let Some(selector) = selector {
                uri.push_str(&format!("&{name}={}", encoded(selector)));
            }
        }
        uri
    }
}

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// The server closed the watch as it was asked to, or for reasons of its own.
    #[error("the server ended it")]
    Closed,
    /// The version to go on from is forgotten.
    #[error("the server no longer has that version")]
    Expired,
    /// The server does not do streaming lists.
    #[error("the server has no streaming lists")]
    NotStreaming,
    /// Nothing came for too long.
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    #[error(transparent)]
    Call(#[from] CallError),
    /// The connection broke, or what came makes no sense.
    #[error("{0}")]
    Broken(String),
    /// Nobody takes the events any more.
    #[error("not wanted any more")]
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

/// The stream of events of [`watch`]. It never ends by itself; dropping it ends the following.
#[derive(Debug)]
pub struct WatchStream<T> {
    events: mpsc::Receiver<Event<T>>,
}

impl<T> WatchStream<T> {
    /// The next event; none only when the runtime shuts down.
    pub async fn next(&mut self) -> Option<Event<T>> {
        self.events.recv().await
    }

    /// Takes what is there, at most `limit` events, and waits if there is nothing. Safe to cancel. Returns how many
    /// were taken.
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

/// Follows a resource in a task of its own, which also decodes what comes.
pub fn watch<T>(client: kube::Client, options: WatchOptions) -> WatchStream<T>
where
    T: KubeObject + DeserializeOwned + Send + 'static,
{
    let (sender, events) = mpsc::channel(options.buffer.max(1));
    tokio::spawn(watch_into(client, options, sender, |event| event));
    WatchStream { events }
}

/// Follows a resource into a channel that others send to as well; `wrap` makes the channel's items. Ends when the
/// channel closes.
pub async fn watch_into<T, M>(
    client: kube::Client,
    options: WatchOptions,
    sender: mpsc::Sender<M>,
    wrap: impl Fn(Event<T>) -> M + Send + Sync,
) where
    T: KubeObject + DeserializeOwned + Send,
    M: Send,
{
    watch_with(client, options, sender, |line, _| read_object(line), |event| Some(wrap(event))).await;
}

/// As [`watch_into`], with a way of its own to read the lines of watches, and without telling what `wrap` makes
/// nothing of. Lists in pages are read as JSON of `T` all the same.
pub async fn watch_with<T, M>(
    client: kube::Client,
    options: WatchOptions,
    sender: mpsc::Sender<M>,
    read: impl Fn(&[u8], Line) -> Result<T, serde_json::Error> + Send + Sync,
    wrap: impl Fn(Event<T>) -> Option<M> + Send + Sync,
) where
    T: KubeObject + DeserializeOwned + Send,
    M: Send,
{
    let mut watcher = Watcher { client, streaming: options.streaming_lists, options, version: None };
    let deliver = Deliver { sender: &sender, read: &read, wrap: &wrap };
    let mut backoff = Backoff::new(watcher.options.first_retry, watcher.options.longest_retry);
    let mut told_empty = false;
    loop {
        let began = tokio::time::Instant::now();
        let (ended, mut progressed) = tokio::select! {
            // A watch without events would not notice that nobody is there to take them.
            () = sender.closed() => return,
            ended = watcher.step(&deliver) => ended,
        };
        // A resource of which nothing was to be told for long is followed as well as any other.
        let is_usual_end = matches!(ended, Ended::Closed | Ended::Silent(_));
        progressed |= is_usual_end && began.elapsed() >= LONG_WATCH.min(watcher.options.idle_timeout);
        if progressed {
            backoff.succeeded();
        }
        let path = &watcher.options.path;
        match &ended {
            Ended::Unwanted => return,
            Ended::NotStreaming => {
                tracing::debug!(path, "the server has no streaming lists: listing in pages");
                watcher.streaming = false;
                continue;
            }
            Ended::Expired => {
                tracing::info!(path, "{ended}: listing anew");
                watcher.version = None;
            }
            Ended::Closed | Ended::Silent(_) => tracing::debug!(path, "watch: {ended}"),
            Ended::Call(error) if error.is_not_found() && watcher.options.missing_is_empty => {
                if !std::mem::replace(&mut told_empty, true) {
                    tracing::warn!(path, "the server does not have this resource: taken as empty");
                    if deliver.send(Event::Restarted(Vec::new())).await.is_err() {
                        return;
                    }
                }
            }
            error => {
                let failures = backoff.failures() + 1;
                tracing::warn!(path, failures, "following is interrupted, and will be tried again: {error}");
            }
        }
        // A watch that did its work is taken up again at once, so that nothing is told late.
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

/// Lists a resource once, in pages.
///
/// # Errors
/// The server does not answer as it should.
pub async fn list<T: KubeObject + DeserializeOwned>(
    client: &kube::Client,
    options: &WatchOptions,
) -> Result<Vec<T>, ListError> {
    let options = options.clone();
    let watcher = Watcher { client: client.clone(), streaming: false, options, version: None };
    watcher.list().await.map(|(objects, _)| objects).map_err(ListError)
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ListError(Ended);

/// Reads the object of a line.
type Read<'a, T> = dyn Fn(&[u8], Line) -> Result<T, serde_json::Error> + Send + Sync + 'a;

/// How objects are read, and where events go.
struct Deliver<'a, T, M> {
    sender: &'a mpsc::Sender<M>,
    read: &'a Read<'a, T>,
    wrap: &'a (dyn Fn(Event<T>) -> Option<M> + Send + Sync),
}

struct Watcher {
    client: kube::Client,
    options: WatchOptions,
    /// Whether lists are asked to stream.
    streaming: bool,
    /// The last version seen; none before the first list, and when it has expired.
    version: Option<String>,
}

impl Watcher {
    /// Lists if there is no version, then watches until something ends it. Tells also whether anything came.
    async fn step<T, M>(&mut self, deliver: &Deliver<'_, T, M>) -> (Ended, bool)
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        let mut progressed = false;
        let ended = self.list_and_watch(deliver, &mut progressed).await;
        (ended, progressed)
    }

    async fn list_and_watch<T, M>(&mut self, deliver: &Deliver<'_, T, M>, progressed: &mut bool) -> Ended
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        if self.version.is_none() && !self.streaming {
            match self.list().await {
                Ok((objects, version)) => {
                    self.version = Some(version);
                    *progressed = true;
                    if let Err(ended) = deliver.send(Event::Restarted(objects)).await {
                        return ended;
                    }
                }
                Err(ended) => return ended,
            }
        }
        self.watch(deliver, progressed).await
    }
}

impl<T, M> Deliver<'_, T, M> {
    async fn send(&self, event: Event<T>) -> Result<(), Ended> {
        match (self.wrap)(event) {
            Some(item) => self.sender.send(item).await.map_err(|_| Ended::Unwanted),
            None => Ok(()),
        }
    }
}
