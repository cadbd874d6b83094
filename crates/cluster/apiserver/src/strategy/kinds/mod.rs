//! The strategies: one file for each resource with specific rules.

mod certificate_signing_request;
mod config_map;
mod cron_job;
mod csi;
mod custom_resource;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod event;
mod job;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_group;
mod pod_resize;
mod pod_update;
mod priority_class;
mod rbac;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod resource_slice;
mod secret;
mod service;
mod stateful_set;
mod storage_class;
mod structural;
mod typed;
mod volume;
mod webhook_configuration;
mod workload;

use berth_schema::resource::*;

use super::Strategy;
use typed::Typed;

/// A resource without specific rules.
struct NoRules;

impl Strategy for NoRules {}

static STRATEGIES: [(&Resource, &dyn Strategy); 58] = [
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
    (&POD_GROUPS, &pod_group::PodGroup),
    (&WORKLOADS, &pod_group::Workload),
    (&PRIORITY_CLASSES, &priority_class::PriorityClass),
    (&CSI_DRIVERS, &csi::CsiDriver),
    (&CSI_NODES, &csi::CsiNode),
    (&CSI_STORAGE_CAPACITIES, &csi::CsiStorageCapacity),
    (&STORAGE_CLASSES, &storage_class::StorageClass),
    (&VOLUME_ATTACHMENTS, &csi::VolumeAttachment),
    (&CONTROLLER_REVISIONS, &NoRules),
    (&CUSTOM_RESOURCE_DEFINITIONS, &custom_resource_definition::CustomResourceDefinition),
    (&CERTIFICATE_SIGNING_REQUESTS, &certificate_signing_request::CertificateSigningRequest),
    (&API_SERVICES, &Typed(&API_SERVICES)),
    (&CRON_JOBS, &cron_job::CronJob),
    (&DEVICE_CLASSES, &Typed(&DEVICE_CLASSES)),
    (&ENDPOINTS, &Typed(&ENDPOINTS)),
    (&ENDPOINT_SLICES, &Typed(&ENDPOINT_SLICES)),
    (&FLOW_SCHEMAS, &Typed(&FLOW_SCHEMAS)),
    (&HORIZONTAL_POD_AUTOSCALERS, &Typed(&HORIZONTAL_POD_AUTOSCALERS)),
    (&INGRESSES, &Typed(&INGRESSES)),
    (&INGRESS_CLASSES, &Typed(&INGRESS_CLASSES)),
    (&IP_ADDRESSES, &Typed(&IP_ADDRESSES)),
    (&LIMIT_RANGES, &limit_range::LimitRange),
    (&MUTATING_ADMISSION_POLICIES, &Typed(&MUTATING_ADMISSION_POLICIES)),
    (&MUTATING_ADMISSION_POLICY_BINDINGS, &Typed(&MUTATING_ADMISSION_POLICY_BINDINGS)),
    (&NETWORK_POLICIES, &Typed(&NETWORK_POLICIES)),
    (&POD_TEMPLATES, &Typed(&POD_TEMPLATES)),
    (&PRIORITY_LEVEL_CONFIGURATIONS, &Typed(&PRIORITY_LEVEL_CONFIGURATIONS)),
    (&RESOURCE_CLAIMS, &Typed(&RESOURCE_CLAIMS)),
    (&RESOURCE_CLAIM_TEMPLATES, &Typed(&RESOURCE_CLAIM_TEMPLATES)),
    (&RESOURCE_QUOTAS, &resource_quota::ResourceQuota),
    (&RESOURCE_SLICES, &resource_slice::ResourceSlice),
    (&RUNTIME_CLASSES, &Typed(&RUNTIME_CLASSES)),
    (&SERVICE_CIDRS, &Typed(&SERVICE_CIDRS)),
    (&VALIDATING_ADMISSION_POLICIES, &Typed(&VALIDATING_ADMISSION_POLICIES)),
    (&VALIDATING_ADMISSION_POLICY_BINDINGS, &Typed(&VALIDATING_ADMISSION_POLICY_BINDINGS)),
    (&VOLUME_ATTRIBUTES_CLASSES, &Typed(&VOLUME_ATTRIBUTES_CLASSES)),
];

/// The strategy of a resource.
pub(super) fn of(resource: &Resource) -> &'static dyn Strategy {
    if let Some(custom) = resource.custom {
        return custom;
    }
    STRATEGIES.iter().find(|(of, _)| std::ptr::eq(*of, resource)).map_or(&NoRules, |(_, strategy)| *strategy)
}
