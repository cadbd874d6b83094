//! Where decisions are recorded, and why they are not.

use std::io;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// The directory; it is created if it does not exist, and must not be that of another process.
    pub directory: PathBuf,
    /// The limit of all recordings in the directory. The oldest are deleted.
    pub max_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot write recordings to {}: {error}: choose another directory with --record", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "recordings need at least 1Mi, and four times the {needed} bytes of the compressed state: raise --record-limit"
    )]
    Limit {
        /// Size of the compressed state; 0 if it is not known.
        needed: u64,
    },
    #[error(
        "recordings cannot be written as fast as the cluster changes: choose a faster disk with --record"
    )]
    Behind,
}
