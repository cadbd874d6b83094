//! The resources that are watched.

use berth_api::object::VolumeKind;
use berth_api::object::group::GroupKind;
use berth_api::resource::{
    DEVICE_CLASSES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Resource, SERVICES, STATEFUL_SETS,
};

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `nodes`.
    Nodes,
    /// `pods`.
    Pods,
    /// `namespaces`.
    Namespaces,
    /// `services`.
    Services,
    /// `replicasets`.
    ReplicaSets,
    /// `statefulsets`.
    StatefulSets,
    /// `replicationcontrollers`.
    ReplicationControllers,
    /// `poddisruptionbudgets`.
    Budgets,
    /// `deviceclasses`.
    DeviceClasses,
    /// `podgroups` of an API group.
    PodGroups(GroupKind),
    /// Objects that decide where pods with volumes may run.
    Volumes(VolumeKind),
}

impl Source {
    /// All sources.
    pub const ALL: &'static [Source] = &[
        Source::Nodes,
        Source::Pods,
        Source::Namespaces,
        Source::Services,
        Source::ReplicaSets,
        Source::StatefulSets,
        Source::ReplicationControllers,
        Source::Volumes(VolumeKind::PersistentVolume),
        Source::Volumes(VolumeKind::PersistentVolumeClaim),
        Source::Volumes(VolumeKind::StorageClass),
        Source::Volumes(VolumeKind::CsiNode),
        Source::Volumes(VolumeKind::CsiDriver),
        Source::Volumes(VolumeKind::CsiStorageCapacity),
        Source::Volumes(VolumeKind::VolumeAttachment),
        Source::DeviceClasses,
        Source::PodGroups(GroupKind::Scheduling),
        Source::PodGroups(GroupKind::Coscheduling),
        Source::Budgets,
    ];

    /// What the placement of a single pod depends on: all but PodGroups and PodDisruptionBudgets.
    pub const PLACEMENT: &'static [Source] = match Source::ALL {
        [placement @ .., Source::PodGroups(_), Source::PodGroups(_), Source::Budgets] => placement,
        all => all,
    };

    /// The resource's name in paths.
    pub fn name(self) -> &'static str {
        self.resource().plural
    }

    pub(crate) fn resource(self) -> Resource {
        match self {
            Source::Nodes => NODES,
            Source::Pods => PODS,
            Source::Namespaces => NAMESPACES,
            Source::Services => SERVICES,
            Source::ReplicaSets => REPLICA_SETS,
            Source::StatefulSets => STATEFUL_SETS,
            Source::ReplicationControllers => REPLICATION_CONTROLLERS,
            Source::Budgets => POD_DISRUPTION_BUDGETS,
            Source::DeviceClasses => DEVICE_CLASSES,
            Source::PodGroups(kind) => kind.resource().unwrap_or(POD_GROUPS),
            Source::Volumes(kind) => kind.resource(),
        }
    }
}
