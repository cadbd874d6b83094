//! The functions of the language and of Kubernetes' libraries.

mod convert;
pub(super) mod format;
mod lists;
mod named_format;
pub(super) mod net;
pub(super) mod operators;
mod optional;
mod quantity;
pub(super) mod regex;
pub(super) mod semver;
mod sets;
mod strings;
pub(super) mod time;
pub(super) mod url;

use super::declare::Row;

/// The rows of all libraries.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    [
        operators::ROWS,
        convert::ROWS,
        strings::ROWS,
        format::ROWS,
        time::ROWS,
        optional::ROWS,
        lists::ROWS,
        sets::ROWS,
        regex::ROWS,
        quantity::ROWS,
        semver::ROWS,
        net::ROWS,
        url::ROWS,
        named_format::ROWS,
    ]
    .into_iter()
    .flatten()
}
