//! Records what a scheduler learns and decides, in files that `berth replay` reads (`docs/recordings.md`).
//!
//! The scheduler only appends entries to a list in memory. A separate thread takes the list, removes what placement does
//! not read, compresses and writes. A recording never holds up the scheduler: when the thread falls far behind, or cannot
//! write, the recording ends.

mod checkpoint;
mod options;
mod recording;
mod segments;

pub use options::{RecordError, RecordOptions};
pub use recording::Recorder;
