//! A new file of the store: for a new cluster, for compaction, and for what recovery saved. It replaces the file once it is
//! complete and durable.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_schema::resource::Resource;

use super::disk_io::DiskIo;
use super::entry::write_object;
use super::object::Object;
use super::record::{Defect, Kind, Mark, RECORDS_AT, Records, encode_head, write_record};

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

pub struct NewFile {
    io: Arc<dyn DiskIo>,
    path: PathBuf,
    file: File,
    written: u64,
    buffer: Vec<u8>,
    /// Where the changes begin.
    pub log_at: u64,
}

/// The name of an unfinished file beside the file that it will replace.
pub fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("log.new")
}

impl NewFile {
    /// Creates the file with the objects at the version `floor`, in the order of their own versions.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(
        io: Arc<dyn DiskIo>,
        path: &Path,
        floor: u64,
        objects: &[(&'static Resource, Arc<Object>)],
    ) -> io::Result<NewFile> {
        let path = unfinished(path);
        let file = private_file(&path)?;
        lock_data(&file)?;
        let mut new = NewFile { io, path, file, written: RECORDS_AT, buffer: Vec::new(), log_at: 0 };
        let count = objects.len().to_string();
        write_record(&mut new.buffer, Kind::Start, floor, &[count.as_bytes()])?;
        for (resource, object) in objects {
            write_object(&mut new.buffer, resource, object)?;
            new.flush_above(CHUNK)?;
        }
        new.log_at = new.end();
        Ok(new)
    }

    /// Copies records.
    ///
    /// # Errors
    /// A record cannot be read, or the file cannot be written.
    pub fn copy(&mut self, mut records: Records) -> io::Result<()> {
        loop {
            let at = records.offset();
            match records.next() {
                Ok(Some(record)) => self.buffer.extend_from_slice(record.bytes),
                Ok(None) => return Ok(()),
                Err(Defect::Io(error)) => return Err(error),
                Err(defect) => return Err(io::Error::other(format!("damaged at byte {at}: {defect}"))),
            }
            self.flush_above(CHUNK)?;
        }
    }

    /// Its length.
    pub fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Makes the file durable, and puts it in the place of another.
    ///
    /// # Errors
    /// Either file is in the place.
    pub fn publish(mut self, path: &Path, revision: u64) -> io::Result<File> {
        self.complete(revision)?;
        self.take_place(path)?;
        Ok(self.file)
    }

    /// Writes the rest, and makes it durable.
    ///
    /// # Errors
    /// The file is not complete.
    pub fn complete(&mut self, revision: u64) -> io::Result<()> {
        self.flush_above(0)?;
        self.io.write(&self.file, &encode_head(Mark { end: self.written, revision }), 0)?;
        self.io.sync(&self.file)
    }

    /// Puts the complete file in the place of another, durably. It can be repeated after an error.
    ///
    /// # Errors
    /// Either file is in the place.
    pub fn take_place(&self, path: &Path) -> io::Result<()> {
        if self.path.try_exists()? {
            self.io.rename(&self.path, path)?;
        }
        self.io.sync_directory(path)
    }

    /// Whether it is not in the place of another.
    pub fn is_beside(&self) -> bool {
        self.path.try_exists().unwrap_or(false)
    }

    pub fn into_file(self) -> File {
        self.file
    }

    fn flush_above(&mut self, bytes: usize) -> io::Result<()> {
        if self.buffer.len() > bytes {
            self.io.write(&self.file, &self.buffer, self.written)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Locks a file with objects, as long as it is open. Only where locks do not keep the process itself from reading it.
pub fn lock_data(file: &File) -> Result<(), TryLockError> {
    if cfg!(unix) { file.try_lock() } else { Ok(()) }
}

/// Creates an empty file that only its owner can read.
pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
