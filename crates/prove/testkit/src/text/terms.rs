//! The groups in parentheses: affinity terms and spread constraints.

use berth_api::object::{
    Affinity, LabelSelector, NodeSelector, NodeSelectorTerm, PodAffinityTerm, PreferredSchedulingTerm,
    SelectorRequirement, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use berth_api::syntax::labels::HOSTNAME;

use super::words::bad;

/// The node label key of a short name.
pub fn topology_key(short: &str) -> String {
    match short {
        "hostname" => HOSTNAME,
        "zone" => "topology.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        "rack" => "example.com/rack",
        other => other,
    }
    .to_owned()
}

/// Adds one group to an affinity.
pub fn affinity(line: &str, affinity: &mut Affinity, group: &str, content: &str) {
    if let Some(kind) = group.strip_prefix("prefer-") {
        let (weight, content) = number_first(line, content);
        match kind {
            "node" => {
                let preference = Some(node_term(line, content));
                let node = affinity.node_affinity.get_or_insert_default();
                let term = PreferredSchedulingTerm { weight, preference, ..Default::default() };
                node.preferred_during_scheduling_ignored_during_execution.push(term);
            }
            _ => {
                let term = WeightedPodAffinityTerm { weight, pod_affinity_term: pod_term(line, content) };
                let terms = pod_affinity(line, affinity, kind);
                terms.preferred_during_scheduling_ignored_during_execution.push(term);
            }
        }
        return;
    }
    let (enforced, kind) = match group.strip_prefix("rdrd-") {
        Some(kind) => (true, kind),
        None => (false, group),
    };
    if kind == "node" {
        let selector = Some(node_selector(line, content));
        let node = affinity.node_affinity.get_or_insert_default();
        match enforced {
            true => node.required_during_scheduling_required_during_execution = selector,
            false => node.required_during_scheduling_ignored_during_execution = selector,
        }
        return;
    }
    let term = pod_term(line, content);
    let terms = pod_affinity(line, affinity, kind);
    match enforced {
        true => terms.required_during_scheduling_required_during_execution.push(term),
        false => terms.required_during_scheduling_ignored_during_execution.push(term),
    }
}

fn pod_affinity<'a>(
    line: &str,
    affinity: &'a mut Affinity,
    kind: &str,
) -> &'a mut berth_api::object::PodAffinity {
    match kind {
        "aff" => affinity.pod_affinity.get_or_insert_default(),
        "anti" => affinity.pod_anti_affinity.get_or_insert_default(),
        _ => bad(line, &format!("has the unknown group {kind:?}")),
    }
}

pub fn spread(line: &str, group: &str, content: &str) -> TopologySpreadConstraint {
    let (max_skew, content) = number_first(line, content);
    let when_unsatisfiable = if group == "spread" { "DoNotSchedule" } else { "ScheduleAnyway" };
    let mut constraint = TopologySpreadConstraint {
        max_skew,
        when_unsatisfiable: when_unsatisfiable.to_owned(),
        ..Default::default()
    };
    for word in content.split_whitespace() {
        if let Some(key) = word.strip_prefix('@') {
            constraint.topology_key = topology_key(key);
        } else if let Some(n) = word.strip_prefix("min-domains=") {
            constraint.min_domains = Some(number_first(line, n).0);
        } else if let Some(policy) = word.strip_prefix("node-affinity=") {
            constraint.node_affinity_policy = Some(policy.to_owned());
        } else if let Some(policy) = word.strip_prefix("node-taints=") {
            constraint.node_taints_policy = Some(policy.to_owned());
        } else if let Some(key) = word.strip_prefix("match=") {
            constraint.match_label_keys.push(key.to_owned());
        } else {
            add_requirement(&mut constraint.label_selector, word);
        }
    }
    constraint
}

fn pod_term(line: &str, content: &str) -> PodAffinityTerm {
    let mut term = PodAffinityTerm::default();
    let mut has_topology = false;
    for word in content.split_whitespace() {
        if let Some(key) = word.strip_prefix('@') {
            has_topology = true;
            term.topology_key = if key == "*" { String::new() } else { topology_key(key) };
        } else if let Some(names) = word.strip_prefix("ns=") {
            term.namespaces = Some(names.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect());
        } else if let Some(requirement) = word.strip_prefix("ns:") {
            add_requirement(&mut term.namespace_selector, requirement);
        } else if let Some(n) = word.strip_prefix("limit:") {
            term.limit = Some(number_first(line, n).0);
        } else {
            add_requirement(&mut term.label_selector, word);
        }
    }
    if !has_topology {
        bad(line, "has a pod term without @topology");
    }
    term
}

/// Node terms, separated by `|`.
pub fn node_selector(line: &str, content: &str) -> NodeSelector {
    let content = content.trim();
    let terms = content.split('|').filter(|_| !content.is_empty()).map(|term| node_term(line, term));
    NodeSelector { node_selector_terms: terms.collect(), ..NodeSelector::default() }
}

fn node_term(line: &str, content: &str) -> NodeSelectorTerm {
    let mut term = NodeSelectorTerm::default();
    for word in content.split_whitespace().filter(|word| *word != "*") {
        if let Some(annotation) = word.strip_prefix("annotation:") {
            term.match_annotations.push(requirement(annotation));
            continue;
        }
        let mut requirement = requirement(word);
        if requirement.key.is_empty() {
            bad(line, "has a node requirement without key");
        }
        if ["metadata.name", "spec.", "status."].iter().any(|field| requirement.key.starts_with(field)) {
            term.match_fields.push(requirement);
        } else {
            requirement.key = topology_key(&requirement.key);
            term.match_expressions.push(requirement);
        }
    }
    term
}

fn add_requirement(selector: &mut Option<LabelSelector>, word: &str) {
    let selector = selector.get_or_insert_default();
    if word != "*" {
        selector.match_expressions.push(requirement(word));
    }
}

fn requirement(word: &str) -> SelectorRequirement {
    let signs =
        [("!=", "NotIn"), ("=", "In"), (">v", "VersionGt"), ("<v", "VersionLt"), (">", "Gt"), ("<", "Lt")];
    let binary = signs.iter().find_map(|(sign, operator)| {
        let (key, values) = word.split_once(sign)?;
        Some((key, *operator, values.split(',').map(str::to_owned).collect()))
    });
    let (key, operator, values) = binary.unwrap_or_else(|| match word.strip_prefix('!') {
        Some(key) => (key, "DoesNotExist", Vec::new()),
        None => (word, "Exists", Vec::new()),
    });
    SelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

fn number_first<'a>(line: &str, content: &'a str) -> (i32, &'a str) {
    let content = content.trim();
    let (number, rest) = content.split_once(' ').unwrap_or((content, ""));
    (number.parse().unwrap_or_else(|_| bad(line, "has a group that needs a number first")), rest)
}
