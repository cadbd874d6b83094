//! Templates of simulated nodes.

use berth_api::object::{ContainerImage, Node, StringMap, Taint};
use berth_api::simulated_nodes::SimulatedNodes;
use berth_api::syntax::labels::HOSTNAME;
use berth_api::syntax::quantity::Quantity;

/// Equal nodes that differ in name and zone.
///
/// Their names and labels are those of `berth simulate --nodes`: `node-1` to `node-n` with leading zeros, spread round
/// robin over `zone-1` to `zone-z`, with Linux and amd64.
#[derive(Clone, Debug)]
pub struct NodeTemplate {
    /// Number of nodes and zones, and the resources of each node.
    pub nodes: SimulatedNodes,
    /// The prefix of node names; default `node-`.
    pub name_prefix: String,
    /// Additional labels. They override the labels above except `kubernetes.io/hostname`.
    pub labels: StringMap,
    pub taints: Vec<Taint>,
    /// Images present on each node.
    pub images: Vec<ContainerImage>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeTemplateError {
    #[error(
        "node name prefix {prefix:?}: node names consist of lower-case letters, digits, '-' and '.', and begin with \
         a letter or digit"
    )]
    Prefix { prefix: String },
    #[error(
        "label kubernetes.io/hostname cannot be set for all simulated nodes: it is the name of each node"
    )]
    HostnameLabel,
}

impl NodeTemplate {
    /// The prefix that `berth simulate` uses.
    pub const NAME_PREFIX: &str = "node-";

    /// Nodes of 4 CPUs, 16 GiB and 110 pods.
    pub fn new(n_nodes: usize, n_zones: usize) -> NodeTemplate {
        NodeTemplate {
            nodes: SimulatedNodes {
                n_nodes,
                n_zones,
                n_regions: 1,
                n_racks: 0,
                cpu: Quantity::from_units(4),
                memory: Quantity::from_units(16 << 30),
                pods: Quantity::from_units(110),
            },
            name_prefix: Self::NAME_PREFIX.to_owned(),
            labels: StringMap::new(),
            taints: Vec::new(),
            images: Vec::new(),
        }
    }

    /// The nodes. Their status has capacity, allocatable and images.
    pub fn nodes(&self) -> Result<Vec<Node>, NodeTemplateError> {
        let prefix = &self.name_prefix;
        let is_name_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let starts_well = |p: &str| p.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !prefix.chars().all(is_name_char) || !(prefix.is_empty() || starts_well(prefix)) {
            return Err(NodeTemplateError::Prefix { prefix: prefix.clone() });
        }
        if self.labels.contains_key(HOSTNAME) {
            return Err(NodeTemplateError::HostnameLabel);
        }
        let mut nodes = self.nodes.nodes();
        for node in &mut nodes {
            let number = node.metadata.name.strip_prefix(Self::NAME_PREFIX).unwrap_or_default();
            node.metadata.name = format!("{prefix}{number}");
            let labels = &mut node.metadata.labels;
            labels.insert(HOSTNAME.to_owned(), node.metadata.name.clone());
            // Cloud providers set this label; kubectl and autoscalers use it.
            labels.insert("node.kubernetes.io/instance-type".to_owned(), self.instance_type());
            labels.extend(self.labels.clone());
            node.spec.taints.clone_from(&self.taints);
            node.status.images.clone_from(&self.images);
        }
        Ok(nodes)
    }

    /// A valid label value such as `berth-4cpu-16Gi`.
    fn instance_type(&self) -> String {
        let gibibytes = self.nodes.memory.units() >> 30;
        match (self.nodes.cpu.millis() % 1000, gibibytes) {
            (0, 1..) => format!("berth-{}cpu-{gibibytes}Gi", self.nodes.cpu.units()),
            _ => "berth".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_labels_and_zones() {
        let taint = Taint { key: "k".to_owned(), value: "v".to_owned(), effect: "NoSchedule".to_owned() };
        let template = NodeTemplate {
            name_prefix: "worker-".to_owned(),
            labels: [("disk".to_owned(), "ssd".to_owned())].into(),
            taints: vec![taint.clone()],
            nodes: SimulatedNodes { n_regions: 2, n_racks: 2, ..NodeTemplate::new(10, 3).nodes },
            ..NodeTemplate::new(10, 3)
        };
        let nodes = template.nodes().unwrap();
        let names: Vec<_> = nodes.iter().map(|n| n.metadata.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[9]), (10, "worker-01", "worker-10"));
        let label = |i: usize, key: &str| nodes[i].metadata.labels[key].clone();
        assert_eq!(
            [0, 1, 2].map(|i| label(i, "topology.kubernetes.io/region")),
            ["region-1", "region-2", "region-1"]
        );
        let racks = [0, 1, 3, 6].map(|i| label(i, "topology.berth.dev/rack"));
        assert_eq!(racks, ["zone-1-rack-1", "zone-2-rack-1", "zone-1-rack-2", "zone-1-rack-1"]);
        let labels = &nodes[3].metadata.labels;
        let expected = [
            ("disk", "ssd"),
            ("failure-domain.beta.kubernetes.io/region", "region-1"),
            ("failure-domain.beta.kubernetes.io/zone", "zone-1"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", "worker-04"),
            ("kubernetes.io/os", "linux"),
            ("node.kubernetes.io/instance-type", "berth-4cpu-16Gi"),
            ("topology.berth.dev/rack", "zone-1-rack-2"),
            ("topology.kubernetes.io/region", "region-1"),
            ("topology.kubernetes.io/zone", "zone-1"),
        ];
        assert_eq!(**labels, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        assert_eq!(nodes[3].spec.taints, [taint]);
    }

    #[test]
    fn invalid_names_and_labels_are_errors() {
        let prefix = |p: &str| NodeTemplate { name_prefix: p.to_owned(), ..NodeTemplate::new(1, 1) }.nodes();
        for bad in ["Node-", "node_", "-x", "a/b", "ä"] {
            assert_eq!(prefix(bad).unwrap_err(), NodeTemplateError::Prefix { prefix: bad.to_owned() });
        }
        assert!(prefix("").is_ok());
        let labels = [("kubernetes.io/hostname".to_owned(), "x".to_owned())].into();
        let template = NodeTemplate { labels, ..NodeTemplate::new(1, 1) };
        assert_eq!(template.nodes().unwrap_err(), NodeTemplateError::HostnameLabel);
    }
}
