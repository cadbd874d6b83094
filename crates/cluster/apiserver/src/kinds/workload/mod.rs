//! Owners of pods, their autoscalers and disruption budgets.

mod autoscaler;
mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod job;
mod job_status;
mod pod_disruption_budget;
mod pod_template;
mod replica_set;
mod replication_controller;
pub mod shared;
mod stateful_set;

use berth_schema::resource::*;

use crate::kinds::kind::{NoRules, kinds};
use crate::kinds::prelude::*;

kinds! {
    POD_TEMPLATES: pod_template::PodTemplate, &[
        NAME,
        Column::text("Containers", "Names of the containers.", |row| row.containers("/template/spec", "name")),
        Column::text("Images", "Images of the containers.", |row| row.containers("/template/spec", "image")),
        Column::text("Pod Labels", "Labels of the pods.", |row| row.labels("/template/metadata/labels")),
    ], has_generation: true;
    REPLICATION_CONTROLLERS: replication_controller::ReplicationController, replication_controller::COLUMNS, has_generation: true, orphans_dependents: true;
    CONTROLLER_REVISIONS: controller_revision::REVISION, controller_revision::COLUMNS;
    DAEMON_SETS: daemon_set::STRATEGY, daemon_set::COLUMNS, has_generation: true;
    DEPLOYMENTS: deployment::STRATEGY, deployment::COLUMNS, has_generation: true;
    REPLICA_SETS: replica_set::STRATEGY, replica_set::COLUMNS, has_generation: true;
    STATEFUL_SETS: stateful_set::STRATEGY, stateful_set::COLUMNS, has_generation: true;
    HORIZONTAL_POD_AUTOSCALERS: autoscaler::Autoscaler, autoscaler::COLUMNS, has_generation: true;
    HORIZONTAL_POD_AUTOSCALERS_V1: NoRules, autoscaler::COLUMNS;
    CRON_JOBS: cron_job::CronJob, cron_job::COLUMNS, has_generation: true;
    JOBS: job::STRATEGY, job::COLUMNS, has_generation: true, orphans_dependents: true;
    POD_DISRUPTION_BUDGETS: pod_disruption_budget::PodDisruptionBudget, pod_disruption_budget::COLUMNS, has_generation: true, needs_version: true;
}
