//! Snapshots of etcd: the objects of an API server in the file of its database, a B+tree of pages (bbolt). The file is read page by page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use berth_schema::protobuf::{ProtobufError, Reader, Wire, decode};
use serde_json::json;

/// The first bytes of the description of a database, after the header of its page.
const MAGIC: &[u8] = &[0xed, 0xda, 0x0c, 0xed];
const HEADER_BYTES: usize = 16;
/// A tree of this height has more entries than a file has bytes.
const MAX_DEPTH: usize = 32;

/// Whether a file begins as a database does.
pub(crate) fn is_database(head: &[u8]) -> bool {
    head.get(HEADER_BYTES..).is_some_and(|meta| meta.starts_with(MAGIC))
}

/// The JSON of an object in a value. An object of an unknown kind, and an encrypted one, has nothing but its kind.
///
/// # Errors
/// The value is damaged.
pub(crate) fn object(value: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let object = match value {
        _ if value.starts_with(b"{") => return Ok(Some(value.to_vec())),
        _ if value.starts_with(b"k8s:enc:") => json!({"apiVersion": "v1", "kind": "encrypted object"}),
        _ if value.starts_with(b"k8s\0") => match decode(value) {
            Ok(object) => object,
            Err(ProtobufError::UnknownKind { api_version, kind }) => {
                json!({"apiVersion": api_version, "kind": kind})
            }
            Err(error) => return Err(io::Error::other(error)),
        },
        _ => return Ok(None),
    };
    Ok(Some(object.to_string().into_bytes()))
}

pub(crate) struct Snapshot {
    file: File,
    n_bytes: u64,
    page_bytes: u64,
    /// The page at the root of the tree of buckets.
    root: u64,
}

/// Where an entry of a tree is: the first byte of its value in the file, and the number of bytes.
type Place = (u64, usize);

/// Takes the key and the value of an entry.
type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8], Place) -> io::Result<()>;

impl Snapshot {
    /// # Errors
    /// The file cannot be read, or is no database.
    pub(crate) fn open(path: &Path) -> io::Result<Snapshot> {
        let mut file = File::open(path)?;
        let n_bytes = file.metadata()?.len();
        let first = Meta::read(&mut file, 0)?;
        // The description is written to two pages in turn.
        let second = Meta::read(&mut file, first.page_bytes).ok();
        let newest = second.filter(|second| !first.is_valid || second.transaction > first.transaction);
        let Meta { is_valid: true, page_bytes, root, .. } = newest.unwrap_or(first) else {
            return Err(damaged());
        };
        Ok(Snapshot { file, n_bytes, page_bytes, root })
    }

    /// The objects that are not deleted, by name: where their last revisions are.
    pub(crate) fn objects(&mut self) -> io::Result<BTreeMap<Vec<u8>, Place>> {
        let mut bucket = None;
        self.walk(self.root, &mut |name, value, (start, _)| {
            if name == b"key" {
                // A small bucket is a page in the value.
                bucket = Some((
                    number(value, 0, 8)?,
                    start + HEADER_BYTES as u64,
                    value.get(16..).map(<[u8]>::to_vec),
                ));
            }
            Ok(())
        })?;
        // Revisions come in their order, and the one that deletes a key ends with `t`.
        let mut last = BTreeMap::new();
        let each: Each<'_> = &mut |revision, value, place| {
            let name = key_value(value)?.0.to_vec();
            match revision.last() {
                Some(b't') if revision.len() == 18 => last.remove(&name),
                _ => last.insert(name, place),
            };
            Ok(())
        };
        match bucket.ok_or_else(damaged)? {
            (0, start, page) => self.walk_page((start, &page.ok_or_else(damaged)?), 0, &mut 0, each)?,
            (root, ..) => self.walk(root, each)?,
        }
        Ok(last)
    }

    /// The value of an object.
    pub(crate) fn value(&mut self, (start, n_bytes): Place) -> io::Result<Vec<u8>> {
        let mut message = vec![0; n_bytes];
        read_at(&mut self.file, start, &mut message)?;
        Ok(key_value(&message)?.1.to_vec())
    }

    /// Passes on the entries of a tree, in the order of their keys.
    fn walk(&mut self, root: u64, each: Each<'_>) -> io::Result<()> {
        let mut n_pages = self.n_bytes / self.page_bytes;
        let (start, page) = self.page(root)?;
        self.walk_page((start, &page), MAX_DEPTH, &mut n_pages, each)
    }

    fn walk_page(
        &mut self,
        (start, page): (u64, &[u8]),
        depth: usize,
        n_pages: &mut u64,
        each: Each<'_>,
    ) -> io::Result<()> {
        const BRANCH: u64 = 1;
        const LEAF: u64 = 2;
        let kind = number(page, 8, 2)?;
        for entry in 0..number(page, 10, 2)? as usize {
            let at = HEADER_BYTES + entry * 16;
            match kind {
                BRANCH if depth > 0 && *n_pages > 0 => {
                    *n_pages -= 1;
                    let (start, child) = self.page(number(page, at + 8, 8)?)?;
                    self.walk_page((start, &child), depth - 1, n_pages, each)?;
                }
                LEAF => {
                    let key = at + number(page, at + 4, 4)? as usize;
                    let value = key + number(page, at + 8, 4)? as usize;
                    let end = value + number(page, at + 12, 4)? as usize;
                    let place = (start + value as u64, end - value);
                    let [key, value] =
                        [key..value, value..end].map(|range| page.get(range).ok_or_else(damaged));
                    each(key?, value?, place)?;
                }
                _ => return Err(damaged()),
            }
        }
        Ok(())
    }

    /// A page with those that it continues on, and its first byte in the file.
    fn page(&mut self, id: u64) -> io::Result<(u64, Vec<u8>)> {
        let start = id.checked_mul(self.page_bytes).ok_or_else(damaged)?;
        let mut header = [0; HEADER_BYTES];
        read_at(&mut self.file, start, &mut header)?;
        let n_bytes = (number(&header, 12, 4)? + 1) * self.page_bytes;
        if start.saturating_add(n_bytes) > self.n_bytes {
            return Err(damaged());
        }
        let mut page = vec![0; n_bytes as usize];
        read_at(&mut self.file, start, &mut page)?;
        Ok((start, page))
    }
}

/// The description of a database.
struct Meta {
    page_bytes: u64,
    root: u64,
    transaction: u64,
    is_valid: bool,
}

impl Meta {
    fn read(file: &mut File, at: u64) -> io::Result<Meta> {
        /// What the checksum is about.
        const N_BYTES: usize = 56;
        let mut meta = [0; N_BYTES + 8];
        read_at(file, at + HEADER_BYTES as u64, &mut meta)?;
        // FNV-1a.
        let checksum = meta[..N_BYTES].iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let page_bytes = number(&meta, 8, 4)?;
        Ok(Meta {
            page_bytes,
            root: number(&meta, 16, 8)?,
            transaction: number(&meta, 48, 8)?,
            is_valid: meta.starts_with(MAGIC) && page_bytes > 0 && checksum == number(&meta, N_BYTES, 8)?,
        })
    }
}

/// The name of an object and its value, in a message of etcd.
fn key_value(message: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let mut fields = Reader::new(message);
    let (mut key, mut value) = (&[][..], &[][..]);
    while let Some((number, wire)) = fields.next_field().map_err(io::Error::other)? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => key = bytes,
            (5, Wire::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

fn read_at(file: &mut File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(),
        _ => error,
    })
}

/// A number of this many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, n_bytes: usize) -> io::Result<u64> {
    let bytes = bytes.get(at..at + n_bytes).ok_or_else(damaged)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn damaged() -> io::Error {
    io::Error::other("a damaged database of etcd")
}
