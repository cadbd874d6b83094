//! The functions of the language and of Kubernetes' libraries.

mod convert;
mod format;
mod lists;
mod named_format;
mod net;
pub(super) mod operators;
mod optional;
mod quantity;
pub(super) mod regex;
mod semver;
mod sets;
mod strings;
#[cfg(test)]
mod tests;
pub(super) mod time;
mod url;

use super::function::Row;

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
