//! Reads recordings from files, line by line.

use std::io::{self, BufRead, BufReader, Read};

use berth_api::recording::Recording;

use crate::input::{Input, OpenError};

/// Limit of a line. A recording has a whole cluster.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A directory.
    #[error("{file}: is a directory; list its recordings, for example {file}/*.jsonl.gz")]
    Directory {
        /// The directory.
        file: String,
    },
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Reading the file failed.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A line is too long.
    #[error("{file}:{line}: a line of more than {} MiB: each line must be a recording (see docs/recordings.md)", MAX_LINE_BYTES >> 20)]
    LongLine {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
    },
    /// A line is not a recording.
    #[error("{file}:{line}: {path}{message}: each line must be a recording (see docs/recordings.md)")]
    Line {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The field and a colon; empty for the whole line.
        path: String,
        /// The error.
        message: String,
    },
}

/// The recordings of one file.
pub struct Recordings<'p> {
    file: String,
    reader: Box<dyn BufRead + 'p>,
    n_lines: usize,
    line: Vec<u8>,
}

impl<'p> Recordings<'p> {
    /// Opens a file and calls `progress` with the number of bytes of each read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(input: &Input, progress: impl FnMut(u64) + 'p) -> Result<Recordings<'p>, RecordingError> {
        let reader = Box::new(BufReader::with_capacity(1 << 16, input.open(progress)?));
        Ok(Recordings { file: input.name(), reader, n_lines: 0, line: Vec::new() })
    }

    /// Name of the file in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The next recording; empty lines are skipped.
    fn read(&mut self) -> Result<Option<Recording>, RecordingError> {
        loop {
            self.line.clear();
            let n_bytes = (&mut self.reader)
                .take(MAX_LINE_BYTES + 1)
                .read_until(b'\n', &mut self.line)
                .map_err(|error| RecordingError::Read { file: self.file.clone(), error })?;
            if n_bytes as u64 > MAX_LINE_BYTES {
                return Err(RecordingError::LongLine { file: self.file.clone(), line: self.n_lines + 1 });
            }
            if n_bytes == 0 {
                return Ok(None);
            }
            self.n_lines += 1;
            if !self.line.trim_ascii().is_empty() {
                return self.parse().map(Some);
            }
        }
    }

    fn parse(&self) -> Result<Recording, RecordingError> {
        let mut deserializer = serde_json::Deserializer::from_slice(&self.line);
        let recording = serde_path_to_error::deserialize(&mut deserializer);
        let recording = recording.map_err(|e| {
            let path = e.path().to_string();
            // For truncated text, the last path segment is unknown and is shown as a question mark.
            let path = path.trim_end_matches(['.', '?']);
            let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
            self.broken(path, e.inner())
        })?;
        deserializer.end().map_err(|e| self.broken(String::new(), &e))?;
        Ok(recording)
    }

    fn broken(&self, path: String, error: &serde_json::Error) -> RecordingError {
        // The parser gets one line at a time: its line number is always 1.
        let text = error.to_string();
        let message = match text.rsplit_once(" at line ") {
            Some((message, _)) => format!("{message} (column {})", error.column()),
            None => text,
        };
        RecordingError::Line { file: self.file.clone(), line: self.n_lines, path, message }
    }
}

impl Iterator for Recordings<'_> {
    type Item = Result<Recording, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
