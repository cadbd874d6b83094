//! Which zones can be lost.

use std::collections::{BTreeMap, HashMap};

use berth_api::syntax::format::counted;
use berth_api::syntax::labels::ZONE;
use berth_api::syntax::quantity::with_unit;
use berth_rules::PodRequests;
use maud::{Markup, html};

use crate::components::{Tone, badge, linked_card};
use crate::overview::Pods;
use crate::places::places;
use crate::{State, links};

const MAX_ZONES: usize = 6;
/// Steps of work to play the losses through: some tenths of a second at most.
pub(super) const MAX_STEPS: usize = 1_200_000;
/// Steps for a pod that loses its node, beside those for each node of the cluster.
const STEPS_OF_POD: usize = 1_000;

/// What happens to the pods of a zone with its loss.
struct Loss {
    zone: String,
    /// Why it cannot be lost, in a few words; none if it can.
    problem: Option<String>,
}

/// The losses are played through if that takes at most this many steps, and estimated otherwise.
pub(super) fn card(state: &mut State, max_steps: usize) -> Markup {
    let is_exact = steps(state) <= max_steps;
    let mut losses = if is_exact { played_through(state) } else { by_resources(state) };
    losses.sort_by(|a, b| b.problem.is_some().cmp(&a.problem.is_some()).then_with(|| a.zone.cmp(&b.zone)));
    let n_lost = losses.iter().filter(|loss| loss.problem.is_some()).count();
    let tone = match n_lost {
        0 if is_exact => Tone::Good,
        0 => Tone::Neutral,
        _ => Tone::Bad,
    };
    let content = html! {
        @if losses.is_empty() { p.detail { "No node has a zone label." } }
        @else {
            p.stat {
                b class=(tone.class()) { a href="/what-if?each=zone" { (losses.len() - n_lost) " of " (losses.len()) } }
                span { @if losses.len() == 1 { "zone" } @else { "zones" } (if is_exact { " can be lost" } else { ": their pods have room elsewhere" }) }
            }
        }
        ul.rows {
            @for Loss { zone, problem } in losses.iter().take(MAX_ZONES) {
                li {
                    a href=(links::with("/what-if", "remove-domain", &format!("{ZONE}={zone}"))) { (zone) }
                    @match problem { Some(problem) => span.bad { (problem) }, None => (badge(Tone::Good, if is_exact { "can be lost" } else { "enough room" })) }
                }
            }
            @if losses.len() > MAX_ZONES { li { span.detail { "and " (counted(losses.len() - MAX_ZONES, "more zone")) } } }
        }
        @if !is_exact { p.detail {
                "Estimated: what the pods of a zone request of each resource, compared with what is free in the others. The what-if places each pod by its rules."
            } }
    };
    linked_card("Survivability", ("/what-if?each=zone", "What if each is lost"), &content)
}

/// The work of losing each zone in turn.
fn steps(state: &State) -> usize {
    let Pods { simulation, table } = state.pods();
    let by_node = table.by_node();
    let zoned = simulation.nodes().filter(|node| node.metadata.labels.contains_key(ZONE));
    let n_displaced: usize = zoned.map(|node| by_node.on(&node.metadata.name).len()).sum();
    n_displaced.saturating_mul(STEPS_OF_POD + simulation.n_nodes())
}

/// The pods are placed again, zone by zone.
fn played_through(state: &mut State) -> Vec<Loss> {
    let mut simulation = state.simulation().clone();
    let losses = simulation.lose_each_domain(ZONE, |_, _| ());
    let loss = |loss: berth_simulate::what_if::DomainLoss| Loss {
        problem: (!loss.survives).then(|| {
            format!(
                "cannot be lost: {}",
                counted(loss.unplaced.len().max(loss.unplaced_while_unreachable.len()), "pod")
            )
        }),
        zone: loss.domain,
    };
    losses.domains.into_iter().map(loss).collect()
}

/// What the pods of a zone request of a resource, and what is free of it there.
#[derive(Clone, Copy, Default)]
struct Sums {
    requested: i64,
    free: i64,
}

/// Whether what the pods of a zone request of each resource is free elsewhere: if not, it cannot be lost.
fn by_resources(state: &mut State) -> Vec<Loss> {
    let overview = state.overview();
    let by_node = overview.pods.table.by_node();
    let mut zones: BTreeMap<&str, BTreeMap<&str, Sums>> = BTreeMap::new();
    let mut zone_of: HashMap<&str, &str> = HashMap::new();
    for place in places(overview, &by_node) {
        let zone = place.node.metadata.labels.get(ZONE);
        // Nodes without a zone are elsewhere for all of them.
        let sums = zones.entry(zone.map_or("", String::as_str)).or_default();
        zone.into_iter().for_each(|zone| _ = zone_of.insert(&place.node.metadata.name, zone));
        for resource in place.allocatable().into_iter().flat_map(|list| list.keys()) {
            let (requested, of) = place.amount(resource);
            let sum = sums.entry(resource).or_default();
            sum.requested += requested;
            // Nothing is placed on a cordoned node.
            sum.free += if place.node.spec.unschedulable { 0 } else { (of - requested).max(0) };
        }
    }
    subtract_daemons(overview.pods, &zone_of, &mut zones);
    let free = |resource: &str| -> i64 {
        zones.values().filter_map(|sums| sums.get(resource)).map(|sums| sums.free).sum()
    };
    let missing = |sums: &BTreeMap<&str, Sums>| {
        let missing =
            sums.iter().map(|(resource, sums)| (*resource, sums.requested - (free(resource) - sums.free)));
        // In parts of what is requested, so that resources can be compared.
        let part = |(resource, n): &(&str, i64)| n.saturating_mul(1000) / sums[resource].requested.max(1);
        let worst = missing
            .filter(|(_, n)| *n > 0)
            .max_by_key(|missing| (part(missing), std::cmp::Reverse(missing.0)));
        worst.map(|(resource, n)| {
            format!("cannot be lost: {} {resource} too little elsewhere", with_unit(resource, n))
        })
    };
    let zoned = zones.iter().filter(|(zone, _)| !zone.is_empty());
    zoned.map(|(zone, sums)| Loss { zone: (*zone).to_owned(), problem: missing(sums) }).collect()
}

/// The pods of DaemonSets go with their nodes. Those of one request the same.
fn subtract_daemons<'a>(
    pods: Pods<'_>,
    zone_of: &HashMap<&str, &'a str>,
    zones: &mut BTreeMap<&'a str, BTreeMap<&str, Sums>>,
) {
    let sets = pods.table.workloads().filter(|(_, (_, workload))| workload.starts_with("DaemonSet "));
    for (_, name) in sets {
        let mut requests: Option<PodRequests> = None;
        for at in pods.table.of_workload(name) {
            let pod = pods.at(at);
            let Some(sums) =
                pod.node().and_then(|node| zone_of.get(node)).and_then(|zone| zones.get_mut(zone))
            else {
                continue;
            };
            let requests = requests.get_or_insert_with(|| PodRequests::of(&pod.pod));
            for (resource, sum) in sums.iter_mut() {
                sum.requested -= requests.amount(resource);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::state;
    use super::*;

    /// Two zones with a node each; the second has so many GPUs. A pod of the first requests 6, and one of a DaemonSet on each node 2.
    fn cluster(n_gpus: i64) -> String {
        let node = |zone: &str, n_gpus: i64| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: {zone}-1, labels: {{topology.kubernetes.io/zone: {zone}}}}}, status: \
                 {{allocatable: {{cpu: 8, memory: 16Gi, pods: 10, nvidia.com/gpu: {n_gpus}}}}}}}"
            )
        };
        let pod = |owner: &str, on: &str, n_gpus: i64| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {owner}-{on}, namespace: ml, ownerReferences: [{{apiVersion: apps/v1, kind: \
                 {owner}, name: x, uid: u, controller: true}}]}}, spec: {{nodeName: {on}, containers: [{{name: c, image: i, resources: \
                 {{limits: {{nvidia.com/gpu: {n_gpus}}}}}}}]}}}}"
            )
        };
        let pods = [pod("StatefulSet", "a-1", 6), pod("DaemonSet", "a-1", 2), pod("DaemonSet", "b-1", 2)];
        [node("a", 8), node("b", n_gpus)]
            .into_iter()
            .chain(pods)
            .collect::<Vec<_>>()
            .join("\n---\n")
            .replace("name: StatefulSet-", "name: s-")
            .replace("name: DaemonSet-", "name: d-")
    }

    #[track_caller]
    fn has(card: &str, texts: &[&str]) {
        texts.iter().for_each(|text| assert!(card.contains(text), "{text}: {card}"));
    }

    #[test]
    fn beyond_the_budget_all_resources_are_compared_and_the_card_says_so() {
        let estimated = |n| card(&mut state(&cluster(n)), 0).into_string();
        has(
            &estimated(8),
            &[
                "2 of 2",
                ": their pods have room elsewhere",
                "Estimated: what the pods of a zone request of each resource",
            ],
        );
        has(&estimated(7), &["1 of 2", "cannot be lost: 1 nvidia.com/gpu too little elsewhere"]);
    }

    #[test]
    fn within_the_budget_the_losses_are_played_through() {
        let exact = |n| card(&mut state(&cluster(n)), MAX_STEPS).into_string();
        has(&exact(8), &["2 of 2", "zones can be lost"]);
        has(&exact(7), &["1 of 2", "cannot be lost: 1 pod"]);
        assert!(!exact(8).contains("Estimated"));
        // Three pods on two nodes.
        assert_eq!(steps(&state(&cluster(8))), 3 * (STEPS_OF_POD + 2));
    }
}
