//! Parts of objects that many objects have and that are read once.

use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;

use berth_api::object::{Empty, ObjectMeta, Shared};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;

/// When this many parts are known, they are forgotten.
const MOST: usize = 4096;

/// The parts that were read last, by a digest of what is read of their text. The digest is keyed, since users write what is hashed.
pub(crate) struct Known<T> {
    key: RandomState,
    by_digest: FxHashMap<u64, Shared<T>>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known { key: RandomState::new(), by_digest: FxHashMap::default() }
    }
}

impl<T: Empty> Known<T> {
    /// The part whose read fields are these, which `read` reads if it is not known.
    pub(crate) fn get(
        &mut self,
        fields: impl Hash,
        read: impl FnOnce() -> Result<Shared<T>, serde_json::Error>,
    ) -> Result<Shared<T>, serde_json::Error> {
        let digest = self.key.hash_one(fields);
        if let Some(known) = self.by_digest.get(&digest) {
            return Ok(known.clone());
        }
        let part = read()?;
        if self.by_digest.len() >= MOST {
            self.by_digest.clear();
        }
        self.by_digest.insert(digest, part.clone());
        Ok(part)
    }
}

/// The metadata at a place of a text, without the managed fields at a place in it: they are the longest part, and not read.
pub(crate) fn read_metadata(
    text: &[u8],
    metadata: &Range<usize>,
    managed_fields: &Range<usize>,
) -> Result<ObjectMeta, serde_json::Error> {
    if managed_fields.is_empty() {
        return read_part(&text[metadata.clone()]);
    }
    let (before, after) =
        (&text[metadata.start..managed_fields.start], &text[managed_fields.end..metadata.end]);
    read_part(&[before, b"null", after].concat())
}

/// A part of an object, empty if the object does not have it.
pub(crate) fn read_part<T: DeserializeOwned + Default>(text: &[u8]) -> Result<T, serde_json::Error> {
    match text.trim_ascii() {
        [] | b"null" => Ok(T::default()),
        text => serde_json::from_slice(text),
    }
}
