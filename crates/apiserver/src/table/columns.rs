//! The columns of every kind.

use serde_json::{Value, json};

use super::row::Row;
use super::{config, event, node, pod, rbac, service, storage, workload};

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
        ("", "ConfigMap") => &config::CONFIG_MAP,
        ("" | "events.k8s.io", "Event") => &event::EVENT,
        ("", "Namespace") => &config::NAMESPACE,
        ("", "Node") => &node::NODE,
        ("", "PersistentVolume") => &storage::PERSISTENT_VOLUME,
        ("", "PersistentVolumeClaim") => &storage::PERSISTENT_VOLUME_CLAIM,
        ("", "Pod") => &pod::POD,
        ("", "ReplicationController") => &workload::REPLICATION_CONTROLLER,
        ("", "Secret") => &config::SECRET,
        ("", "Service") => &service::SERVICE,
        ("", "ServiceAccount") => &config::SERVICE_ACCOUNT,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &config::WEBHOOK_CONFIGURATION,
        ("apps", "ControllerRevision") => &workload::CONTROLLER_REVISION,
        ("apps", "DaemonSet") => &workload::DAEMON_SET,
        ("apps", "Deployment") => &workload::DEPLOYMENT,
        ("apps", "ReplicaSet") => &workload::REPLICA_SET,
        ("apps", "StatefulSet") => &workload::STATEFUL_SET,
        ("autoscaling", "Scale") => &workload::SCALE,
        ("batch", "Job") => &workload::JOB,
        ("coordination.k8s.io", "Lease") => &config::LEASE,
        ("policy", "PodDisruptionBudget") => &workload::POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => &rbac::BINDING,
        ("scheduling.k8s.io", "PriorityClass") => &config::PRIORITY_CLASS,
        ("storage.k8s.io", "CSIDriver") => &storage::CSI_DRIVER,
        ("storage.k8s.io", "CSINode") => &storage::CSI_NODE,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::CSI_STORAGE_CAPACITY,
        ("storage.k8s.io", "StorageClass") => &storage::STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttachment") => &storage::VOLUME_ATTACHMENT,
        _ => &ANY,
    }
}
