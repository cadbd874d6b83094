//! Arguments for recording.

use std::path::PathBuf;

use berth_api::syntax::quantity::Quantity;
use berth_scheduler::RecordOptions;

/// Where decisions are recorded.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    /// Record the decisions and the changes of the cluster in this directory, for `berth replay` and `berth explain --at`
    ///
    /// The directory must not be used by another process. Only fields that decide about placement are recorded.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Maximum size of the recordings in the directory; the oldest are deleted
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = bytes)]
    record_limit: u64,
}

impl RecordArgs {
    /// The options, if decisions are to be recorded.
    pub fn options(&self) -> Option<RecordOptions> {
        let directory = self.record.clone()?;
        Some(RecordOptions { directory, max_bytes: self.record_limit })
    }
}

/// Reads a number of bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let quantity = Quantity::parse(text).ok().and_then(|quantity| u64::try_from(quantity.units()).ok());
    quantity.ok_or_else(|| "not a size: give bytes, such as 512Mi".to_owned())
}
