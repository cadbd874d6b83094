//! `InterPodAffinity`: affinity and anti-affinity between pods within topology domains.

use std::collections::BTreeMap;

use berth_api::object::{Node, Pod};

use super::terms::{Dialect, PodTerm, preferences, required_affinity, required_anti_affinity};
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

/// The plugin decides before the filters whether it has anything to say, without nominated pods, and before preemption takes
/// pods off: not about a pod without terms that no running pod's anti-affinity concerns.
pub fn is_skipped(q: Question) -> bool {
    let q = Question { world: q.cycle, ..q };
    required_affinity(q.pod, q.options).is_empty()
        && required_anti_affinity(q.pod, q.options).is_empty()
        && !q.running().any(|(owner, at)| {
            let terms = required_anti_affinity(owner, q.options);
            terms.iter().any(|term| concerns(q, term) && has_key(&term.topology_keys(q), at))
        })
}

/// Whether the anti-affinity of another pod is about the pod.
fn concerns(q: Question, term: &PodTerm) -> bool {
    term.of_existing_matches_incoming(q) && !term.is_exempt(q, q.pod) && !term.is_relaxed_by(q)
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

/// v1: in the domain of every term there must be a pod that matches all terms. The first pod of a group with affinity to
/// itself may go anywhere that has the topology keys.
///
/// Proposals: the lists of nodes that correspond to each term are intersected. A term is disregarded if it matches the pod's
/// own labels and there are no other such pods anywhere.
fn satisfies_affinity(q: Question, node: &Node) -> bool {
    let (v1, proposals): (Vec<PodTerm>, Vec<PodTerm>) =
        required_affinity(q.pod, q.options).into_iter().partition(|term| term.dialect == Dialect::V1);
    holds_together(q, node, &v1) && proposals.iter().all(|term| holds_alone(q, node, term))
}

fn holds_together(q: Question, node: &Node, terms: &[PodTerm]) -> bool {
    let near = |term: &PodTerm| is_near(q, node, term, terms);
    terms.iter().all(|t| has_key(&t.topology_keys(q), node))
        && (terms.iter().all(near) || is_first_of_group(q, terms))
}

/// Whether a pod that matches all of these terms is in the node's domain of one of them.
fn is_near(q: Question, node: &Node, term: &PodTerm, terms: &[PodTerm]) -> bool {
    let keys = term.topology_keys(q);
    q.running().any(|(pod, at)| matches_all(q, terms, pod) && share_domain(&keys, node, at))
}

/// Whether the pod matches all of these terms, and no pod on a node with one of their topology keys does.
fn is_first_of_group(q: Question, terms: &[PodTerm]) -> bool {
    let is_counted = |at: &Node| terms.iter().any(|t| has_key(&t.topology_keys(q), at));
    matches_all(q, terms, q.pod) && !q.running().any(|(pod, at)| matches_all(q, terms, pod) && is_counted(at))
}

fn matches_all(q: Question, terms: &[PodTerm], pod: &Pod) -> bool {
    terms.iter().all(|term| term.of_incoming_matches(q, pod))
}

/// Step 1a of the algorithm, for one term: the pods that it matches are counted by the value of the topology key.
fn holds_alone(q: Question, node: &Node, term: &PodTerm) -> bool {
    let keys = term.topology_keys(q);
    let are_others_anywhere = q.running().any(|(pod, _)| term.of_incoming_matches(q, pod));
    if !are_others_anywhere && term.of_incoming_matches(q, q.pod) {
        return has_key(&keys, node);
    }
    let counted = |key: &str| count_by_value(q, key, |pod| term.of_incoming_matches(q, pod));
    let value = |key: &str| node.metadata.labels.get(key);
    keys.iter().any(|key| value(key).is_some_and(|value| counted(key).contains_key(value)))
}

/// The number of running pods on nodes with each value of a topology key.
fn count_by_value(q: Question, key: &str, matches: impl Fn(&Pod) -> bool) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for (pod, at) in q.running() {
        if let Some(value) = at.metadata.labels.get(key).filter(|_| matches(pod)) {
            *counted.entry(value.clone()).or_default() += 1;
        }
    }
    counted
}

/// Whether one term of required affinity does not hold on a node where the pod runs, in a world without the pod itself.
pub fn lacks_company(q: Question, node: &Node, term: &PodTerm) -> bool {
    if term.dialect == Dialect::Proposal {
        return !holds_alone(q, node, term);
    }
    let mut terms = required_affinity(q.pod, q.options);
    terms.retain(|term| term.dialect == Dialect::V1);
    !has_key(&term.topology_keys(q), node)
        || !(is_near(q, node, term, &terms) || is_first_of_group(q, &terms))
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
            concerns(q, term)
                && term.topology_keys(q).iter().any(|key| {
                    share_domain(&[key], node, at)
                        && n_matching(q, node, term, key) - usize::from(itself) + 1 > term.limit
                })
        })
    })
}

/// `None` when no preference concerns this pod and any pod on a node that has the topology key.
///
/// v1: the weight for each pod. Proposals, steps 3 and 4: the weight if the node is in a domain where the term is satisfied;
/// and of a running pod, if its term is satisfied with the new pod on the node and not without it, or for anti-affinity the
/// other way round.
pub fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    let args = &q.profile.inter_pod_affinity;
    let own = preferences(q.pod, q.options);
    if args.ignore_preferred_terms_of_existing_pods && own.is_empty() {
        return None;
    }
    // Weights of domains: of a topology key and its value.
    let mut pulls: Vec<(i64, String, String)> = Vec::new();
    for (weight, term) in &own {
        for key in term.topology_keys(q) {
            for (value, n) in count_by_value(q, key, |pod| term.of_incoming_matches(q, pod)) {
                let times = if term.dialect == Dialect::V1 { n as i64 } else { 1 };
                pulls.push((weight * times, key.to_owned(), value));
            }
        }
    }
    for (owner, at) in q.running() {
        let theirs = preferences_on_others(q, owner);
        for (weight, term) in theirs.iter().filter(|(_, term)| term.of_existing_matches_incoming(q)) {
            for key in term.topology_keys(q) {
                let Some(value) = at.metadata.labels.get(key) else { continue };
                let is_other = |pod: &Pod| !std::ptr::eq(pod, owner) && term.of_incoming_matches(q, pod);
                let is_satisfied = count_by_value(q, key, is_other).contains_key(value);
                let counts = term.dialect == Dialect::V1 || !is_satisfied;
                pulls.push((weight * i64::from(counts), key.to_owned(), value.clone()));
            }
        }
    }
    if pulls.is_empty() {
        return None;
    }
    let is_at =
        |node: &Node, key: &str, value: &str| node.metadata.labels.get(key).is_some_and(|v| v == value);
    let raw_of = |node: &&Node| {
        let here = pulls.iter().filter(|(_, key, value)| is_at(node, key, value));
        here.map(|(weight, ..)| weight).sum()
    };
    let raw: Vec<i64> = feasible.iter().map(raw_of).collect();
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
