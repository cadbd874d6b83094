//! Owners of pods, their autoscalers and disruption budgets.

mod autoscaler;
mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod job;
mod pod_disruption_budget;
mod pod_template;
mod replica_set;
mod replication_controller;
pub mod shared;
mod stateful_set;

use berth_schema::resource::*;

use crate::kinds::kind::{NoRules, kinds};

kinds! {
    POD_TEMPLATES: pod_template::STRATEGY, pod_template::COLUMNS;
    REPLICATION_CONTROLLERS: replication_controller::ReplicationController, replication_controller::COLUMNS, with_generation;
    CONTROLLER_REVISIONS: NoRules, controller_revision::COLUMNS;
    DAEMON_SETS: daemon_set::DaemonSet, daemon_set::COLUMNS, with_generation;
    DEPLOYMENTS: deployment::Deployment, deployment::COLUMNS, with_generation;
    REPLICA_SETS: replica_set::ReplicaSet, replica_set::COLUMNS, with_generation;
    STATEFUL_SETS: stateful_set::StatefulSet, stateful_set::COLUMNS, with_generation;
    HORIZONTAL_POD_AUTOSCALERS: autoscaler::STRATEGY, autoscaler::COLUMNS;
    HORIZONTAL_POD_AUTOSCALERS_V1: NoRules, autoscaler::COLUMNS;
    CRON_JOBS: cron_job::CronJob, cron_job::COLUMNS, with_generation;
    JOBS: job::Job, job::COLUMNS, with_generation;
    POD_DISRUPTION_BUDGETS: pod_disruption_budget::PodDisruptionBudget, pod_disruption_budget::COLUMNS, with_generation;
}
