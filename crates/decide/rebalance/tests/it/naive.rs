//! What goals measure and which moves are legal, by looping over everything: written from the sentences of docs/rebalance.md.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use berth_api::object::{Node, NodeSelector, Pod, find_condition};
use berth_input::config::{Plugin, Profile};
use berth_rebalance::{Goal, Request, Threshold};
use berth_testkit::naive::{
    Broken, NodeResult, Options, World, allocatable, amount, broken, evaluate, pod_requests, selects,
    selects_node,
};

/// The pods with a node.
fn running(world: &World) -> impl Iterator<Item = &Pod> {
    world.pods.iter().filter(|pod| !pod.spec.node_name.is_empty())
}

fn node_of<'w>(world: &'w World, pod: &Pod) -> &'w Node {
    let found = world.nodes.iter().find(|node| node.metadata.name == pod.spec.node_name);
    found.expect("the node of a pod")
}

/// The world without a pod, and the pod as it is created again.
fn without(world: &World, name: &str) -> (World, Pod) {
    let mut world = world.clone();
    let at = world.pods.iter().position(|pod| pod.metadata.name == name).expect("a pod of the world");
    let mut pod = world.pods.remove(at);
    pod.spec.node_name.clear();
    (world, pod)
}

fn admits(world: &World, pod: &Pod, node: &str, profile: &Profile) -> bool {
    let decision = evaluate(world, pod, profile, &Options::default());
    decision.nodes.get(node).is_some_and(|result| !matches!(result, NodeResult::Rejected(_)))
}

/// The values of the goals.
pub fn values(world: &World, request: &Request) -> Vec<i64> {
    let value = |goal: &Goal| match goal {
        Goal::Required => n_rejected(world),
        Goal::Defragment => n_unplaced(world),
        Goal::Spread => excess(world),
        Goal::Preferences => unmet(world),
        Goal::Consolidate => {
            let nodes: BTreeSet<_> =
                running(world).filter(|pod| !is_of_node(pod)).map(|pod| &pod.spec.node_name).collect();
            nodes.len() as i64
        }
        Goal::Balance => {
            let is_hot = |node: &&Node| {
                let Threshold { cpu, memory } = request.threshold;
                [("cpu", cpu), ("memory", memory)].iter().any(|(resource, threshold)| {
                    let pods = running(world).filter(|pod| pod.spec.node_name == node.metadata.name);
                    let requested: i64 = pods
                        .map(|pod| {
                            amount(&pod_requests(pod, &Default::default(), Default::default()), resource)
                        })
                        .sum();
                    requested * 100 > allocatable(node, resource).unwrap_or(0) * i64::from(*threshold)
                })
            };
            world.nodes.iter().filter(is_hot).count() as i64
        }
    };
    request.goals.iter().map(value).collect()
}

fn is_of_node(pod: &Pod) -> bool {
    pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet")
}

fn n_rejected(world: &World) -> i64 {
    let mut profile = Profile::default();
    profile.filter.retain(|plugin| !matches!(plugin, Plugin::PodTopologySpread | Plugin::NodeResourcesFit));
    let is_rejected = |pod: &&Pod| {
        let (world, again) = without(world, &pod.metadata.name);
        !admits(&world, &again, &pod.spec.node_name, &profile)
    };
    running(world).filter(is_rejected).count() as i64
}

/// The pending pods are placed one after the other.
fn n_unplaced(world: &World) -> i64 {
    let mut world = world.clone();
    let mut n_unplaced = 0;
    for i in 0..world.pods.len() {
        if !world.pods[i].spec.node_name.is_empty() {
            continue;
        }
        match evaluate(&world, &world.pods[i], &Profile::default(), &Options::default()).chosen {
            Some(node) => world.pods[i].spec.node_name = node,
            None => n_unplaced += 1,
        }
    }
    n_unplaced
}

/// The sum of skew above `maxSkew` over the distinct constraints.
fn excess(world: &World) -> i64 {
    let mut seen: HashMap<String, i64> = HashMap::new();
    for pod in running(world) {
        for constraint in pod.spec.topology_spread_constraints.iter() {
            let app = &constraint.label_selector;
            let counts_node = |node: &&Node| {
                let same = |c: &&berth_api::object::TopologySpreadConstraint| {
                    c.when_unsatisfiable == constraint.when_unsatisfiable
                };
                let mut together = pod.spec.topology_spread_constraints.iter().filter(same);
                together.all(|c| node.metadata.labels.contains_key(&c.topology_key))
                    && pod
                        .spec
                        .node_selector
                        .iter()
                        .all(|(key, value)| node.metadata.labels.get(key) == Some(value))
            };
            let nodes: Vec<&Node> = world.nodes.iter().filter(counts_node).collect();
            let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
            for node in &nodes {
                let here = running(world).filter(|other| {
                    other.spec.node_name == node.metadata.name
                        && other.metadata.namespace == pod.metadata.namespace
                        && selects(app.as_ref(), &other.metadata.labels)
                });
                *counts.entry(&node.metadata.labels[&constraint.topology_key]).or_default() +=
                    here.count() as i64;
            }
            let most = counts.values().max().copied().unwrap_or(0);
            let fewest = counts.values().min().copied().unwrap_or(0);
            let names: Vec<_> = nodes.iter().map(|node| &node.metadata.name).collect();
            let key = format!("{constraint:?} {names:?}");
            seen.insert(key, (most - fewest - i64::from(constraint.max_skew)).max(0));
        }
    }
    seen.values().sum()
}

fn unmet(world: &World) -> i64 {
    let mut sum = 0;
    for pod in running(world) {
        let (Some(affinity), node) = (&pod.spec.affinity, node_of(world, pod)) else { continue };
        for term in affinity
            .node_affinity
            .iter()
            .flat_map(|a| &a.preferred_during_scheduling_ignored_during_execution)
        {
            let selector = NodeSelector {
                node_selector_terms: term.preference.iter().cloned().collect(),
                ..NodeSelector::default()
            };
            sum += if selects_node(&selector, node) { 0 } else { i64::from(term.weight) };
        }
        let has_company = |term: &berth_api::object::PodAffinityTerm| {
            running(world).any(|other| {
                let there = &node_of(world, other).metadata.labels;
                other.metadata.name != pod.metadata.name
                    && selects(term.label_selector.as_ref(), &other.metadata.labels)
                    && there.get(&term.topology_key).is_some()
                    && there.get(&term.topology_key) == node.metadata.labels.get(&term.topology_key)
            })
        };
        for term in
            affinity.pod_affinity.iter().flat_map(|a| &a.preferred_during_scheduling_ignored_during_execution)
        {
            sum += if has_company(&term.pod_affinity_term) { 0 } else { i64::from(term.weight) };
        }
        for term in affinity
            .pod_anti_affinity
            .iter()
            .flat_map(|a| &a.preferred_during_scheduling_ignored_during_execution)
        {
            sum += if has_company(&term.pod_affinity_term) { i64::from(term.weight) } else { 0 };
        }
    }
    sum
}

fn is_ready(pod: &Pod) -> bool {
    find_condition(&pod.status.conditions, "Ready").is_none_or(|ready| ready.status == "True")
}

/// Whether the budgets allow to evict a pod now.
fn is_allowed(world: &World, pod: &Pod) -> bool {
    let selected = |budget: &&berth_api::object::PodDisruptionBudget| {
        selects(budget.spec.selector.as_ref(), &pod.metadata.labels)
    };
    let budgets: Vec<_> = world.budgets.iter().filter(selected).collect();
    let [budget] = budgets.as_slice() else { return budgets.is_empty() };
    let pods =
        || world.pods.iter().filter(|pod| selects(budget.spec.selector.as_ref(), &pod.metadata.labels));
    // The numbers of these worlds have no status and no workloads: a controller wants the pods that it has, if its kind has a scale.
    let owners = || pods().filter_map(|pod| pod.metadata.controller());
    let relative = !budget.spec.max_unavailable.is_null() || budget.spec.min_available.is_string();
    if relative && owners().any(|owner| ["Job", "DaemonSet"].contains(&owner.kind.as_str())) {
        return false;
    }
    let wanted = owners().count() as i64;
    let healthy = pods().filter(|pod| !pod.spec.node_name.is_empty() && is_ready(pod)).count() as i64;
    let number = |value: &serde_json::Value| match value.as_str() {
        Some(percent) => {
            let percent: i64 = percent.trim_end_matches('%').parse().expect("a percentage");
            (percent * wanted + 99) / 100
        }
        None => value.as_i64().expect("a number"),
    };
    let desired = match (&budget.spec.min_available, &budget.spec.max_unavailable) {
        (min, max) if max.is_null() => number(min),
        (_, max) => (wanted - number(max)).max(0),
    };
    let policy_allows =
        budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" || (healthy >= desired && desired > 0);
    healthy - desired > 0 || (!is_ready(pod) && policy_allows)
}

/// Rules that a move must not break.
fn guarded(world: &World) -> BTreeSet<Broken> {
    let mut all = broken(world, &Profile::default(), &Options::default());
    all.retain(|broken| matches!(broken.plugin, "InterPodAffinity" | "PodTopologySpread"));
    all
}

/// The world after a pod has moved, if that is legal.
pub fn moved(world: &World, name: &str, to: &str) -> Option<World> {
    let pod = world.pods.iter().find(|pod| pod.metadata.name == name).expect("a pod of the world");
    let may_move = pod.metadata.controller().is_some() && !is_of_node(pod) && pod.spec.node_name != to;
    if !may_move || pod.spec.node_name.is_empty() || !is_allowed(world, pod) {
        return None;
    }
    let (mut next, mut again) = without(world, name);
    if !admits(&next, &again, to, &Profile::default()) {
        return None;
    }
    again.spec.node_name = to.to_owned();
    again.status.conditions.clear();
    next.pods.push(again);
    next.pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let before = guarded(world);
    guarded(&next).into_iter().all(|broken| broken.name == name || before.contains(&broken)).then_some(next)
}

/// The best values that any order of legal moves reaches, and the fewest moves that reach them. None if there are too many states.
pub fn best(world: &World, request: &Request, max_states: usize) -> Option<(Vec<i64>, usize)> {
    let key = |world: &World| -> Vec<(String, String, bool)> {
        let pods = world.pods.iter();
        pods.map(|pod| (pod.metadata.name.clone(), pod.spec.node_name.clone(), is_ready(pod))).collect()
    };
    let mut first = world.clone();
    first.pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut best = (values(&first, request), 0);
    let mut seen = BTreeSet::from([key(&first)]);
    let mut queue = VecDeque::from([(first, 0)]);
    while let Some((world, n_moves)) = queue.pop_front() {
        for pod in &world.pods {
            for node in &world.nodes {
                let Some(next) = moved(&world, &pod.metadata.name, &node.metadata.name) else { continue };
                if !seen.insert(key(&next)) {
                    continue;
                }
                if seen.len() > max_states {
                    return None;
                }
                best = best.min((values(&next, request), n_moves + 1));
                queue.push_back((next, n_moves + 1));
            }
        }
    }
    Some(best)
}
