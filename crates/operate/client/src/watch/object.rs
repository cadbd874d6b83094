//! Objects with an identity and a resource version.

use berth_api::object::{self, ObjectMeta};

pub trait KubeObject {
    /// `metadata.resourceVersion`; empty if it has none.
    fn resource_version(&self) -> &str;

    /// `metadata.namespace` (empty for cluster-scoped objects) and `metadata.name`.
    fn key(&self) -> (&str, &str);
}

/// An object whose metadata is read as [`ObjectMeta`].
pub trait HasMetadata {
    fn meta(&self) -> &ObjectMeta;
}

impl<T: HasMetadata> KubeObject for T {
    fn resource_version(&self) -> &str {
        &self.meta().resource_version
    }

    fn key(&self) -> (&str, &str) {
        (&self.meta().namespace, &self.meta().name)
    }
}

/// Implements [`HasMetadata`] for types with a field `metadata`.
#[macro_export]
macro_rules! has_metadata {
    ($($kind:ty),*) => {
        $(impl $crate::HasMetadata for $kind {
            fn meta(&self) -> &berth_api::object::ObjectMeta {
                &self.metadata
            }
        })*
    };
}

crate::has_metadata!(
    object::PartialObjectMetadata,
    object::Pod,
    object::Node,
    object::Namespace,
    object::Service,
    object::Workload,
    object::ReplicationController,
    object::Job,
    object::PriorityClass,
    object::PodDisruptionBudget,
    object::DeviceClass,
    object::PodGroup,
    object::group::GroupWorkload,
    object::group::CompositePodGroup,
    object::volume::PersistentVolume,
    object::volume::PersistentVolumeClaim,
    object::volume::CsiNode
);

impl KubeObject for serde_json::Value {
    fn resource_version(&self) -> &str {
        self.pointer("/metadata/resourceVersion").and_then(|v| v.as_str()).unwrap_or_default()
    }

    fn key(&self) -> (&str, &str) {
        let text = |path| self.pointer(path).and_then(|v| v.as_str()).unwrap_or_default();
        (text("/metadata/namespace"), text("/metadata/name"))
    }
}

/// An object of the generated Kubernetes types.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub struct Generated<T>(pub T);

impl<T> KubeObject for Generated<T>
where
    T: k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>,
{
    fn resource_version(&self) -> &str {
        self.0.metadata().resource_version.as_deref().unwrap_or_default()
    }

    fn key(&self) -> (&str, &str) {
        let metadata = self.0.metadata();
        (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }
}
