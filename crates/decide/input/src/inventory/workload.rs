//! The workloads of an input: one type for all kinds.

use berth_api::object::{CronJob, Job, ObjectMeta, ReplicationController, Workload as WorkloadObject};
use berth_api::read::Kind;
use berth_api::read::manifest::display_name;

/// A workload: its kind, version and content.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub api_version: String,
    pub spec: WorkloadSpec,
    /// The content that this one replaced, from an earlier input.
    pub replaced: Option<Box<WorkloadSpec>>,
    /// What that one had replaced.
    pub replaced_before: Option<Box<WorkloadSpec>>,
}

/// The content of a workload, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSpec {
    Deployment(WorkloadObject),
    ReplicaSet(WorkloadObject),
    StatefulSet(WorkloadObject),
    DaemonSet(WorkloadObject),
    ReplicationController(ReplicationController),
    Job(Job),
    CronJob(CronJob),
}

impl Workload {
    pub fn kind(&self) -> Kind {
        match &self.spec {
            WorkloadSpec::Deployment(_) => Kind::Deployment,
            WorkloadSpec::ReplicaSet(_) => Kind::ReplicaSet,
            WorkloadSpec::StatefulSet(_) => Kind::StatefulSet,
            WorkloadSpec::DaemonSet(_) => Kind::DaemonSet,
            WorkloadSpec::ReplicationController(_) => Kind::ReplicationController,
            WorkloadSpec::Job(_) => Kind::Job,
            WorkloadSpec::CronJob(_) => Kind::CronJob,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match &self.spec {
            WorkloadSpec::Deployment(w)
            | WorkloadSpec::ReplicaSet(w)
            | WorkloadSpec::StatefulSet(w)
            | WorkloadSpec::DaemonSet(w) => &w.metadata,
            WorkloadSpec::ReplicationController(w) => &w.metadata,
            WorkloadSpec::Job(w) => &w.metadata,
            WorkloadSpec::CronJob(w) => &w.metadata,
        }
    }

    /// The node that the pod template names (`spec.nodeName`).
    pub fn template_node_name(&self) -> Option<&str> {
        let (template, path) = match &self.spec {
            WorkloadSpec::Deployment(w)
            | WorkloadSpec::ReplicaSet(w)
            | WorkloadSpec::StatefulSet(w)
            | WorkloadSpec::DaemonSet(w) => (&w.spec.template, "/spec/nodeName"),
            WorkloadSpec::ReplicationController(w) => (&w.spec.template, "/spec/nodeName"),
            WorkloadSpec::Job(w) => (&w.spec.template, "/spec/nodeName"),
            WorkloadSpec::CronJob(w) => (&w.spec.job_template, "/spec/template/spec/nodeName"),
        };
        template.pointer(path)?.as_str().filter(|name| !name.is_empty())
    }
}

impl WorkloadSpec {
    /// `spec.replicas` as written, if the kind has it. How many pods the workload has, `DesiredReplicas` of `berth-control` says.
    pub fn replicas(&self) -> Option<Option<i32>> {
        match self {
            WorkloadSpec::Deployment(w) | WorkloadSpec::ReplicaSet(w) | WorkloadSpec::StatefulSet(w) => {
                Some(w.spec.replicas)
            }
            WorkloadSpec::ReplicationController(w) => Some(w.spec.replicas),
            WorkloadSpec::DaemonSet(_) | WorkloadSpec::Job(_) | WorkloadSpec::CronJob(_) => None,
        }
    }
}

impl std::fmt::Display for Workload {
    /// `Deployment default/web`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let metadata = self.metadata();
        f.write_str(&display_name(self.kind().name(), &metadata.namespace, &metadata.name))
    }
}
