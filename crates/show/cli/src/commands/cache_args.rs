//! How much a command keeps of a cluster.

use berth_client::WatchGroup;

use super::record_args::bytes;

/// The limit of what is watched.
#[derive(Debug, clap::Args)]
pub struct CacheArgs {
    /// Maximum size of the watched objects: their JSON, and 2 KiB for each; on Linux, also of the memory of the process. If the server sends
    /// more, the command ends
    #[arg(long, value_name = "SIZE", default_value = "4Gi", value_parser = bytes)]
    cache_limit: u64,
}

impl CacheArgs {
    /// In bytes.
    pub fn limit(&self) -> usize {
        usize::try_from(self.cache_limit).unwrap_or(usize::MAX)
    }

    pub fn group(&self) -> WatchGroup {
        WatchGroup::new(self.limit())
    }
}
