//! The admission plugin `PodTopologyLabels`.

use berth_api::object::TOPOLOGY_LABELS;
use berth_schema::resource::NODES;
use serde_json::{Map, Value};

use super::interface::Lookup;
use super::metadata::add_labels;

/// Copies the topology labels of a node to an object that lacks them: to bindings, and to pods that are created with a
/// node.
pub fn add_topology_labels(lookup: &dyn Lookup, node: &str, object: &mut Value) {
    let Some(node) = lookup.get(&NODES, "", node) else { return };
    let labels = node.facts.labels().filter(|(key, _)| TOPOLOGY_LABELS.contains(key));
    let labels: Map<_, _> = labels.map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    if !labels.is_empty() {
        add_labels(&mut object["metadata"]["labels"], &labels);
    }
}
