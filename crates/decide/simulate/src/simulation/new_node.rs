//! Nodes that are added.

use berth_api::object::device::{DeviceObject, ResourceSlice};
use berth_api::object::{Node, ObjectMeta};
use berth_api::syntax::labels::HOSTNAME;
use berth_control::taints;
use berth_input::inventory::Inventory;

/// A node like another one, under another name and without anything that only the other one has. Its host name is its own, as the
/// kubelet sets it.
pub(crate) fn node_like(like: &Node, name: String) -> Node {
    let mut node = like.clone();
    node.metadata.uid.clear();
    node.metadata.creation_timestamp = None;
    node.metadata.labels.insert(HOSTNAME.to_owned(), name.clone());
    node.metadata.name = name;
    node.spec.unschedulable = false;
    taints::remove_of_state(&mut node.spec);
    node.spec.provider_id.clear();
    node.status.images.clear();
    node
}

pub(crate) fn new_node_name<'a>(like: &str, taken: impl Fn(&str) -> bool + 'a) -> String {
    (1..).map(|i| format!("{like}-new-{i}")).find(|name| !taken(name)).unwrap_or_default()
}

/// The slices of the devices of one node.
pub(crate) fn slices_of<'a>(
    inventory: &'a Inventory,
    node: &'a str,
) -> impl Iterator<Item = &'a ResourceSlice> {
    inventory.device_objects.iter().filter_map(move |entry| match &entry.object {
        DeviceObject::ResourceSlice(slice) if slice.spec.node_name.as_deref() == Some(node) => Some(&**slice),
        _ => None,
    })
}

/// The devices of a new node that are like those of another one: in pools of its own.
pub(crate) fn slices_like(
    slices: &[ResourceSlice],
    like: &str,
    name: &str,
) -> impl Iterator<Item = ResourceSlice> {
    slices.iter().map(move |slice| {
        let mut slice = slice.clone();
        let of_node = |text: &str| if text == like { name.to_owned() } else { format!("{text}-{name}") };
        let metadata = ObjectMeta { name: of_node(&slice.metadata.name), ..ObjectMeta::default() };
        slice.metadata = metadata;
        slice.spec.pool.name = of_node(&slice.spec.pool.name);
        slice.spec.node_name = Some(name.to_owned());
        slice
    })
}
