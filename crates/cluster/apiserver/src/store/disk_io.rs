//! The changes that the store makes to files. Tests replace them to simulate failures.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// The operations by which the store changes files; the default implementations do just that.
pub trait DiskIo: Debug + Send + Sync {
    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// Not all bytes were written.
    fn write(&self, mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    /// Makes the contents of a file durable.
    ///
    /// # Errors
    /// The contents may be lost in a crash of the system.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Cuts a file.
    ///
    /// # Errors
    /// The file is as it was.
    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    /// Gives a file the name of another one.
    ///
    /// # Errors
    /// Either has the name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Makes the name of a file durable.
    ///
    /// # Errors
    /// After a crash of the system, the name may be that of the file that had it before.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }
}

#[derive(Debug)]
pub struct FileSystem;

impl DiskIo for FileSystem {}
