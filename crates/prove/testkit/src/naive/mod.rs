//! The naive evaluator: every question is answered by looping over everything.
//!
//! It follows kube-scheduler 1.36's plugins one file each, and the design proposals where Berth extends
//! them. Nothing is indexed, cached or counted ahead: what a rule needs is counted again for every node.
//! Clarity is worth more than speed here, because this is what the engine is compared with.

mod attributes;
mod balanced_allocation;
mod csi_migration;
mod decide;
mod devices;
mod groups;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_unschedulable;
mod node_volume_limits;
mod preemption;
mod relax;
mod relaxable;
mod requests;
mod resources_fit;
mod selector;
pub(crate) mod storage;
mod taint_toleration;
mod terms;
mod topology_spread;
mod versions;
mod violations;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use std::collections::BTreeMap;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::DeviceDecision;
use berth_api::object::{
    LabelSelector, Namespace, Node, Pod, PodDisruptionBudget, Service, StringMap, VolumeDecision,
};
use berth_api::syntax::labels::HOSTNAME;
use berth_input::config::Profile;

pub use decide::{check_node, evaluate};
pub use devices::Devices;
pub use groups::{Gang, GangPlacement, place_gang};
pub use node_affinity::selects_node;
pub use node_ports::{conflict as ports_conflict, host_ports};
pub use preemption::{Victims, preempt};
pub use relaxable::relaxable;
pub use requests::{allocatable, amount, pod_requests};
pub use selector::{contains_all, selects};
pub use storage::Storage;
pub use taint_toleration::{is_tolerated, untolerated};
pub use violations::{Broken, broken, broken_during_execution};

/// The highest normalized score of a plugin.
const MAX_NODE_SCORE: i64 = 100;

/// The state of a cluster.
///
/// It must not have ended pods (`Succeeded`, `Failed`). Pods without a node or on a node that does not exist are ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// Nodes, names unique.
    pub nodes: Vec<Node>,
    /// Namespaces, names unique.
    pub namespaces: Vec<Namespace>,
    /// Services. Default spread constraints use their selectors.
    pub services: Vec<Service>,
    /// Selectors of workloads, also for default spread constraints.
    pub workloads: Vec<WorkloadSelector>,
    /// Pods as admitted: defaulted, label keys merged.
    pub pods: Vec<Pod>,
    /// Nominated pods: pending pods with their nominated node in `spec.nodeName`.
    pub nominated: Vec<Pod>,
    /// Disruption budgets; preemption respects them if possible.
    pub budgets: Vec<PodDisruptionBudget>,
    /// Volumes, claims and what decides about them.
    pub storage: Storage,
    /// Devices, claims of them and what decides about them.
    pub devices: Devices,
    /// In a trial of preemption, the removed pods that were being deleted before.
    pub removed: Vec<Pod>,
    /// In a decision, the nominated pods that are being deleted, with the node that they are counted on.
    pub added: Vec<Pod>,
}

/// The selector of a ReplicaSet, StatefulSet or ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSelector {
    /// `ReplicaSet`, `StatefulSet` or `ReplicationController`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The pods it manages.
    pub selector: LabelSelector,
}

/// Berth's extensions of kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the proposals' fields, `Gt`/`Lt` in pod terms and exempt namespaces are enabled.
    pub extensions: bool,
    /// Namespaces whose pods neither block nor are blocked by anti-affinity (with extensions only).
    pub exempt_namespaces: Vec<String>,
    /// Whether the exemption covers v1 terms as well as the proposals'.
    pub exempt_for_v1: bool,
    /// The node label keys of an empty `topologyKey`.
    pub all_topologies: Vec<String>,
    pub feature_gates: FeatureGates,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            extensions: true,
            exempt_namespaces: vec!["kube-system".to_owned()],
            exempt_for_v1: false,
            all_topologies: [HOSTNAME, "topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
                .map(str::to_owned)
                .to_vec(),
            feature_gates: FeatureGates::default(),
        }
    }
}

impl Options {
    /// Without extensions.
    pub fn strict_v1() -> Self {
        Options { extensions: false, ..Options::default() }
    }
}

berth_api::named! {
    /// Which changes could resolve a rejection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Code(name) {
        /// The removal of another pod.
        Unschedulable = "Unschedulable",
        /// Only a change of this pod or of nodes.
        UnschedulableAndUnresolvable = "UnschedulableAndUnresolvable",
        /// None: the rule failed, which ends the decision.
        Error = "Error",
    }
}

/// Why a pod does not fit on a node, or on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The plugin's name, or `PreFilterResult` for nodes that `metadata.name` terms ruled out beforehand.
    pub plugin: String,
    /// Which changes could resolve it.
    pub code: Code,
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeResult {
    /// The first plugin, in filter order, that rejects the node.
    Rejected(Rejection),
    Feasible {
        /// Normalized and weighted, as added into the total; a plugin that skips the pod is absent.
        scores: BTreeMap<String, i64>,
        total: i64,
    },
    /// The pod fits, but an error kept nodes from being scored.
    Unscored,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The rejection before any node was checked; `nodes` is then empty.
    pub pre_filter: Option<Rejection>,
    /// The answer for each node, by name.
    pub nodes: BTreeMap<String, NodeResult>,
    /// All nodes with the highest total, by name.
    pub best: Vec<String>,
    pub chosen: Option<String>,
    /// What is to be done about the pod's claims there, if anything.
    pub volumes: Option<VolumeDecision>,
    /// What is to be done about its claims of devices there, if anything.
    pub devices: Option<DeviceDecision>,
    /// kube-scheduler's summary, when no node fits.
    pub message: Option<String>,
    /// The error that prevented a decision.
    pub error: Option<String>,
}

/// The input of every rule.
#[derive(Clone, Copy)]
struct Question<'a> {
    world: &'a World,
    /// The world when the decision began: without nominated pods, and before preemption takes pods off.
    cycle: &'a World,
    pod: &'a Pod,
    profile: &'a Profile,
    options: &'a Options,
}

impl<'a> Question<'a> {
    /// The pods that run on a node.
    fn pods_on(self, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
        self.world.pods.iter().filter(move |p| p.spec.node_name == node.metadata.name)
    }

    /// The pods that the pod must leave room for on a node.
    fn nominated_to(self, node: &Node) -> Vec<Pod> {
        let priority = |pod: &Pod| pod.spec.priority.unwrap_or(0);
        let nominated = self.world.nominated.iter().filter(|other| {
            other.spec.node_name == node.metadata.name
                && priority(other) >= priority(self.pod)
                && !same_pod(other, self.pod)
        });
        nominated.cloned().collect()
    }

    /// All pods that run on a node that exists, with that node.
    fn running(self) -> impl Iterator<Item = (&'a Pod, &'a Node)> {
        self.world.nodes.iter().flat_map(move |node| self.pods_on(node).map(move |pod| (pod, node)))
    }

    /// A namespace's labels; `None` if it does not exist.
    fn namespace_labels(self, name: &str) -> Option<&'a StringMap> {
        self.world.namespaces.iter().find(|n| n.metadata.name == name).map(|n| &*n.metadata.labels)
    }
}

/// The answer of a filter rule for one node.
type Verdict = Result<(), (Code, Vec<String>)>;

fn reject(code: Code, reason: &str) -> Verdict {
    Err((code, vec![reason.to_owned()]))
}

/// kube-scheduler's default normalization: the highest raw score becomes 100 (or 0 when `reverse`).
fn normalize(raw: &[i64], reverse: bool) -> Vec<i64> {
    let max = raw.iter().copied().max().unwrap_or(0);
    raw.iter()
        .map(|score| {
            let scaled = if max == 0 { 0 } else { MAX_NODE_SCORE * score / max };
            if reverse { MAX_NODE_SCORE - scaled } else { scaled }
        })
        .collect()
}

fn same_pod(a: &Pod, b: &Pod) -> bool {
    (&a.metadata.namespace, &a.metadata.name) == (&b.metadata.namespace, &b.metadata.name)
}

fn is_preempted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && pod.status.conditions.iter().any(|c| {
            c.condition_type == "DisruptionTarget"
                && c.status == "True"
                && c.reason == "PreemptionByScheduler"
        })
}
