//! The nodes that anti-affinity of one pod blocks for other pods, or makes worse for them: anti-affinity is symmetric, so no
//! pod that matches a required term can be placed in the domain of the pod that owns the term, and a preferred term lowers the
//! scores of its nodes for pods that match ("a weaker variant": degraded scheduling quality).
//!
//! The design proposal (inter-pod affinity, "Denial of Service") asks for quota by opportunity cost: the resources of
//! the largest or the average domain before the pod has a node, and those of its domain afterwards; only domains
//! that the node affinity of the pod allows count. This module measures the domains and decides nothing: limits are a
//! matter of admission. A term with a limit blocks less: each domain only once as many matching pods share it. Which pods
//! these are is not known before; the domain is measured as a whole, and the result names the limit.

use berth_api::work::WorkBudget;
use berth_input::config::InterPodAffinityArgs;
use berth_rules::{PodTerm, TopologyScope};
use rustc_hash::FxHashMap;
use serde::Serialize;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::{RequiredTerm, RuleSet};
use crate::verdict::{TopologyPair, is_zero};

/// The nodes and pods that the anti-affinity of a pod affects by symmetry: required terms block other pods, preferred ones
/// make nodes worse for them.
///
/// ```
/// # use berth_input::inventory::Inventory;
/// # use berth_engine::{Cluster, Settings};
/// # let objects = Inventory::from_text(
/// #     "{apiVersion: v1, kind: Node, metadata: {name: a,
/// # labels: {kubernetes.io/hostname: a}}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
/// # ---
/// # {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {
/// #   containers: [{name: web, image: web}],
/// #   affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
/// #     {topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}}}",
/// # )?;
/// # let mut cluster = Cluster::new(Settings::default());
/// # cluster.set_node(&objects.nodes[0].object);
/// # let pod = &objects.pods[0].object;
/// let prepared = cluster.prepare(pod);
/// let radius = cluster.blast_radius(&prepared);
/// let largest = radius.terms[0].largest.as_ref().expect("the node is a domain");
/// assert_eq!(largest.milli_cpu, 4_000); // 4 cores in milli-CPU
/// assert_eq!(largest.memory, 8 << 30); // 8Gi in bytes
/// # Ok::<(), berth_input::inventory::InputError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlastRadius {
    /// One for each required anti-affinity term that can match a pod, in the order of the rules of the pod.
    pub terms: Vec<TermRadius>,
    /// One for each preferred anti-affinity term, in the order of the rules of the pod: it lowers the scores of the nodes of a
    /// domain for the pods that match. None if all profiles ignore preferred anti-affinity of running pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<TermRadius>,
    /// The node where the pod would be placed now; none if it is unschedulable, or if there are no terms.
    pub node: Option<String>,
}

/// The nodes and pods that one term would block, or make worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermRadius {
    /// Path of the term in the pod.
    pub term: String,
    /// The topology key; empty for "all topologies".
    pub topology_key: String,
    /// How many matching pods may share the domain with the pod: the domain is blocked for all that come after them. 0 for
    /// terms without a limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub limit: u32,
    /// The weight of a preferred term; 0 for required terms.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// Running pods of the whole cluster that match the term: with more than `limit` of them in the domain of the pod, none
    /// of the others could be placed there; a preferred term makes the domain worse for each of them.
    pub n_matching_pods: usize,
    /// Domains that the node selector and node affinity of the pod allow.
    pub n_domains: usize,
    /// The domain with the most nodes, then CPU, then memory, then matching pods; none if no domain is allowed.
    pub largest: Option<Reach>,
    /// The average of the domains, rounded up.
    pub average: Option<Reach>,
    /// The domain of [`BlastRadius::node`]; none without a node, or if the node lacks the topology key.
    pub actual: Option<Reach>,
}

/// The size of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// Number of nodes.
    pub n_nodes: usize,
    /// Sum of their allocatable CPU, in milli-CPU.
    pub milli_cpu: i64,
    /// Sum of their allocatable memory, in bytes.
    pub memory: i64,
    /// Matching pods that run there now: while they are more than the limit of the term, the pod does not fit there.
    pub n_matching_pods: usize,
    /// The node label of the domain; none for "all topologies".
    pub domain: Option<TopologyPair>,
}

/// [`Cluster::blast_radius`](crate::Cluster::blast_radius) of a pod that would go to `node`.
pub(crate) fn blast_radius(state: &State, pod: &PreparedPod, node: Option<&str>) -> BlastRadius {
    let rule_set = state.rule_sets.get(pod.rule_set);
    let measure = Measurement::new(state, rule_set, node);
    let radius = |compiled: &RequiredTerm| {
        let term = &rule_set.rules().required_anti_affinity[compiled.index];
        measure.radius(term, &compiled.topologies, compiled.matcher, 0)
    };
    let terms = rule_set.required_anti_affinity.iter().map(radius).collect();
    BlastRadius { terms, preferred: Vec::new(), node: node.map(str::to_owned) }
}

/// [`Cluster::preferred_blast_radius`](crate::Cluster::preferred_blast_radius) of a pod that would go to `node`.
pub(crate) fn preferred_blast_radius(state: &State, pod: &PreparedPod, node: Option<&str>) -> BlastRadius {
    let rule_set = state.rule_sets.get(pod.rule_set);
    let measure = Measurement::new(state, rule_set, node);
    let rules = rule_set.rules();
    let ignores = |args: &InterPodAffinityArgs| args.ignore_preferred_anti_affinity_of_existing_pods;
    if state.profiles.iter().all(|profile| ignores(&profile.profile.inter_pod_affinity)) {
        return BlastRadius { node: node.map(str::to_owned), ..BlastRadius::default() };
    }
    // Compiled terms of anti-affinity follow those of affinity, one for each term of the rules.
    let compiled = rule_set.preferred.iter().skip(rules.preferred_affinity.len());
    let preferred = rules.preferred_anti_affinity.iter().zip(compiled).map(|(preferred, compiled)| {
        measure.radius(&preferred.term, &compiled.topologies, compiled.matcher, preferred.weight)
    });
    BlastRadius { terms: Vec::new(), preferred: preferred.collect(), node: node.map(str::to_owned) }
}

/// Both of a pod that would go to `node`, if that is no more work than allowed.
pub(crate) fn within(
    state: &State,
    pod: &PreparedPod,
    node: Option<&str>,
    budget: &WorkBudget,
) -> Option<BlastRadius> {
    let rule_set = state.rule_sets.get(pod.rule_set);
    let n_terms = rule_set.required_anti_affinity.len() + rule_set.rules().preferred_anti_affinity.len();
    if n_terms == 0 {
        return Some(BlastRadius::default());
    }
    let steps = n_terms.saturating_mul(state.nodes.len() + state.signatures.iter().count());
    budget.spend(steps).ok()?;
    let preferred = preferred_blast_radius(state, pod, node).preferred;
    Some(BlastRadius { preferred, ..blast_radius(state, pod, node) })
}

impl BlastRadius {
    /// Whether the pod has no anti-affinity that affects others.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.preferred.is_empty()
    }
}

/// What terms are measured with.
struct Measurement<'a> {
    state: &'a State,
    /// The nodes that the pod may go to.
    candidates: Vec<NodeId>,
    /// The node that it would go to.
    actual: Option<NodeId>,
}

impl<'a> Measurement<'a> {
    fn new(state: &'a State, rule_set: &RuleSet, node: Option<&str>) -> Measurement<'a> {
        let actual = node.and_then(|name| state.find_node(name));
        Measurement { state, candidates: allowed_nodes(state, rule_set), actual }
    }

    fn radius(
        &self,
        term: &PodTerm,
        topologies: &[TopologyId],
        matcher: MatcherId,
        weight: i64,
    ) -> TermRadius {
        let domains = Domains::new(self.state, topologies, matching_by_node(self.state, matcher));
        let reaches = domains.of(&self.candidates);
        TermRadius {
            term: term.path.clone(),
            topology_key: match &term.topology {
                TopologyScope::Key(key) => key.clone(),
                TopologyScope::All => String::new(),
            },
            limit: term.limit,
            weight,
            n_matching_pods: domains.matching.values().sum(),
            n_domains: reaches.len(),
            average: average(&reaches),
            largest: reaches.into_iter().max(),
            actual: self.actual.and_then(|node| domains.of(&[node]).pop()),
        }
    }
}

/// The nodes that the node selector and node affinity of a rule set allow.
pub(crate) fn allowed_nodes(state: &State, rule_set: &RuleSet) -> Vec<NodeId> {
    let allowed = |id: &NodeId| rule_set.satisfies_required_node_affinity(state, state.nodes.get(*id));
    state.nodes.iter().map(|(id, _)| id).filter(allowed).collect()
}

/// Number of matching pods on each node.
fn matching_by_node(state: &State, matcher: MatcherId) -> FxHashMap<NodeId, usize> {
    let mut by_node: FxHashMap<NodeId, usize> = FxHashMap::default();
    for signature in state.signatures.iter().filter(|s| s.matched.binary_search(&matcher).is_ok()) {
        for (node, n_pods) in &signature.placed {
            *by_node.entry(*node).or_default() += *n_pods as usize;
        }
    }
    by_node
}

/// The domains of a node in the topologies that several nodes share.
type Cell = SmallVec<[Option<DomainId>; 2]>;

/// The domains of a term, or of several terms taken together. Nodes with the same domains in all shared topologies form one cell. A topology in which each
/// node is a separate domain adds only the node itself.
pub(crate) struct Domains<'a> {
    state: &'a State,
    topologies: &'a [TopologyId],
    shared: SmallVec<[TopologyId; 2]>,
    matching: FxHashMap<NodeId, usize>,
    cells: FxHashMap<Cell, Reach>,
}

impl<'a> Domains<'a> {
    /// `matching`: the number of matching pods on each node.
    pub(crate) fn new(
        state: &'a State,
        topologies: &'a [TopologyId],
        matching: FxHashMap<NodeId, usize>,
    ) -> Domains<'a> {
        let mut domains = Domains {
            state,
            topologies,
            shared: topologies.iter().copied().filter(|t| state.topologies.is_shared(*t)).collect(),
            matching,
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
    pub(crate) fn of(&self, nodes: &[NodeId]) -> Vec<Reach> {
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

    pub(crate) fn node(&self, id: NodeId) -> Reach {
        let allocatable = &self.state.nodes.get(id).allocatable.resources;
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
    pub(crate) fn add(&mut self, other: &Reach) {
        self.n_nodes += other.n_nodes;
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.n_matching_pods += other.n_matching_pods;
    }
}

pub(crate) fn average(reaches: &[Reach]) -> Option<Reach> {
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
