//! Recordings in files, read line by line.

use std::io::{self, BufRead, BufReader};

use berth_api::recording::Recording;

use crate::input::{Input, OpenError};

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A directory.
    #[error("{file}: is a directory: name the recordings in it, such as {file}/*.jsonl.gz")]
    Directory {
        /// The directory.
        file: String,
    },
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file cannot be read to its end.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// A line is not a recording.
    #[error("{file}:{line}: {path}{message}: each line must be a recording, as docs/recordings.md describes")]
    Line {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The field, followed by a colon; empty when it is about the whole line.
        path: String,
        /// What is wrong there.
        message: String,
    },
}

/// Recordings of one file.
pub struct Recordings<'p> {
    file: String,
    reader: Box<dyn BufRead + 'p>,
    n_lines: usize,
    line: Vec<u8>,
}

impl<'p> Recordings<'p> {
    /// Opens a file; `progress` is told how many bytes of it were read, as they are read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(input: &Input, progress: impl FnMut(u64) + 'p) -> Result<Recordings<'p>, RecordingError> {
        let reader = Box::new(BufReader::with_capacity(1 << 16, input.open(progress)?));
        Ok(Recordings { file: input.name(), reader, n_lines: 0, line: Vec::new() })
    }

    /// The name of the file in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The next recording; empty lines are passed over.
    fn read(&mut self) -> Result<Option<Recording>, RecordingError> {
        loop {
            self.line.clear();
            let n_bytes = self
                .reader
                .read_until(b'\n', &mut self.line)
                .map_err(|error| RecordingError::Read { file: self.file.clone(), error })?;
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
            // Where the text ends early, the last step is not known and shows as a question mark.
            let path = path.trim_end_matches(['.', '?']);
            let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
            self.broken(path, e.inner())
        })?;
        deserializer.end().map_err(|e| self.broken(String::new(), &e))?;
        Ok(recording)
    }

    fn broken(&self, path: String, error: &serde_json::Error) -> RecordingError {
        // The parser's line is always 1: it sees one line at a time.
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
