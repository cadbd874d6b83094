//! The Kubernetes objects that Berth reads.
//!
//! The types are partial: they have the fields that placement rules read, and in [`ObjectMeta`] and [`Condition`] those
//! that controllers read. Berth never writes an object back from these types, but from the JSON value that it was read
//! from. They are not generated types, because the fields of the design proposals
//! (`requiredDuringSchedulingRequiredDuringExecution`, the difference between an absent and an empty `namespaces` list)
//! must survive parsing.
//!
//! As in Kubernetes, `null` means the same as an absent field.

mod affinity;
mod cluster;
mod condition;
pub mod group;
mod meta;
mod name;
mod node;
pub mod placement;
mod pod;
mod resources;
mod shared;
mod shared_parts;
pub mod support;
pub mod time;
pub mod volume;
mod workload;

pub use affinity::*;
pub use cluster::*;
pub use condition::{Condition, find_condition, remove_condition, set_condition};
pub use group::{GroupKey, GroupRules, PodGroup};
pub use meta::*;
pub use name::NamespacedName;
pub use node::*;
pub use pod::*;
pub use resources::{ResourceList, ResourceRequirements};
pub use shared::{Empty, Shared};
pub use shared_parts::SharedParts;
pub use support::{DeviceClass, DeviceResources};
pub use volume::{VolumeDecision, VolumeKind, VolumeObject};
pub use workload::*;

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default, as Kubernetes' decoder does; for `#[serde(deserialize_with = ...)]`.
///
/// # Errors
/// The value is neither null nor of the type.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
