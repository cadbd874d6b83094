//! The internal form of a pod's placement rules, which the engine evaluates.
//!
//! A pod is parsed once into [`PodRules`]. Both dialects end here: later code uses the field that a rule comes from only
//! to name it in messages. Parsing never fails. Rules that the API server would reject are treated as kube-scheduler
//! treats them: an invalid node term matches no node; invalid pod terms or preferences make the pod unschedulable with
//! an error.

mod attribute;
mod dialect;
mod features;
mod node;
mod pod_set;
pub(crate) mod pod_term;
mod relation;
mod relax;
mod resources;
mod selector;
mod selector_text;
mod spread;
mod toleration;
mod version;
pub mod volume;

pub use attribute::{NODE_FIELDS, annotation_key, node_attribute, node_attributes};
pub use dialect::{DialectNote, dialect_notes};
pub use features::NodeFeatures;
pub use node::{NodeRequirement, NodeSelectorRule, NodeTerm, PreferredNodeTerm};
pub use pod_set::{KnownNamespaces, PodSet};
pub use pod_term::{
    NamespaceScope, PodTerm, PreferredPodTerm, TopologyScope, all_topologies_problem, tolerated_namespaces,
};
pub use relation::SetRelation;
pub use relax::{
    RELAX_AFTER_ANNOTATION, RELAXED_ANNOTATION, RelaxableRule, parse_relax_after, relaxed_rules,
};
pub use resources::{
    DEFAULT_MEMORY_REQUEST, DEFAULT_MILLI_CPU_REQUEST, PodRequests, pod_limits, pod_requests,
};
pub(crate) use selector::NOT_A_VERSION;
pub use selector::{Requirement, Selector};
pub use selector_text::{FieldRequirement, FieldSelector, SelectorError};
pub use spread::{SpreadConstraint, WhenUnsatisfiable};
pub use toleration::{TaintEffect, TolerationOperator, TolerationRule};
pub use version::compare_versions;
pub(crate) use version::is_version;

use crate::admission::{AFFINITY_ANNOTATION, annotation_affinity};
use crate::object::{Affinity, Pod};

/// Which document gives a field its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Kubernetes' v1 API.
    V1,
    /// The design proposals.
    Proposal,
}

/// All rules of a pod: required and preferred rules about nodes and pods, requests, ports, images and tolerations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRules {
    /// `spec.nodeSelector`.
    pub node_selector: Vec<(String, String)>,
    /// Required node affinity: all of these must hold.
    pub required_node_affinity: Vec<NodeSelectorRule>,
    /// Preferred node affinity.
    pub preferred_node_affinity: Vec<PreferredNodeTerm>,
    /// Whether the pod has preferred node affinity at all (even terms that are no-ops).
    pub has_preferred_node_affinity: bool,
    /// Required pod affinity: a pod counts when it matches all terms.
    pub required_affinity: Vec<PodTerm>,
    /// Required pod anti-affinity.
    pub required_anti_affinity: Vec<PodTerm>,
    /// Preferred pod affinity.
    pub preferred_affinity: Vec<PreferredPodTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_anti_affinity: Vec<PreferredPodTerm>,
    /// Topology spread constraints.
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Tolerations.
    pub tolerations: Vec<TolerationRule>,
    /// Requested resources.
    pub requests: PodRequests,
    /// Requested host ports, sorted.
    pub host_ports: Vec<HostPort>,
    /// Features that the node must declare.
    pub required_features: NodeFeatures,
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

/// A host port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Port number.
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

impl PodRules {
    /// Parses an admitted pod: defaulted, with matchLabelKeys merged.
    ///
    /// The proposals' fields in `spec.affinity` and the annotation [`AFFINITY_ANNOTATION`] are read only with
    /// `extensions`.
    pub fn parse(pod: &Pod, extensions: bool) -> PodRules {
        let spec = &pod.spec;
        let mut rules = PodRules {
            node_selector: spec.node_selector.clone().into_iter().collect(),
            spread_constraints: spread::parse(pod),
            tolerations: spec.tolerations.iter().map(TolerationRule::parse).collect(),
            requests: PodRequests::of(pod),
            required_features: NodeFeatures::required_by(spec),
            host_ports: host_ports(pod),
            images: images(pod),
            image_volumes: image_volumes(pod),
            ..PodRules::default()
        };
        if let Some(affinity) = &spec.affinity {
            rules.add_affinity(affinity, "spec.affinity", Dialect::V1, pod, extensions);
        }
        if extensions {
            let path = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
            match annotation_affinity(pod) {
                Ok(None) => {}
                Ok(Some(affinity)) => {
                    rules.add_affinity(&affinity, &path, Dialect::Proposal, pod, extensions)
                }
                Err(error) => rules.pod_term_error = Some(format!("{path}: {error}")),
            }
            rules.find_relaxable(pod);
            if !spec.node_name.is_empty() {
                rules.relax(relaxed_rules(&pod.metadata).iter().map(String::as_str));
            }
        }
        rules
    }

    fn add_affinity(
        &mut self,
        affinity: &Affinity,
        path: &str,
        dialect: Dialect,
        pod: &Pod,
        extensions: bool,
    ) {
        if let Some(node) = &affinity.node_affinity {
            self.add_node_affinity(node, &format!("{path}.nodeAffinity"), dialect, extensions);
        }
        let mut parse = |affinity: &Option<_>, anti, name| {
            let Some(affinity) = affinity else { return Default::default() };
            let parsed = pod_term::parse(affinity, anti, &format!("{path}.{name}"), dialect, pod, extensions);
            parsed.unwrap_or_else(|e| {
                self.pod_term_error.get_or_insert(e);
                Default::default()
            })
        };
        let (required, preferred) = parse(&affinity.pod_affinity, false, "podAffinity");
        let (anti_required, anti_preferred) = parse(&affinity.pod_anti_affinity, true, "podAntiAffinity");
        self.required_affinity.extend(required);
        self.preferred_affinity.extend(preferred);
        self.required_anti_affinity.extend(anti_required);
        self.preferred_anti_affinity.extend(anti_preferred);
    }
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|c| c.is_sidecar());
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|c| &c.ports);
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let mut ports: Vec<_> = ports
        .filter(|p| p.host_port > 0)
        .map(|p| HostPort {
            port: p.host_port,
            protocol: or(&p.protocol, "TCP"),
            ip: or(&p.host_ip, HostPort::ANY_IP),
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    containers.map(|c| normalized_image_name(&c.image)).collect()
}

fn image_volumes(pod: &Pod) -> Vec<String> {
    let images = pod.spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
    images.map(|image| normalized_image_name(&image.reference)).collect()
}

/// The image name as nodes report it: with `:latest` if it has no tag.
pub fn normalized_image_name(name: &str) -> String {
    // A colon before the last slash belongs to the registry's port, not to a tag.
    if name.rfind(':') <= name.rfind('/') { format!("{name}:latest") } else { name.to_owned() }
}
