//! Nodes that are added.

use berth_api::object::Node;
use berth_api::syntax::labels::HOSTNAME;

/// A node like another one, under another name and without anything that only the other one has. Its host name is its own, as the
/// kubelet sets it.
pub(crate) fn node_like(like: &Node, name: String) -> Node {
    let mut node = like.clone();
    node.metadata.uid.clear();
    node.metadata.creation_timestamp = None;
    node.metadata.labels.insert(HOSTNAME.to_owned(), name.clone());
    node.metadata.name = name;
    node.spec.unschedulable = false;
    node.spec.provider_id.clear();
    node.status.images.clear();
    node
}

/// A name for another node like this one.
pub(crate) fn new_node_name<'a>(like: &str, taken: impl Fn(&str) -> bool + 'a) -> String {
    (1..).map(|i| format!("{like}-new-{i}")).find(|name| !taken(name)).unwrap_or_default()
}
