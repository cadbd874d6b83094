//! Moves of running pods in a copy of the cluster.

use super::Cluster;
use crate::cycle::context::{Context, CycleState};
use crate::decision::Run;
use crate::moves::{MoveTable, Standing, leave};
use crate::state::device::ReleasedClaims;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;

/// A cluster whose running pods are moved hypothetically, one after the other.
///
/// Pods are named by their positions in the list that was given first, and nodes by their positions in [`Moves::nodes`].
/// Moves can be taken back in the opposite order.
pub struct Moves {
    cluster: Cluster,
    table: MoveTable,
    /// The names of the nodes, sorted.
    nodes: Vec<String>,
    ids: Vec<NodeId>,
    /// By the index of the id.
    positions: Vec<usize>,
}

/// A spread constraint whose skew exceeds `maxSkew`: what takes pods from the first nodes to the second ones lowers it.
pub struct SkewedConstraint {
    /// Names the constraint in [`Moves::counts_for`].
    pub constraint: usize,
    /// The nodes of the domains with the most pods, sorted.
    pub fullest: Vec<usize>,
    /// The nodes of the domains with the fewest pods, sorted.
    pub emptiest: Vec<usize>,
}

/// The domains of a spread constraint.
pub struct SpreadDomains {
    /// `maxSkew`.
    pub max_skew: i64,
    /// Whether there are as many domains as it requires; otherwise the fewest pods of a domain are taken for 0.
    pub has_enough: bool,
    /// The nodes that count, each with its domain.
    pub nodes: Vec<(usize, u32)>,
}

impl Moves {
    /// Moves of these pods, by namespace and name. Pods that are not assigned to a known node, or are being deleted, have no part in
    /// it: the positions of the others are returned.
    pub fn new(mut cluster: Cluster, pods: &[(&str, &str)]) -> (Moves, Vec<usize>) {
        let state = &mut cluster.state;
        let found = pods.iter().enumerate().filter_map(|(i, (namespace, name))| {
            let id = state.find_pod(namespace, name)?;
            let pod = state.pods.get(id);
            (pod.node.is_some() && !pod.terminating).then_some((i, id))
        });
        let (positions_of_pods, ids): (Vec<_>, Vec<_>) = found.unzip();
        let table = MoveTable::new(state, &ids);
        let mut nodes: Vec<_> =
            state.nodes.iter().map(|(id, _)| (state.node_name(id).to_owned(), id)).collect();
        nodes.sort();
        let mut positions = vec![0; nodes.iter().map(|(_, id)| id.0 as usize + 1).max().unwrap_or(0)];
        nodes.iter().enumerate().for_each(|(at, (_, id))| positions[id.0 as usize] = at);
        let (nodes, ids) = nodes.into_iter().unzip();
        cluster.updated();
        (Moves { cluster, table, nodes, ids, positions }, positions_of_pods)
    }

    /// The names of the nodes, sorted.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The node of a pod.
    pub fn node_of(&self, pod: usize) -> usize {
        self.position(self.table.node_of(pod))
    }

    /// Pods of one class are the same to all rules.
    pub fn class_of(&self, pod: usize) -> usize {
        self.table.class_of(pod)
    }

    /// A pod as the scheduler gets it when it is created again.
    pub fn prepared(&self, pod: usize) -> &PreparedPod {
        self.table.prepared(pod)
    }

    /// What a pod requests of a resource: milli-CPU of `cpu`, otherwise units.
    pub fn requested(&self, pod: usize, resource: &str) -> i64 {
        self.cluster.state.rule_sets.get(self.table.prepared(pod).rule_set).rules().requests.amount(resource)
    }

    /// How well all pods stand now.
    pub fn standing(&self) -> Standing {
        self.table.standing()
    }

    /// Whether the filters would reject the pod where it is.
    pub fn is_rejected(&self, pod: usize) -> bool {
        self.table.is_rejected(pod)
    }

    /// The weights of its preferred terms that are not met.
    pub fn unmet(&self, pod: usize) -> i64 {
        self.table.unmet(pod)
    }

    /// The spread constraints whose skew exceeds `maxSkew`.
    pub fn skewed(&self) -> Vec<SkewedConstraint> {
        (0..self.n_constraints()).filter_map(|constraint| self.skew_of(constraint)).collect()
    }

    /// A spread constraint, if its skew exceeds `maxSkew`.
    pub fn skew_of(&self, constraint: usize) -> Option<SkewedConstraint> {
        let (fullest, emptiest) = self.table.excess_of(&self.cluster.state, constraint)?;
        let positions = |nodes: Vec<NodeId>| {
            let mut nodes: Vec<_> = nodes.into_iter().map(|node| self.position(node)).collect();
            nodes.sort_unstable();
            nodes
        };
        Some(SkewedConstraint { constraint, fullest: positions(fullest), emptiest: positions(emptiest) })
    }

    /// Number of distinct spread constraints.
    pub fn n_constraints(&self) -> usize {
        self.table.n_constraints()
    }

    /// The domains of a spread constraint.
    pub fn domains_of(&self, constraint: usize) -> SpreadDomains {
        let (max_skew, has_enough, nodes) = self.table.domains_of(&self.cluster.state, constraint);
        let nodes = nodes.into_iter().map(|(node, domain)| (self.position(node), domain.0)).collect();
        SpreadDomains { max_skew, has_enough, nodes }
    }

    /// The nodes that admit a pod as far as they alone decide, whatever runs anywhere: by their labels, taints and the like.
    pub fn could_be_on(&self, pod: &PreparedPod) -> Vec<usize> {
        let nodes = MoveTable::could_be_on(&self.cluster.state, pod);
        nodes.into_iter().map(|node| self.position(node)).collect()
    }

    /// Whether a pod counts for a spread constraint.
    pub fn counts_for(&self, pod: usize, constraint: usize) -> bool {
        self.table.counts_for(pod, constraint)
    }

    /// Moves a pod to a node, if the filters admit it there and no required rule of another pod breaks that held before. Returns whether
    /// it has moved; nothing is changed if not.
    pub fn apply(&mut self, pod: usize, node: usize) -> bool {
        self.table.apply(&mut self.cluster.state, pod, self.ids[node])
    }

    /// Takes the last move back. Returns whether there was one.
    pub fn undo(&mut self) -> bool {
        self.table.undo(&mut self.cluster.state)
    }

    /// The node where the scheduler would put a pod that is created again now; none if it is unschedulable.
    pub fn first_choice(&mut self, pod: usize) -> Option<usize> {
        if self.table.prepared(pod).unknown_scheduler.is_some() {
            return self.choices(pod).first().copied();
        }
        let decided = self.as_created_again(pod, |cluster, prepared| cluster.decide(prepared));
        self.position_of(decided.node()?)
    }

    /// All nodes where the scheduler might put it: those with the highest score. None if it is unschedulable. A pod whose scheduler
    /// name has no profile is evaluated by the rules of the first one.
    pub fn choices(&mut self, pod: usize) -> Vec<usize> {
        let best = self.as_created_again(pod, |cluster, prepared| {
            let cycle = CycleState::new(&cluster.state, &cluster.nominations, prepared);
            let context = Context::with_any_profile(&cluster.state, &cycle);
            let best = context.map(|context| Run::new(context).best());
            best.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        });
        best.iter().filter_map(|node| self.position_of(node)).collect()
    }

    fn as_created_again<T>(&mut self, pod: usize, ask: impl FnOnce(&Cluster, &PreparedPod) -> T) -> T {
        let prepared = self.table.prepared(pod).clone();
        let from = self.nodes[self.node_of(pod)].clone();
        let mut released = ReleasedClaims::default();
        leave(&mut self.cluster.state, &prepared, &mut released);
        let answer = ask(&self.cluster, &prepared);
        self.cluster.state.take_back_claims(released);
        self.cluster.state.assign(&prepared, &from);
        answer
    }

    /// The position of a node.
    pub fn position_of(&self, node: &str) -> Option<usize> {
        self.nodes.binary_search_by(|name| name.as_str().cmp(node)).ok()
    }

    /// The cluster after the moves. What is changed in it must be changed back.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    fn position(&self, node: NodeId) -> usize {
        self.positions[node.0 as usize]
    }
}
