//! The events of a watch, and their way to the receiver.

use tokio::sync::mpsc;

use super::ended::Ended;
use super::frame::Read;

/// An event of [`watch_into`](super::watch_into): lists are streamed, object by object.
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

/// An event of a [`WatchStream`](super::WatchStream): lists are collected.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T> {
    /// A complete list. Objects of earlier events that are not in it no longer exist.
    Restarted(Vec<T>),
    /// An object was added or changed.
    Applied(T),
    /// An object was deleted, or stopped matching the selectors. This is its last state.
    Deleted(T),
}

/// How objects are read, and where events are sent.
pub(super) struct Deliver<'a, T, M> {
    pub(super) sender: &'a mpsc::Sender<M>,
    pub(super) read: &'a Read<'a, T>,
    pub(super) wrap: &'a (dyn Fn(StreamEvent<T>) -> Option<M> + Send + Sync),
}

impl<T, M> Deliver<'_, T, M> {
    pub(super) async fn send(&self, event: StreamEvent<T>) -> Result<(), Ended> {
        match (self.wrap)(event) {
            Some(item) => self.sender.send(item).await.map_err(|_| Ended::Unwanted),
            None => Ok(()),
        }
    }
}
