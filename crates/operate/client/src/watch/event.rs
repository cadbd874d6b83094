//! Events of watches.

use super::failure::WatchFailure;

/// An event of [`watch_into`](super::watch_into): lists are streamed, object by object.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent<T> {
    /// A list starts: the first one, or one after the resource version expired. An interrupted list starts again.
    Init,
    InitApply(T),
    /// The list is complete. Objects that were neither in it nor applied since [`StreamEvent::Init`] no longer exist.
    InitDone,
    /// An object was added or changed.
    Apply(T),
    /// An object was deleted, or stopped matching the selectors. This is its last state.
    Delete(T),
    /// The objects are not known: no list has been complete, and none can be, or there are too many of them.
    Failed(WatchFailure),
}

impl<T> StreamEvent<T> {
    /// The same event with another object.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> StreamEvent<U> {
        match self {
            StreamEvent::Init => StreamEvent::Init,
            StreamEvent::InitApply(object) => StreamEvent::InitApply(change(object)),
            StreamEvent::InitDone => StreamEvent::InitDone,
            StreamEvent::Apply(object) => StreamEvent::Apply(change(object)),
            StreamEvent::Delete(object) => StreamEvent::Delete(change(object)),
            StreamEvent::Failed(failure) => StreamEvent::Failed(failure),
        }
    }
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

/// The kind of a line with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Part of a list.
    Initial,
    Changed,
    Deleted,
}

impl Line {
    pub(super) fn event<T>(self, object: T) -> StreamEvent<T> {
        match self {
            Line::Initial => StreamEvent::InitApply(object),
            Line::Changed => StreamEvent::Apply(object),
            Line::Deleted => StreamEvent::Delete(object),
        }
    }
}
