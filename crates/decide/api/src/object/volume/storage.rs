//! Storage classes, CSI drivers and their capacities, and attachments.

use berth_api_macros::object_type;

use crate::object::{LabelSelector, ObjectMeta};
use crate::syntax::quantity::Quantity;

/// The annotation of a CSINode with the in-tree plugins whose volumes a CSI driver serves, separated by commas.
pub const MIGRATED_PLUGINS_ANNOTATION: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// The provisioner of classes whose volumes are only bound, never provisioned.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[object_type(Eq)]
pub struct StorageClass {
    pub metadata: ObjectMeta,
    pub provisioner: String,
    /// `Immediate` (also when absent) or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// The topologies in which volumes may be provisioned, ORed; empty for all.
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

impl StorageClass {
    /// Whether a claim of this class is bound once a pod that uses it is scheduled.
    pub fn waits_for_first_consumer(&self) -> bool {
        self.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }
}

/// Requirements on node labels, ANDed.
#[object_type(Eq, Hash)]
pub struct TopologySelectorTerm {
    pub match_label_expressions: Vec<TopologySelectorLabelRequirement>,
}

/// A node label with one of several values.
#[object_type(Eq, Hash)]
pub struct TopologySelectorLabelRequirement {
    pub key: String,
    pub values: Vec<String>,
}

/// The CSI drivers of the node of the same name.
#[object_type(Eq)]
pub struct CsiNode {
    pub metadata: ObjectMeta,
    pub spec: CsiNodeSpec,
}

#[object_type(Eq)]
pub struct CsiNodeSpec {
    pub drivers: Vec<CsiNodeDriver>,
}

#[object_type(Eq)]
pub struct CsiNodeDriver {
    pub name: String,
    /// How many volumes it can attach.
    pub allocatable: Option<VolumeNodeResources>,
}

/// `allocatable` of a driver on a node.
#[object_type(Eq)]
pub struct VolumeNodeResources {
    /// The largest number of volumes; absent for no limit.
    pub count: Option<i32>,
}

#[object_type(Eq)]
pub struct CsiDriver {
    pub metadata: ObjectMeta,
    pub spec: CsiDriverSpec,
}

#[object_type(Eq)]
pub struct CsiDriverSpec {
    /// Whether its volumes are attached to nodes; true when absent.
    pub attach_required: Option<bool>,
    /// Whether pods with its volumes are kept from nodes without it; false when absent.
    pub prevent_pod_scheduling_if_missing: Option<bool>,
    /// Whether it publishes its free capacity; false when absent.
    pub storage_capacity: Option<bool>,
}

/// The free capacity for volumes of a class in a topology.
#[object_type]
pub struct CsiStorageCapacity {
    pub metadata: ObjectMeta,
    /// The nodes that can use the capacity; null for none.
    pub node_topology: Option<LabelSelector>,
    pub storage_class_name: String,
    pub capacity: Option<Quantity>,
    /// The largest size of one volume; wins over `capacity`.
    pub maximum_volume_size: Option<Quantity>,
}

/// An attachment of a volume to a node.
#[object_type]
pub struct VolumeAttachment {
    pub metadata: ObjectMeta,
    pub spec: VolumeAttachmentSpec,
}

#[object_type]
pub struct VolumeAttachmentSpec {
    pub attacher: String,
    pub node_name: String,
    pub source: VolumeAttachmentSource,
}

#[object_type]
pub struct VolumeAttachmentSource {
    pub persistent_volume_name: String,
}
