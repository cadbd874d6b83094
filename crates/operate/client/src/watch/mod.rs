//! List and watch of one resource as one endless stream of events.
//!
//! A watcher lists, then watches from the resource version of the list. A watch that ends, breaks or stalls is resumed
//! from the last resource version. When that version has expired (410), the watcher lists again. It uses streaming lists
//! where the server supports them, otherwise pages. In both cases the watcher delivers a list as it arrives, without
//! buffering it; [`watch`] collects it for consumers that need it whole.
//!
//! A watcher logs errors and retries with back-off until its receiver is dropped. It gives up only when there are more
//! objects than the client keeps.
//!
//! The watcher (`watcher.rs`) does not know the type of the objects; a sink (`sink.rs`) reads and delivers them.

#![allow(unexpected_cfgs, reason = "cargo-fuzz sets `fuzzing`")]

mod discovery;
mod ended;
mod event;
mod failure;
mod frame;
mod group;
mod object;
mod options;
mod pages;
mod request;
mod sink;
mod stream;
mod watcher;

pub use discovery::is_missing;
pub use event::{Event, Line, StreamEvent};
pub use failure::WatchFailure;
#[cfg(fuzzing)]
pub use frame::fuzz_frames;
pub use frame::read_object;
pub use group::WatchGroup;
pub use object::{Generated, HasMetadata, KubeObject};
pub use options::{Missing, WatchOptions};
pub use pages::{ListError, Pages, list};
pub use sink::READING;
pub use stream::{WatchStream, watch, watch_into, watch_with};

pub(crate) use sink::Sink;
pub(crate) use watcher::run;

#[cfg(test)]
mod tests;
