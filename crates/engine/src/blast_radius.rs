//! What required anti-affinity of one pod takes from others: by symmetry, no pod that matches a term may come to
//! the domain where its carrier is.
//!
//! The design proposal (inter-pod affinity, "Denial of Service") asks for quota by opportunity cost: the resources of
//! the largest or the average domain before the pod has a node, those of the actual one once it has, and only of
//! domains that the pod's node affinity lets it go to. Here the numbers are found; what they cost is for admission
//! to say.

use berth_api::rules::TopologyScope;
use rustc_hash::FxHashMap;
use serde::Serialize;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::matcher::MatcherId;
use crate::state::node::NodeId;
use crate::state::prepared::PreparedPod;
use crate::state::rule_set::RequiredTerm;
use crate::state::topology::{DomainId, TopologyId};
use crate::verdict::TopologyPair;

/// What a pod's required anti-affinity would shut out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlastRadius {
    /// One for each required term of anti-affinity that acts on anybody, in the order of the pod's rules.
    pub terms: Vec<TermRadius>,
    /// The node that the pod would go to now; none if it fits nowhere, or was not asked because there are no terms.
    pub node: Option<String>,
}

/// What one term would shut out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermRadius {
    /// Path of the term in the pod.
    pub term: String,
    /// The topology key; empty for "all topologies".
    pub topology_key: String,
    /// Running pods that match the term, wherever they are: none of them could come (again) to where the pod is.
    pub n_matching_pods: usize,
    /// Domains that the pod's node selector and node affinity let it go to.
    pub n_domains: usize,
    /// The one of them with the most nodes, then CPU, then memory, then matching pods. None if there are none.
    pub largest: Option<Reach>,
    /// Their average, rounded up.
    pub average: Option<Reach>,
    /// The domain of [`BlastRadius::node`]; none without one, or if it lacks the topology key and so shuts out
    /// nobody.
    pub actual: Option<Reach>,
}

/// How much a domain is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// Number of nodes.
    pub n_nodes: usize,
    /// Their allocatable CPU, in thousandths.
    pub milli_cpu: i64,
    /// Their allocatable memory, in bytes.
    pub memory: i64,
    /// Pods that match the term and run there now: while they do, the pod itself cannot go there.
    pub n_matching_pods: usize,
    /// The node label, where the domain is that of one label.
    pub domain: Option<TopologyPair>,
}

/// [`Cluster::blast_radius`](crate::Cluster::blast_radius) of a pod that would go to `node`.
pub(crate) fn blast_radius(state: &State, pod: &PreparedPod, node: Option<&str>) -> BlastRadius {
    let actual = node.and_then(|name| state.find_node(name));
    let rule_set = state.rule_sets.get(pod.rule_set);
    let allowed = |id: &NodeId| rule_set.satisfies_required_node_affinity(state, state.nodes.get(*id));
    let candidates: Vec<NodeId> = state.nodes.iter().map(|(id, _)| id).filter(allowed).collect();
    let radius = |compiled: &RequiredTerm| {
        let term = &rule_set.rules().required_anti_affinity[compiled.index];
        let domains = Domains::new(state, compiled);
        let reaches = domains.of(&candidates);
        TermRadius {
            term: term.path.clone(),
            topology_key: match &term.topology {
                TopologyScope::Key(key) => key.clone(),
                TopologyScope::All => String::new(),
            },
            n_matching_pods: domains.matching.values().sum(),
            n_domains: reaches.len(),
            average: average(&reaches),
            largest: reaches.into_iter().max(),
            actual: actual.and_then(|node| domains.of(&[node]).pop()),
        }
    };
    let terms = rule_set.required_anti_affinity.iter().map(radius).collect();
    BlastRadius { terms, node: node.map(str::to_owned) }
}

/// Number of running pods on each node that match.
fn matching_by_node(state: &State, matcher: MatcherId) -> FxHashMap<NodeId, usize> {
    let mut by_node: FxHashMap<NodeId, usize> = FxHashMap::default();
    for (_, signature) in state.signatures.iter().filter(|(_, i)| i.matched.binary_search(&matcher).is_ok()) {
        for (node, n_pods) in &signature.placed {
            *by_node.entry(*node).or_default() += *n_pods as usize;
        }
    }
    by_node
}

/// The domains of a node in the topologies that several nodes share.
type Cell = SmallVec<[Option<DomainId>; 2]>;

/// The domains of a term. Nodes in the same domains of all shared topologies are one cell; a topology in which every
/// node is a domain of its own adds nothing but the node itself.
struct Domains<'a> {
    state: &'a State,
    topologies: &'a [TopologyId],
    shared: SmallVec<[TopologyId; 2]>,
    matching: FxHashMap<NodeId, usize>,
    cells: FxHashMap<Cell, Reach>,
}

impl<'a> Domains<'a> {
    fn new(state: &'a State, term: &'a RequiredTerm) -> Domains<'a> {
        let topologies = term.topologies.iter().copied();
        let mut domains = Domains {
            state,
            topologies: &term.topologies,
            shared: topologies.filter(|t| state.topologies.is_shared(*t)).collect(),
            matching: matching_by_node(state, term.matcher),
            cells: FxHashMap::default(),
        };
        if !domains.shared.is_empty() {
            for (id, _) in state.nodes.iter() {
                let (cell, node) = (domains.cell(id), domains.node(id));
                domains.cells.entry(cell).or_default().add(&node);
            }
        }
        domains
    }

    /// The distinct domains of some nodes.
    fn of(&self, nodes: &[NodeId]) -> Vec<Reach> {
        let mut seen: FxHashMap<Cell, ()> = FxHashMap::default();
        let mut reaches = Vec::new();
        for node in nodes {
            let cell = self.cell(*node);
            let has_domain =
                self.topologies.iter().any(|t| self.state.topologies.domain(*t, *node).is_some());
            if cell.iter().any(Option::is_some) {
                if seen.insert(cell.clone(), ()).is_none() {
                    reaches.push(Reach { domain: self.pair(*node), ..self.around(&cell) });
                }
            } else if has_domain {
                reaches.push(Reach { domain: self.pair(*node), ..self.node(*node) });
            }
        }
        reaches
    }

    /// All nodes that share a domain with a cell.
    fn around(&self, cell: &Cell) -> Reach {
        let mut sum = Reach::default();
        let shares = |other: &Cell| cell.iter().zip(other).any(|(a, b)| a.is_some() && a == b);
        self.cells.iter().filter(|(other, _)| shares(other)).for_each(|(_, reach)| sum.add(reach));
        sum
    }

    fn cell(&self, node: NodeId) -> Cell {
        self.shared.iter().map(|t| self.state.topologies.domain(*t, node)).collect()
    }

    fn node(&self, id: NodeId) -> Reach {
        let allocatable = &self.state.nodes.get(id).allocatable;
        Reach {
            n_nodes: 1,
            milli_cpu: allocatable.milli_cpu,
            memory: allocatable.memory,
            n_matching_pods: self.matching.get(&id).copied().unwrap_or_default(),
            domain: None,
        }
    }

    fn pair(&self, node: NodeId) -> Option<TopologyPair> {
        let [topology] = *self.topologies else { return None };
        self.state.topology_pair(topology, self.state.topologies.domain(topology, node))
    }
}

impl Reach {
    fn add(&mut self, other: &Reach) {
        self.n_nodes += other.n_nodes;
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.n_matching_pods += other.n_matching_pods;
    }
}

fn average(reaches: &[Reach]) -> Option<Reach> {
    let n = i64::try_from(reaches.len()).ok().filter(|n| *n > 0)?;
    let mut sum = Reach::default();
    reaches.iter().for_each(|reach| sum.add(reach));
    let share = |amount: i64| amount / n + i64::from(amount % n > 0);
    Some(Reach {
        n_nodes: sum.n_nodes.div_ceil(reaches.len()),
        milli_cpu: share(sum.milli_cpu),
        memory: share(sum.memory),
        n_matching_pods: sum.n_matching_pods.div_ceil(reaches.len()),
        domain: None,
    })
}
