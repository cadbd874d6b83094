//! Where a watcher delivers to.
//!
//! A watcher does not know the type of the objects: it hands the text of pages and lines to a sink, which reads them.
//! The async code is therefore compiled once, not once per kind.

use berth_serve::parts::Part;
use futures::future::BoxFuture;
use futures::{FutureExt, future};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::ended::Ended;
use super::event::{Line, StreamEvent};
use super::failure::WatchFailure;
use super::object::KubeObject;
use super::pages::{self, PageMeta};

/// Reading the objects of watches.
pub static READING: Part = Part::new("watch");

/// The receiver of the events was dropped.
pub(crate) struct ReceiverDropped;

/// Reads the objects of a watch and delivers its events, in the order of the calls.
///
/// The watcher calls [`Sink::deliver`] until everything is delivered before it hands over more.
pub(crate) trait Sink: Send {
    /// A list starts.
    fn begin_list(&mut self);

    /// Reads a page of a list.
    fn read_page(&mut self, page: &[u8]) -> Result<PageMeta, serde_json::Error>;

    /// The list is complete.
    fn end_list(&mut self);

    /// The objects are not known.
    fn fail(&mut self, _failure: WatchFailure) {}

    /// Reads the object of a line of a watch, and reports its resource version.
    fn read_line(
        &mut self,
        line: &[u8],
        kind: Line,
        version: &mut dyn FnMut(&str),
    ) -> Result<(), serde_json::Error>;

    /// Delivers what the receiver takes without waiting. If something is left, returns a future that delivers it.
    fn deliver(&mut self) -> Result<Option<BoxFuture<'_, Result<(), ReceiverDropped>>>, ReceiverDropped> {
        Ok(None)
    }

    /// Waits until the receiver is dropped.
    fn closed(&self) -> BoxFuture<'static, ()> {
        future::pending().boxed()
    }
}

/// Delivers all that the sink has read.
pub(super) async fn deliver(sink: &mut dyn Sink) -> Result<(), Ended> {
    let delivered = match sink.deliver() {
        Ok(None) => Ok(()),
        Ok(Some(rest)) => rest.await,
        Err(dropped) => Err(dropped),
    };
    delivered.map_err(|ReceiverDropped| Ended::Unwanted)
}

/// Sends events to a channel, whose items `wrap` makes.
pub(super) struct ChannelSink<T, M, R, W> {
    sender: mpsc::Sender<M>,
    read: R,
    wrap: W,
    /// The item to deliver next.
    item: Option<M>,
    /// Objects of a page that are not delivered yet.
    page: std::vec::IntoIter<T>,
}

impl<T, M, R, W> ChannelSink<T, M, R, W>
where
    W: FnMut(StreamEvent<T>) -> Option<M>,
{
    pub(super) fn new(sender: mpsc::Sender<M>, read: R, wrap: W) -> Self {
        ChannelSink { sender, read, wrap, item: None, page: Vec::new().into_iter() }
    }

    fn next_item(&mut self) -> Option<M> {
        let page = self.page.by_ref().map(StreamEvent::InitApply);
        self.item.take().or_else(|| page.filter_map(&mut self.wrap).next())
    }
}

impl<T, M, R, W> Sink for ChannelSink<T, M, R, W>
where
    T: KubeObject + DeserializeOwned + Send,
    M: Send + 'static,
    R: Fn(&[u8], Line) -> Result<T, serde_json::Error> + Send,
    W: FnMut(StreamEvent<T>) -> Option<M> + Send,
{
    fn begin_list(&mut self) {
        self.item = (self.wrap)(StreamEvent::Init);
    }

    fn read_page(&mut self, page: &[u8]) -> Result<PageMeta, serde_json::Error> {
        let (metadata, items) = pages::read_page::<T>(page)?;
        self.page = items.into_iter();
        Ok(metadata)
    }

    fn end_list(&mut self) {
        self.item = (self.wrap)(StreamEvent::InitDone);
    }

    fn fail(&mut self, failure: WatchFailure) {
        // What was read of the list does not count.
        self.page = Vec::new().into_iter();
        self.item = (self.wrap)(StreamEvent::Failed(failure));
    }

    fn read_line(
        &mut self,
        line: &[u8],
        kind: Line,
        version: &mut dyn FnMut(&str),
    ) -> Result<(), serde_json::Error> {
        let object = READING.run(|| (self.read)(line, kind))?;
        version(object.resource_version());
        self.item = (self.wrap)(kind.event(object));
        Ok(())
    }

    fn deliver(&mut self) -> Result<Option<BoxFuture<'_, Result<(), ReceiverDropped>>>, ReceiverDropped> {
        while let Some(item) = self.next_item() {
            match self.sender.try_send(item) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => return Err(ReceiverDropped),
                Err(TrySendError::Full(item)) => {
                    self.item = Some(item);
                    return Ok(Some(self.send_all().boxed()));
                }
            }
        }
        Ok(None)
    }

    fn closed(&self) -> BoxFuture<'static, ()> {
        let sender = self.sender.clone();
        async move { sender.closed().await }.boxed()
    }
}

impl<T, M, R, W> ChannelSink<T, M, R, W>
where
    W: FnMut(StreamEvent<T>) -> Option<M>,
{
    async fn send_all(&mut self) -> Result<(), ReceiverDropped> {
        while let Some(item) = self.next_item() {
            self.sender.send(item).await.map_err(|_| ReceiverDropped)?;
        }
        Ok(())
    }
}
