//! The strategies: one file for each resource with specific rules.

mod config_map;
mod csi;
mod daemon_set;
mod deployment;
mod event;
mod job;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_resize;
mod pod_update;
mod priority_class;
mod rbac;
mod replica_set;
mod replication_controller;
mod secret;
mod service;
mod stateful_set;
mod storage_class;
mod volume;
mod webhook_configuration;
mod workload;

use berth_schema::resource::*;

use super::Strategy;

/// A resource without specific rules.
struct NoRules;

impl Strategy for NoRules {}

static STRATEGIES: [(&Resource, &dyn Strategy); 29] = [
    (&CONFIG_MAPS, &config_map::ConfigMap),
    (&EVENTS, &event::Event),
    (&NAMESPACES, &namespace::Namespace),
    (&NODES, &node::Node),
    (&PERSISTENT_VOLUME_CLAIMS, &persistent_volume_claim::PersistentVolumeClaim),
    (&PERSISTENT_VOLUMES, &persistent_volume::PersistentVolume),
    (&PODS, &pod::Pod),
    (&REPLICATION_CONTROLLERS, &replication_controller::ReplicationController),
    (&SECRETS, &secret::Secret),
    (&SERVICES, &service::Service),
    (&MUTATING_WEBHOOK_CONFIGURATIONS, &webhook_configuration::WebhookConfiguration { mutating: true }),
    (&VALIDATING_WEBHOOK_CONFIGURATIONS, &webhook_configuration::WebhookConfiguration { mutating: false }),
    (&DAEMON_SETS, &daemon_set::DaemonSet),
    (&DEPLOYMENTS, &deployment::Deployment),
    (&REPLICA_SETS, &replica_set::ReplicaSet),
    (&STATEFUL_SETS, &stateful_set::StatefulSet),
    (&JOBS, &job::Job),
    (&POD_DISRUPTION_BUDGETS, &pod_disruption_budget::PodDisruptionBudget),
    (&CLUSTER_ROLE_BINDINGS, &rbac::RoleBinding(&CLUSTER_ROLE_BINDINGS)),
    (&CLUSTER_ROLES, &rbac::Role(&CLUSTER_ROLES)),
    (&ROLE_BINDINGS, &rbac::RoleBinding(&ROLE_BINDINGS)),
    (&ROLES, &rbac::Role(&ROLES)),
    (&PRIORITY_CLASSES, &priority_class::PriorityClass),
    (&CSI_DRIVERS, &csi::CsiDriver),
    (&CSI_NODES, &csi::CsiNode),
    (&CSI_STORAGE_CAPACITIES, &csi::CsiStorageCapacity),
    (&STORAGE_CLASSES, &storage_class::StorageClass),
    (&VOLUME_ATTACHMENTS, &csi::VolumeAttachment),
    (&CONTROLLER_REVISIONS, &NoRules),
];

/// The strategy of a resource.
pub(super) fn of(resource: &Resource) -> &'static dyn Strategy {
    STRATEGIES.iter().find(|(of, _)| std::ptr::eq(*of, resource)).map_or(&NoRules, |(_, strategy)| *strategy)
}
