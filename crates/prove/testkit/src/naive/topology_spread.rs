//! `PodTopologySpread`: even numbers of pods over topology domains.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::{LabelSelector, Node, Pod, SelectorRequirement, StringMap, TopologySpreadConstraint};
use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_input::config::SpreadDefaulting;

use super::relax::{is_relaxed, spread_path};
use super::{Code, MAX_NODE_SCORE, Question, Verdict, node_affinity, reject, selector, taint_toleration};

/// The pod's own constraints of one kind, or the profile's defaults with the selectors of the pod's services and owner;
/// `matchLabelKeys` are merged into the selectors.
fn constraints(q: Question, when_unsatisfiable: &str) -> Vec<TopologySpreadConstraint> {
    let own = &q.pod.spec.topology_spread_constraints;
    let mut constraints = if own.is_empty() { default_constraints(q) } else { own.to_vec() };
    for (i, constraint) in constraints.iter_mut().enumerate() {
        if !own.is_empty() && is_relaxed(q.pod, &spread_path(i), None, q.options) {
            constraint.when_unsatisfiable = "ScheduleAnyway".to_owned();
        }
    }
    constraints.retain(|c| c.when_unsatisfiable == when_unsatisfiable);
    for constraint in &mut constraints {
        for key in &constraint.match_label_keys {
            if let Some(value) = q.pod.metadata.labels.get(key) {
                let selector = constraint.label_selector.get_or_insert_default();
                selector.match_expressions.push(equals(key, value));
            }
        }
    }
    constraints
}

fn equals(key: &str, value: &str) -> SelectorRequirement {
    SelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values: vec![value.to_owned()] }
}

fn default_constraints(q: Question) -> Vec<TopologySpreadConstraint> {
    let selector = default_selector(q);
    if selector::is_empty(&selector) {
        return Vec::new();
    }
    let soft = |topology_key: &str, max_skew| TopologySpreadConstraint {
        topology_key: topology_key.to_owned(),
        max_skew,
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..Default::default()
    };
    let constraints = match &q.profile.pod_topology_spread.defaulting {
        SpreadDefaulting::System => vec![soft(HOSTNAME, 3), soft(ZONE, 5)],
        SpreadDefaulting::List(list) => list.clone(),
    };
    constraints
        .into_iter()
        .map(|c| TopologySpreadConstraint { label_selector: Some(selector.clone()), ..c })
        .collect()
}

/// The selectors of the pod's services and owner.
fn default_selector(q: Question) -> LabelSelector {
    let Pod { metadata, .. } = q.pod;
    let mut all = LabelSelector::default();
    for service in q.world.services.iter().filter(|s| s.metadata.namespace == metadata.namespace) {
        if selector::contains_all(&service.spec.selector, &metadata.labels) {
            all.match_labels.extend(service.spec.selector.clone());
        }
    }
    let owner = metadata.controller().filter(|owner| {
        let api_version = owner.api_version.as_str();
        match owner.kind.as_str() {
            "ReplicationController" => api_version == "v1",
            "ReplicaSet" | "StatefulSet" => api_version == "apps/v1",
            _ => false,
        }
    });
    let workload = owner.and_then(|owner| {
        let mut workloads = q.world.workloads.iter();
        workloads.find(|w| w.kind == owner.kind && w.name == owner.name && w.namespace == metadata.namespace)
    });
    if let Some(workload) = workload {
        for (key, value) in &workload.selector.match_labels {
            all.match_expressions.push(equals(key, value));
        }
        all.match_expressions.extend(workload.selector.match_expressions.iter().cloned());
    }
    all
}

/// The number of pods on a node that a constraint counts: those of the pod's namespace that it selects and that are
/// not being deleted. Before Kubernetes 1.38, a selector without requirements counts none.
fn n_counted(q: Question, constraint: &TopologySpreadConstraint, node: &Node) -> i64 {
    let counts_all = q.options.feature_gates.version >= KubernetesVersion::V1_38;
    let counts_any = |s: &&LabelSelector| counts_all || !selector::is_empty(s);
    let Some(selector) = constraint.label_selector.as_ref().filter(counts_any) else {
        return 0;
    };
    let is_selected = |pod: &Pod| {
        pod.metadata.namespace == q.pod.metadata.namespace
            && selector::selects(Some(selector), &pod.metadata.labels)
    };
    let counted = q.pods_on(node).filter(|p| p.metadata.deletion_timestamp.is_none() && is_selected(p));
    // kube-scheduler's `RemovePod` takes pods off the counts that are not in them, and its `AddPod` counts nominated pods whether
    // they are being deleted or not.
    let n_of = |pods: &[Pod]| {
        let on_node = pods.iter().filter(|p| p.spec.node_name == node.metadata.name);
        on_node.filter(|p| is_selected(p)).count() as i64
    };
    counted.count() as i64 + n_of(&q.world.added) - n_of(&q.world.removed)
}

/// Whether a constraint counts a node.
fn is_included(q: Question, constraint: &TopologySpreadConstraint, node: &Node) -> bool {
    let honors_affinity = constraint.node_affinity_policy.as_deref().unwrap_or("Honor") == "Honor";
    let honors_taints = constraint.node_taints_policy.as_deref().unwrap_or("Ignore") == "Honor";
    (!honors_affinity || node_affinity::satisfies_required(q, node))
        && (!honors_taints || taint_toleration::tolerates_node(q, node))
}

fn has_all_keys(constraints: &[TopologySpreadConstraint], labels: &StringMap) -> bool {
    constraints.iter().all(|c| labels.contains_key(&c.topology_key))
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    let constraints = constraints(q, "DoNotSchedule");
    for constraint in &constraints {
        let Some(domain) = node.metadata.labels.get(&constraint.topology_key) else {
            return reject(
                Code::UnschedulableAndUnresolvable,
                "node(s) didn't match pod topology spread constraints (missing required label)",
            );
        };
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for node in &q.world.nodes {
            let labels = &node.metadata.labels;
            if has_all_keys(&constraints, labels) && is_included(q, constraint, node) {
                *counts.entry(&labels[&constraint.topology_key]).or_default() +=
                    n_counted(q, constraint, node);
            }
        }
        // With too few domains the minimum is 0; without any domain it is infinite.
        let min_domains = constraint.min_domains.unwrap_or(1);
        let least = if counts.len() < usize::try_from(min_domains).unwrap_or(0) {
            0
        } else {
            counts.values().copied().min().unwrap_or(i64::from(i32::MAX))
        };
        let itself = i64::from(selector::selects(constraint.label_selector.as_ref(), &q.pod.metadata.labels));
        let here = counts.get(domain.as_str()).copied().unwrap_or(0);
        if here + itself - least > i64::from(constraint.max_skew) {
            return reject(Code::Unschedulable, "node(s) didn't match pod topology spread constraints");
        }
    }
    Ok(())
}

/// `None` for pods without `ScheduleAnyway` constraints.
pub fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    let constraints = constraints(q, "ScheduleAnyway");
    if constraints.is_empty() {
        return None;
    }
    // kube-scheduler's default constraints spread over hosts even without zones.
    let system = q.profile.pod_topology_spread.defaulting == SpreadDefaulting::System;
    let needs_all_keys = !q.pod.spec.topology_spread_constraints.is_empty() || !system;
    let is_scored = |node: &Node| !needs_all_keys || has_all_keys(&constraints, &node.metadata.labels);

    let raw: Vec<Option<i64>> = feasible
        .iter()
        .map(|node| {
            is_scored(node).then(|| {
                let mut sum = 0.0;
                for constraint in &constraints {
                    let key = &constraint.topology_key;
                    if let Some(domain) = node.metadata.labels.get(key) {
                        let scored: Vec<&Node> = feasible.iter().copied().filter(|n| is_scored(n)).collect();
                        let (count, n_domains) = if key == HOSTNAME {
                            (n_counted(q, constraint, node), scored.len())
                        } else {
                            let domains: BTreeSet<&str> = scored.iter().map(|n| domain_of(n, key)).collect();
                            (n_in_domain(q, constraint, domain, &is_scored), domains.len())
                        };
                        let weight = ((n_domains + 2) as f64).ln();
                        sum += count as f64 * weight + f64::from(constraint.max_skew - 1);
                    }
                }
                f64::round(sum) as i64
            })
        })
        .collect();

    let max = raw.iter().flatten().copied().max().unwrap_or(0);
    let min = raw.iter().flatten().copied().min().unwrap_or(0);
    let normalized = raw.iter().map(|score| match score {
        None => 0,
        Some(_) if max == 0 => MAX_NODE_SCORE,
        Some(score) => MAX_NODE_SCORE * (max + min - score) / max,
    });
    Some(normalized.collect())
}

/// For scoring, nodes without the label form the domain with the empty name.
fn domain_of<'a>(node: &'a Node, key: &str) -> &'a str {
    node.metadata.labels.get(key).map_or("", String::as_str)
}

/// The pods counted on all nodes of a domain, feasible or not.
fn n_in_domain(
    q: Question,
    constraint: &TopologySpreadConstraint,
    domain: &str,
    is_scored: &impl Fn(&Node) -> bool,
) -> i64 {
    let nodes = q.world.nodes.iter().filter(|node| {
        domain_of(node, &constraint.topology_key) == domain
            && is_scored(node)
            && is_included(q, constraint, node)
    });
    nodes.map(|node| n_counted(q, constraint, node)).sum()
}
