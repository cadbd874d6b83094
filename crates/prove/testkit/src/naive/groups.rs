//! Gangs of equal pods whose members share one domain of a topology, as kube-scheduler 1.36 places them: every domain is tried, and those
//! that take enough members are scored by `PodGroupPodsCount` and `NodeResourcesFit`.

use std::collections::BTreeSet;

use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::{Node, Pod};
use berth_input::config::Profile;

use super::requests::{allocatable, amount, pod_requests, running_pod_scoring_requests};
use super::{MAX_NODE_SCORE, Options, World, evaluate};

/// Pods that are equal but for their names, and placed in one domain, or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// Its pods, without nodes.
    pub members: &'a [Pod],
    /// How many of them have to be placed at least.
    pub min: usize,
    /// The node label whose value they share.
    pub topology_key: &'a str,
}

/// Where the members of a gang go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangPlacement {
    /// The value of the label.
    pub domain: String,
    /// The nodes of the members in their order, as far as they have one.
    pub nodes: Vec<String>,
    score: i64,
}

/// Places a gang: in the domain with the highest score, then in the first by name. None if no domain takes enough members.
pub fn place_gang(
    world: &World,
    gang: Gang<'_>,
    profile: &Profile,
    options: &Options,
) -> Option<GangPlacement> {
    let values = world.nodes.iter().filter_map(|node| node.metadata.labels.get(gang.topology_key));
    let domains: BTreeSet<&String> = values.collect();
    let mut placements: Vec<GangPlacement> = Vec::new();
    for domain in domains {
        let (nodes, usage) = fill(world, gang, domain, profile, options);
        if nodes.len() >= gang.min.max(1) {
            placements.push(GangPlacement { domain: domain.clone(), nodes, score: usage });
        }
    }
    let most = placements.iter().map(|placement| placement.nodes.len()).max()?;
    for placement in &mut placements {
        placement.score += MAX_NODE_SCORE * placement.nodes.len() as i64 / most as i64;
    }
    placements.into_iter().rev().max_by_key(|placement| placement.score)
}

/// The nodes that members get one after another in a domain, and how much of it is then in use.
fn fill(
    world: &World,
    gang: Gang<'_>,
    domain: &str,
    profile: &Profile,
    options: &Options,
) -> (Vec<String>, i64) {
    let mut world = world.clone();
    let mut chosen = Vec::new();
    for member in gang.members {
        let mut pod = member.clone();
        pod.spec.node_selector.insert(gang.topology_key.to_owned(), domain.to_owned());
        let Some(node) = evaluate(&world, &pod, profile, options).chosen else { break };
        pod.spec.node_name.clone_from(&node);
        world.pods.push(pod);
        chosen.push(node);
    }
    let is_inside = |node: &&Node| node.metadata.labels.get(gang.topology_key).is_some_and(|v| v == domain);
    let nodes: Vec<&Node> = world.nodes.iter().filter(is_inside).collect();
    (chosen, usage(&world, &nodes, profile, options.feature_gates.version))
}

/// How much of some nodes is in use, by the resources of the scoring strategy: 0 to 100.
fn usage(world: &World, nodes: &[&Node], profile: &Profile, version: KubernetesVersion) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for spec in &profile.node_resources_fit.scoring_strategy.resources {
        let has: i64 = nodes.iter().filter_map(|node| allocatable(node, &spec.name)).sum();
        if has == 0 {
            continue;
        }
        let is_inside = |pod: &&Pod| nodes.iter().any(|node| node.metadata.name == pod.spec.node_name);
        let requests = world.pods.iter().filter(is_inside).map(|pod| match spec.name.as_str() {
            "cpu" | "memory" => amount(&running_pod_scoring_requests(pod, version), &spec.name),
            _ => amount(&pod_requests(pod, &Default::default(), version), &spec.name),
        });
        let used: i64 = requests.sum();
        sum += used.min(has) * MAX_NODE_SCORE / has * spec.weight;
        weights += spec.weight;
    }
    if weights == 0 { 0 } else { sum / weights }
}
