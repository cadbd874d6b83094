//! The events of a watch as a stream, or into a channel.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::event::{Event, Line, StreamEvent};
use super::frame::read_object;
use super::object::KubeObject;
use super::options::WatchOptions;
use super::sink::ChannelSink;
use super::watcher;

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

/// Watches a resource in a separate task, which also decodes, and collects its lists.
pub fn watch<T>(client: kube::Client, options: WatchOptions) -> WatchStream<T>
where
    T: KubeObject + DeserializeOwned + Send + 'static,
{
    let (sender, events) = mpsc::channel(options.buffer.max(1));
    let mut listed: Option<Vec<T>> = None;
    let collect = move |event| {
        match event {
            StreamEvent::Init => listed = Some(Vec::new()),
            StreamEvent::InitApply(object) => listed.get_or_insert_default().push(object),
            StreamEvent::InitDone => return listed.take().map(Event::Restarted),
            StreamEvent::Apply(object) => return Some(Event::Applied(object)),
            StreamEvent::Delete(object) => match &mut listed {
                Some(listed) => listed.retain(|other| other.key() != object.key()),
                None => return Some(Event::Deleted(object)),
            },
            StreamEvent::Failed(_) => {}
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
    wrap: impl Fn(StreamEvent<T>) -> M + Send,
) where
    T: KubeObject + DeserializeOwned + Send,
    M: Send + 'static,
{
    watch_with(client, options, sender, |line, _| read_object(line), move |event| Some(wrap(event))).await;
}

/// As [`watch_into`], with a reader for the lines of watches, and dropping the events for which `wrap` returns none.
/// Lists in pages are read as JSON of `T`.
pub async fn watch_with<T, M>(
    client: kube::Client,
    options: WatchOptions,
    sender: mpsc::Sender<M>,
    read: impl Fn(&[u8], Line) -> Result<T, serde_json::Error> + Send,
    wrap: impl FnMut(StreamEvent<T>) -> Option<M> + Send,
) where
    T: KubeObject + DeserializeOwned + Send,
    M: Send + 'static,
{
    watcher::run(client, options, &mut ChannelSink::new(sender, read, wrap)).await;
}
