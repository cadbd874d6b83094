//! The resources that are watched.

use berth_api::config::SpreadDefaulting;
use berth_api::object::group::{GroupKey, GroupKind, GroupOwner};
use berth_api::object::support::SuspectFields;
use berth_api::object::volume::Volume;
use berth_api::object::{Pod, TopologySpreadConstraint, VolumeKind};
use berth_api::resource::{
    DEVICE_CLASSES, JOBS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Resource, SERVICES, STATEFUL_SETS,
};
use berth_engine::Settings;

/// What of a pod decides which sources its placement depends on, besides those that are required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// It has volumes that placement depends on.
    volumes: bool,
    /// It requests extended resources, which may be those of device classes.
    devices: bool,
    /// Required spread constraints of its profile hold for it, which count the pods of its services and owners.
    default_spread: bool,
    group: Option<GroupKind>,
}

impl Needs {
    /// Of a pod, with these settings.
    pub fn of(pod: &Pod, settings: &Settings) -> Needs {
        let profile = settings.config.profile(&pod.spec.scheduler_name);
        let is_required =
            |constraint: &TopologySpreadConstraint| constraint.when_unsatisfiable != "ScheduleAnyway";
        let has_default_spread =
            profile.is_some_and(|profile| match &profile.pod_topology_spread.defaulting {
                SpreadDefaulting::System => false,
                SpreadDefaulting::List(constraints) => constraints.iter().any(is_required),
            });
        Needs {
            volumes: pod.spec.volumes.iter().any(Volume::matters),
            devices: SuspectFields::of(&pod.spec).depend_on_device_classes(),
            default_spread: has_default_spread && pod.spec.topology_spread_constraints.is_empty(),
            group: GroupKey::of(pod, settings.extensions).map(|key| key.kind),
        }
    }
}

impl Needs {
    /// Whether these objects matter, which own pods.
    fn owner(self, owner: GroupOwner) -> bool {
        self.default_spread || self.group == Some(GroupKind::Owner(owner))
    }
}

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
    /// `jobs`; only if pods are a group of their Job.
    Jobs,
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
    /// All sources but Jobs.
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

    /// Whether nothing can be decided without it. The others are treated as empty while they may not be read, and the pods
    /// that [need](Source::is_needed_by) them are not decided.
    ///
    /// Namespaces are required because terms of any running pod may select them.
    pub fn is_required(self) -> bool {
        matches!(self, Source::Nodes | Source::Pods | Source::Namespaces)
    }

    /// Whether a pod cannot be decided without it. Only preemption needs PodDisruptionBudgets.
    pub fn is_needed_by(self, needs: Needs) -> bool {
        match self {
            Source::Nodes | Source::Pods | Source::Namespaces => true,
            Source::Services => needs.default_spread,
            Source::ReplicaSets => needs.owner(GroupOwner::ReplicaSet),
            Source::StatefulSets => needs.owner(GroupOwner::StatefulSet),
            Source::ReplicationControllers => needs.owner(GroupOwner::ReplicationController),
            Source::Jobs => needs.group == Some(GroupKind::Owner(GroupOwner::Job)),
            Source::Volumes(_) => needs.volumes,
            Source::DeviceClasses => needs.devices,
            Source::PodGroups(kind) => needs.group == Some(kind),
            Source::Budgets => false,
        }
    }

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
            Source::Jobs => JOBS,
            Source::Budgets => POD_DISRUPTION_BUDGETS,
            Source::DeviceClasses => DEVICE_CLASSES,
            Source::PodGroups(kind) => kind.resource().unwrap_or(POD_GROUPS),
            Source::Volumes(kind) => kind.resource(),
        }
    }
}
