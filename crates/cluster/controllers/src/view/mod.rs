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

berth_client::has_metadata!(
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    EndpointSlice,
    Endpoints,
    HorizontalPodAutoscaler,
    Job,
    Lease,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Service,
    StatefulSet,
    StorageClass
);
