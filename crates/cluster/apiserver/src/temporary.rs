//! Temporary directories for keys: private, with random names, and removed at the end, or after a crash by the next start.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::{Builder, TempDir};

const PREFIX: &str = "berth-";
/// The owner locks this file for as long as it runs.
const LOCK: &str = "lock";
/// An owner has locked its new file after this time.
const LOCKING_TIME: Duration = Duration::from_secs(60);

/// A directory that only its owner can read. It is removed when dropped.
#[derive(Debug)]
pub struct TemporaryDir {
    dir: TempDir,
    _lock: File,
}

impl TemporaryDir {
    /// Creates a directory, and removes those of processes that ended without removing theirs.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new() -> io::Result<TemporaryDir> {
        TemporaryDir::new_in(&std::env::temp_dir(), LOCKING_TIME)
    }

    fn new_in(parent: &Path, locking_time: Duration) -> io::Result<TemporaryDir> {
        let mut builder = Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let dir = builder.tempdir_in(parent)?;
        let lock = File::create_new(dir.path().join(LOCK))?;
        lock.try_lock()?;
        let own = fs::symlink_metadata(dir.path())?;
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX)
                && entry.metadata().is_ok_and(|other| is_private(&other, &own))
                && is_abandoned(&entry.path().join(LOCK), locking_time)
            {
                // The next start tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(TemporaryDir { dir, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Whether a directory belongs to the same user, and no other user can write to it.
fn is_private(directory: &fs::Metadata, own: &fs::Metadata) -> bool {
    #[cfg(unix)]
    let same_owner = {
        use std::os::unix::fs::MetadataExt as _;
        directory.uid() == own.uid() && directory.mode() == own.mode()
    };
    #[cfg(not(unix))]
    let same_owner = false;
    directory.is_dir() && same_owner
}

fn is_abandoned(lock: &Path, locking_time: Duration) -> bool {
    let is_old = fs::symlink_metadata(lock).is_ok_and(|metadata| {
        metadata.is_file()
            && metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= locking_time))
    });
    is_old && File::open(lock).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn abandoned_directories_are_removed_and_others_are_not() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let running = TemporaryDir::new_in(parent, Duration::ZERO).unwrap();
        let mode = fs::metadata(running.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let abandoned = TemporaryDir::new_in(parent, Duration::ZERO).unwrap();
        fs::write(abandoned.path().join("ca.key"), "k").unwrap();
        let TemporaryDir { dir, _lock } = abandoned;
        let abandoned = dir.keep();
        drop(_lock);
        // Without a lock file, with another mode, or a link to a directory elsewhere.
        let [no_lock, open, target] = ["berth-1", "berth-2", "target"].map(|name| parent.join(name));
        for (dir, mode, lock) in [(&no_lock, 0o700, "other"), (&open, 0o777, LOCK), (&target, 0o700, LOCK)] {
            fs::create_dir(dir).unwrap();
            fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
            fs::write(dir.join(lock), "").unwrap();
        }
        symlink(&target, parent.join("berth-3")).unwrap();

        let young = TemporaryDir::new_in(parent, Duration::from_secs(3600)).unwrap();
        assert!(abandoned.exists());
        let last = TemporaryDir::new_in(parent, Duration::ZERO).unwrap();
        assert!(!abandoned.exists());
        for kept in [running.path(), &no_lock, &open, &target.join(LOCK), young.path(), last.path()] {
            assert!(kept.exists(), "{}", kept.display());
        }
        let removed = running.path().to_owned();
        drop(running);
        assert!(!removed.exists());
    }
}
