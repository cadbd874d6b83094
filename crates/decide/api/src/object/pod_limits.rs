//! How much a pod may carry of what Kubernetes does not limit and every decision about the pod reads.

use std::fmt;

use super::{
    Affinity, LabelSelector, NodeSelectorTerm, Pod, PodAffinityTerm, SelectorRequirement,
    TopologySpreadConstraint,
};
use crate::syntax::annotations::{AFFINITY_ANNOTATION, TOLERATION_ANNOTATION};

/// A limit for each field of a pod that lists rules about its placement.
///
/// An entry is a key, a requirement, a toleration, a name, a resource, a host port or a volume. A term between pods and a spread
/// constraint count as ten, because pods are counted for each; ten values, and ten bytes of an annotation, count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLimits {
    /// Entries of a field.
    pub max_entries: usize,
}

/// Entries that a term between pods counts as.
const TERM_ENTRIES: usize = 10;
/// Values that count as one entry.
const VALUES_PER_ENTRY: usize = 10;

/// A field with more entries than allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyEntries {
    pub path: String,
    pub n_entries: usize,
}

impl fmt::Display for TooManyEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {} entries", self.path, self.n_entries)
    }
}

impl Default for PodLimits {
    fn default() -> Self {
        PodLimits { max_entries: 1000 }
    }
}

impl PodLimits {
    /// The first field of a pod with more entries than allowed.
    pub fn excess(&self, pod: &Pod) -> Option<TooManyEntries> {
        self.first(fields(pod).into_iter())
    }

    /// The first field with more entries than allowed, and more than the pod had before.
    pub fn new_excess(&self, pod: &Pod, before: &Pod) -> Option<TooManyEntries> {
        let grown = fields(pod).into_iter().zip(fields(before)).filter(|((_, n), (_, before))| n > before);
        self.first(grown.map(|(field, _)| field))
    }

    fn first(&self, mut fields: impl Iterator<Item = (&'static str, usize)>) -> Option<TooManyEntries> {
        let (name, n_entries) = fields.find(|(_, n_entries)| *n_entries > self.max_entries)?;
        let is_annotation = matches!(name, AFFINITY_ANNOTATION | TOLERATION_ANNOTATION);
        let path = if is_annotation { format!("metadata.annotations[{name}]") } else { name.to_owned() };
        Some(TooManyEntries { path, n_entries })
    }
}

/// The fields that are limited, annotations by their names, each with its entries.
fn fields(pod: &Pod) -> [(&'static str, usize); 9] {
    let spec = &pod.spec;
    let containers = || spec.init_containers.iter().chain(spec.containers.iter());
    let ports = containers().flat_map(|c| &c.ports).filter(|port| port.host_port > 0);
    let requests = containers().map(|c| c.resources.requests.len());
    let annotation =
        |name: &str| pod.metadata.annotations.get(name).map_or(0, |text| text.len() / VALUES_PER_ENTRY);
    [
        ("spec.nodeSelector", spec.node_selector.len()),
        ("spec.affinity", spec.affinity.as_ref().map_or(0, |affinity| affinity_entries(affinity))),
        ("spec.tolerations", spec.tolerations.len()),
        ("spec.topologySpreadConstraints", constraint_entries(&spec.topology_spread_constraints)),
        ("spec.containers[*].ports", ports.count()),
        ("spec.containers[*].resources.requests", requests.sum()),
        ("spec.volumes", spec.volumes.len()),
        (AFFINITY_ANNOTATION, annotation(AFFINITY_ANNOTATION)),
        (TOLERATION_ANNOTATION, annotation(TOLERATION_ANNOTATION)),
    ]
}

pub fn constraint_entries(constraints: &[TopologySpreadConstraint]) -> usize {
    let entries = |constraint: &TopologySpreadConstraint| {
        TERM_ENTRIES
            + selector_entries(constraint.label_selector.as_ref())
            + constraint.match_label_keys.len()
    };
    constraints.iter().map(entries).sum()
}

pub fn affinity_entries(affinity: &Affinity) -> usize {
    let node = affinity.node_affinity.iter();
    let of_nodes = node.map(|node| {
        let required = node.required_during_scheduling_required_during_execution.iter();
        let required = required.chain(&node.required_during_scheduling_ignored_during_execution);
        let terms = required.flat_map(|selector| &selector.node_selector_terms).map(node_term);
        let preferred = node.preferred_during_scheduling_ignored_during_execution.iter().map(|preferred| {
            requirements(&preferred.match_expressions) + preferred.preference.as_ref().map_or(1, node_term)
        });
        terms.chain(preferred).sum::<usize>()
    });
    let of_pods = affinity.pod_affinity.iter().chain(&affinity.pod_anti_affinity).map(|pods| {
        let required = pods.required_during_scheduling_required_during_execution.iter();
        let required = required.chain(&pods.required_during_scheduling_ignored_during_execution);
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter();
        required.chain(preferred.map(|preferred| &preferred.pod_affinity_term)).map(pod_term).sum::<usize>()
    });
    of_nodes.chain(of_pods).sum()
}

fn node_term(term: &NodeSelectorTerm) -> usize {
    let lists = [&term.match_expressions, &term.match_fields, &term.match_annotations];
    1 + lists.into_iter().map(|list| requirements(list)).sum::<usize>()
}

fn pod_term(term: &PodAffinityTerm) -> usize {
    let names = term.namespaces.as_ref().map_or(0, Vec::len);
    TERM_ENTRIES
        + selector_entries(term.label_selector.as_ref())
        + selector_entries(term.namespace_selector.as_ref())
        + names
        + term.match_label_keys.len()
        + term.mismatch_label_keys.len()
}

pub fn selector_entries(selector: Option<&LabelSelector>) -> usize {
    selector.map_or(0, |selector| selector.match_labels.len() + requirements(&selector.match_expressions))
}

fn requirements(requirements: &[SelectorRequirement]) -> usize {
    requirements.iter().map(|requirement| 1 + requirement.values.len() / VALUES_PER_ENTRY).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_first_field_with_too_many_entries_is_named_with_their_number() {
        let excess = |spec: Value| {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            PodLimits { max_entries: 30 }.excess(&pod).map(|excess| (excess.path, excess.n_entries))
        };
        let keys =
            |n: usize| (0..n).map(|i| (format!("k{i}"), json!("v"))).collect::<serde_json::Map<_, _>>();
        let expressions = |n: usize, n_values: usize| {
            let values = vec!["v"; n_values];
            vec![json!({"key": "k", "operator": "In", "values": values}); n]
        };
        let node = |terms: Vec<Value>| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let pods = |n: usize| {
            let terms = vec![json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}); n];
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
        };
        let affinity = |n: usize| Some(("spec.affinity".to_owned(), n));
        for (spec, expected) in [
            (json!({"nodeSelector": keys(30), "tolerations": vec![json!({}); 30]}), None),
            (json!({"nodeSelector": keys(31)}), Some(("spec.nodeSelector".to_owned(), 31))),
            (json!({"tolerations": vec![json!({}); 40]}), Some(("spec.tolerations".to_owned(), 40))),
            (node(vec![json!({"matchExpressions": expressions(29, 9)})]), None),
            (node(vec![json!({"matchExpressions": expressions(30, 1)})]), affinity(31)),
            (node(vec![json!({"matchExpressions": expressions(1, 300)})]), affinity(32)),
            (node(vec![json!({"matchExpressions": expressions(1, 1)}); 16]), affinity(32)),
            (pods(2), None),
            (pods(3), affinity(33)),
            (
                json!({"topologySpreadConstraints": vec![json!({"topologyKey": "zone"}); 4]}),
                Some(("spec.topologySpreadConstraints".to_owned(), 40)),
            ),
        ] {
            assert_eq!(excess(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn a_pod_that_loses_entries_has_no_new_excess_and_one_with_another_long_field_has() {
        let pod = |n_tolerations: usize, n_bytes: usize| -> Pod {
            serde_json::from_value(
                json!({"metadata": {"annotations": {AFFINITY_ANNOTATION: "x".repeat(n_bytes)}},
                "spec": {"tolerations": vec![json!({}); n_tolerations]}}),
            )
            .unwrap()
        };
        let limits = PodLimits { max_entries: 30 };
        let path = |excess: Option<TooManyEntries>| excess.map(|excess| excess.path);
        assert_eq!(limits.new_excess(&pod(31, 400), &pod(40, 400)), None);
        assert_eq!(path(limits.new_excess(&pod(41, 0), &pod(40, 0))).as_deref(), Some("spec.tolerations"));
        let annotation = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
        assert_eq!(path(limits.new_excess(&pod(40, 400), &pod(40, 0))), Some(annotation));
    }
}
