//! The kinds of the API: one row each in [`KINDS`], with the strategy and the rule of generation. The files beside this one
//! have the strategies, grouped by what the kinds are for. `berth_schema::resource` has the verbs, subresources and types.

mod pod;

mod access {
    pub mod certificate_signing_request;
    pub mod rbac;
}
mod cluster {
    pub mod event;
    pub mod namespace;
    pub mod node;
}
mod config {
    pub mod config_map;
    pub mod limit_range;
    pub mod resource_quota;
    pub mod secret;
}
mod extension {
    pub mod custom_resource;
    pub mod custom_resource_definition;
    pub mod structural;
    pub mod webhook_configuration;
}
mod network {
    pub mod service;
}
mod scheduling {
    pub mod pod_group;
    pub mod priority_class;
    pub mod resource_slice;
}
mod storage {
    pub mod class;
    pub mod csi;
    pub mod persistent_volume;
    pub mod persistent_volume_claim;
    pub mod volume;
}
mod workload {
    pub mod cron_job;
    pub mod daemon_set;
    pub mod deployment;
    pub mod job;
    pub mod pod_disruption_budget;
    pub mod replica_set;
    pub mod replication_controller;
    pub mod shared;
    pub mod stateful_set;
}

use berth_schema::resource::*;

use access::{certificate_signing_request, rbac};
use cluster::{event, namespace, node};
use config::{config_map, limit_range, resource_quota, secret};
use extension::{custom_resource_definition, webhook_configuration};
use network::service;
use scheduling::{pod_group, priority_class, resource_slice};
use storage::{class, csi, persistent_volume, persistent_volume_claim};
use workload::{
    cron_job, daemon_set, deployment, job, pod_disruption_budget, replica_set, replication_controller,
    stateful_set,
};

use crate::strategy::Strategy;
use crate::strategy::typed::Typed;

/// A kind of the API.
pub struct Kind {
    /// Group, version, names, verbs and type.
    resource: &'static Resource,
    /// What creating, changing and deleting an object means.
    strategy: &'static dyn Strategy,
    /// Whether `metadata.generation` counts changes of everything but metadata and status.
    has_generation: bool,
}

impl Kind {
    const fn with_generation(self) -> Kind {
        Kind { has_generation: true, ..self }
    }
}

const fn kind(resource: &'static Resource, strategy: &'static dyn Strategy) -> Kind {
    Kind { resource, strategy, has_generation: false }
}

/// A kind without specific rules.
struct NoRules;

impl Strategy for NoRules {}

/// All kinds, in the order of [`RESOURCES`].
static KINDS: &[Kind] = &[
    kind(&BINDINGS, &NoRules),
    kind(&COMPONENT_STATUSES, &NoRules),
    kind(&CONFIG_MAPS, &config_map::ConfigMap),
    kind(&ENDPOINTS, &Typed(&ENDPOINTS)),
    kind(&EVENTS, &event::Event),
    kind(&LIMIT_RANGES, &limit_range::LimitRange),
    kind(&NAMESPACES, &namespace::Namespace),
    kind(&NODES, &node::Node),
    kind(&PERSISTENT_VOLUME_CLAIMS, &persistent_volume_claim::PersistentVolumeClaim),
    kind(&PERSISTENT_VOLUMES, &persistent_volume::PersistentVolume),
    kind(&PODS, &pod::Pod).with_generation(),
    kind(&POD_TEMPLATES, &Typed(&POD_TEMPLATES)),
    kind(&REPLICATION_CONTROLLERS, &replication_controller::ReplicationController).with_generation(),
    kind(&RESOURCE_QUOTAS, &resource_quota::ResourceQuota),
    kind(&SECRETS, &secret::Secret),
    kind(&SERVICE_ACCOUNTS, &NoRules),
    kind(&SERVICES, &service::Service),
    kind(&MUTATING_ADMISSION_POLICIES, &Typed(&MUTATING_ADMISSION_POLICIES)).with_generation(),
    kind(&MUTATING_ADMISSION_POLICY_BINDINGS, &Typed(&MUTATING_ADMISSION_POLICY_BINDINGS)),
    kind(&MUTATING_WEBHOOK_CONFIGURATIONS, &webhook_configuration::WebhookConfiguration { mutating: true })
        .with_generation(),
    kind(&VALIDATING_ADMISSION_POLICIES, &Typed(&VALIDATING_ADMISSION_POLICIES)).with_generation(),
    kind(&VALIDATING_ADMISSION_POLICY_BINDINGS, &Typed(&VALIDATING_ADMISSION_POLICY_BINDINGS)),
    kind(
        &VALIDATING_WEBHOOK_CONFIGURATIONS,
        &webhook_configuration::WebhookConfiguration { mutating: false },
    )
    .with_generation(),
    kind(&CUSTOM_RESOURCE_DEFINITIONS, &custom_resource_definition::CustomResourceDefinition)
        .with_generation(),
    kind(&API_SERVICES, &Typed(&API_SERVICES)),
    kind(&CONTROLLER_REVISIONS, &NoRules),
    kind(&DAEMON_SETS, &daemon_set::DaemonSet).with_generation(),
    kind(&DEPLOYMENTS, &deployment::Deployment).with_generation(),
    kind(&REPLICA_SETS, &replica_set::ReplicaSet).with_generation(),
    kind(&STATEFUL_SETS, &stateful_set::StatefulSet).with_generation(),
    kind(&SELF_SUBJECT_REVIEWS, &NoRules),
    kind(&TOKEN_REVIEWS, &NoRules),
    kind(&LOCAL_SUBJECT_ACCESS_REVIEWS, &NoRules),
    kind(&SELF_SUBJECT_ACCESS_REVIEWS, &NoRules),
    kind(&SELF_SUBJECT_RULES_REVIEWS, &NoRules),
    kind(&SUBJECT_ACCESS_REVIEWS, &NoRules),
    kind(&HORIZONTAL_POD_AUTOSCALERS, &Typed(&HORIZONTAL_POD_AUTOSCALERS)),
    kind(&HORIZONTAL_POD_AUTOSCALERS_V1, &NoRules),
    kind(&CRON_JOBS, &cron_job::CronJob).with_generation(),
    kind(&JOBS, &job::Job).with_generation(),
    kind(&CERTIFICATE_SIGNING_REQUESTS, &certificate_signing_request::CertificateSigningRequest),
    kind(&LEASES, &NoRules),
    kind(&ENDPOINT_SLICES, &Typed(&ENDPOINT_SLICES)).with_generation(),
    kind(&NEW_EVENTS, &NoRules),
    kind(&FLOW_SCHEMAS, &Typed(&FLOW_SCHEMAS)).with_generation(),
    kind(&PRIORITY_LEVEL_CONFIGURATIONS, &Typed(&PRIORITY_LEVEL_CONFIGURATIONS)).with_generation(),
    kind(&INGRESS_CLASSES, &Typed(&INGRESS_CLASSES)).with_generation(),
    kind(&INGRESSES, &Typed(&INGRESSES)).with_generation(),
    kind(&IP_ADDRESSES, &Typed(&IP_ADDRESSES)),
    kind(&NETWORK_POLICIES, &Typed(&NETWORK_POLICIES)).with_generation(),
    kind(&SERVICE_CIDRS, &Typed(&SERVICE_CIDRS)),
    kind(&RUNTIME_CLASSES, &Typed(&RUNTIME_CLASSES)),
    kind(&POD_DISRUPTION_BUDGETS, &pod_disruption_budget::PodDisruptionBudget).with_generation(),
    kind(&CLUSTER_ROLE_BINDINGS, &rbac::RoleBinding(&CLUSTER_ROLE_BINDINGS)),
    kind(&CLUSTER_ROLES, &rbac::Role(&CLUSTER_ROLES)),
    kind(&ROLE_BINDINGS, &rbac::RoleBinding(&ROLE_BINDINGS)),
    kind(&ROLES, &rbac::Role(&ROLES)),
    kind(&DEVICE_CLASSES, &Typed(&DEVICE_CLASSES)),
    kind(&RESOURCE_CLAIMS, &Typed(&RESOURCE_CLAIMS)),
    kind(&RESOURCE_CLAIM_TEMPLATES, &Typed(&RESOURCE_CLAIM_TEMPLATES)),
    kind(&RESOURCE_SLICES, &resource_slice::ResourceSlice).with_generation(),
    kind(&PRIORITY_CLASSES, &priority_class::PriorityClass),
    kind(&POD_GROUPS, &pod_group::PodGroup),
    kind(&WORKLOADS, &pod_group::Workload),
    kind(&CSI_DRIVERS, &csi::CsiDriver),
    kind(&CSI_NODES, &csi::CsiNode),
    kind(&CSI_STORAGE_CAPACITIES, &csi::CsiStorageCapacity),
    kind(&STORAGE_CLASSES, &class::StorageClass),
    kind(&VOLUME_ATTACHMENTS, &csi::VolumeAttachment),
    kind(&VOLUME_ATTRIBUTES_CLASSES, &Typed(&VOLUME_ATTRIBUTES_CLASSES)),
];

fn row(resource: &Resource) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| std::ptr::eq(kind.resource, resource))
}

/// The strategy of a kind.
pub fn strategy(resource: &Resource) -> &'static dyn Strategy {
    match resource.custom {
        Some(custom) => custom,
        None => row(resource).map_or(&NoRules, |kind| kind.strategy),
    }
}

/// Whether `metadata.generation` counts changes of everything but metadata and status.
pub fn has_generation(resource: &Resource) -> bool {
    resource.custom.is_some() || row(resource).is_some_and(|kind| kind.has_generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_served_resource_has_one_row() {
        let served = RESOURCES.iter().map(|resource| resource.group_resource());
        let rows = KINDS.iter().map(|kind| kind.resource.group_resource());
        assert_eq!(rows.collect::<Vec<_>>(), served.collect::<Vec<_>>());
    }
}
