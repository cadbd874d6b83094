//! What the controllers look at of the objects they watch.
//!
//! Partial on purpose: a cache of ten thousands of pods holds only what a decision needs. Templates stay JSON, so that
//! what is made from them carries every field, also those this crate has never heard of. As in Kubernetes' own
//! decoding, `null` means the same as an absent field.

mod budget;
mod condition;
mod daemon;
mod deployment;
mod job;
mod meta;
mod node;
mod pod;
mod replica_set;
mod selector;
mod stateful_set;

pub(crate) use budget::*;
pub(crate) use condition::*;
pub(crate) use daemon::*;
pub(crate) use deployment::*;
pub(crate) use job::*;
pub(crate) use meta::*;
pub(crate) use node::*;
pub(crate) use pod::*;
pub(crate) use replica_set::*;
pub(crate) use selector::*;
pub(crate) use stateful_set::*;

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
