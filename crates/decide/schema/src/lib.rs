//! The types of the API: their fields, and how lists and maps among them are merged.
//!
//! [`type_of`] gives the structural type that patches, server-side apply and the check of fields walk along;
//! [`openapi`] the documents that clients read. Both come from the same definitions (`definitions`) and the
//! same table of list semantics (`semantics`). [`mod@patch`] applies patches to objects of these types, [`protobuf`]
//! reads their binary form. This crate stores nothing and never interprets a value: defaults and validation are
//! elsewhere.

mod built_in;
mod custom;
mod decode;
mod definitions;
mod go_time;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod resource;
mod semantics;
mod types;
mod unknown;

pub use built_in::{ObjectType, type_of};
pub use decode::{DecodeError, complete, decode, json_type, prune};
pub use types::{Field, ListType, MapKey, Patch, Scalar, Struct, Type, TypeId};
pub use unknown::{UnknownField, unknown_fields};
