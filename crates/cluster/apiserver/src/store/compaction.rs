//! Compaction: a thread writes the present objects and the recent changes to a new file, while the store goes on with the
//! present file. The writer adds the changes made in the meantime and switches to the new file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use berth_schema::resource::Resource;

use super::disk_io::DiskIo;
use super::new_file::{NewFile, unfinished};
use super::object::Object;
use super::record::Records;

/// What a compaction reads.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    /// The version before the first change in it.
    pub floor: u64,
    /// Where its changes begin.
    pub log_at: u64,
    /// Where they end; what is written later is added at the end.
    pub end: u64,
    /// Bytes of recent changes to keep.
    pub keep: u64,
    /// All objects after the change before `end`.
    pub objects: Vec<(&'static Resource, Arc<Object>)>,
    /// Former states of objects, with the versions of the changes that replaced them.
    pub former: Vec<(&'static Resource, Arc<Object>, u64)>,
}

/// A new file, and what it covers of the previous one.
pub struct Compacted {
    pub new: NewFile,
    /// The version before the first change in it.
    pub floor: u64,
    /// Up to where the previous file has been copied.
    pub copied: u64,
}

pub struct Compaction {
    thread: JoinHandle<io::Result<Compacted>>,
    path: PathBuf,
}

impl Compaction {
    /// Starts it.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(io: Arc<dyn DiskIo>, source: Source) -> io::Result<Compaction> {
        let path = source.path.clone();
        let builder = std::thread::Builder::new().name("berth-compaction".to_owned());
        Ok(Compaction { thread: builder.spawn(move || compact(io, source))?, path })
    }

    /// Whether the new file is complete but for the latest changes.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the new file. The changes up to `end` are added to it.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn finish(self, end: u64) -> io::Result<Compacted> {
        let panicked = |_| io::Error::other("the compaction panicked");
        let finished = self.thread.join().map_err(panicked).flatten().and_then(|mut compacted| {
            compacted.new.copy(read(&self.path, compacted.copied, end)?)?;
            compacted.copied = end;
            Ok(compacted)
        });
        if finished.is_err() {
            // It would take space until the next compaction.
            let _ = fs::remove_file(unfinished(&self.path));
        }
        finished
    }
}

fn read(path: &Path, from: u64, to: u64) -> io::Result<Records> {
    Records::new(File::open(path)?, from, to)
}

fn compact(io: Arc<dyn DiskIo>, source: Source) -> io::Result<Compacted> {
    let Source { path, mut floor, log_at, end, keep, mut objects, former } = source;
    let mut records = read(&path, log_at, end)?;
    while records.offset() + keep < end {
        let at = records.offset();
        match records.next() {
            Ok(Some(record)) => floor = record.revision,
            Ok(None) => break,
            Err(defect) => return Err(io::Error::other(format!("damaged at byte {at}: {defect}"))),
        }
    }
    // The objects as they were at the floor; the changes that are kept lead from them to the present ones. A former state that
    // the history has forgotten is missing, which matters only to watches and lists of that time.
    objects.extend(
        former.into_iter().filter(|(_, _, at)| *at > floor).map(|(resource, object, _)| (resource, object)),
    );
    objects.retain(|(_, object)| object.revision <= floor);
    objects.sort_unstable_by_key(|(_, object)| object.revision);
    let mut new = NewFile::create(io, &path, floor, &objects)?;
    new.copy(records)?;
    Ok(Compacted { new, floor, copied: end })
}
