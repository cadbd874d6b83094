//! Pod groups: all members that a group requires have a node, or none has.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{GroupKey, GroupRules, Pod};
use berth_testkit::check::bindings::Attempt;
use berth_testkit::check::history::{Changes, State, text};
use berth_testkit::naive::{Options, World, check_node};

use super::profile;

/// This many placements of a group are tried.
const MOST_PLACEMENTS: usize = 20_000;

/// The groups of a cluster.
pub struct Groups<'a> {
    state: &'a State,
    groups: BTreeMap<GroupKey, Group<'a>>,
    attempts: &'a [Attempt],
}

#[derive(Default)]
struct Group<'a> {
    rules: GroupRules,
    bound: Vec<&'a Pod>,
    pending: Vec<&'a Pod>,
    /// The members that have had a node, by uid.
    ever_bound: BTreeSet<String>,
}

impl<'a> Groups<'a> {
    /// Those of the last state of a history, with the bindings that were sent.
    pub fn new(changes: &Changes, state: &'a State, attempts: &'a [Attempt]) -> Groups<'a> {
        let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
        for pod in state.pods().filter(|pod| !pod.is_terminal() && !pod.metadata.is_deleting()) {
            if let Some((key, rules)) = state.group_of(pod) {
                let group = groups.entry(key).or_default();
                group.rules = std::mem::take(&mut group.rules).and(rules);
                let members =
                    if pod.spec.node_name.is_empty() { &mut group.pending } else { &mut group.bound };
                members.push(pod);
            }
        }
        for change in changes.values().filter(|change| change.kind == "Pod") {
            if !text(&change.object["spec"]["nodeName"]).is_empty()
                && let Ok(pod) = serde_json::from_value::<Pod>(change.object.clone())
                && let Some(group) = GroupKey::of(&pod, true).and_then(|key| groups.get_mut(&key))
            {
                group.ever_bound.insert(pod.metadata.uid);
            }
        }
        Groups { state, groups, attempts }
    }

    /// Whether a pod is decided with others.
    pub fn has(&self, pod: &Pod) -> bool {
        GroupKey::of(pod, true).is_some_and(|key| self.groups.contains_key(&key))
    }

    /// Groups that are partly bound, that could be placed, or whose members are in several domains.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (key, group) in &self.groups {
            let Group { rules, bound, pending, ever_bound } = group;
            let n_missing = rules.min.saturating_sub(bound.len());
            if let Some(topology) = rules.levels.iter().find(|level| level.required) {
                let domains: BTreeSet<_> =
                    bound.iter().filter_map(|pod| self.label(&pod.spec.node_name, &topology.key)).collect();
                if domains.len() > 1 {
                    findings.push(format!("{key} is in several domains: {domains:?}"));
                }
            }
            // With fewer members than it requires, or after the end of some, a group cannot be complete.
            if pending.is_empty() || n_missing > pending.len() {
                continue;
            }
            // Bindings that were sent together and failed stand alone, and their places may be lost.
            let is_sent = |pod: &&&Pod| self.attempts.iter().any(|attempt| attempt.pod == pod.key());
            let n_sent = ever_bound.len() + pending.iter().filter(is_sent).count();
            if !bound.is_empty() && n_sent < rules.min {
                findings.push(format!("{key} is partly bound: {} of {}", bound.len(), rules.min));
            }
            if let Some(nodes) = self.placement(group, n_missing.max(1)) {
                findings.push(format!("{key} waits, but its pods fit on {nodes:?}"));
            }
        }
        findings
    }

    fn label(&self, node: &str, key: &str) -> Option<&str> {
        self.state.node(node)?.metadata.labels.get(key).map(String::as_str)
    }

    /// Nodes for `n` of the pending members on which all rules hold.
    fn placement(&self, group: &Group<'_>, n: usize) -> Option<Vec<String>> {
        let mut world = self.state.world("");
        let is_own = |pod: &Pod| group.pending.iter().any(|own| own.metadata.uid == pod.metadata.uid);
        world.nominated.retain(|pod| !is_own(pod));
        let mut search = Search { groups: self, group, n, n_tried: 0, placed: Vec::new() };
        search.place(&mut world, 0)
    }
}

struct Search<'a> {
    groups: &'a Groups<'a>,
    group: &'a Group<'a>,
    n: usize,
    n_tried: usize,
    placed: Vec<Pod>,
}

impl Search<'_> {
    fn place(&mut self, world: &mut World, from: usize) -> Option<Vec<String>> {
        if self.placed.len() == self.n {
            self.n_tried += 1;
            let nodes = self.placed.iter().map(|pod| pod.spec.node_name.clone()).collect();
            return self.holds(world).then_some(nodes);
        }
        for i in from..self.group.pending.len() {
            for node in self.groups.state.nodes().map(|node| node.metadata.name.as_str()) {
                let mut pod = self.group.pending[i].clone();
                pod.status.nominated_node_name.clear();
                if self.n_tried >= MOST_PLACEMENTS || !fits(world, &alone(&pod), node) {
                    continue;
                }
                node.clone_into(&mut pod.spec.node_name);
                world.pods.push(pod.clone());
                self.placed.push(pod);
                let found = self.place(world, i + 1);
                self.placed.pop();
                world.pods.pop();
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Whether all rules hold for the group as a whole.
    fn holds(&self, world: &World) -> bool {
        let topology = self.group.rules.levels.iter().find(|level| level.required);
        let is_in_one_domain = topology.is_none_or(|topology| {
            let members = self.group.bound.iter().copied().chain(&self.placed);
            let domains: BTreeSet<_> =
                members.map(|pod| self.groups.label(&pod.spec.node_name, &topology.key)).collect();
            domains.len() == 1 && !domains.contains(&None)
        });
        is_in_one_domain
            && self.placed.iter().all(|pod| {
                let mut others = world.clone();
                others.pods.retain(|other| other.metadata.uid != pod.metadata.uid);
                let mut pending = pod.clone();
                let node = std::mem::take(&mut pending.spec.node_name);
                fits(&others, &self.groups.state.bound_for(&node, &pending), &node)
            })
    }
}

/// A pod without its rules about other pods.
fn alone(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.spec.topology_spread_constraints.clear();
    if let Some(affinity) = &mut pod.spec.affinity {
        affinity.pod_affinity = None;
        affinity.pod_anti_affinity = None;
    }
    pod
}

fn fits(world: &World, pod: &Pod, node: &str) -> bool {
    check_node(world, pod, &profile(), &Options::default(), node).is_ok()
}
