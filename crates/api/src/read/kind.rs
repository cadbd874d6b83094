//! The kinds Berth works with.

/// A kind Berth works with. Its group decides too: a Knative `Service` is none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` Node.
    Node,
    /// `v1` Namespace.
    Namespace,
    /// `v1` Pod.
    Pod,
    /// `v1` Service.
    Service,
    /// `v1` ReplicationController.
    ReplicationController,
    /// `apps` Deployment.
    Deployment,
    /// `apps` ReplicaSet.
    ReplicaSet,
    /// `apps` StatefulSet.
    StatefulSet,
    /// `apps` DaemonSet.
    DaemonSet,
    /// `batch` Job.
    Job,
    /// `batch` CronJob.
    CronJob,
    /// `scheduling.k8s.io` PriorityClass.
    PriorityClass,
    /// `policy` PodDisruptionBudget.
    PodDisruptionBudget,
    /// `kubescheduler.config.k8s.io` KubeSchedulerConfiguration.
    KubeSchedulerConfiguration,
}

impl Kind {
    /// The kind of an object, if Berth works with it.
    pub fn of(api_version: &str, kind: &str) -> Option<Kind> {
        let group = group_of(api_version);
        Some(match (group, kind) {
            ("", "Node") => Kind::Node,
            ("", "Namespace") => Kind::Namespace,
            ("", "Pod") => Kind::Pod,
            ("", "Service") => Kind::Service,
            ("", "ReplicationController") => Kind::ReplicationController,
            // Workloads were in `extensions` before they had a group of their own.
            ("apps" | "extensions", "Deployment") => Kind::Deployment,
            ("apps" | "extensions", "ReplicaSet") => Kind::ReplicaSet,
            ("apps" | "extensions", "DaemonSet") => Kind::DaemonSet,
            ("apps", "StatefulSet") => Kind::StatefulSet,
            ("batch", "Job") => Kind::Job,
            ("batch", "CronJob") => Kind::CronJob,
            ("scheduling.k8s.io", "PriorityClass") => Kind::PriorityClass,
            ("policy", "PodDisruptionBudget") => Kind::PodDisruptionBudget,
            ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration") => Kind::KubeSchedulerConfiguration,
            _ => return None,
        })
    }

    /// The name, as in the `kind` field.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Node => "Node",
            Kind::Namespace => "Namespace",
            Kind::Pod => "Pod",
            Kind::Service => "Service",
            Kind::ReplicationController => "ReplicationController",
            Kind::Deployment => "Deployment",
            Kind::ReplicaSet => "ReplicaSet",
            Kind::StatefulSet => "StatefulSet",
            Kind::DaemonSet => "DaemonSet",
            Kind::Job => "Job",
            Kind::CronJob => "CronJob",
            Kind::PriorityClass => "PriorityClass",
            Kind::PodDisruptionBudget => "PodDisruptionBudget",
            Kind::KubeSchedulerConfiguration => "KubeSchedulerConfiguration",
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Kind::Node | Kind::Namespace | Kind::PriorityClass | Kind::KubeSchedulerConfiguration)
    }
}

/// The group of an `apiVersion`; empty for the core group (`v1`).
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
