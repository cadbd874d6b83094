//! Interned values with counted users.

pub(crate) mod intern;
pub(crate) mod lease;
pub(crate) mod table;
pub(crate) mod uses;
