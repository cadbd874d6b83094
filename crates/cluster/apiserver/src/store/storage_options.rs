//! How objects are stored, and the limits of what is.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::collection::HistoryBounds;
use super::disk_io::{DiskIo, FileSystem};

#[derive(Clone)]
pub struct StorageOptions {
    pub io: Arc<dyn DiskIo>,
    /// Bytes of recent changes that survive compaction, so that watches can resume after a restart. The file has up to
    /// twice this size and twice the size of the objects, and up to four times during a compaction.
    pub log_bytes: u64,
    /// Limits of the history in memory.
    pub history: HistoryBounds,
    /// Bytes of all objects together. At this size, writes that make it larger are refused.
    pub max_bytes: u64,
    /// How long a write takes without files, for simulations.
    pub latency: Option<Latency>,
}

/// Waits for as long as a write takes.
#[derive(Clone)]
pub struct Latency(pub Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Latency")
    }
}

/// The same as etcd's.
const MAX_BYTES: u64 = 2 << 30;

impl Default for StorageOptions {
    fn default() -> Self {
        StorageOptions {
            io: Arc::new(FileSystem),
            log_bytes: 32 << 20,
            history: HistoryBounds::default(),
            max_bytes: MAX_BYTES,
            latency: None,
        }
    }
}

impl fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageOptions").field("log_bytes", &self.log_bytes).finish_non_exhaustive()
    }
}
