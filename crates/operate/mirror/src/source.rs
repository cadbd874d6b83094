//! The resources that are watched.

use berth_api::object::device::DeviceKind;
use berth_api::object::group::{GroupKey, GroupKind, GroupOwner};
use berth_api::object::volume::Volume;
use berth_api::object::{Pod, PodSpec, TopologySpreadConstraint, VolumeKind};
use berth_api::resource::{
    COMPOSITE_POD_GROUPS, JOBS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Resource, SERVICES, STATEFUL_SETS, WORKLOADS,
};
use berth_engine::Cluster;
use berth_input::config::SpreadDefaulting;

/// What of a pod decides which sources its placement depends on, besides those that are required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// It has volumes that placement depends on.
    volumes: bool,
    /// It has claims of devices, or requests extended resources, which devices may provide.
    device_classes: bool,
    /// It has claims of devices, or devices provide one of its extended resources.
    devices: bool,
    /// The same, with the gate of DeviceTaintRules.
    device_taint_rules: bool,
    /// Required spread constraints of its profile hold for it, which count the pods of its services and owners.
    default_spread: bool,
    group: Option<GroupKind>,
}

impl Needs {
    pub fn of(pod: &Pod, cluster: &Cluster) -> Needs {
        let settings = cluster.settings();
        let profile = settings.config.profile(&pod.spec.scheduler_name);
        let is_required =
            |constraint: &TopologySpreadConstraint| constraint.when_unsatisfiable != "ScheduleAnyway";
        let has_default_spread =
            profile.is_some_and(|profile| match &profile.pod_topology_spread.defaulting {
                SpreadDefaulting::System => false,
                SpreadDefaulting::List(constraints) => constraints.iter().any(is_required),
            });
        let has_claims = !pod.spec.resource_claims.is_empty();
        let mut extended = extended_resources(&pod.spec).peekable();
        let device_classes = has_claims || extended.peek().is_some();
        let devices = has_claims || extended.any(|name| cluster.devices_provide(name));
        Needs {
            volumes: pod.spec.volumes.iter().any(Volume::matters),
            device_classes,
            devices,
            device_taint_rules: devices && settings.config.feature_gates.dra_device_taint_rules,
            default_spread: has_default_spread && pod.spec.topology_spread_constraints.is_empty(),
            group: GroupKey::of(pod, settings.extensions).map(|key| key.kind),
        }
    }
}

/// The extended resources that the containers of a pod request.
fn extended_resources(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let requests = spec.init_containers.iter().chain(&spec.containers).flat_map(|c| &c.resources.requests);
    requests.filter(|(name, amount)| name.contains('/') && !amount.is_zero()).map(|(name, _)| name.as_str())
}

impl Needs {
    /// Whether these objects matter, which own pods.
    fn owner(self, owner: GroupOwner) -> bool {
        self.default_spread || self.group == Some(GroupKind::Owner(owner))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Nodes,
    Pods,
    Namespaces,
    Services,
    ReplicaSets,
    StatefulSets,
    ReplicationControllers,
    /// `jobs`; only if pods are a group of their Job.
    Jobs,
    Budgets,
    /// Objects that decide where pods with claims of devices may run.
    Devices(DeviceKind),
    /// `podgroups` of an API group.
    PodGroups(GroupKind),
    /// `compositepodgroups`; only if PodGroups belong to some.
    CompositePodGroups,
    /// `workloads`, templates of PodGroups.
    Workloads,
    /// Objects that decide where pods with volumes may run.
    Volumes(VolumeKind),
}

impl Source {
    /// All sources but Jobs and CompositePodGroups.
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
        Source::Devices(DeviceKind::ResourceSlice),
        Source::Devices(DeviceKind::DeviceClass),
        Source::Devices(DeviceKind::DeviceTaintRule),
        Source::Devices(DeviceKind::ResourceClaim),
        Source::PodGroups(GroupKind::Scheduling),
        Source::PodGroups(GroupKind::Coscheduling),
        Source::Workloads,
        Source::Budgets,
    ];

    /// What the placement of running pods depends on, and which of them are evicted: all but PodDisruptionBudgets.
    pub const PLACEMENT: &'static [Source] = match Source::ALL {
        [placement @ .., Source::Budgets] => placement,
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
            Source::Devices(DeviceKind::DeviceClass) => needs.device_classes,
            Source::Devices(DeviceKind::DeviceTaintRule) => needs.device_taint_rules,
            Source::Devices(_) => needs.devices,
            Source::PodGroups(kind) => needs.group == Some(kind),
            Source::CompositePodGroups => false,
            Source::Workloads => needs.group == Some(GroupKind::Workload),
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
            Source::Devices(kind) => kind.resource(),
            Source::PodGroups(kind) => kind.resource().unwrap_or(POD_GROUPS),
            Source::CompositePodGroups => COMPOSITE_POD_GROUPS,
            Source::Workloads => WORKLOADS,
            Source::Volumes(kind) => kind.resource(),
        }
    }
}
