//! The kinds of the API: one row each in [`KINDS`], with its strategy, its columns and the rule of its generation.
//! The files beside this one have strategies and columns, grouped by what the kinds are for. `berth_schema::resource` has the verbs, subresources and types.

mod pod;

mod access {
    pub mod certificate_signing_request;
    pub mod rbac;
    pub mod service_account;
}
mod cluster {
    pub mod component_status;
    pub mod event;
    pub mod lease;
    pub mod namespace;
    pub mod node;
    pub mod runtime_class;
}
mod config {
    pub mod config_map;
    pub mod limit_range;
    pub mod resource_quota;
    pub mod secret;
}
mod extension {
    pub mod admission_policy;
    pub mod api_service;
    pub mod custom_resource;
    pub mod custom_resource_definition;
    pub mod flow_control;
    pub mod structural;
    pub mod webhook_configuration;
}
mod network {
    pub mod endpoints;
    pub mod ingress;
    pub mod ip_address;
    pub mod network_policy;
    pub mod service;
}
mod scheduling {
    pub mod device;
    pub mod pod_group;
    pub mod priority_class;
}
mod storage {
    pub mod class;
    pub mod csi;
    pub mod persistent_volume;
    pub mod persistent_volume_claim;
    pub mod volume;
}
mod workload {
    pub mod autoscaler;
    pub mod controller_revision;
    pub mod cron_job;
    pub mod daemon_set;
    pub mod deployment;
    pub mod job;
    pub mod pod_disruption_budget;
    pub mod pod_template;
    pub mod replica_set;
    pub mod replication_controller;
    pub mod shared;
    pub mod stateful_set;
}

use berth_schema::resource::*;

use access::*;
use cluster::*;
use config::*;
use extension::*;
use network::*;
use scheduling::*;
use storage::*;
use workload::*;

use crate::strategy::Strategy;
use crate::table::columns::{Columns, DEFAULT, NAME_AND_AGE, Printer};

/// A kind of the API.
pub struct Kind {
    /// Group, version, names, verbs and type.
    resource: &'static Resource,
    /// What creating, changing and deleting an object means.
    strategy: &'static dyn Strategy,
    /// The columns of its tables.
    columns: &'static Printer,
    /// Whether `metadata.generation` counts changes of everything but metadata and status.
    has_generation: bool,
}

impl Kind {
    const fn with_generation(self) -> Kind {
        Kind { has_generation: true, ..self }
    }
}

const fn kind(
    resource: &'static Resource,
    strategy: &'static dyn Strategy,
    columns: &'static Printer,
) -> Kind {
    Kind { resource, strategy, columns, has_generation: false }
}

/// A kind without specific rules.
struct NoRules;

impl Strategy for NoRules {}

macro_rules! kinds {
    ($($resource:ident: $strategy:expr, $columns:expr $(, $rule:ident)*;)*) => {
        /// All kinds, in the order of [`RESOURCES`].
        static KINDS: &[Kind] = &[$(kind(&$resource, &$strategy, &$columns)$(.$rule())*),*];
    };
}

// Resource: strategy, columns, further rules.
kinds! {
    BINDINGS: NoRules, DEFAULT;
    COMPONENT_STATUSES: NoRules, component_status::COLUMNS;
    CONFIG_MAPS: config_map::ConfigMap, config_map::COLUMNS;
    ENDPOINTS: endpoints::STRATEGY, endpoints::COLUMNS;
    EVENTS: event::Event, event::COLUMNS;
    LIMIT_RANGES: limit_range::STRATEGY, DEFAULT;
    NAMESPACES: namespace::Namespace, namespace::COLUMNS;
    NODES: node::Node, node::COLUMNS;
    PERSISTENT_VOLUME_CLAIMS: persistent_volume_claim::PersistentVolumeClaim, persistent_volume_claim::COLUMNS;
    PERSISTENT_VOLUMES: persistent_volume::PersistentVolume, persistent_volume::COLUMNS;
    PODS: pod::Pod, pod::COLUMNS, with_generation;
    POD_TEMPLATES: pod_template::STRATEGY, pod_template::COLUMNS;
    REPLICATION_CONTROLLERS: replication_controller::ReplicationController, replication_controller::COLUMNS, with_generation;
    RESOURCE_QUOTAS: resource_quota::ResourceQuota, resource_quota::COLUMNS;
    SECRETS: secret::Secret, secret::COLUMNS;
    SERVICE_ACCOUNTS: NoRules, service_account::COLUMNS;
    SERVICES: service::Service, service::COLUMNS;
    MUTATING_ADMISSION_POLICIES: admission_policy::MUTATING, admission_policy::MUTATING_COLUMNS, with_generation;
    MUTATING_ADMISSION_POLICY_BINDINGS: admission_policy::MUTATING_BINDING, admission_policy::BINDING_COLUMNS;
    MUTATING_WEBHOOK_CONFIGURATIONS: webhook_configuration::MUTATING, webhook_configuration::COLUMNS, with_generation;
    VALIDATING_ADMISSION_POLICIES: admission_policy::VALIDATING, admission_policy::VALIDATING_COLUMNS, with_generation;
    VALIDATING_ADMISSION_POLICY_BINDINGS: admission_policy::VALIDATING_BINDING, admission_policy::BINDING_COLUMNS;
    VALIDATING_WEBHOOK_CONFIGURATIONS: webhook_configuration::VALIDATING, webhook_configuration::COLUMNS, with_generation;
    CUSTOM_RESOURCE_DEFINITIONS: custom_resource_definition::CustomResourceDefinition, DEFAULT, with_generation;
    API_SERVICES: api_service::STRATEGY, api_service::COLUMNS;
    CONTROLLER_REVISIONS: NoRules, controller_revision::COLUMNS;
    DAEMON_SETS: daemon_set::DaemonSet, daemon_set::COLUMNS, with_generation;
    DEPLOYMENTS: deployment::Deployment, deployment::COLUMNS, with_generation;
    REPLICA_SETS: replica_set::ReplicaSet, replica_set::COLUMNS, with_generation;
    STATEFUL_SETS: stateful_set::StatefulSet, stateful_set::COLUMNS, with_generation;
    SELF_SUBJECT_REVIEWS: NoRules, DEFAULT;
    TOKEN_REVIEWS: NoRules, DEFAULT;
    LOCAL_SUBJECT_ACCESS_REVIEWS: NoRules, DEFAULT;
    SELF_SUBJECT_ACCESS_REVIEWS: NoRules, DEFAULT;
    SELF_SUBJECT_RULES_REVIEWS: NoRules, DEFAULT;
    SUBJECT_ACCESS_REVIEWS: NoRules, DEFAULT;
    HORIZONTAL_POD_AUTOSCALERS: autoscaler::STRATEGY, autoscaler::COLUMNS;
    HORIZONTAL_POD_AUTOSCALERS_V1: NoRules, autoscaler::COLUMNS;
    CRON_JOBS: cron_job::CronJob, cron_job::COLUMNS, with_generation;
    JOBS: job::Job, job::COLUMNS, with_generation;
    CERTIFICATE_SIGNING_REQUESTS: certificate_signing_request::CertificateSigningRequest, certificate_signing_request::COLUMNS;
    LEASES: NoRules, lease::COLUMNS;
    ENDPOINT_SLICES: endpoints::SLICE_STRATEGY, endpoints::SLICE_COLUMNS, with_generation;
    NEW_EVENTS: NoRules, event::COLUMNS;
    FLOW_SCHEMAS: flow_control::FLOW_SCHEMA, flow_control::FLOW_SCHEMA_COLUMNS, with_generation;
    PRIORITY_LEVEL_CONFIGURATIONS: flow_control::PRIORITY_LEVEL, flow_control::PRIORITY_LEVEL_COLUMNS, with_generation;
    INGRESS_CLASSES: ingress::CLASS_STRATEGY, ingress::CLASS_COLUMNS, with_generation;
    INGRESSES: ingress::STRATEGY, ingress::COLUMNS, with_generation;
    IP_ADDRESSES: ip_address::STRATEGY, ip_address::COLUMNS;
    NETWORK_POLICIES: network_policy::STRATEGY, network_policy::COLUMNS, with_generation;
    SERVICE_CIDRS: ip_address::CIDR_STRATEGY, ip_address::CIDR_COLUMNS;
    RUNTIME_CLASSES: runtime_class::STRATEGY, runtime_class::COLUMNS;
    POD_DISRUPTION_BUDGETS: pod_disruption_budget::PodDisruptionBudget, pod_disruption_budget::COLUMNS, with_generation;
    CLUSTER_ROLE_BINDINGS: rbac::RoleBinding(&CLUSTER_ROLE_BINDINGS), rbac::BINDING_COLUMNS;
    CLUSTER_ROLES: rbac::Role(&CLUSTER_ROLES), DEFAULT;
    ROLE_BINDINGS: rbac::RoleBinding(&ROLE_BINDINGS), rbac::BINDING_COLUMNS;
    ROLES: rbac::Role(&ROLES), DEFAULT;
    DEVICE_CLASSES: device::CLASS, NAME_AND_AGE;
    RESOURCE_CLAIMS: device::CLAIM, device::CLAIM_COLUMNS;
    RESOURCE_CLAIM_TEMPLATES: device::CLAIM_TEMPLATE, NAME_AND_AGE;
    RESOURCE_SLICES: device::SLICE, device::SLICE_COLUMNS, with_generation;
    PRIORITY_CLASSES: priority_class::PriorityClass, priority_class::COLUMNS;
    POD_GROUPS: pod_group::POD_GROUP, pod_group::COLUMNS;
    WORKLOADS: pod_group::WORKLOAD, DEFAULT;
    CSI_DRIVERS: csi::CsiDriver, csi::DRIVER_COLUMNS;
    CSI_NODES: csi::CsiNode, csi::NODE_COLUMNS;
    CSI_STORAGE_CAPACITIES: csi::CsiStorageCapacity, csi::CAPACITY_COLUMNS;
    STORAGE_CLASSES: class::StorageClass, class::STORAGE_COLUMNS;
    VOLUME_ATTACHMENTS: csi::VolumeAttachment, csi::ATTACHMENT_COLUMNS;
    VOLUME_ATTRIBUTES_CLASSES: class::ATTRIBUTES_STRATEGY, class::ATTRIBUTES_COLUMNS;
}

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

/// The columns of a kind's tables.
pub fn columns(resource: &Resource) -> Columns {
    match resource.custom {
        Some(custom) => Columns::Custom(custom),
        None => Columns::BuiltIn(row(resource).map_or(&DEFAULT, |kind| kind.columns)),
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
