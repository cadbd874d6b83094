//! The identity of a pod that is not read whole.

use berth_api::object::{Pod, TOPOLOGY_LABELS};

/// The identity of a pod, and its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `spec.nodeName`; empty while it is pending.
    pub node: String,
    pub resource_version: String,
    /// The labels that a binding adds ([`TOPOLOGY_LABELS`]), sorted.
    pub added_labels: Vec<(String, String)>,
}

impl PodRef {
    pub fn of(pod: &Pod) -> PodRef {
        let metadata = &pod.metadata;
        let label = |key: &str| Some((key.to_owned(), metadata.labels.get(key)?.clone()));
        PodRef {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            node: pod.spec.node_name.clone(),
            resource_version: metadata.resource_version.clone(),
            added_labels: TOPOLOGY_LABELS.into_iter().filter_map(label).collect(),
        }
    }
}
