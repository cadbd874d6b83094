//! The documents of the repository, as tests compare them with the programs: code blocks ([`blocks`]) and the tables of
//! docs/json.md ([`json`]).

use std::path::{Path, PathBuf};

pub mod blocks;
pub mod json;

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}
