//! Recordings in files, read line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use berth_api::recording::Recording;
use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

/// What a file compressed with gzip begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{file}: {message}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        message: String,
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
pub struct Recordings {
    file: String,
    reader: Box<dyn BufRead>,
    n_lines: usize,
    line: Vec<u8>,
}

impl Recordings {
    /// Opens a file, `-` being standard input; it may be compressed with gzip. `progress` moves on with what
    /// was read of it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, progress: &ProgressBar) -> Result<Recordings, RecordingError> {
        let is_stdin = path == Path::new("-");
        let file = if is_stdin { "<stdin>".to_owned() } else { path.display().to_string() };
        let reader = if is_stdin { Ok(Box::new(io::stdin()) as Box<dyn Read>) } else { open_file(path) };
        let reader = reader.and_then(|reader| decompressed(progress.wrap_read(reader)));
        let reader = reader.map_err(|e| RecordingError::Io { file: file.clone(), message: plain(&e) })?;
        Ok(Recordings { file, reader, n_lines: 0, line: Vec::new() })
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
                .map_err(|e| RecordingError::Io { file: self.file.clone(), message: plain(&e) })?;
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
            let path = if matches!(path.as_str(), "." | "?") { String::new() } else { format!("{path}: ") };
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

impl Iterator for Recordings {
    type Item = Result<Recording, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A progress bar over the bytes of these files; it shows on a terminal only, and not for standard input.
pub fn progress_over(files: &[PathBuf]) -> ProgressBar {
    let sizes: Option<Vec<u64>> = files.iter().map(|f| std::fs::metadata(f).ok().map(|m| m.len())).collect();
    let Some(sizes) = sizes else { return ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {elapsed} {msg}");
    ProgressBar::new(sizes.iter().sum()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn open_file(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("is a directory: name the recordings in it"));
    }
    Ok(Box::new(file))
}

fn decompressed(reader: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut reader = BufReader::new(reader);
    // A pipe may hand over less than two bytes at first; that would take a writer of single bytes.
    if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// The system's words without the number of the error.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}
