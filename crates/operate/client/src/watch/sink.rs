//! Where a watcher delivers to.
//!
//! A watcher does not know the type of the objects: it hands the text of pages and lines to a sink, which reads them.
//! The async code is therefore compiled once, not once per kind.

use std::marker::PhantomData;

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

/// Reading the objects of watches.
pub static READING: Part = Part::new("watch");

/// The receiver of the events was dropped.
pub(crate) struct ReceiverDropped;

/// Reads the objects of a watch and delivers its events, in the order of the calls.
///
/// The watcher calls [`Sink::deliver`] until everything is delivered before it hands over more.
pub(crate) trait Sink: Send {
    fn begin_list(&mut self);

    /// Reads an object of a page of a list.
    fn read_item(&mut self, item: &[u8]) -> Result<(), serde_json::Error>;

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
    object: PhantomData<T>,
}

impl<T, M, R, W> ChannelSink<T, M, R, W>
where
    W: FnMut(StreamEvent<T>) -> Option<M>,
{
    pub(super) fn new(sender: mpsc::Sender<M>, read: R, wrap: W) -> Self {
        ChannelSink { sender, read, wrap, item: None, object: PhantomData }
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

    fn read_item(&mut self, item: &[u8]) -> Result<(), serde_json::Error> {
        self.item = (self.wrap)(StreamEvent::InitApply(serde_json::from_slice(item)?));
        Ok(())
    }

    fn end_list(&mut self) {
        self.item = (self.wrap)(StreamEvent::InitDone);
    }

    fn fail(&mut self, failure: WatchFailure) {
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
        let Some(item) = self.item.take() else { return Ok(None) };
        match self.sender.try_send(item) {
            Ok(()) => Ok(None),
            Err(TrySendError::Closed(_)) => Err(ReceiverDropped),
            Err(TrySendError::Full(item)) => {
                let sender = self.sender.clone();
                Ok(Some(async move { sender.send(item).await.map_err(|_| ReceiverDropped) }.boxed()))
            }
        }
    }

    fn closed(&self) -> BoxFuture<'static, ()> {
        let sender = self.sender.clone();
        async move { sender.closed().await }.boxed()
    }
}
