//! The kinds that Berth reads from manifests.

use crate::object::{DeviceKind, VolumeKind};
use crate::resource::{self, Resource, group_of};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $resource:ident,)*) => {
        /// A kind that Berth reads, identified by group and name: a Knative `Service` is not one of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
            Volume(VolumeKind),
            Device(DeviceKind),
            KubeSchedulerConfiguration,
        }

        impl Kind {
            /// The kind of an object, if Berth reads it.
            pub fn of(api_version: &str, kind: &str) -> Option<Kind> {
                let group = match (group_of(api_version), kind) {
                    // Early versions of workloads were in the group `extensions`.
                    ("extensions", "Deployment" | "ReplicaSet" | "DaemonSet") => "apps",
                    ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration") => return Some(Kind::KubeSchedulerConfiguration),
                    (group, _) => group,
                };
                let is_it = |resource: Resource| resource.kind == kind && resource.group == group;
                $(if is_it(resource::$resource) {
                    return Some(Kind::$kind);
                })*
                let volume = VolumeKind::ALL.into_iter().find(|kind| is_it(kind.resource())).map(Kind::Volume);
                volume.or_else(|| DeviceKind::ALL.into_iter().find(|kind| is_it(kind.resource())).map(Kind::Device))
            }

            /// The resource that objects of this kind belong to; none for a configuration file.
            pub fn resource(self) -> Option<Resource> {
                Some(match self {
                    $(Kind::$kind => resource::$resource,)*
                    Kind::Volume(kind) => kind.resource(),
                    Kind::Device(kind) => kind.resource(),
                    Kind::KubeSchedulerConfiguration => return None,
                })
            }
        }
    };
}

kinds! {
    Node = NODES,
    Namespace = NAMESPACES,
    Pod = PODS,
    Service = SERVICES,
    NetworkPolicy = NETWORK_POLICIES,
    PodMonitor = POD_MONITORS,
    ServiceMonitor = SERVICE_MONITORS,
    ReplicationController = REPLICATION_CONTROLLERS,
    Deployment = DEPLOYMENTS,
    ReplicaSet = REPLICA_SETS,
    StatefulSet = STATEFUL_SETS,
    DaemonSet = DAEMON_SETS,
    Job = JOBS,
    CronJob = CRON_JOBS,
    PriorityClass = PRIORITY_CLASSES,
    RuntimeClass = RUNTIME_CLASSES,
    PodGroup = POD_GROUPS,
    /// `scheduling.k8s.io` Workload.
    GroupWorkload = WORKLOADS,
    CompositePodGroup = COMPOSITE_POD_GROUPS,
    /// `scheduling.x-k8s.io` PodGroup.
    CoschedulingPodGroup = COSCHEDULING_POD_GROUPS,
    PodDisruptionBudget = POD_DISRUPTION_BUDGETS,
    HorizontalPodAutoscaler = HORIZONTAL_POD_AUTOSCALERS,
    LimitRange = LIMIT_RANGES,
    ResourceQuota = RESOURCE_QUOTAS,
    PlacementPolicy = PLACEMENT_POLICIES,
    ClusterPlacementPolicy = CLUSTER_PLACEMENT_POLICIES,
}

impl Kind {
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
