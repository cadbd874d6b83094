//! The directory of a store on disk: one process at a time uses it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::disk_error::DiskError;
use super::new_file::{lock_data, private_file, unfinished};

const FILE: &str = "store.log";
const LOCK: &str = "store.lock";
/// The file of the previous format.
const PREVIOUS_FILE: &str = "store.redb";

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

    pub fn damaged(&self, offset: u64, defect: impl ToString) -> DiskError {
        DiskError::Damaged { path: self.path.clone(), offset, what: defect.to_string() }
    }
}
