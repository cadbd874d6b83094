//! Annotations and fields of nodes, by which terms of the proposals select as by labels.
//!
//! A [`Requirement`](super::Requirement) names an annotation or a field by its path with a leading dot, such as
//! `.metadata.annotations[example.com/rack]`: a key that no label has.

use std::borrow::Cow;

use berth_api::object::Node;

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

pub fn annotation_key(name: &str) -> String {
    format!("{ANNOTATION}{name}]")
}

pub(super) fn field_key(path: &str) -> String {
    format!(".{path}")
}

/// The value of the annotation or field that a key names.
pub fn node_attribute<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    match key.strip_prefix(ANNOTATION) {
        Some(name) => node.metadata.annotation(name.strip_suffix(']')?),
        None => fields(node).find(|(field, _)| *field == key).map(|(_, value)| value),
    }
}

/// All annotations and fields of a node but its name, by key.
pub fn node_attributes(node: &Node) -> impl Iterator<Item = (Cow<'static, str>, &str)> {
    let annotations = node.metadata.annotations.iter();
    let annotations = annotations.map(|(name, value)| (Cow::from(annotation_key(name)), value.as_str()));
    annotations.chain(fields(node).map(|(key, value)| (Cow::from(key), value)))
}

/// The fields that are not empty; not the name, which every node knows.
fn fields(node: &Node) -> impl Iterator<Item = (&'static str, &str)> {
    let info = &node.status.node_info;
    let fields: [(_, &str); 8] = [
        (".spec.providerID", &node.spec.provider_id),
        (".spec.unschedulable", if node.spec.unschedulable { "true" } else { "false" }),
        (".status.nodeInfo.architecture", &info.architecture),
        (".status.nodeInfo.containerRuntimeVersion", &info.container_runtime_version),
        (".status.nodeInfo.kernelVersion", &info.kernel_version),
        (".status.nodeInfo.kubeletVersion", &info.kubelet_version),
        (".status.nodeInfo.operatingSystem", &info.operating_system),
        (".status.nodeInfo.osImage", &info.os_image),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_empty())
}
