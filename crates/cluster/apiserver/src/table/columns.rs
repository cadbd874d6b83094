//! The columns of every kind.

use serde_json::{Value, json};

use super::row::Row;
use super::{autoscaler, config, event, extension, network, node, pod, rbac, service, storage, workload};

/// A column of a table.
#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    description: &'static str,
    priority: u8,
}

impl Column {
    /// A column of text.
    pub(super) const fn text(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "string", format: "", description, priority: 0 }
    }

    /// A column of whole numbers.
    pub(super) const fn integer(name: &'static str, description: &'static str) -> Column {
        Column { kind: "integer", ..Column::text(name, description) }
    }

    /// Shown only with `-o wide`.
    pub(super) const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    /// As `meta.k8s.io` describes a column.
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

pub(super) const NAME: Column =
    Column { format: "name", ..Column::text("Name", "Unique within its namespace, or the cluster.") };
pub(super) const AGE: Column = Column::text("Age", "Time since the object was created.");
pub(super) const CONTAINERS: Column = Column::text("Containers", "Names of the containers.").wide();
pub(super) const IMAGES: Column = Column::text("Images", "Images of the containers.").wide();
pub(super) const SELECTOR: Column = Column::text("Selector", "Which pods belong to it.").wide();

/// How the objects of a kind are shown.
pub(super) struct Printer {
    pub(super) columns: &'static [Column],
    /// One cell for each column.
    pub(super) cells: fn(&Row<'_>) -> Vec<Value>,
    /// `conditions` of the row.
    pub(super) conditions: Option<fn(&Row<'_>) -> Option<Value>>,
}

impl Printer {
    pub(super) const fn new(columns: &'static [Column], cells: fn(&Row<'_>) -> Vec<Value>) -> Printer {
        Printer { columns, cells, conditions: None }
    }
}

/// For kinds without columns of their own.
static ANY: Printer =
    Printer::new(&[NAME, Column::text("Created At", "When the object was created.")], |row| {
        vec![row.name(), row.text_or("/metadata/creationTimestamp", "")]
    });

/// How the objects of a kind are shown.
pub(super) fn printer(group: &str, kind: &str) -> &'static Printer {
    match (group, kind) {
        ("", "ComponentStatus") => &config::COMPONENT_STATUS,
        ("", "ConfigMap") => &config::CONFIG_MAP,
        ("", "Endpoints") => &network::ENDPOINTS,
        ("" | "events.k8s.io", "Event") => &event::EVENT,
        ("", "Namespace") => &config::NAMESPACE,
        ("", "Node") => &node::NODE,
        ("", "PersistentVolume") => &storage::PERSISTENT_VOLUME,
        ("", "PersistentVolumeClaim") => &storage::PERSISTENT_VOLUME_CLAIM,
        ("", "Pod") => &pod::POD,
        ("", "PodTemplate") => &workload::POD_TEMPLATE,
        ("", "ReplicationController") => &workload::REPLICATION_CONTROLLER,
        ("", "ResourceQuota") => &config::RESOURCE_QUOTA,
        ("", "Secret") => &config::SECRET,
        ("", "Service") => &service::SERVICE,
        ("", "ServiceAccount") => &config::SERVICE_ACCOUNT,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &config::WEBHOOK_CONFIGURATION,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            &extension::VALIDATING_ADMISSION_POLICY
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &extension::MUTATING_ADMISSION_POLICY,
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => &extension::ADMISSION_POLICY_BINDING,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &extension::CUSTOM_RESOURCE_DEFINITION,
        ("apiregistration.k8s.io", "APIService") => &extension::API_SERVICE,
        ("apps", "ControllerRevision") => &workload::CONTROLLER_REVISION,
        ("apps", "DaemonSet") => &workload::DAEMON_SET,
        ("apps", "Deployment") => &workload::DEPLOYMENT,
        ("apps", "ReplicaSet") => &workload::REPLICA_SET,
        ("apps", "StatefulSet") => &workload::STATEFUL_SET,
        ("autoscaling", "Scale") => &workload::SCALE,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaler::HORIZONTAL_POD_AUTOSCALER,
        ("batch", "CronJob") => &workload::CRON_JOB,
        ("batch", "Job") => &workload::JOB,
        ("certificates.k8s.io", "CertificateSigningRequest") => &extension::CERTIFICATE_SIGNING_REQUEST,
        ("coordination.k8s.io", "Lease") => &config::LEASE,
        ("discovery.k8s.io", "EndpointSlice") => &network::ENDPOINT_SLICE,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &extension::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", _) => &extension::PRIORITY_LEVEL_CONFIGURATION,
        ("networking.k8s.io", "IPAddress") => &network::IP_ADDRESS,
        ("networking.k8s.io", "Ingress") => &network::INGRESS,
        ("networking.k8s.io", "IngressClass") => &network::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &network::NETWORK_POLICY,
        ("networking.k8s.io", "ServiceCIDR") => &network::SERVICE_CIDR,
        ("node.k8s.io", "RuntimeClass") => &extension::RUNTIME_CLASS,
        ("policy", "PodDisruptionBudget") => &workload::POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => &rbac::BINDING,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => &extension::NAME_AND_AGE,
        ("resource.k8s.io", "ResourceClaim") => &extension::RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceSlice") => &extension::RESOURCE_SLICE,
        ("scheduling.k8s.io", "PriorityClass") => &config::PRIORITY_CLASS,
        ("scheduling.k8s.io", "PodGroup") => &config::POD_GROUP,
        ("storage.k8s.io", "CSIDriver") => &storage::CSI_DRIVER,
        ("storage.k8s.io", "CSINode") => &storage::CSI_NODE,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::CSI_STORAGE_CAPACITY,
        ("storage.k8s.io", "StorageClass") => &storage::STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttachment") => &storage::VOLUME_ATTACHMENT,
        ("storage.k8s.io", "VolumeAttributesClass") => &extension::VOLUME_ATTRIBUTES_CLASS,
        _ => &ANY,
    }
}
