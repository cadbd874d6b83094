//! The events of the watches.

use std::sync::Arc;

use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::group::{CompositePodGroup, GroupKind, GroupOwner, GroupWorkload, PodGroup};
use berth_api::object::{
    Job, Namespace, Node, Pod, PodDisruptionBudget, ReplicationController, Service, VolumeKind, VolumeObject,
    Workload,
};
use berth_client::{StreamEvent, WatchFailure};

use crate::entries::ReadEntry;
use crate::pod_delta::PodDelta;
use crate::source::Source;

/// An event of one of the watches, for [`Mirror::apply`](crate::Mirror::apply).
pub struct WatchEvent(pub(crate) Payload);

pub(crate) enum Payload {
    /// With the generation of the watch, as for pods.
    Node(u32, StreamEvent<Node>),
    Pod(u32, StreamEvent<PodDelta>),
    Namespace(StreamEvent<Namespace>),
    Service(StreamEvent<Service>),
    /// ReplicaSets or StatefulSets.
    Owner(GroupOwner, StreamEvent<Workload>),
    Job(StreamEvent<Job>),
    ReplicationController(StreamEvent<ReplicationController>),
    Budget(StreamEvent<PodDisruptionBudget>),
    /// With the generation of the watch, for claims.
    Device(DeviceKind, u32, StreamEvent<ReadEntry<DeviceObject>>),
    PodGroup(GroupKind, StreamEvent<PodGroup>),
    CompositePodGroup(StreamEvent<CompositePodGroup>),
    Workload(StreamEvent<GroupWorkload>),
    Volume(VolumeKind, StreamEvent<ReadEntry<VolumeObject>>),
    /// With the number of the drift check.
    Check(u32, FullList),
}

/// An object of a full list.
pub(crate) enum FullList {
    Node(Box<Node>),
    Pod(Arc<Pod>),
    /// All nodes and pods were listed.
    Done,
    Failed,
}

/// Where in a list an event is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
    /// There is no list.
    Failed(WatchFailure),
}

impl Payload {
    /// The list that starts or ends with this event, or cannot be.
    pub(crate) fn list(&self) -> Option<(Source, Edge)> {
        fn edge<T>(source: Source, event: &StreamEvent<T>) -> Option<(Source, Edge)> {
            match event {
                StreamEvent::Init => Some((source, Edge::Begin)),
                StreamEvent::InitDone => Some((source, Edge::End)),
                StreamEvent::Failed(failure) => Some((source, Edge::Failed(failure.clone()))),
                _ => None,
            }
        }
        match self {
            Payload::Node(_, event) => edge(Source::Nodes, event),
            Payload::Pod(_, event) => edge(Source::Pods, event),
            Payload::Namespace(event) => edge(Source::Namespaces, event),
            Payload::Service(event) => edge(Source::Services, event),
            Payload::Owner(GroupOwner::StatefulSet, event) => edge(Source::StatefulSets, event),
            Payload::Owner(_, event) => edge(Source::ReplicaSets, event),
            Payload::Job(event) => edge(Source::Jobs, event),
            Payload::ReplicationController(event) => edge(Source::ReplicationControllers, event),
            Payload::Budget(event) => edge(Source::Budgets, event),
            Payload::Device(kind, _, event) => edge(Source::Devices(*kind), event),
            Payload::PodGroup(kind, event) => edge(Source::PodGroups(*kind), event),
            Payload::CompositePodGroup(event) => edge(Source::CompositePodGroups, event),
            Payload::Workload(event) => edge(Source::Workloads, event),
            Payload::Volume(kind, event) => edge(Source::Volumes(*kind), event),
            Payload::Check(..) => None,
        }
    }
}
