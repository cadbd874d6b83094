//! Recovery: what can be read of a damaged file goes to a new file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::collection::HistoryBounds;
use super::collections::Collections;
use super::directory::Directory;
use super::disk_error::DiskError;
use super::disk_io::FileSystem;
use super::entry::Entry;
use super::new_file::NewFile;
use super::record::{HeadDefect, Kind, RECORDS_AT, Record, Records, read_head};

/// Versions that recovery leaves out, so that no version is used twice even if changes at the end are lost.
const SKIPPED_VERSIONS: u64 = 1_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many objects of each resource were saved.
    pub saved: BTreeMap<String, usize>,
    /// What could not be read; empty if the file is not damaged, and then it was not changed.
    pub lost: Vec<Lost>,
    /// Where the damaged file is kept.
    pub damaged_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Bytes of the file.
    Bytes {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
        why: String,
    },
    /// This many objects as they were before the changes in the file.
    Objects(u64),
    /// The changes with these versions.
    Changes {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
}

/// What a file says besides its objects.
struct Reading {
    collections: Collections,
    /// Version and number of objects of the first record.
    start: Option<(u64, u64)>,
    n_objects: u64,
    /// The version of the last object before the changes.
    last_object: u64,
    /// The version of the last change.
    revision: u64,
    lost: Vec<Lost>,
}

impl Reading {
    fn take(&mut self, record: &Record<'_>) -> Result<(), String> {
        if record.kind == Kind::Start {
            let count = str::from_utf8(record.text).ok().and_then(|count| count.parse().ok());
            self.start = Some((record.revision, count.ok_or("no number of objects")?));
            return Ok(());
        }
        if record.kind == Kind::Object {
            // A copy of a part of the file must not replace newer states.
            if record.revision <= self.last_object || self.revision > 0 {
                return Err(format!("an object of version {} is out of order", record.revision));
            }
            self.last_object = record.revision;
            self.replay(record)?;
            self.n_objects += 1;
            return Ok(());
        }
        let last = match (self.revision, self.start) {
            (0, Some((floor, _))) => floor,
            (0, None) => record.revision - 1,
            (last, _) => last,
        };
        if record.revision <= last {
            return Err(format!("version {} after version {last}", record.revision));
        }
        self.replay(record)?;
        self.lose_changes(last, record.revision - 1);
        self.revision = record.revision;
        Ok(())
    }

    fn replay(&self, record: &Record<'_>) -> Result<(), String> {
        let Record { kind, revision, text, .. } = *record;
        Entry::decode(kind, revision, text, self.collections.parts())?.replay(&self.collections);
        Ok(())
    }

    fn lose_changes(&mut self, after: u64, last: u64) {
        if after < last {
            self.lost.push(Lost::Changes { first: after + 1, last });
        }
    }

    fn lose_bytes(&mut self, from: u64, to: u64, why: String) {
        // What is found behind a damaged part may be damaged as well.
        match self.lost.last_mut() {
            Some(Lost::Bytes { to: before, .. }) if *before == from => *before = to,
            _ => self.lost.push(Lost::Bytes { from, to, why }),
        }
    }
}

/// Saves the readable objects of a directory's store to a new file, if the file is damaged. The damaged file is kept.
///
/// # Errors
/// Another process uses the directory, it has no store, or it cannot be read or written.
pub fn recover(dir: &Path) -> Result<Recovery, DiskError> {
    if !dir.is_dir() {
        return Err(DiskError::NothingToRecover(dir.to_owned()));
    }
    let (directory, file) = Directory::lock(dir)?;
    let path = directory.path.clone();
    if file.is_none() {
        return Err(DiskError::NothingToRecover(path));
    }
    let mut reading = read(&path).map_err(|error| match error {
        ReadError::Format(found) => DiskError::Format { path: path.clone(), found },
        ReadError::Io(source) => directory.error(source),
    })?;
    let mut objects = reading.collections.all();
    let mut recovery = Recovery { lost: std::mem::take(&mut reading.lost), ..Recovery::default() };
    for (resource, _) in &objects {
        *recovery.saved.entry(resource.group_resource()).or_default() += 1;
    }
    if recovery.lost.is_empty() {
        return Ok(recovery);
    }
    objects.sort_unstable_by_key(|(_, object)| object.revision);
    let revision = reading.revision.max(reading.start.map_or(0, |(floor, _)| floor)) + SKIPPED_VERSIONS;
    let replace = || -> io::Result<PathBuf> {
        let kept = keep(&path)?;
        NewFile::create(Arc::new(FileSystem), &path, revision, &objects)?.publish(&path, revision)?;
        Ok(kept)
    };
    recovery.damaged_file = Some(replace().map_err(|source| directory.error(source))?);
    Ok(recovery)
}

enum ReadError {
    Format(u32),
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

fn read(path: &Path) -> Result<Reading, ReadError> {
    // Reading a pipe or a device might never end.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file").into());
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let history = HistoryBounds { events: 0, bytes: 0 };
    let mut reading = Reading {
        collections: Collections::new(0, 0, history, u64::MAX),
        start: None,
        n_objects: 0,
        last_object: 0,
        revision: 0,
        lost: Vec::new(),
    };
    let acknowledged = match read_head(&file) {
        Ok((mark, _)) => Some(mark),
        Err(HeadDefect::Format(found)) => return Err(ReadError::Format(found)),
        Err(HeadDefect::At(from, why)) => {
            reading.lose_bytes(from, RECORDS_AT.min(length), why);
            None
        }
    };
    let mut records = Records::new(file, RECORDS_AT, length)?;
    loop {
        let at = records.offset();
        let defect = match records.next() {
            Ok(None) => break,
            Ok(Some(record)) => match reading.take(&record) {
                Ok(()) => continue,
                Err(why) => why,
            },
            Err(defect) => {
                records.skip()?;
                defect.to_string()
            }
        };
        // Behind the mark there are only writes that were not acknowledged.
        if acknowledged.is_none_or(|mark| at < mark.end) {
            reading.lose_bytes(at, records.offset(), defect);
        }
    }
    if let Some(mark) = acknowledged {
        if length < mark.end {
            reading.lose_bytes(length, mark.end, "the file ends too early".to_owned());
        }
        let last = reading.revision.max(reading.start.map_or(mark.revision, |(floor, _)| floor));
        reading.lose_changes(last, mark.revision);
        reading.revision = reading.revision.max(mark.revision);
    }
    match reading.start {
        Some((_, n_objects)) if reading.n_objects < n_objects => {
            reading.lost.push(Lost::Objects(n_objects - reading.n_objects));
        }
        _ => {}
    }
    Ok(reading)
}

/// Gives a file a second name that does not exist yet.
fn keep(path: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let kept = path.with_extension(format!("log.damaged-{number}"));
        match fs::hard_link(path, &kept) {
            Ok(()) => return Ok(kept),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}
