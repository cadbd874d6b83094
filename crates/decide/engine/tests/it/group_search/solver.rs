//! An exhaustive solver: where the members of a group can go, by the naive evaluator alone.
//!
//! Members are placed one after another, on every node or on none. A branch ends where a placed member breaks a rule that no later member
//! can mend. Equal members go to nodes in one order, and of equal nodes without members the first is tried: other placements are
//! renamings of these.

use berth_api::object::{Node, Pod, PodAffinityTerm};
use berth_engine::Settings;
use berth_testkit::naive::{Options, World, check_node, selects};

use super::draw::{Case, DeviceClaim};

/// Checks of a node after which a search is given up.
const MAX_CHECKS: usize = 60_000;

/// What the solver found.
#[derive(Debug, PartialEq)]
pub enum Solution {
    /// The node of each member, by index in the group.
    Placed(Vec<Option<String>>),
    /// No placement is valid.
    Impossible,
    /// The search was given up.
    Unknown,
}

struct Member<'a> {
    /// Its index in the group.
    index: usize,
    pod: &'a Pod,
    /// Without the rules that other members may satisfy.
    bare: Pod,
    claim: Option<&'a DeviceClaim>,
    is_equal_to_previous: bool,
}

/// A search among all placements of the members in one topology domain, or anywhere.
pub struct Solver<'a> {
    case: &'a Case,
    min: usize,
    /// The running pods, and the members placed so far.
    world: World,
    members: Vec<Member<'a>>,
    /// By node: the first node that is equal to it.
    equal_nodes: Vec<usize>,
    /// The node of each member decided so far; the number of nodes stands for none.
    chosen: Vec<usize>,
    n_checks: usize,
}

impl<'a> Solver<'a> {
    /// A search for a case whose members are `pods`.
    pub fn new(case: &'a Case, pods: &'a [Pod], min: usize) -> Solver<'a> {
        let kind = |i: usize| (unnamed(&pods[i]), case.claim_of(i));
        let mut order: Vec<usize> = Vec::new();
        for i in 0..pods.len() {
            let equal = order.iter().rposition(|other| kind(*other) == kind(i));
            order.insert(equal.map_or(order.len(), |at| at + 1), i);
        }
        let members = order.iter().enumerate().map(|(at, i)| Member {
            index: *i,
            pod: &pods[*i],
            bare: bare(&pods[*i]),
            claim: case.claim_of(*i),
            is_equal_to_previous: at > 0 && kind(order[at - 1]) == kind(*i),
        });
        let mut world = case.world.clone();
        world.pods.retain(|pod| !pod.spec.node_name.is_empty());
        let is_used = |node: &Node| world.pods.iter().any(|pod| pod.spec.node_name == node.metadata.name);
        let node_kind = |i: usize| (unnamed_node(&world.nodes[i]), &case.devices[i]);
        let equal_nodes = (0..world.nodes.len()).map(|i| {
            let earlier = (0..i).find(|j| !is_used(&world.nodes[*j]) && node_kind(*j) == node_kind(i));
            earlier.filter(|_| !is_used(&world.nodes[i])).unwrap_or(i)
        });
        let (equal_nodes, members) = (equal_nodes.collect(), members.collect());
        Solver { case, min, world, members, equal_nodes, chosen: Vec::new(), n_checks: 0 }
    }

    /// Searches.
    pub fn solve(mut self) -> Solution {
        let found = self.place_rest();
        if found {
            let mut nodes = vec![None; self.members.len()];
            for (member, node) in self.members.iter().zip(&self.chosen) {
                nodes[member.index] = self.world.nodes.get(*node).map(|node| node.metadata.name.clone());
            }
            return Solution::Placed(nodes);
        }
        if self.n_checks > MAX_CHECKS { Solution::Unknown } else { Solution::Impossible }
    }

    fn place_rest(&mut self) -> bool {
        let at = self.chosen.len();
        let n_nodes = self.world.nodes.len();
        if at == self.members.len() {
            return (0..at).all(|i| self.holds(i));
        }
        let start = if self.members[at].is_equal_to_previous { self.chosen[at - 1] } else { 0 };
        for node in start..=n_nodes {
            if self.n_checks > MAX_CHECKS {
                return false;
            }
            if !self.is_first_of_equal(node) || !self.can_take(at, node) {
                continue;
            }
            self.chosen.push(node);
            if let Some(name) = self.world.nodes.get(node).map(|node| node.metadata.name.clone()) {
                let mut pod = self.members[at].bare.clone();
                pod.spec.node_name = name;
                self.world.pods.push(pod);
            }
            let found = (0..=at).all(|i| !self.is_settled(i) || self.holds(i)) && self.place_rest();
            if found {
                return true;
            }
            self.chosen.pop();
            if node < n_nodes {
                self.world.pods.pop();
            }
        }
        false
    }

    /// Whether no equal node before this one is without members, unless this one has some.
    fn is_first_of_equal(&self, node: usize) -> bool {
        let Some(kind) = self.equal_nodes.get(node) else { return true };
        self.chosen.contains(&node)
            || (0..node).all(|other| self.equal_nodes[other] != *kind || self.chosen.contains(&other))
    }

    fn can_take(&mut self, at: usize, node: usize) -> bool {
        let Some(name) = self.world.nodes.get(node).map(|node| node.metadata.name.clone()) else {
            let n_skipped = self.chosen.iter().filter(|node| **node == self.world.nodes.len()).count();
            return n_skipped < self.members.len() - self.min;
        };
        self.n_checks += 1;
        self.has_devices(at, node) && fits(&self.world, &self.members[at].bare, &name)
    }

    /// Whether all rules of a placed member hold with the others in their places.
    fn holds(&mut self, at: usize) -> bool {
        let Some(node) = self.world.nodes.get(self.chosen[at]) else { return true };
        let (name, member) = (node.metadata.name.clone(), &self.members[at]);
        self.n_checks += 1;
        let own = self.world.pods.iter().position(|pod| pod.key() == member.pod.key());
        let own = own.expect("a placed member is among the pods");
        let placed = self.world.pods.remove(own);
        let holds = fits(&self.world, member.pod, &name);
        self.world.pods.insert(own, placed);
        holds
    }

    /// Whether no member that is still to be decided satisfies a rule of a member.
    fn is_settled(&self, at: usize) -> bool {
        let rules = rules_of(self.members[at].pod);
        let mut later = self.members[self.chosen.len()..].iter();
        !later
            .any(|later| rules.iter().any(|selector| selects(selector.as_ref(), &later.pod.metadata.labels)))
    }

    /// Whether the devices of a node suffice for the claims of the members there and of one more. Members that share a claim share a
    /// node.
    fn has_devices(&self, at: usize, node: usize) -> bool {
        let Some(claim) = self.members[at].claim else { return true };
        let others = self.chosen.iter().zip(&self.members);
        let mut claims = vec![claim];
        for (other, member) in others {
            let Some(of_other) = member.claim else { continue };
            let is_shared = claim.is_shared && of_other.is_shared;
            if is_shared && *other != node && *other < self.world.nodes.len() {
                return false;
            }
            let is_counted = of_other.is_shared && claims.iter().any(|claim| claim.is_shared);
            if *other == node && !is_counted {
                claims.push(of_other);
            }
        }
        let wanted: Vec<Option<&str>> = claims.iter().flat_map(|claim| claim.models()).collect();
        suffice(&self.case.devices[node], &wanted)
    }
}

/// Whether each wanted device, of a model or of any, can be a different one.
fn suffice(devices: &[&'static str], wanted: &[Option<&str>]) -> bool {
    let n = |model: &str| devices.iter().filter(|device| **device == model).count();
    let n_wanted = |model: &str| wanted.iter().filter(|wanted| **wanted == Some(model)).count();
    wanted.len() <= devices.len() && wanted.iter().flatten().all(|model| n_wanted(model) <= n(model))
}

fn fits(world: &World, pod: &Pod, node: &str) -> bool {
    let profile = &Settings::default().config.profiles[0];
    check_node(world, pod, profile, &Options::default(), node).is_ok()
}

fn unnamed(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.name = String::new();
    pod
}

fn unnamed_node(node: &Node) -> Node {
    let mut node = node.clone();
    node.metadata.name = String::new();
    node.metadata.labels.remove("kubernetes.io/hostname");
    node
}

/// A pod without required affinity and spread constraints.
fn bare(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    if let Some(affinity) = &mut pod.spec.affinity {
        affinity.pod_affinity = None;
    }
    pod.spec.topology_spread_constraints.clear();
    pod
}

/// The selectors of required affinity and of spread constraints.
fn rules_of(pod: &Pod) -> Vec<Option<berth_api::object::LabelSelector>> {
    let affinity = pod.spec.affinity.iter().filter_map(|affinity| affinity.pod_affinity.as_ref());
    let terms = affinity.flat_map(|a| &a.required_during_scheduling_ignored_during_execution);
    let terms = terms.map(|term: &PodAffinityTerm| term.label_selector.clone());
    let spread = pod.spec.topology_spread_constraints.iter().map(|c| c.label_selector.clone());
    terms.chain(spread).collect()
}
