//! Annotations and fields of nodes.

use berth_api::object::{Node, SelectorRequirement, StringMap};

use super::selector::satisfies;

/// Whether a node's annotations satisfy a requirement of `matchAnnotations`.
pub fn node_satisfies_annotation(requirement: &SelectorRequirement, node: &Node) -> bool {
    satisfies(requirement, &node.metadata.annotations)
}

/// Whether a node satisfies a requirement of `matchFields` in the proposals: a field is like a label, an empty one like
/// none.
pub fn node_satisfies_proposal_field(requirement: &SelectorRequirement, node: &Node) -> bool {
    let mut object = serde_json::to_value(node).expect("a node is JSON");
    // Written only if it is true.
    object["spec"]["unschedulable"] = node.spec.unschedulable.into();
    let found = object.pointer(&format!("/{}", requirement.key.replace('.', "/")));
    let text = found.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let field = text.filter(|text| !text.is_empty()).map(|text| (requirement.key.clone(), text));
    satisfies(requirement, &field.into_iter().collect::<StringMap>())
}
