//! The files of a recording: each is complete in itself, and the oldest are deleted.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use berth_input::journal::{Entry, Header, JOURNAL_VERSION};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};

use super::checkpoint::Checkpoint;
use super::options::{RecordError, RecordOptions};

/// A recording has this many files, when it is at its limit.
const N_SEGMENTS: u64 = 8;
/// What is compressed and not written yet.
const MARGIN: u64 = 64 << 10;
const PRECISION: SignedDuration = SignedDuration::from_millis(1);
const PREFIX: &str = "berth-";
const SUFFIX: &str = ".jsonl.gz";

pub(super) struct Segments {
    directory: PathBuf,
    max_bytes: u64,
    header: Header,
    checkpoint: Checkpoint,
    /// Finished files with their sizes, the oldest first.
    older: VecDeque<(PathBuf, u64)>,
    current: Segment,
    n_created: u32,
    /// A line, kept for its capacity.
    line: Vec<u8>,
}

struct Segment {
    path: PathBuf,
    file: GzEncoder<CountingFile>,
    /// The size of what the file starts with.
    n_bytes_checkpoint: u64,
    time: Timestamp,
}

/// A file with its size.
struct CountingFile {
    file: File,
    n_bytes: u64,
}

impl Write for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Segment {
    fn create(
        directory: &Path,
        number: u32,
        header: &Header,
        now: Timestamp,
    ) -> Result<Segment, RecordError> {
        let time = now.strftime("%Y%m%dT%H%M%S.%3fZ");
        let path = directory.join(format!("{PREFIX}{time}-{number:05}{SUFFIX}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| io_error(&path, error))?;
        let file = GzEncoder::new(CountingFile { file, n_bytes: 0 }, Compression::fast());
        let mut segment = Segment { path, file, n_bytes_checkpoint: 0, time: now };
        let header = Header { version: JOURNAL_VERSION, time: now, ..header.clone() };
        segment.write(&mut Vec::new(), &Entry::Journal(Box::new(header)))?;
        Ok(segment)
    }

    fn write(&mut self, line: &mut Vec<u8>, entry: &Entry) -> Result<(), RecordError> {
        line.clear();
        let written = serde_json::to_writer(&mut *line, entry).map_err(io::Error::from);
        line.push(b'\n');
        let written = written.and_then(|()| self.file.write_all(line));
        written.map_err(|error| io_error(&self.path, error))
    }

    fn n_bytes(&self) -> u64 {
        self.file.get_ref().n_bytes
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.file.flush().map_err(|error| io_error(&self.path, error))
    }
}

impl Segments {
    pub(super) fn create(
        options: &RecordOptions,
        header: Header,
        now: Timestamp,
    ) -> Result<Segments, RecordError> {
        let directory = options.directory.clone();
        fs::create_dir_all(&directory).map_err(|error| io_error(&directory, error))?;
        let older = existing(&directory).map_err(|error| io_error(&directory, error))?;
        let mut segments = Segments {
            current: Segment::create(&directory, 0, &header, now)?,
            directory,
            max_bytes: options.max_bytes,
            header,
            checkpoint: Checkpoint::default(),
            older,
            n_created: 1,
            line: Vec::new(),
        };
        segments.delete_oldest()?;
        segments.flush()?;
        Ok(segments)
    }

    /// Writes an entry, and starts another file when this one is large.
    pub(super) fn write(&mut self, time: Timestamp, mut entry: Entry) -> Result<(), RecordError> {
        let Segments { current, line, .. } = self;
        if time.duration_since(current.time) >= PRECISION {
            current.time = time;
            current.write(line, &Entry::Time(time))?;
        }
        entry.redact();
        current.write(line, &entry)?;
        self.checkpoint.apply(&entry, &self.line);
        let (n_bytes, n_checkpoint) = (self.current.n_bytes(), self.current.n_bytes_checkpoint);
        if n_bytes >= (self.max_bytes / N_SEGMENTS).max(2 * n_checkpoint) {
            self.rotate(time)?;
        }
        self.delete_oldest()
    }

    /// Writes what is compressed: a file that ends here is readable.
    pub(super) fn flush(&mut self) -> Result<(), RecordError> {
        self.current.flush()
    }

    pub(super) fn finish(&mut self) -> Result<(), RecordError> {
        let path = &self.current.path;
        self.current.file.try_finish().map_err(|error| io_error(path, error))
    }

    fn rotate(&mut self, now: Timestamp) -> Result<(), RecordError> {
        let mut next = Segment::create(&self.directory, self.n_created, &self.header, now)?;
        for line in self.checkpoint.lines() {
            next.file.write_all(line).map_err(|error| io_error(&next.path, error))?;
        }
        if self.checkpoint.is_complete {
            next.write(&mut self.line, &Entry::Complete {})?;
        }
        next.flush()?;
        next.n_bytes_checkpoint = next.n_bytes();
        if 4 * next.n_bytes_checkpoint > self.max_bytes {
            // The file with the whole state would leave no room for what follows.
            let _ = fs::remove_file(&next.path);
            self.finish()?;
            return Err(RecordError::Limit { needed: next.n_bytes_checkpoint });
        }
        self.n_created += 1;
        self.finish()?;
        let previous = std::mem::replace(&mut self.current, next);
        self.older.push_back((previous.path.clone(), previous.n_bytes()));
        Ok(())
    }

    fn delete_oldest(&mut self) -> Result<(), RecordError> {
        let mut n_bytes: u64 = self.older.iter().map(|(_, n)| n).sum::<u64>() + self.current.n_bytes();
        while n_bytes + MARGIN > self.max_bytes
            && let Some((path, n)) = self.older.pop_front()
        {
            n_bytes -= n;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&path, error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The recordings in a directory with their sizes, the oldest first.
fn existing(directory: &Path) -> io::Result<VecDeque<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            found.push((entry.path(), entry.metadata()?.len()));
        }
    }
    found.sort_unstable();
    Ok(found.into())
}

fn io_error(path: &Path, error: io::Error) -> RecordError {
    RecordError::Io { path: path.to_owned(), error }
}
