//! Reads recordings from files, line by line.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use berth_api::object::time::rfc3339_micros;
use berth_api::read::JsonError;
use berth_engine::Settings;
use berth_input::journal::{Entry, Header};
use berth_input::recording::Recording;
use berth_simulate::replay::{JournalError, JournalReplay};
use berth_terminal::input::{Input, OpenError, find_inputs, open_error};
use jiff::Timestamp;

/// Limit of a line. A recording has a whole cluster.
const MAX_LINE_BYTES: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error(
        "{directory}: no .jsonl or .jsonl.gz file in this directory: give the directory that --record wrote to"
    )]
    EmptyDirectory { directory: String },
    #[error("{argument}: no journal covers {}", time.map_or_else(|| "any time".to_owned(), rfc3339_micros))]
    NotCovered { argument: String, time: Option<Timestamp> },
    #[error("{file}: the recording is not complete at {}: the scheduler had not listed all objects yet", rfc3339_micros(*time))]
    Incomplete { file: String, time: Timestamp },
    /// A journal does not fit together.
    #[error("{file}:{line}: {error}")]
    Journal { file: String, line: usize, error: JournalError },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{file}: {error}")]
    Read { file: String, error: io::Error },
    #[error("{file}:{line}: a line of more than {} MiB: each line must be a recording (see docs/recordings.md)", MAX_LINE_BYTES >> 20)]
    LongLine { file: String, line: usize },
    #[error("{file}:{line}: {path}{message}: each line must be a recording (see docs/recordings.md)")]
    Line {
        file: String,
        line: usize,
        /// The field and a colon; empty for the whole line.
        path: String,
        message: String,
    },
}

/// The inputs that arguments name; of a directory its recordings by name, which is their order in time.
///
/// # Errors
/// A path does not exist, or a directory has no recordings.
pub fn find_recordings(arguments: &[String]) -> Result<Vec<Input>, RecordingError> {
    let mut found = Vec::new();
    for argument in arguments {
        if !Path::new(argument).is_dir() {
            found.push(argument.clone());
            continue;
        }
        let io_error = |error| open_error(argument, error);
        let n_before = found.len();
        for entry in Path::new(argument).read_dir().map_err(io_error)? {
            let path = entry.map_err(io_error)?.path();
            let name = path.to_string_lossy();
            if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
                found.push(name.into_owned());
            }
        }
        if found.len() == n_before {
            return Err(RecordingError::EmptyDirectory { directory: argument.clone() });
        }
        found[n_before..].sort_unstable();
    }
    Ok(find_inputs(&found)?)
}

/// The lines of a file.
pub struct Lines<'p> {
    file: String,
    reader: Box<dyn BufRead + 'p>,
    n_lines: usize,
    line: Vec<u8>,
}

/// What a file has.
pub enum Contents<'p> {
    /// Scenarios with the scheduler's answers.
    Scenarios(Scenarios<'p>),
    /// A journal of a scheduler.
    Journal(Journal<'p>),
}

pub struct Scenarios<'p> {
    lines: Lines<'p>,
    /// The first line is read already.
    is_at_first: bool,
}

pub struct Journal<'p> {
    pub header: Box<Header>,
    lines: Lines<'p>,
    /// Whether the file ends in the middle: the process was killed, or is still writing.
    pub is_cut: bool,
}

impl<'p> Contents<'p> {
    /// Opens a file and calls `progress` with the number of bytes of each read.
    ///
    /// # Errors
    /// It cannot be opened, or the first line cannot be read.
    pub fn open(input: &Input, progress: impl FnMut(u64) + 'p) -> Result<Contents<'p>, RecordingError> {
        let reader = Box::new(BufReader::with_capacity(1 << 16, input.open_unbounded(progress)?));
        let mut lines = Lines { file: input.name(), reader, n_lines: 0, line: Vec::new() };
        let is_at_first = lines.advance()?;
        if !lines.line.trim_ascii_start().starts_with(br#"{"journal":"#) {
            return Ok(Contents::Scenarios(Scenarios { lines, is_at_first }));
        }
        match lines.parse(Entry::from_json)? {
            Entry::Journal(header) => Ok(Contents::Journal(Journal { header, lines, is_cut: false })),
            _ => Ok(Contents::Scenarios(Scenarios { lines, is_at_first })),
        }
    }
}

impl Lines<'_> {
    /// Reads the next line that is not empty. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, RecordingError> {
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
                return Ok(false);
            }
            self.n_lines += 1;
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn parse<T>(&self, read: fn(&[u8]) -> Result<T, JsonError>) -> Result<T, RecordingError> {
        read(&self.line).map_err(|JsonError { path, error }| {
            // The parser gets one line at a time: its line number is always 1.
            let text = error.to_string();
            let message = match text.rsplit_once(" at line ") {
                Some((message, _)) => format!("{message} (column {})", error.column()),
                None => text,
            };
            let path = if path.is_empty() { path } else { format!("{path}: ") };
            RecordingError::Line { file: self.file.clone(), line: self.n_lines, path, message }
        })
    }
}

impl Iterator for Scenarios<'_> {
    type Item = Result<Recording, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !std::mem::take(&mut self.is_at_first) {
            match self.lines.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(self.lines.parse(Recording::from_json))
    }
}

impl Iterator for Journal<'_> {
    type Item = Result<Entry, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.lines.advance() {
            Ok(true) => Some(self.lines.parse(Entry::from_json)),
            Ok(false) => None,
            // What was compressed last is not written yet.
            Err(RecordingError::Read { error, .. }) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Journal<'_> {
    pub fn file(&self) -> &str {
        &self.lines.file
    }

    /// An error at the present line.
    pub fn error(&self, error: JournalError) -> RecordingError {
        RecordingError::Journal { file: self.lines.file.clone(), line: self.lines.n_lines, error }
    }
}

/// The state of a recorded cluster at a time, or at the end.
///
/// # Errors
/// The recordings cannot be read, or do not cover the time.
pub fn state_at(recordings: &str, time: Option<Timestamp>) -> Result<JournalReplay, RecordingError> {
    let mut found = None;
    for input in find_recordings(&[recordings.to_owned()])? {
        if let Contents::Journal(journal) = Contents::open(&input, |_| ())?
            && time.is_none_or(|time| journal.header.time <= time)
        {
            found = Some(journal);
        }
    }
    let not_covered = || RecordingError::NotCovered { argument: recordings.to_owned(), time };
    let mut journal = found.ok_or_else(not_covered)?;
    let settings = Settings::try_from(&journal.header.settings).map_err(|e| journal.error(e.into()))?;
    let mut replay = JournalReplay::new(&journal.header, settings).map_err(|e| journal.error(e))?;
    while let Some(entry) = journal.next() {
        let entry = entry?;
        if matches!((&entry, time), (Entry::Time(now), Some(time)) if *now > time) {
            break;
        }
        replay.apply(entry).map_err(|e| journal.error(e))?;
    }
    if replay.is_complete() {
        Ok(replay)
    } else {
        Err(RecordingError::Incomplete { file: journal.lines.file, time: time.unwrap_or(replay.now()) })
    }
}
