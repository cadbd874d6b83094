//! Annotations and fields of nodes, by which terms of the proposals select as by labels.
//!
//! A [`Requirement`](super::Requirement) names an annotation or a field by its path with a leading dot, such as
//! `.metadata.annotations[example.com/rack]`: a key that no label has.

use crate::object::Node;

/// The node fields that `matchFields` of the proposals can name. An empty field counts as absent.
pub const NODE_FIELDS: [&str; 9] = [
    "metadata.name",
    "spec.providerID",
    "spec.unschedulable",
    "status.nodeInfo.architecture",
    "status.nodeInfo.containerRuntimeVersion",
    "status.nodeInfo.kernelVersion",
    "status.nodeInfo.kubeletVersion",
    "status.nodeInfo.operatingSystem",
    "status.nodeInfo.osImage",
];

const ANNOTATION: &str = ".metadata.annotations[";

/// The key of an annotation.
pub(super) fn annotation_key(name: &str) -> String {
    format!("{ANNOTATION}{name}]")
}

/// The key of a field.
pub(super) fn field_key(path: &str) -> String {
    format!(".{path}")
}

/// Whether a key names an annotation or a field instead of a label.
pub fn is_node_attribute(key: &str) -> bool {
    key.starts_with('.')
}

/// The value of the annotation or field that a key names.
pub fn node_attribute<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    if let Some(name) = key.strip_prefix(ANNOTATION) {
        return node.metadata.annotation(name.strip_suffix(']')?);
    }
    let info = &node.status.node_info;
    let value = match key.strip_prefix('.')? {
        "metadata.name" => &node.metadata.name,
        "spec.providerID" => &node.spec.provider_id,
        "spec.unschedulable" => return Some(if node.spec.unschedulable { "true" } else { "false" }),
        "status.nodeInfo.architecture" => &info.architecture,
        "status.nodeInfo.containerRuntimeVersion" => &info.container_runtime_version,
        "status.nodeInfo.kernelVersion" => &info.kernel_version,
        "status.nodeInfo.kubeletVersion" => &info.kubelet_version,
        "status.nodeInfo.operatingSystem" => &info.operating_system,
        "status.nodeInfo.osImage" => &info.os_image,
        _ => return None,
    };
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// The keys of all annotations and fields of a node.
pub fn node_attribute_keys(node: &Node) -> impl Iterator<Item = String> + '_ {
    let annotations = node.metadata.annotations.keys().map(|name| annotation_key(name));
    annotations.chain(NODE_FIELDS.iter().map(|path| field_key(path)))
}
