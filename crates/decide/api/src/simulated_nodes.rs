//! Simulated nodes: equal nodes spread over zones, described by a few numbers.

use crate::object::{Node, ObjectMeta, ResourceList};
use crate::syntax::labels::{HOSTNAME, REGION, ZONE};
use crate::syntax::quantity::Quantity;

/// Ephemeral storage of each simulated node, in bytes. Every kubelet reports some; pods that request it should fit.
const EPHEMERAL_STORAGE: i64 = 100 << 30;

/// The CSI driver of simulated nodes, and the provisioner of the storage class `standard`.
pub const CSI_DRIVER: &str = "csi.berth.dev";

/// The annotations of a simulated pod with the CPU and memory that it uses, all containers together. Metrics are read from
/// them.
pub const CPU_USAGE: &str = "usage.berth.dev/cpu";
/// See [`CPU_USAGE`].
pub const MEMORY_USAGE: &str = "usage.berth.dev/memory";
/// What the annotation with the value of a custom metric of a pod begins with; the name of the metric follows.
pub const POD_METRIC_PREFIX: &str = "usage.berth.dev/pods.";
/// What these annotations begin with.
pub const USAGE_PREFIX: &str = "usage.berth.dev/";

/// The label of the rack of a simulated node. Kubernetes defines none.
pub const RACK: &str = "topology.berth.dev/rack";

/// The number, topology and capacity of simulated nodes.
#[derive(Clone, Debug)]
pub struct SimulatedNodes {
    pub n_nodes: usize,
    /// Number of zones; nodes are assigned to them round-robin.
    pub n_zones: usize,
    /// Number of regions; zones are assigned to them round-robin.
    pub n_regions: usize,
    /// Number of racks in each zone, to which its nodes are assigned round-robin; with 0, nodes have no rack.
    pub n_racks: usize,
    pub cpu: Quantity,
    pub memory: Quantity,
    /// Pod capacity of each node.
    pub pods: Quantity,
}

impl SimulatedNodes {
    /// The nodes `node-1` to `node-n`, in `zone-1` to `zone-z` of `region-1` to `region-r`. The racks of a zone are
    /// `zone-1-rack-1` and so on. Zone and region also have the labels that Kubernetes used before 1.17.
    pub fn nodes(&self) -> Vec<Node> {
        let width = self.n_nodes.to_string().len();
        let node = |i: usize| {
            let name = format!("node-{:0width$}", i + 1);
            let (n_zones, n_regions) = (self.n_zones.max(1), self.n_regions.max(1));
            let zone = format!("zone-{}", i % n_zones + 1);
            let region = format!("region-{}", i % n_zones % n_regions + 1);
            let rack = (i / n_zones).checked_rem(self.n_racks);
            let rack = rack.map(|rack| (RACK.to_owned(), format!("{zone}-rack-{}", rack + 1)));
            let labels = [
                (HOSTNAME, name.clone()),
                ("kubernetes.io/os", "linux".to_owned()),
                ("kubernetes.io/arch", "amd64".to_owned()),
                ("failure-domain.beta.kubernetes.io/zone", zone.clone()),
                ("failure-domain.beta.kubernetes.io/region", region.clone()),
                (ZONE, zone),
                (REGION, region),
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
                    labels: labels.map(|(k, v)| (k.to_owned(), v)).into_iter().chain(rack).collect(),
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
