//! Errors of the store's directory, with the file, the place and the remedy.

use std::io;
use std::path::PathBuf;

use berth_api::syntax::shell::quoted;

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{} is in use by another process; stop it, or give another --data-dir", .0.display())]
    InUse(PathBuf),
    /// A version with another file format wrote the file.
    #[error("{} has format {found}, but this version of berth reads format {}; use the version that wrote it",
        path.display(), super::record::FORMAT_VERSION)]
    Format { path: PathBuf, found: u32 },
    /// A version with a database wrote the directory.
    #[error("{} was written by an earlier version of berth, which this version does not read: start that version with this \
        --data-dir, save the objects with `kubectl get ... -A -o yaml`, and load them with `berth up --from FILE` into a new \
        --data-dir", .0.display())]
    PreviousFormat(PathBuf),
    /// There are keys of a cluster, but not its objects.
    #[error("{} does not exist, but {} does: restore the file from a backup, or remove the directory to start an empty \
        cluster", path.display(), secret.display())]
    Missing {
        path: PathBuf,
        /// The file that shows that there was one.
        secret: PathBuf,
    },
    #[error("{} does not exist: there is nothing to recover", .0.display())]
    NothingToRecover(PathBuf),
    #[error("{} is damaged at byte {offset}: {what}; restore it from a backup, or save what can be read with \
        `berth apiserver --recover --data-dir {}`", path.display(), quoted(&path.parent().unwrap_or(path).display().to_string()))]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}
