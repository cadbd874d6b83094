//! Nodes for inputs that have none.

use berth_api::object::{Node, ObjectMeta, ResourceList};
use berth_api::quantity::Quantity;

/// Ephemeral storage of each made node: every kubelet offers some, and pods that ask
/// for it should fit. In bytes.
const EPHEMERAL_STORAGE: i64 = 100 << 30;

/// Nodes to make when the input has none.
#[derive(Clone, Debug)]
pub struct MadeNodes {
    /// How many.
    pub n_nodes: usize,
    /// Over how many zones they are spread, in turn.
    pub n_zones: usize,
    /// CPU of each.
    pub cpu: Quantity,
    /// Memory of each.
    pub memory: Quantity,
    /// Pods each takes.
    pub pods: Quantity,
}

impl MadeNodes {
    /// `node-1` to `node-n`, in `zone-1` to `zone-z` of `region-1`.
    pub fn nodes(&self) -> Vec<Node> {
        let width = self.n_nodes.to_string().len();
        let node = |i: usize| {
            let name = format!("node-{:0width$}", i + 1);
            let labels = [
                ("kubernetes.io/hostname", name.clone()),
                ("kubernetes.io/os", "linux".to_owned()),
                ("kubernetes.io/arch", "amd64".to_owned()),
                ("topology.kubernetes.io/zone", format!("zone-{}", i % self.n_zones.max(1) + 1)),
                ("topology.kubernetes.io/region", "region-1".to_owned()),
            ];
            let resources = [
                ("cpu", self.cpu),
                ("memory", self.memory),
                ("pods", self.pods),
                ("ephemeral-storage", Quantity::from_units(EPHEMERAL_STORAGE)),
            ];
            let resources: ResourceList = resources.map(|(name, q)| (name.to_owned(), q)).into();
            let mut node = Node {
                metadata: ObjectMeta {
                    name,
                    labels: labels.map(|(k, v)| (k.to_owned(), v)).into(),
                    ..ObjectMeta::default()
                },
                ..Node::default()
            };
            node.status.allocatable = Some(resources.clone());
            node.status.capacity = Some(resources);
            node
        };
        (0..self.n_nodes).map(node).collect()
    }
}
