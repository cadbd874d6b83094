//! Workloads of a running cluster.

use berth_api::object::{Condition, ObjectMeta};
use berth_api::resource::{
    DAEMON_SETS, DEPLOYMENTS, JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource, STATEFUL_SETS,
};
use serde::Deserialize;

/// A workload, with the fields that show pending work of its controller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    #[serde(skip)]
    pub kind: &'static str,
    pub metadata: ObjectMeta,
    pub spec: Spec,
    pub status: Status,
    /// The message of its last event about a pod that could not be created, of kinds that have no condition for it.
    #[serde(skip)]
    pub failed_create: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub replicas: Option<i64>,
    pub paused: bool,
    pub suspend: bool,
    pub parallelism: Option<i64>,
    pub completions: Option<i64>,
    pub template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    pub spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateSpec {
    pub node_name: Option<String>,
}

/// The state that the controller last observed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: i64,
    pub replicas: i64,
    pub updated_replicas: i64,
    pub current_number_scheduled: i64,
    pub desired_number_scheduled: i64,
    pub active: i64,
    pub succeeded: i64,
    pub conditions: Vec<Condition>,
}

pub const WORKLOADS: [Resource; 6] =
    [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, REPLICATION_CONTROLLERS];

impl Workload {
    /// Number of pods that it controls directly.
    pub fn n_own_pods(&self) -> i64 {
        match self.kind {
            "ReplicaSet" | "StatefulSet" | "ReplicationController" => self.status.replicas,
            "DaemonSet" => self.status.current_number_scheduled,
            "Job" => self.status.active,
            _ => 0,
        }
    }

    /// Why LimitRanges and ResourceQuotas refuse its pods: its controller tries in vain.
    pub fn refusal(&self) -> Option<&str> {
        let condition = self.status.conditions.iter().find(|c| c.condition_type == "ReplicaFailure");
        let message =
            condition.map(|condition| condition.message.as_str()).or(self.failed_create.as_deref())?;
        let (_, why) = message.split_once(" is forbidden: ")?;
        let is_refused = ["exceeded quota: ", "failed quota: ", " usage per ", " ratio per "];
        is_refused.iter().any(|text| why.contains(text)).then_some(why)
    }

    /// Whether it lacks pods, and only events say why.
    pub fn lacks_pods(&self) -> bool {
        matches!(self.kind, "StatefulSet" | "DaemonSet" | "Job")
            && self.n_desired_pods().is_some_and(|wanted| self.n_own_pods() < wanted)
    }

    /// Number of pods that its controller wants.
    pub fn n_desired_pods(&self) -> Option<i64> {
        match self.kind {
            "StatefulSet" => Some(self.spec.replicas.unwrap_or(1)),
            "DaemonSet" => Some(self.status.desired_number_scheduled),
            _ => self.n_wanted_pods(),
        }
    }

    /// Number of pods that its controller keeps at one time, if that follows from the workload alone.
    pub fn n_wanted_pods(&self) -> Option<i64> {
        match self.kind {
            "ReplicaSet" | "ReplicationController" => Some(self.spec.replicas.unwrap_or(1)),
            "Job" => {
                let parallelism = self.spec.parallelism.unwrap_or(1);
                let left = self.spec.completions.map_or(parallelism, |n| n - self.status.succeeded);
                Some(parallelism.min(left))
            }
            _ => None,
        }
    }
}
