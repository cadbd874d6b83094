//! Objects, their versions and the history of their changes.
//!
//! Every write gets the next number of one counter as its resource version. Readers and watchers see a write only once
//! it is acknowledged. With a data directory, that is when it is on disk. The store does not interpret objects.

mod batch;
mod claim;
mod claim_index;
mod collection;
mod collections;
mod compaction;
mod derived;
mod directory;
mod disk;
mod disk_error;
mod disk_io;
mod entry;
mod event;
mod facts;
mod field_watchers;
mod handle;
mod json;
mod labels;
mod new_file;
mod object;
mod objects;
mod page;
mod record;
mod recover;
mod selector;
mod shared_text;
mod storage_options;
#[cfg(test)]
mod tests;
mod write;
mod writer;

pub use claim::Claim;
pub use collection::HistoryBounds;
pub use derived::Derived;
pub use disk_error::DiskError;
pub use disk_io::DiskIo;
pub use event::Event;
pub use handle::Store;
pub use json::Json;
pub use labels::Labels;
pub use object::{Compiled, Draft, EventType, Object, write_frame};
pub use page::{Page, Position};
pub use recover::{Lost, Recovery, recover};
pub use selector::Filter;
pub use storage_options::{Latency, StorageOptions};
pub use write::{Change, Write, WriteError, key};
pub use writer::STORE;
