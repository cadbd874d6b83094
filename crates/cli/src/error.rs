//! What makes a command give up.

use std::io;

use crate::recordings::RecordingError;

/// Why a command could not do its work. The text names the object, the field and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}
