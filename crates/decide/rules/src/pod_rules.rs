//! All placement rules of a pod.

use core::time::Duration;

use super::Dialect;
use super::features::NodeFeatures;
use super::node::{NodeSelectorRule, PreferredNodeTerm};
use super::pod_term::{PodTerm, PreferredPodTerm};
use super::resources::PodRequests;
use super::spread::SpreadConstraint;
use super::toleration::Tolerations;

/// All rules of a pod: required and preferred rules about nodes and pods, requests, ports, images and tolerations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRules {
    /// `spec.nodeSelector`.
    pub node_selector: Vec<(String, String)>,
    /// Required node affinity: all of these must hold.
    pub required_node_affinity: Vec<NodeSelectorRule>,
    pub preferred_node_affinity: Vec<PreferredNodeTerm>,
    /// Whether the pod has preferred node affinity at all (even terms that are no-ops).
    pub has_preferred_node_affinity: bool,
    /// Required pod affinity, the terms of v1 first.
    pub required_affinity: Vec<PodTerm>,
    pub required_anti_affinity: Vec<PodTerm>,
    pub preferred_affinity: Vec<PreferredPodTerm>,
    pub preferred_anti_affinity: Vec<PreferredPodTerm>,
    pub spread_constraints: Vec<SpreadConstraint>,
    pub tolerations: Tolerations,
    pub requests: PodRequests,
    /// Requested host ports, sorted.
    pub host_ports: Vec<HostPort>,
    pub required_features: NodeFeatures,
    /// The label `kubernetes.io/os` of the pod: its node must have the same operating system. No scheduler reads it.
    pub os_label: Option<String>,
    /// `spec.os.name`: the same.
    pub os: Option<String>,
    /// Images of all containers, init containers first, with their tags filled in.
    pub images: Vec<String>,
    /// Images of volumes, with their tags filled in.
    pub image_volumes: Vec<String>,
    /// Required rules that become preferences when the pod has been pending for long enough, in this order.
    pub relaxable: Vec<RelaxableRule>,
    /// Terms of required anti-affinity that have become preferences: relaxable terms of running pods that are equal to one
    /// of them do not reject the pod either.
    pub relaxed_anti_affinity: Vec<PodTerm>,
    /// The parse error of preferred node affinity: the pod cannot be scored.
    pub preferred_node_affinity_error: Option<String>,
    /// The parse error of pod terms: the pod cannot be filtered.
    pub pod_term_error: Option<String>,
}

impl PodRules {
    /// The requirements of required pod affinity: the terms of v1 together, which one pod has to match, and each term of the
    /// proposals.
    pub fn affinity_requirements(&self) -> impl Iterator<Item = &[PodTerm]> {
        self.required_affinity.chunk_by(|a, b| a.dialect == Dialect::V1 && b.dialect == Dialect::V1)
    }
}

/// A required rule that becomes a preference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelaxableRule {
    pub path: String,
    /// How long the pod has to be pending.
    pub after: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Address; `0.0.0.0` means every address.
    pub ip: String,
}

impl HostPort {
    /// The address that stands for all addresses.
    pub const ANY_IP: &str = "0.0.0.0";

    /// Whether it cannot be used on one node together with the ports of a sorted list.
    pub fn conflicts_with_any(&self, sorted: &[HostPort]) -> bool {
        let number = |p: &'_ HostPort| p.port.cmp(&self.port).then_with(|| p.protocol.cmp(&self.protocol));
        let from = sorted.partition_point(|p| number(p).is_lt());
        let to = sorted.partition_point(|p| number(p).is_le());
        let used = |ip: &str| sorted[from..to].binary_search_by(|p| p.ip.as_str().cmp(ip)).is_ok();
        if self.ip == Self::ANY_IP { from < to } else { used(&self.ip) || used(Self::ANY_IP) }
    }
}
