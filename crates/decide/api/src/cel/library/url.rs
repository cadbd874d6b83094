//! URLs.

use super::super::declare::Row;

pub(in super::super) const ROWS: &[Row] = &[];

/// A URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
}
