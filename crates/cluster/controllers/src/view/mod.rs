//! Partial views of the objects that the controllers watch.
//!
//! Partial on purpose: a cache of ten thousands of pods holds only what a decision needs. Templates stay JSON, so that
//! the created objects keep every field, including fields unknown to this crate. As in Kubernetes' own
//! decoding, `null` means the same as an absent field.

mod autoscaler;
mod budget;
mod cron_job;
mod daemon;
mod deployment;
mod device;
mod job;
mod namespace;
mod node;
mod pod;
mod replica_set;
mod selector;
mod service;
mod stateful_set;
mod volume;

use berth_client::HasMetadata;
use serde::Deserialize;
use serde::de::IgnoredAny;

pub(crate) use autoscaler::*;
pub(crate) use berth_api::object::{
    Condition, ObjectMeta, OwnerReference, PartialObjectMetadata, find_condition, nullable, remove_condition,
    set_condition, time,
};
pub(crate) use budget::*;
pub(crate) use cron_job::*;
pub(crate) use daemon::*;
pub(crate) use deployment::*;
pub(crate) use device::*;
pub(crate) use job::*;
pub(crate) use namespace::*;
pub(crate) use node::*;
pub(crate) use pod::*;
pub(crate) use replica_set::*;
pub(crate) use selector::*;
pub(crate) use service::*;
pub(crate) use stateful_set::*;
pub(crate) use volume::*;

/// An object of the API, as far as controllers read it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound = "S: Default + Deserialize<'de>, T: Default + Deserialize<'de>")]
pub(crate) struct Object<S, T = IgnoredAny> {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: S,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: T,
}

impl<S, T> HasMetadata for Object<S, T> {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

berth_client::has_metadata!(ControllerRevision, EndpointSlice, Endpoints, ResourceClaim, StorageClass);
