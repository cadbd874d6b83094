//! Objects on disk: one file with the objects and the recent changes. Every write is appended and durable before it is
//! acknowledged; compaction replaces the file.

use std::fs::File;
use std::io;
use std::path::Path;

use super::batch::Batch;
use super::collections::Collections;
use super::compaction::{Compacted, Compaction, Source};
use super::directory::Directory;
use super::disk_error::DiskError;
use super::entry::{Decided, write_change};
use super::new_file::NewFile;
use super::record::{Defect, HeadDefect, Kind, MARKS_AT, Mark, RECORDS_AT, Records, read_head};
use super::storage_options::StorageOptions;

/// A file that the API server writes after it has created the store.
const SECRET: &str = "secret";

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
    /// Whether parts of a write that failed may be in the file.
    is_unsure: bool,
    compaction: Option<Compaction>,
    /// The file of a compaction, if it is not known to be in the place of `file`.
    unplaced: Option<Compacted>,
    /// Compaction starts at this length.
    compact_at: u64,
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
                new.publish(&directory.path, revision)
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
            is_unsure: false,
            compaction: None,
            unplaced: None,
            compact_at: 0,
        };
        Ok((disk, collections))
    }

    /// Appends changes. They are on disk when this returns.
    ///
    /// # Errors
    /// The changes could not be written, for example because the disk is full. Nothing of them is left when the next ones are
    /// written; until then, a restart may find them.
    pub fn commit(&mut self, changes: &[Decided]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for change in changes {
            write_change(&mut bytes, change)?;
        }
        self.mend()?;
        self.is_unsure = true;
        let end = self.end + bytes.len() as u64;
        let revision = changes.last().map_or(self.revision, |change| change.object.revision);
        let mut append = || {
            self.options.io.write(&self.file, &bytes, self.end)?;
            self.options.io.sync(&self.file)?;
            // It becomes durable with the next commit. Until then it is safe from a crash of the process, not of the system.
            self.mark(Mark { end, revision })
        };
        if let Err(error) = append() {
            // If this fails as well, the next write does it.
            let _ = self.mend();
            return Err(error);
        }
        (self.end, self.revision, self.is_unsure) = (end, revision, false);
        Ok(())
    }

    /// Brings the file in order after a write that failed: a part of it would join later ones, and a sync that failed says
    /// nothing of what was written since the last one.
    fn mend(&mut self) -> io::Result<()> {
        if let Some(compacted) = self.unplaced.take() {
            self.switch_to(compacted)?;
        }
        if self.is_unsure {
            // The last mark may be damaged, or promise too much. The other one is durable.
            self.next_mark = (self.next_mark + MARKS_AT.len() - 1) % MARKS_AT.len();
            self.mark(self.acknowledged())?;
            self.options.io.sync(&self.file)?;
            self.options.io.truncate(&self.file, self.end)?;
            self.is_unsure = false;
        }
        Ok(())
    }

    fn acknowledged(&self) -> Mark {
        Mark { end: self.end, revision: self.revision }
    }

    /// Writes the next mark. If it fails, that one may be damaged.
    fn mark(&mut self, mark: Mark) -> io::Result<()> {
        let at = MARKS_AT[self.next_mark];
        self.next_mark = (self.next_mark + 1) % MARKS_AT.len();
        self.options.io.write(&self.file, &mark.encode(), at)
    }

    /// Makes both marks the same, and durable.
    fn mark_all(&mut self) -> io::Result<()> {
        for _ in MARKS_AT {
            self.mark(self.acknowledged())?;
            self.options.io.sync(&self.file)?;
        }
        Ok(())
    }

    /// Compacts the file when it has become large.
    ///
    /// # Errors
    /// Whether the compacted file is in its place is not known. The next write finds it out.
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
        let compacted = compaction.finish(self.end).and_then(|mut compacted| {
            compacted.new.complete(self.revision)?;
            Ok(compacted)
        });
        match compacted {
            Ok(compacted) => self.switch_to(compacted),
            Err(error) => {
                self.postpone_compaction(&error);
                Ok(())
            }
        }
    }

    /// Puts a complete file in the place of the present one.
    fn switch_to(&mut self, compacted: Compacted) -> io::Result<()> {
        let Err(error) = compacted.new.take_place(&self.directory.path) else {
            (self.log_at, self.end, self.floor) =
                (compacted.new.log_at, compacted.new.end(), compacted.floor);
            (self.file, self.is_unsure) = (compacted.new.into_file(), false);
            self.schedule_compaction();
            return Ok(());
        };
        if compacted.new.is_beside() {
            self.postpone_compaction(&error);
            return Ok(());
        }
        self.unplaced = Some(compacted);
        Err(error)
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
        if let Err(error) = compacted.and_then(|()| self.mend()).and_then(|()| self.mark_all()) {
            tracing::error!(file = %self.directory.path.display(), %error, "the store was not closed properly");
        }
    }
}
