//! `InterPodAffinity`: affinity and anti-affinity between pods within topology domains.

use berth_api::object::{Node, Pod};

use super::terms::{PodTerm, preferences, required_affinity, required_anti_affinity};
use super::{Code, MAX_NODE_SCORE, Question, Verdict, reject};

/// Whether two nodes are in one domain of any of the keys; a node without a key is in none of its domains.
fn share_domain(keys: &[&str], a: &Node, b: &Node) -> bool {
    keys.iter().any(|key| {
        let (a, b) = (a.metadata.labels.get(*key), b.metadata.labels.get(*key));
        a.is_some() && a == b
    })
}

fn has_key(keys: &[&str], node: &Node) -> bool {
    keys.iter().any(|key| node.metadata.labels.contains_key(*key))
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    if !satisfies_affinity(q, node) {
        return reject(Code::UnschedulableAndUnresolvable, "node(s) didn't match pod affinity rules");
    }
    if !satisfies_anti_affinity(q, node) {
        return reject(Code::Unschedulable, "node(s) didn't match pod anti-affinity rules");
    }
    if !satisfies_existing_anti_affinity(q, node) {
        return reject(Code::Unschedulable, "node(s) didn't satisfy existing pods anti-affinity rules");
    }
    Ok(())
}

/// In the domain of every term there must be a pod that matches all terms. The first pod of a group with
/// affinity to itself may go anywhere that has the topology keys.
fn satisfies_affinity(q: Question, node: &Node) -> bool {
    let terms = required_affinity(q.pod, q.options);
    let matches_all = |pod: &Pod| terms.iter().all(|t| t.of_incoming_matches(q, pod));
    if !terms.iter().all(|t| has_key(&t.topology_keys(q), node)) {
        return false;
    }
    let near = |term: &PodTerm| {
        q.running().any(|(pod, at)| matches_all(pod) && share_domain(&term.topology_keys(q), node, at))
    };
    if terms.iter().all(near) {
        return true;
    }
    let anyone = q
        .running()
        .any(|(pod, at)| matches_all(pod) && terms.iter().any(|t| has_key(&t.topology_keys(q), at)));
    !anyone && matches_all(q.pod)
}

/// Whether one term of required affinity does not hold on a node where the pod runs, in a world without the pod itself.
/// A term required during execution goes together with the others that are, and with no more.
pub fn lacks_company(q: Question, node: &Node, term: &PodTerm) -> bool {
    let mut terms = required_affinity(q.pod, q.options);
    if term.executing {
        terms.retain(|t| t.executing);
    }
    let matches_all = |pod: &Pod| terms.iter().all(|t| t.of_incoming_matches(q, pod));
    let keys = term.topology_keys(q);
    let near = q.running().any(|(pod, at)| matches_all(pod) && share_domain(&keys, node, at));
    let anyone = q
        .running()
        .any(|(pod, at)| matches_all(pod) && terms.iter().any(|t| has_key(&t.topology_keys(q), at)));
    let is_first = !anyone && matches_all(q.pod);
    !has_key(&keys, node) || !(near || is_first)
}

fn satisfies_anti_affinity(q: Question, node: &Node) -> bool {
    !required_anti_affinity(q.pod, q.options).iter().any(|term| breaks_anti_affinity(q, node, term))
}

/// Whether one term of required anti-affinity does not hold on a node, in a world without the pod itself: more pods
/// than its limit match in one of the node's domains.
pub fn breaks_anti_affinity(q: Question, node: &Node, term: &PodTerm) -> bool {
    term.topology_keys(q).iter().any(|key| n_matching(q, node, term, key) > term.limit)
}

/// The number of pods in the domain of a node that match a term of anti-affinity.
fn n_matching(q: Question, node: &Node, term: &PodTerm, key: &str) -> usize {
    let matches = |pod: &Pod| term.of_incoming_matches(q, pod) && !term.is_exempt(q, pod);
    q.running().filter(|(pod, at)| matches(pod) && share_domain(&[key], node, at)).count()
}

/// Of every running pod whose term matches the pod, the other matching pods are at most its limit with the pod.
fn satisfies_existing_anti_affinity(q: Question, node: &Node) -> bool {
    !q.running().any(|(owner, at)| {
        required_anti_affinity(owner, q.options).iter().any(|term| {
            let itself = term.of_incoming_matches(q, owner) && !term.is_exempt(q, owner);
            term.of_existing_matches_incoming(q)
                && !term.is_exempt(q, q.pod)
                && !term.is_relaxed_by(q)
                && term.topology_keys(q).iter().any(|key| {
                    share_domain(&[key], node, at)
                        && n_matching(q, node, term, key) - usize::from(itself) + 1 > term.limit
                })
        })
    })
}

/// `None` when no preference concerns this pod and any pod on a node that has the topology key.
pub fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    let args = &q.profile.inter_pod_affinity;
    let own = preferences(q.pod, q.options);
    if args.ignore_preferred_terms_of_existing_pods && own.is_empty() {
        return None;
    }
    let mut pulls: Vec<(i64, Vec<&str>, &Node)> = Vec::new();
    let running: Vec<(&Pod, &Node)> = q.running().collect();
    let theirs: Vec<Vec<(i64, PodTerm)>> =
        running.iter().map(|(pod, _)| preferences_on_others(q, pod)).collect();
    for ((pod, at), theirs) in running.iter().zip(&theirs) {
        let matching_own = own.iter().filter(|(_, term)| term.of_incoming_matches(q, pod));
        let matching_theirs = theirs.iter().filter(|(_, term)| term.of_existing_matches_incoming(q));
        for (weight, term) in matching_own.chain(matching_theirs) {
            let keys = term.topology_keys(q);
            if has_key(&keys, at) {
                pulls.push((*weight, keys, at));
            }
        }
    }
    if pulls.is_empty() {
        return None;
    }
    let raw: Vec<i64> = feasible
        .iter()
        .map(|node| {
            pulls.iter().filter(|(_, keys, at)| share_domain(keys, node, at)).map(|(weight, ..)| weight).sum()
        })
        .collect();
    Some(normalize(&raw))
}

/// The preferences of a running pod, including its required affinity with the configured weight.
fn preferences_on_others(q: Question, pod: &Pod) -> Vec<(i64, PodTerm)> {
    let mut all = preferences(pod, q.options);
    if q.profile.inter_pod_affinity.ignore_preferred_anti_affinity_of_existing_pods {
        all.retain(|(weight, _)| *weight > 0);
    }
    let hard = q.profile.inter_pod_affinity.hard_pod_affinity_weight;
    if hard > 0 {
        all.extend(required_affinity(pod, q.options).into_iter().map(|term| (hard, term)));
    }
    all
}

/// The lowest raw score becomes 0, the highest 100; all equal become 0.
fn normalize(raw: &[i64]) -> Vec<i64> {
    let (min, max) = (raw.iter().min().copied().unwrap_or(0), raw.iter().max().copied().unwrap_or(0));
    let scaled = |score: &i64| {
        if max == min {
            0
        } else {
            (MAX_NODE_SCORE as f64 * ((score - min) as f64 / (max - min) as f64)) as i64
        }
    };
    raw.iter().map(scaled).collect()
}
