//! Settings that hold for the life of a cluster.

use berth_api::object::TOPOLOGY_LABELS;
use berth_api::syntax::labels::HOSTNAME;
use berth_input::config::SchedulerConfig;
use berth_rules::RuleOptions;

use super::device::DeviceWork;

/// Settings that hold for the life of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Scheduling profiles.
    pub config: SchedulerConfig,
    /// Whether the proposals' fields, Gt/Lt in pod terms and exempt namespaces are in force.
    pub extensions: bool,
    /// Namespaces whose pods neither block nor are blocked by anti-affinity of the proposal.
    pub exempt_namespaces: Vec<String>,
    /// Whether exempt namespaces are also exempt from v1 anti-affinity.
    pub exempt_from_v1: bool,
    /// The label keys that "all topologies" stands for.
    pub all_topologies: Vec<String>,
    /// Whether nodes keep all their annotations and fields. Without, they keep those that rules mention: set all nodes
    /// again whenever [`Cluster::node_attributes_epoch`](crate::Cluster::node_attributes_epoch) changes.
    pub all_node_attributes: bool,
    /// What searches for devices may take.
    pub device_work: DeviceWork,
}

impl Default for Settings {
    fn default() -> Self {
        let [region, zone] = TOPOLOGY_LABELS;
        Settings {
            config: SchedulerConfig::default(),
            extensions: true,
            exempt_namespaces: vec!["kube-system".to_owned()],
            exempt_from_v1: false,
            all_topologies: [HOSTNAME, zone, region].map(str::to_owned).to_vec(),
            all_node_attributes: true,
            device_work: DeviceWork::default(),
        }
    }
}

impl Settings {
    /// kube-scheduler's behaviour and nothing else.
    pub fn strict_v1(config: SchedulerConfig) -> Self {
        Settings { config, extensions: false, all_node_attributes: false, ..Settings::default() }
    }

    /// How the rules of pods are read.
    pub fn rule_options(&self) -> RuleOptions {
        RuleOptions { extensions: self.extensions, feature_gates: self.config.feature_gates }
    }
}
