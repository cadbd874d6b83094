//! The kinds that Berth reads from manifests.

use crate::object::group::{COSCHEDULING_GROUP, SCHEDULING_GROUP};
use crate::object::{DeviceKind, VolumeKind};
use crate::resource::{self, Resource, group_of};

/// A kind that Berth reads, identified by group and name: a Knative `Service` is not one of them.
#[allow(missing_docs, reason = "`Kind::of` has group and name of each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Node,
    Namespace,
    Pod,
    Service,
    NetworkPolicy,
    PodMonitor,
    ServiceMonitor,
    ReplicationController,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    PriorityClass,
    RuntimeClass,
    PodGroup,
    /// `scheduling.k8s.io` Workload.
    GroupWorkload,
    CompositePodGroup,
    /// `scheduling.x-k8s.io` PodGroup.
    CoschedulingPodGroup,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    LimitRange,
    ResourceQuota,
    /// An object that decides where pods with volumes may run.
    Volume(VolumeKind),
    /// An object of dynamic resource allocation.
    Device(DeviceKind),
    PlacementPolicy,
    ClusterPlacementPolicy,
    KubeSchedulerConfiguration,
}

impl Kind {
    /// The kind of an object, if Berth reads it.
    pub fn of(api_version: &str, kind: &str) -> Option<Kind> {
        let group = group_of(api_version);
        Some(match (group, kind) {
            ("", "Node") => Kind::Node,
            ("", "Namespace") => Kind::Namespace,
            ("", "Pod") => Kind::Pod,
            ("", "Service") => Kind::Service,
            ("networking.k8s.io", "NetworkPolicy") => Kind::NetworkPolicy,
            ("monitoring.coreos.com", "PodMonitor") => Kind::PodMonitor,
            ("monitoring.coreos.com", "ServiceMonitor") => Kind::ServiceMonitor,
            ("", "ReplicationController") => Kind::ReplicationController,
            // Early versions of workloads were in the group `extensions`.
            ("apps" | "extensions", "Deployment") => Kind::Deployment,
            ("apps" | "extensions", "ReplicaSet") => Kind::ReplicaSet,
            ("apps" | "extensions", "DaemonSet") => Kind::DaemonSet,
            ("apps", "StatefulSet") => Kind::StatefulSet,
            ("batch", "Job") => Kind::Job,
            ("batch", "CronJob") => Kind::CronJob,
            ("scheduling.k8s.io", "PriorityClass") => Kind::PriorityClass,
            ("node.k8s.io", "RuntimeClass") => Kind::RuntimeClass,
            (SCHEDULING_GROUP, "PodGroup") => Kind::PodGroup,
            (SCHEDULING_GROUP, "Workload") => Kind::GroupWorkload,
            (SCHEDULING_GROUP, "CompositePodGroup") => Kind::CompositePodGroup,
            (COSCHEDULING_GROUP, "PodGroup") => Kind::CoschedulingPodGroup,
            ("policy", "PodDisruptionBudget") => Kind::PodDisruptionBudget,
            ("autoscaling", "HorizontalPodAutoscaler") => Kind::HorizontalPodAutoscaler,
            ("", "LimitRange") => Kind::LimitRange,
            ("", "ResourceQuota") => Kind::ResourceQuota,
            ("resource.k8s.io", "ResourceSlice") => Kind::Device(DeviceKind::ResourceSlice),
            ("resource.k8s.io", "DeviceClass") => Kind::Device(DeviceKind::DeviceClass),
            ("resource.k8s.io", "ResourceClaim") => Kind::Device(DeviceKind::ResourceClaim),
            ("resource.k8s.io", "ResourceClaimTemplate") => Kind::Device(DeviceKind::ResourceClaimTemplate),
            ("resource.k8s.io", "DeviceTaintRule") => Kind::Device(DeviceKind::DeviceTaintRule),
            ("scheduling.berth.dev", "PlacementPolicy") => Kind::PlacementPolicy,
            ("scheduling.berth.dev", "ClusterPlacementPolicy") => Kind::ClusterPlacementPolicy,
            ("", "PersistentVolume") => Kind::Volume(VolumeKind::PersistentVolume),
            ("", "PersistentVolumeClaim") => Kind::Volume(VolumeKind::PersistentVolumeClaim),
            ("storage.k8s.io", "StorageClass") => Kind::Volume(VolumeKind::StorageClass),
            ("storage.k8s.io", "CSINode") => Kind::Volume(VolumeKind::CsiNode),
            ("storage.k8s.io", "CSIDriver") => Kind::Volume(VolumeKind::CsiDriver),
            ("storage.k8s.io", "CSIStorageCapacity") => Kind::Volume(VolumeKind::CsiStorageCapacity),
            ("storage.k8s.io", "VolumeAttachment") => Kind::Volume(VolumeKind::VolumeAttachment),
            ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration") => Kind::KubeSchedulerConfiguration,
            _ => return None,
        })
    }

    /// The kind that `kubectl` calls so: by its plural, singular or short name, without regard to case, or with its group
    /// (`deployments.apps`).
    pub fn named(name: &str) -> Option<Kind> {
        let name = name.to_ascii_lowercase();
        let (name, group) = match name.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (name.as_str(), None),
        };
        let is_called =
            |r: &&Resource| r.plural == name || r.singular() == name || r.short_names.contains(&name);
        let is_of_group = |r: &&Resource| group.is_none_or(|group| r.group == group);
        let resource = resource::RESOURCES.iter().filter(is_called).find(is_of_group)?;
        Kind::of(&resource.api_version(), resource.kind)
    }

    /// Whether objects of this kind have pods.
    pub fn is_workload(self) -> bool {
        matches!(
            self,
            Kind::Deployment
                | Kind::ReplicaSet
                | Kind::StatefulSet
                | Kind::DaemonSet
                | Kind::ReplicationController
                | Kind::Job
                | Kind::CronJob
        )
    }

    /// The resource that objects of this kind belong to; none for a configuration file.
    pub fn resource(self) -> Option<Resource> {
        Some(match self {
            Kind::Node => resource::NODES,
            Kind::Namespace => resource::NAMESPACES,
            Kind::Pod => resource::PODS,
            Kind::Service => resource::SERVICES,
            Kind::NetworkPolicy => resource::NETWORK_POLICIES,
            Kind::PodMonitor => resource::POD_MONITORS,
            Kind::ServiceMonitor => resource::SERVICE_MONITORS,
            Kind::ReplicationController => resource::REPLICATION_CONTROLLERS,
            Kind::Deployment => resource::DEPLOYMENTS,
            Kind::ReplicaSet => resource::REPLICA_SETS,
            Kind::StatefulSet => resource::STATEFUL_SETS,
            Kind::DaemonSet => resource::DAEMON_SETS,
            Kind::Job => resource::JOBS,
            Kind::CronJob => resource::CRON_JOBS,
            Kind::PriorityClass => resource::PRIORITY_CLASSES,
            Kind::RuntimeClass => resource::RUNTIME_CLASSES,
            Kind::PodGroup => resource::POD_GROUPS,
            Kind::GroupWorkload => resource::WORKLOADS,
            Kind::CompositePodGroup => resource::COMPOSITE_POD_GROUPS,
            Kind::CoschedulingPodGroup => resource::COSCHEDULING_POD_GROUPS,
            Kind::PodDisruptionBudget => resource::POD_DISRUPTION_BUDGETS,
            Kind::HorizontalPodAutoscaler => resource::HORIZONTAL_POD_AUTOSCALERS,
            Kind::LimitRange => resource::LIMIT_RANGES,
            Kind::ResourceQuota => resource::RESOURCE_QUOTAS,
            Kind::PlacementPolicy => resource::PLACEMENT_POLICIES,
            Kind::ClusterPlacementPolicy => resource::CLUSTER_PLACEMENT_POLICIES,
            Kind::Volume(kind) => kind.resource(),
            Kind::Device(kind) => kind.resource(),
            Kind::KubeSchedulerConfiguration => return None,
        })
    }

    /// The name in the `kind` field.
    pub fn name(self) -> &'static str {
        self.resource().map_or("KubeSchedulerConfiguration", |resource| resource.kind)
    }

    /// Whether objects of this kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        self.resource().is_some_and(|resource| resource.namespaced)
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn kinds_have_the_names_of_kubectl() {
        let names = ["po", "Pod", "pods", "deploy", "deployments.apps", "sts", "no"];
        let kinds = names.map(|name| Kind::named(name).map(Kind::name));
        let expected = ["Pod", "Pod", "Pod", "Deployment", "Deployment", "StatefulSet", "Node"];
        assert_eq!(kinds, expected.map(Some));
        assert!(Kind::named("web").is_none() && Kind::named("binding").is_none());
    }
}
