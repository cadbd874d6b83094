//! Interned values with counted users.

pub(in crate::state) mod by_hash;
pub(crate) mod intern;
pub(crate) mod lease;
pub(crate) mod table;
pub(crate) mod uses;
