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
pub mod device;
pub mod group;
mod kinds;
mod meta;
mod monitor;
mod name;
mod node;
pub mod placement;
mod pod;
pub mod pod_limits;
mod quota;
mod resources;
mod shared;
mod shared_parts;
pub mod time;
pub mod volume;
mod workload;

pub use affinity::*;
pub use cluster::*;
pub use condition::{Condition, find_condition, remove_condition, set_condition};
pub use device::{DeviceClass, DeviceKind, DeviceObject};
pub use group::{GroupKey, GroupRules, PodGroup};
pub use meta::*;
pub use monitor::*;
pub use name::NamespacedName;
pub use node::*;
pub use pod::*;
pub use pod_limits::{PodLimits, TooManyEntries};
pub use quota::*;
pub use resources::{ContainerClaim, ResourceList, ResourceRequirements};
pub use shared::{Empty, Shared};
pub use shared_parts::SharedParts;
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

/// Defines types of JSON objects whose fields may all be absent or null, as for Kubernetes' decoder. Behind a semicolon
/// follow the fields with a reader that their `serde` attribute names.
#[macro_export]
macro_rules! object_types {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$attribute:meta])* $field_vis:vis $field:ident: $type:ty,)*
        $(; $($(#[$own_attribute:meta])* $own_vis:vis $own:ident: $own_type:ty,)*)?
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, ::serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $vis struct $name {
            $($(#[$attribute])*
            #[serde(deserialize_with = "berth_api::object::nullable")]
            $field_vis $field: $type,)*
            $($($(#[$own_attribute])* $own_vis $own: $own_type,)*)?
        }
    )*};
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
