//! `format` of strings.

use super::super::declare::Row;

pub(in super::super) const ROWS: &[Row] = &[];
