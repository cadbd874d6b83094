//! Archives of files: tar, zip and snapshots of etcd. Regular files are passed on one after the other; nothing is unpacked, and links are passed over.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use ::zip::ZipArchive;

use crate::etcd;

/// The format of an archive.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    Tar,
    Zip,
    /// A snapshot of etcd.
    Etcd,
}

/// Bytes of the first header of a tar archive.
const HEAD_BYTES: u64 = 512;

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Tar => "a tar archive",
            Format::Zip => "a zip archive",
            Format::Etcd => "a snapshot of etcd",
        })
    }
}

impl Format {
    /// That of an archive that begins with these bytes.
    fn of(head: &[u8]) -> Option<Format> {
        match head {
            _ if head.starts_with(b"PK\x03\x04") => Some(Format::Zip),
            _ if head.get(257..262) == Some(b"ustar") => Some(Format::Tar),
            _ if etcd::is_database(head) => Some(Format::Etcd),
            _ => None,
        }
    }

    /// The format of a source that is an archive, and the whole source.
    pub(crate) fn find<'p>(mut source: impl Read + 'p) -> io::Result<(Option<Format>, Box<dyn Read + 'p>)> {
        let mut head = Vec::new();
        source.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok((Format::of(&head), Box::new(io::Cursor::new(head).chain(source))))
    }
}

/// Which files are read, by their paths, and what takes them.
pub(crate) struct Files<'a, E> {
    pub(crate) wants: fn(&str) -> bool,
    pub(crate) each: &'a mut dyn FnMut(&str, &mut dyn Read) -> Result<(), E>,
    /// What a damaged archive is.
    pub(crate) damaged: &'a dyn Fn(io::Error) -> E,
}

impl<E> Files<'_, E> {
    pub(crate) fn of_tar(self, source: impl Read) -> Result<(), E> {
        let mut archive = tar::Archive::new(source);
        for file in archive.entries().map_err(self.damaged)? {
            let mut file = file.map_err(self.damaged)?;
            let kind = file.header().entry_type();
            let path = String::from_utf8_lossy(&file.path_bytes()).into_owned();
            if (kind.is_file() || kind.is_gnu_sparse()) && (self.wants)(&path) {
                (self.each)(&path, &mut file)?;
            }
        }
        Ok(())
    }

    pub(crate) fn of_zip(self, path: &Path) -> Result<(), E> {
        let damaged = |error: zip::result::ZipError| (self.damaged)(error.into());
        let file = BufReader::new(File::open(path).map_err(self.damaged)?);
        let mut archive = ZipArchive::new(file).map_err(damaged)?;
        for i in 0..archive.len() {
            let Some(path) = archive.name_for_index(i) else { continue };
            let path = path.map_err(damaged)?.into_owned();
            if (self.wants)(&path) {
                let mut file = archive.by_index(i).map_err(damaged)?;
                if file.is_file() {
                    (self.each)(&path, &mut file)?;
                }
            }
        }
        Ok(())
    }

    /// Objects are files with the names of their keys.
    pub(crate) fn of_etcd(self, path: &Path) -> Result<(), E> {
        let mut snapshot = etcd::Snapshot::open(path).map_err(self.damaged)?;
        for (name, place) in snapshot.objects().map_err(self.damaged)? {
            let name = String::from_utf8_lossy(&name);
            match snapshot.value(place).and_then(|value| etcd::object(&value)) {
                Ok(None) => {}
                Ok(Some(text)) => (self.each)(&name, &mut text.as_slice())?,
                Err(error) => (self.each)(&name, &mut Unreadable(Some(error)))?,
            }
        }
        Ok(())
    }
}

/// A file that cannot be read.
struct Unreadable(Option<io::Error>);

impl Read for Unreadable {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
