//! Objects on disk: one file with the objects and the recent changes. Every write is appended and durable before it is
//! acknowledged; compaction replaces the file.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;

use super::batch::Batch;
use super::collection::HistoryBounds;
use super::collections::Collections;
use super::compaction::{Compaction, Source};
use super::disk_error::DiskError;
use super::disk_io::{DiskIo, FileSystem};
use super::entry::{Decided, write_change};
use super::new_file::{NewFile, PublishError, lock_data, private_file, unfinished};
use super::record::{Defect, HeadDefect, Kind, MARKS_AT, Mark, RECORDS_AT, Records, read_head};

const FILE: &str = "store.log";
const LOCK: &str = "store.lock";
/// The file of the previous format.
const PREVIOUS_FILE: &str = "store.redb";
/// A file that the API server writes after it has created the store.
const SECRET: &str = "secret";

#[derive(Clone)]
pub struct StorageOptions {
    pub io: Arc<dyn DiskIo>,
    /// Bytes of recent changes that survive compaction, so that watches can resume after a restart. The file has up to
    /// twice this size and twice the size of the objects, and up to four times during a compaction.
    pub log_bytes: u64,
    /// Limits of the history in memory.
    pub history: HistoryBounds,
    /// Bytes of all objects together. At this size, writes that make it larger are refused.
    pub max_bytes: u64,
    /// How long a write takes without files, for simulations.
    pub latency: Option<Latency>,
}

/// Waits for as long as a write takes.
#[derive(Clone)]
pub struct Latency(pub Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Latency")
    }
}

/// The same as etcd's.
const MAX_BYTES: u64 = 2 << 30;

impl Default for StorageOptions {
    fn default() -> Self {
        StorageOptions {
            io: Arc::new(FileSystem),
            log_bytes: 32 << 20,
            history: HistoryBounds::default(),
            max_bytes: MAX_BYTES,
            latency: None,
        }
    }
}

impl fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageOptions").field("log_bytes", &self.log_bytes).finish_non_exhaustive()
    }
}

/// The store's directory, locked.
pub struct Directory {
    pub path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks it, and opens the file with the objects, if there is one.
    ///
    /// # Errors
    /// Another process uses it, or it has a store of another version.
    pub fn lock(dir: &Path) -> Result<(Directory, Option<File>), DiskError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| DiskError::Io { path, source }
        };
        let lock_path = dir.join(LOCK);
        let lock = private_file(&lock_path).map_err(at(&lock_path))?;
        let in_use = |error, path: &Path| match error {
            fs::TryLockError::WouldBlock => DiskError::InUse(dir.to_owned()),
            fs::TryLockError::Error(source) => at(path)(source),
        };
        lock.try_lock().map_err(|error| in_use(error, &lock_path))?;
        let path = dir.join(FILE);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(at(&path)(source)),
        };
        // The lock file may have been deleted while another process holds it.
        if let Some(file) = &file {
            lock_data(file).map_err(|error| in_use(error, &path))?;
        }
        if file.is_none() && dir.join(PREVIOUS_FILE).exists() {
            return Err(DiskError::PreviousFormat(dir.join(PREVIOUS_FILE)));
        }
        // The rest of a compaction that a crash interrupted.
        let _ = fs::remove_file(unfinished(&path));
        Ok((Directory { path, _lock: lock }, file))
    }

    pub fn error(&self, source: io::Error) -> DiskError {
        DiskError::Io { path: self.path.clone(), source }
    }

    fn damaged(&self, offset: u64, defect: impl ToString) -> DiskError {
        DiskError::Damaged { path: self.path.clone(), offset, what: defect.to_string() }
    }
}

pub struct Disk {
    directory: Directory,
    options: StorageOptions,
    file: File,
    /// The version before the first change in the file.
    floor: u64,
    /// Where the changes begin and end.
    log_at: u64,
    end: u64,
    /// The version of the last change.
    revision: u64,
    /// The mark that is written next: never the only valid one, since a crash can damage it.
    next_mark: usize,
    compaction: Option<Compaction>,
    /// Compaction starts at this length.
    compact_at: u64,
}

#[derive(Debug)]
pub struct CommitError {
    pub source: io::Error,
    /// Whether the contents of the file are unknown. Otherwise, the file is as it was.
    pub broken: bool,
}

impl Disk {
    /// Opens the file in a directory, and reads everything in it. The versions of a new store start after `revision`.
    ///
    /// # Errors
    /// Another process uses the file, it is damaged or missing, or it cannot be read or written.
    pub fn open(
        dir: &Path,
        revision: u64,
        options: StorageOptions,
    ) -> Result<(Disk, Collections), DiskError> {
        let (directory, file) = Directory::lock(dir)?;
        let file = if let Some(file) = file {
            file
        } else {
            let secret = dir.join(SECRET);
            if secret.exists() {
                return Err(DiskError::Missing { path: directory.path, secret });
            }
            let create = || -> io::Result<File> {
                let new = NewFile::create(options.io.clone(), &directory.path, revision, &[])?;
                Ok(new.publish(&directory.path, revision)?)
            };
            create().map_err(|source| directory.error(source))?
        };
        let (mut disk, collections) = Disk::load(directory, options, file)?;
        let marked = disk.mark_all();
        marked.map_err(|source| disk.directory.error(source))?;
        disk.schedule_compaction();
        Ok((disk, collections))
    }

    fn load(
        directory: Directory,
        options: StorageOptions,
        file: File,
    ) -> Result<(Disk, Collections), DiskError> {
        let (acknowledged, newest_mark) = read_head(&file).map_err(|defect| match defect {
            HeadDefect::Format(found) => DiskError::Format { path: directory.path.clone(), found },
            HeadDefect::At(offset, what) => directory.damaged(offset, what),
        })?;
        let length = file.metadata().map_err(|source| directory.error(source))?.len();
        if length < acknowledged.end {
            let missing = acknowledged.end - length;
            return Err(directory.damaged(length, format!("the file ends {missing} bytes too early")));
        }
        let reader = File::open(&directory.path).and_then(|file| Records::new(file, RECORDS_AT, length));
        let mut records = reader.map_err(|source| directory.error(source))?;
        let (floor, n_objects) = match records.next() {
            Ok(Some(record)) if record.kind == Kind::Start => {
                let count = str::from_utf8(record.text).ok().and_then(|count| count.parse::<u64>().ok());
                (record.revision, count.ok_or_else(|| directory.damaged(RECORDS_AT, "no number of objects"))?)
            }
            Ok(_) => return Err(directory.damaged(RECORDS_AT, "the first record is missing")),
            Err(defect) => return Err(directory.damaged(RECORDS_AT, defect)),
        };
        let collections = Collections::new(floor, floor, options.history, options.max_bytes);
        let (mut revision, mut log_at) = (0, records.offset());
        let mut n_read = 0;
        let mut batch = Batch::default();
        loop {
            let at = records.offset();
            let next = records.next().and_then(|record| {
                let Some(record) = record else { return Ok(false) };
                let in_order = if n_read < n_objects {
                    record.kind == Kind::Object && record.revision > revision && record.revision <= floor
                } else {
                    record.kind != Kind::Object && record.revision == revision.max(floor) + 1
                };
                if !in_order {
                    let message =
                        format!("version {} does not follow {}", record.revision, revision.max(floor));
                    return Err(Defect::Order(message));
                }
                batch.push(at, &record);
                revision = record.revision;
                Ok(true)
            });
            let has_more = matches!(next, Ok(true));
            if has_more {
                n_read += 1;
                if n_read == n_objects {
                    log_at = records.offset();
                }
            }
            if batch.is_full() || !has_more {
                let replayed = batch.replay(&collections);
                replayed.map_err(|(at, what)| directory.damaged(at, Defect::Text(what)))?;
            }
            match next {
                Ok(true) => {}
                Ok(false) if n_read < n_objects => return Err(directory.damaged(at, "objects are missing")),
                Ok(false) => break,
                // Only writes that were not acknowledged can be incomplete.
                Err(Defect::NoRecord | Defect::CutOff | Defect::Checksum | Defect::Order(_))
                    if at >= acknowledged.end && n_read >= n_objects =>
                {
                    tracing::warn!(
                        file = %directory.path.display(),
                        bytes = length - at,
                        "an interrupted write, which was not acknowledged, is removed"
                    );
                    options.io.truncate(&file, at).map_err(|source| directory.error(source))?;
                    break;
                }
                Err(defect) => return Err(directory.damaged(at, defect)),
            }
        }
        let revision = revision.max(floor);
        collections.set_revision(revision);
        let end = records.offset();
        let disk = Disk {
            directory,
            options,
            file,
            floor,
            log_at,
            end,
            revision,
            next_mark: (newest_mark + 1) % MARKS_AT.len(),
            compaction: None,
            compact_at: 0,
        };
        Ok((disk, collections))
    }

    /// Appends changes. They are on disk when this returns.
    ///
    /// # Errors
    /// The changes could not be written.
    pub fn commit(&mut self, changes: &[Decided]) -> Result<(), CommitError> {
        let refused = |source| CommitError { source, broken: false };
        let broken = |source| CommitError { source, broken: true };
        let mut bytes = Vec::new();
        for change in changes {
            write_change(&mut bytes, change).map_err(refused)?;
        }
        let io = &self.options.io;
        if let Err(source) = io.write(&self.file, &bytes, self.end) {
            // For example, the disk is full. Nothing of it is left, so that later writes do not join parts of it.
            return Err(CommitError { source, broken: io.truncate(&self.file, self.end).is_err() });
        }
        io.sync(&self.file).map_err(broken)?;
        self.end += bytes.len() as u64;
        self.revision = changes.last().map_or(self.revision, |change| change.object.revision);
        // It becomes durable with the next commit. Until then it is safe from a crash of the process, not of the system.
        self.mark().map_err(broken)
    }

    fn mark(&mut self) -> io::Result<()> {
        let mark = Mark { end: self.end, revision: self.revision };
        self.options.io.write(&self.file, &mark.encode(), MARKS_AT[self.next_mark])?;
        self.next_mark = (self.next_mark + 1) % MARKS_AT.len();
        Ok(())
    }

    /// Makes both marks the same, and durable.
    fn mark_all(&mut self) -> io::Result<()> {
        for _ in MARKS_AT {
            self.mark()?;
            self.options.io.sync(&self.file)?;
        }
        Ok(())
    }

    /// Compacts the file when it has become large.
    ///
    /// # Errors
    /// The contents of the directory are unknown; the store cannot be written anymore.
    pub fn maintain(&mut self, collections: &Collections) -> io::Result<()> {
        // Writes wait for a compaction that is slower than they are.
        let is_too_large = self.end >= 2 * self.compact_at;
        match self.compaction.take_if(|running| is_too_large || running.is_finished()) {
            Some(finished) => self.finish_compaction(finished),
            None if self.compaction.is_none() && self.end >= self.compact_at => {
                let source = Source {
                    path: self.directory.path.clone(),
                    floor: self.floor,
                    log_at: self.log_at,
                    end: self.end,
                    keep: self.options.log_bytes,
                    objects: collections.all(),
                    former: collections.former(),
                };
                self.compaction = Compaction::start(self.options.io.clone(), source)
                    .inspect_err(|error| self.postpone_compaction(error))
                    .ok();
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn finish_compaction(&mut self, compaction: Compaction) -> io::Result<()> {
        let compacted = match compaction.finish(self.end) {
            Ok(compacted) => compacted,
            Err(error) => {
                self.postpone_compaction(&error);
                return Ok(());
            }
        };
        let (log_at, end) = (compacted.new.log_at, compacted.new.end());
        match compacted.new.publish(&self.directory.path, self.revision) {
            Ok(file) => {
                (self.file, self.floor, self.log_at, self.end) = (file, compacted.floor, log_at, end);
                self.schedule_compaction();
                Ok(())
            }
            Err(PublishError::Unfinished(error)) => {
                self.postpone_compaction(&error);
                Ok(())
            }
            Err(PublishError::Either(error)) => Err(error),
        }
    }

    /// Half of the file is to be of no use when the next compaction starts.
    fn schedule_compaction(&mut self) {
        self.compact_at = 2 * (self.log_at + self.options.log_bytes);
    }

    fn postpone_compaction(&mut self, error: &io::Error) {
        let file = self.directory.path.display();
        tracing::error!(%file, %error, "the store cannot be compacted and keeps growing");
        self.compact_at = self.end + self.options.log_bytes;
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let compacted = self.compaction.take().map_or(Ok(()), |running| self.finish_compaction(running));
        // After a failure the marks stay as they are: they never promise more than is there.
        if let Err(error) = compacted.and_then(|()| self.mark_all()) {
            tracing::error!(file = %self.directory.path.display(), %error, "the store was not closed properly");
        }
    }
}
